"""Messages to webhooks: taken a few at a time, signed, sent, and tried again until they arrive or are given up.

Those of one tenant may hang; the others do not wait for them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from horae.core.errors import HoraeError
from horae.core.webhooks import gap_us, message, signature
from horae.ports import Delivered, Message, MessageStore, Sender
from horae.telemetry import messages_sent, oops, warn
from horae.vault import Vault, tenant_secrets

AT_ONCE = 50
SHARE = 10  # of one tenant
# What is on its way for longer is told of later.
PATIENCE_SECONDS = 0.2
LEASE_US = 60_000_000
POLL_SECONDS = 2.0
LATE_SECONDS = 5.0
LATE_WINDOW_US = 120_000_000
LONGEST_ERROR = 500
GONE = 410


class Relay:
    """`send` has a deadline well below the lease, so that no message is on two ways at once."""

    def __init__(self, store: MessageStore, sender: Sender, vault: Vault) -> None:
        self._store = store
        self._sender = sender
        self._vault = vault
        self._next_late = 0.0
        self._under_way: dict[asyncio.Task[Delivered], str] = {}

    async def tick(self) -> float:
        loop = asyncio.get_running_loop()
        wait_us, has_late = await self._store.outlook()
        if has_late and loop.time() >= self._next_late:
            self._next_late = loop.time() + LATE_SECONDS
            await self._store.tell_late(LATE_WINDOW_US)
            wait_us, _ = await self._store.outlook()
        if wait_us == 0:
            await self._take()
        if not self._under_way:
            return POLL_SECONDS if wait_us is None else min(POLL_SECONDS, wait_us / 1e6 or PATIENCE_SECONDS)
        try:
            arrived, _ = await asyncio.wait(self._under_way, timeout=PATIENCE_SECONDS)
        except asyncio.CancelledError:
            for task in self._under_way:
                task.cancel()
            raise
        done = [task.result() for task in arrived]
        for task in arrived:
            del self._under_way[task]
        if done:
            await self._store.finish_messages(done)
            messages_sent(_outcome(each) for each in done)
        return 0.0

    async def _take(self) -> None:
        while (room := AT_ONCE - len(self._under_way)) > 0:
            busy = [tenant for tenant, n in Counter(self._under_way.values()).items() if n >= SHARE]
            messages = await self._store.take_messages(min(SHARE, room), LEASE_US, busy)
            if not messages:
                return
            for told in messages:
                self._under_way[asyncio.create_task(self._deliver(told))] = told.tenant

    async def _deliver(self, told: Message) -> Delivered:
        if not told.is_wanted:
            why = "The webhook was switched off."
            return Delivered(told.id, told.attempt, is_delivered=False, gap_us=None, status=None, error=why, took_ms=0)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            status, error = await self._send(told)
        except Exception as broken:  # noqa: BLE001 our bug; the other messages must not wait for it
            oops("message.broken", broken, message=told.id)
            status, error = None, f"horae: {type(broken).__name__}"
        is_delivered = status is not None and 200 <= status < 300
        gap = None if is_delivered or status == GONE else gap_us(told.id, told.attempt)
        if not is_delivered and gap is None:
            warn("message.given_up", message=told.id, tenant=told.tenant, attempts=told.attempt, status=status)
        took_ms = round((clock() - began) * 1000)
        short = None if error is None else error[:LONGEST_ERROR]
        return Delivered(told.id, told.attempt, is_delivered, gap, status, short, took_ms)

    async def _send(self, told: Message) -> tuple[int | None, str | None]:
        try:
            secrets = self._secrets(told)
        except HoraeError as error:
            return None, error.detail
        body = json.dumps(message(told.event, told.at_us, told.run), ensure_ascii=False, separators=(",", ":"))
        at_s = told.now_us // 1_000_000
        headers = {
            "Content-Type": "application/json",
            "webhook-id": told.id,
            "webhook-timestamp": str(at_s),
            "webhook-signature": signature(secrets, told.id, at_s, body),
        }
        return await self._sender.send(told.url, headers, body.encode())

    def _secrets(self, told: Message) -> list[str]:
        if told.webhook_id is None:
            return tenant_secrets(self._vault, told.tenant)
        return [self._vault.open(sealed, told.tenant, "webhook", told.webhook_id) for sealed in told.sealed]


def _outcome(done: Delivered) -> str:
    if done.is_delivered:
        return "delivered"
    return "given_up" if done.gap_us is None else "again"

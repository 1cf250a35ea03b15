"""Waiting lines: which of them have something due for a worker, and how much of each it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from horae.core.fair import share
from horae.core.job import FREE, GATED, Bucket, read_bucket
from horae.core.timeguard import TimeGuard
from horae.ports import Claimed, ClaimStore, Limit, Share, Waiting
from horae.telemetry import due_times_skipped, watch

POLL_SECONDS = 1.0
LIMITS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The lines that are served, those of them with something due, and the store's time."""

    waiting: list[Waiting]
    due: list[tuple[str, Bucket]]
    now_us: int

    @property
    def seconds_to_next(self) -> float:
        """Sleep exactly until something can be taken, but look again now and then for what others bring."""
        head_us = min((line.head_us for line in self.waiting), default=None)
        if head_us is None:
            return POLL_SECONDS
        return max(0.001, min(POLL_SECONDS, (head_us - self.now_us) / 1e6))


class Lines:
    def __init__(self, store: ClaimStore, guard: TimeGuard) -> None:
        self._store = store
        self._guard = guard
        self._limits: dict[tuple[str, str], Limit] = {}
        self._weights: dict[str, int] = {}
        self._limits_at = float("-inf")
        self._heads: dict[str, int] = {}
        self._turn = 0

    async def look(self, prefixes: list[str], needs: Iterable[str], tenant: str | None = None) -> Seen | None:
        """None while the store's clock is not trusted. With a `tenant`, its lines alone."""
        sent = asyncio.get_running_loop().time()
        lines = await self._store.waiting_lines(prefixes)
        watch(self._guard, lines.now_us, sent)
        if self._guard.held:
            return None
        if any(line.head_us <= lines.now_us for line in lines.waiting):
            await self._refresh_limits()
        served = [
            (waiting, bucket)
            for waiting in lines.waiting
            if self._serves(bucket := read_bucket(waiting.bucket), needs) and tenant in (None, bucket.tenant)
        ]
        self._heads = {waiting.bucket: waiting.head_us for waiting in lines.waiting}
        due = [(waiting.bucket, bucket) for waiting, bucket in served if waiting.head_us <= lines.now_us]
        return Seen([waiting for waiting, _ in served], due, lines.now_us)

    async def take(self, worker: str, due: list[tuple[str, Bucket]], room: int) -> list[Claimed]:
        checked = {text for text, bucket in due if self._is_checked(bucket)}
        shares = share(due, room, self._turn, self._weights)
        # What came before the head since then is seen by the next look.
        free = [Share(text, n, self._heads.get(text, 0)) for text, n in shares if text not in checked]
        claimed = await self._store.claim(worker, free) if free else []
        gated = [text for text, _ in shares if text in checked]
        if gated:
            allowed = sum(n for text, n in shares if text in checked)
            through = await self._store.claim_gated(worker, gated, allowed)
            claimed += through.claimed
            due_times_skipped({"overlap_skipped": through.skipped})
        if claimed:
            self._turn += 1
        return claimed

    def _serves(self, bucket: Bucket, needs: Iterable[str]) -> bool:
        return (not bucket.need or bucket.need in needs) and not any(
            limit is not None and limit.is_paused for limit in self._limits_of(bucket)
        )

    def _is_checked(self, bucket: Bucket) -> bool:
        """Whether claims from this line go through the gate: by its own rules, or by a cap on its queue or tenant."""
        return bucket.is_gated or any(
            limit is not None and limit.max_running is not None for limit in self._limits_of(bucket)
        )

    def _limits_of(self, bucket: Bucket) -> tuple[Limit | None, Limit | None]:
        return self._limits.get((bucket.tenant, "")), self._limits.get((bucket.tenant, bucket.queue))

    def forget_limits(self) -> None:
        self._limits_at = float("-inf")

    async def _refresh_limits(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._limits_at >= LIMITS_SECONDS:
            self._limits = {(limit.tenant, limit.queue): limit for limit in await self._store.limits()}
            self._weights = {tenant: limit.weight for (tenant, queue), limit in self._limits.items() if not queue}
            self._limits_at = now


def prefixes_of(queues: Iterable[str], needs: Iterable[str]) -> list[str]:
    """Where the lines of these queues begin that need nothing, or one of `needs`."""
    if "*" in queues:
        return [FREE, GATED]
    return [
        f"{gate}{queue}|{need.replace('|', '%7C')}|" for gate in (FREE, GATED) for queue in queues for need in needs
    ]

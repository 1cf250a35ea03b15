"""Webhooks: who is told of what, and by which secret they know us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horae.commands.caller import Caller
from horae.core.errors import NotFound
from horae.core.webhooks import SECRET_BYTES, new_secret
from horae.ports import NewWebhook, StoredRow, WebhookStore
from horae.vault import Vault, tenant_secret

OVERLAP_US = 86_400_000_000


class WebhookCommands:
    def __init__(
        self,
        store: WebhookStore,
        vault: Vault,
        new_id: Callable[[], str],
        wake: Callable[[], None],
        random: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._vault = vault
        self._new_id = new_id
        self._wake = wake
        self._random = random

    async def create(self, caller: Caller, fields: dict[str, Any]) -> tuple[StoredRow, str]:
        """The webhook and its secret, which is shown only now."""
        id_ = self._new_id()
        secret, sealed = self._new_secret(caller, id_)
        webhook = NewWebhook(id_, fields["name"], fields["url"], fields["events"], fields["late_us"])
        return await self._store.create_webhook(caller.asked(None), caller.tenant, webhook, sealed), secret

    async def change(self, caller: Caller, word: str, fields: dict[str, Any]) -> StoredRow:
        return await self._store.change_webhook(caller.asked(None), caller.tenant, word, fields)

    async def rotate(self, caller: Caller, word: str) -> tuple[StoredRow, str]:
        """A new secret; the one before signs along for a day."""
        ids = [row["id"] for row in await self._store.webhooks(caller.tenant) if word in (row["id"], row["name"])]
        if not ids:
            raise NotFound(f'There is no webhook "{word}".')
        secret, sealed = self._new_secret(caller, ids[0])
        row = await self._store.rotate_webhook(caller.asked(None), caller.tenant, ids[0], sealed, OVERLAP_US)
        return row, secret

    async def delete(self, caller: Caller, word: str) -> str:
        return await self._store.delete_webhook(caller.asked(None), caller.tenant, word)

    async def send_trial(self, caller: Caller, word: str) -> str:
        delivery_id = await self._store.try_webhook(caller.asked(None), caller.tenant, word, self._new_id())
        self._wake()
        return delivery_id

    async def resend(self, caller: Caller, delivery_id: str) -> StoredRow:
        row = await self._store.resend(caller.asked(None), caller.tenant, delivery_id)
        self._wake()
        return row

    def signing_secret(self, caller: Caller) -> str:
        """What signs messages to plain URLs in the tenant's jobs."""
        return tenant_secret(self._vault, caller.tenant)

    def _new_secret(self, caller: Caller, webhook_id: str) -> tuple[str, str]:
        """As it is shown, and as it is kept."""
        secret = new_secret(self._random(SECRET_BYTES))
        return secret, self._vault.seal(secret, caller.tenant, "webhook", webhook_id)

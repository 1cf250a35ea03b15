"""Webhooks: who is told of what, and by which secret they know us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horae.commands.caller import Caller
from horae.core.errors import Conflict
from horae.core.webhooks import SECRET_BYTES, new_secret
from horae.ports import NewWebhook, Once, StoredRow, WebhookStore
from horae.vault import Vault, tenant_secrets

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

    async def create(self, caller: Caller, fields: dict[str, Any], once: Once | None) -> tuple[StoredRow, str]:
        """The webhook and its secret, which is shown only now, and to a repeat of this request."""
        id_ = self._new_id()
        webhook = NewWebhook(
            id_,
            fields["name"],
            fields["url"],
            fields["events"],
            fields["late_us"],
            is_active=fields.get("is_active", True),
        )
        sealed = self._new_seal(caller.tenant)(id_)
        row = await self._store.create_webhook(caller.asked(once), caller.tenant, webhook, sealed)
        return row, self._opened(row)

    async def change(self, caller: Caller, word: str, fields: dict[str, Any]) -> StoredRow:
        return await self._store.change_webhook(caller.asked(None), caller.tenant, word, fields)

    async def rotate(self, caller: Caller, word: str, once: Once | None) -> tuple[StoredRow, str]:
        """A new secret; the one before signs along for a day."""
        seal = self._new_seal(caller.tenant)
        row = await self._store.rotate_webhook(caller.asked(once), caller.tenant, word, seal, OVERLAP_US)
        return row, self._opened(row)

    async def delete(self, caller: Caller, word: str) -> str:
        return await self._store.delete_webhook(caller.asked(None), caller.tenant, word)

    async def send_trial(self, caller: Caller, word: str, once: Once | None) -> str:
        delivery_id = await self._store.try_webhook(caller.asked(once), caller.tenant, word, self._new_id())
        self._wake()
        return delivery_id

    async def resend(self, caller: Caller, delivery_id: str, once: Once | None) -> StoredRow:
        row = await self._store.resend(caller.asked(once), caller.tenant, delivery_id)
        self._wake()
        return row

    def signing_secrets(self, caller: Caller) -> list[str]:
        """What signs messages to plain URLs in the tenant's jobs, the current one first."""
        return tenant_secrets(self._vault, caller.tenant)

    def _new_seal(self, tenant: str) -> Callable[[str], str]:
        """A new secret, as it is kept for the webhook of the given id."""
        secret = new_secret(self._random(SECRET_BYTES))
        return lambda webhook_id: self._vault.seal(secret, tenant, "webhook", webhook_id)

    def _opened(self, row: StoredRow) -> str:
        """What is kept for a repeat is sealed as well, so the first answer and the next ones come from it alike."""
        try:
            return self._vault.open(row["sealed"], row["tenant"], "webhook", row["id"])
        except Conflict as error:
            error.hint = f"Have a new one in its place: POST /webhooks/{row['name']}/rotate."
            raise

"""Keys, tenants, queues and workers: what admins and operators ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horae.commands.caller import Caller
from horae.core.access import KEY_BYTES, key_hash, key_prefix, key_text
from horae.core.errors import Conflict
from horae.ports import KeyStore, MadeKey, NewKey, Once, QueueStore, TenantStore
from horae.vault import Vault


class KeyCommands:
    def __init__(
        self, store: KeyStore, vault: Vault, new_id: Callable[[], str], random: Callable[[int], bytes]
    ) -> None:
        self._store = store
        self._vault = vault
        self._new_id = new_id
        self._random = random

    async def create(self, caller: Caller, fields: dict[str, Any], once: Once | None) -> tuple[str, str]:
        """The id of the new key, and the key itself, which is shown only now, and to a repeat of this request."""
        key, new = self._new(caller, once, **fields)
        made = await self._store.create_key(caller.asked(once), caller.tenant, caller.actor, new)
        return self._shown(caller, key, made)

    async def rotate(self, caller: Caller, key_id: str, overlap_us: int, once: Once | None) -> tuple[str, str]:
        key, new = self._new(caller, once)
        made = await self._store.rotate_key(caller.asked(once), caller.tenant, caller.actor, key_id, new, overlap_us)
        return self._shown(caller, key, made)

    async def revoke(self, caller: Caller, key_id: str) -> str:
        return await self._store.revoke_key(caller.asked(None), caller.tenant, key_id)

    def _new(self, caller: Caller, once: Once | None, **fields: Any) -> tuple[str, NewKey]:
        key, key_id = key_text(self._random(KEY_BYTES)), self._new_id()
        about: dict[str, Any] = {"name": "", "role": "viewer", "scopes": ()} | fields
        sealed = self._vault.seal(key, caller.tenant, "key", key_id) if once is not None else None
        return key, NewKey(key_id, prefix=key_prefix(key), hash=key_hash(key), sealed=sealed, **about)

    def _shown(self, caller: Caller, key: str, made: MadeKey | str) -> tuple[str, str]:
        """Somebody whose connection broke has no other way to the key than to ask again."""
        if isinstance(made, str):  # kept by an earlier release, without the key
            raise Conflict(f"Key {made} was made by this request, and shown once.", hint=_anew(made))
        if made["sealed"] is None:
            return made["key_id"], key
        try:
            return made["key_id"], self._vault.open(made["sealed"], caller.tenant, "key", made["key_id"])
        except Conflict as error:
            error.hint = _anew(made["key_id"])
            raise


def _anew(key_id: str) -> str:
    return f"Have a new one in its place: POST /keys/{key_id}/rotate."


class TenantCommands:
    def __init__(self, store: TenantStore, rules_changed: Callable[[], None]) -> None:
        self._store = store
        self._rules_changed = rules_changed

    async def create(self, caller: Caller, tenant: str, fields: dict[str, Any], once: Once | None) -> str:
        return await self._store.create_tenant(caller.asked(once), tenant, fields)

    async def change(self, caller: Caller, tenant: str, fields: dict[str, Any]) -> str:
        changed = await self._store.change_tenant(caller.asked(None), tenant, fields)
        self._rules_changed()
        return changed


class FleetCommands:
    def __init__(self, store: QueueStore, rules_changed: Callable[[], None]) -> None:
        self._store = store
        self._rules_changed = rules_changed

    async def change_queue(self, caller: Caller, queue: str, fields: dict[str, Any], once: Once | None) -> None:
        await self._store.change_queue(caller.asked(once), caller.tenant, queue, fields)
        self._rules_changed()

    async def drain_worker(self, caller: Caller, worker: str, once: Once | None) -> None:
        await self._store.ask_to_drain(caller.asked(once), caller.tenant, worker)

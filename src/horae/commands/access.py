"""Keys, tenants, queues and workers: what admins and operators ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horae.commands.caller import Caller
from horae.core.access import KEY_BYTES, key_hash, key_prefix, key_text
from horae.ports import KeyStore, NewKey, Once, QueueStore, TenantStore


class KeyCommands:
    def __init__(self, store: KeyStore, new_id: Callable[[], str], random: Callable[[int], bytes]) -> None:
        self._store = store
        self._new_id = new_id
        self._random = random

    async def create(self, caller: Caller, fields: dict[str, Any], once: Once | None) -> tuple[str, str | None]:
        """The id of the new key, and the key itself: nobody can ask for it later, not even by a repeat."""
        key, new = self._new(**fields)
        key_id = await self._store.create_key(caller.asked(once), caller.tenant, caller.actor, new)
        return key_id, key if key_id == new.id else None

    async def rotate(self, caller: Caller, key_id: str, overlap_us: int, once: Once | None) -> tuple[str, str | None]:
        key, new = self._new()
        new_id = await self._store.rotate_key(caller.asked(once), caller.tenant, caller.actor, key_id, new, overlap_us)
        return new_id, key if new_id == new.id else None

    async def revoke(self, caller: Caller, key_id: str) -> str:
        return await self._store.revoke_key(caller.asked(None), caller.tenant, key_id)

    def _new(self, **fields: Any) -> tuple[str, NewKey]:
        key = key_text(self._random(KEY_BYTES))
        about: dict[str, Any] = {"name": "", "role": "viewer", "scopes": ()} | fields
        return key, NewKey(self._new_id(), prefix=key_prefix(key), hash=key_hash(key), **about)


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

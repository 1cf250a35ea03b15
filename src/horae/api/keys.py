"""Routes of API keys: a new one is shown once, and never again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from horae.api.body import check_instant, read_fields, require
from horae.api.operation import Call, Operation, Reply, Takes, delete, get, post
from horae.api.problems import Refused
from horae.api.query import CURSOR, DEFAULT_LIMIT, LIMIT, before_of, cut
from horae.api.runs import refuse_past
from horae.api.shapes import key_answer
from horae.commands import Commands
from horae.core.access import ISSUED, KEY_ROLES
from horae.core.checks import choice, duration, integer, refuse, short_text
from horae.core.duration import LONGEST_US
from horae.core.errors import Fault, Invalid
from horae.ports import ViewStore

NEW = Takes("NewKey")
ROTATE = Takes("RotateKey", is_optional=True)
OVERLAP_US = 3_600_000_000
MOST_A_SECOND = 1_000_000
# What a key may be narrowed to: the first words of the paths.
SCOPES = (
    "jobs", "runs", "dead-letters", "schedules", "calendars", "forecast", "workers", "queues", "stats", "events",
    "history", "secrets", "webhooks", "deliveries", "signing-secret", "keys", "tenants", "audit",
)  # fmt: skip


def _name(value: Any, pointer: str) -> str:
    name = str(short_text(value, pointer))
    if name.startswith(ISSUED):
        raise refuse(pointer, f"a name that does not begin with {ISSUED}, as those of tokens do", value, "deploy")
    return name


def _scopes(value: Any, pointer: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > len(SCOPES):
        raise refuse(pointer, f"a list of {', '.join(SCOPES)}", value, ["jobs", "runs"])
    check = choice(*SCOPES)
    return tuple(dict.fromkeys(check(each, f"{pointer}/{index}") for index, each in enumerate(value)))


def _refuse_wider(call: Call, scopes: Sequence[str], pointer: str) -> None:
    """Nobody gets a key, new or in the place of another, that opens more than the one they came with."""
    own = call.caller.key.scopes if call.caller.key else ()
    if own and (not scopes or not set(scopes) <= set(own)):
        detail = f"Your key may only use {', '.join(own)}; this one would open more."
        raise Refused(403, "scope_needed", detail, [Fault(pointer, detail, f'Write "scopes": {json.dumps(own)}.')])


FIELDS = {
    "name": _name,
    "role": choice(*KEY_ROLES),
    "scopes": _scopes,
    "expires_at": check_instant,
    "expires_in": duration(1_000_000, LONGEST_US, "30d"),
    "requests_per_second": integer(1, MOST_A_SECOND, 10),
}


class Keys:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views

    def operations(self) -> list[Operation]:
        page = (LIMIT, CURSOR)
        new, rolled = "A new key, shown once", "A new key in its place, shown once"
        return [
            get("/whoami", "whoAmI", "Who is asking, and what they may do", self.whoami, gives="WhoAmI"),
            get("/keys", "listKeys", "The keys of the tenant", self.list, page, gives="KeyList"),
            post("/keys", "createKey", new, self.create, (), NEW, "KeyShown", 201, is_secret=True),
            get("/keys/{key}", "getKey", "One key", self.get, gives="Key"),
            delete("/keys/{key}", "revokeKey", "Nobody comes in by it any more", self.revoke, gives="Revoked"),
            post("/keys/{key}/rotate", "rotateKey", rolled, self.rotate, (), ROTATE, "KeyShown", 201, is_secret=True),
        ]

    async def whoami(self, call: Call) -> Reply:
        caller = call.caller
        return Reply(
            {
                "actor": caller.actor,
                "role": caller.role,
                "tenant": caller.tenant,
                "scopes": list(caller.key.scopes) if caller.key else [],
                "may_switch_tenant": caller.is_keeper,
            }
        )

    async def list(self, call: Call) -> Reply:
        limit, before = call.query.get("limit", DEFAULT_LIMIT), before_of(call.query, "keys")
        rows = await self._views.list_keys(call.caller.tenant, before, limit + 1)
        page, cursor = cut(rows, limit, "keys")
        return Reply({"keys": [key_answer(row) for row in page], "next_cursor": cursor})

    async def get(self, call: Call) -> Reply:
        return Reply(key_answer(await self._views.key(call.caller.tenant, call.word("key"))))

    async def create(self, call: Call) -> Reply:
        fields = read_fields(await call.document(), FIELDS)
        require(fields, {"name": 'Write "name": "deploy".', "role": 'Write "role": "editor".'})
        _refuse_wider(call, fields.get("scopes", ()), "/scopes")
        fields["expires_us"] = await self._expiry(fields.pop("expires_at", None), fields.pop("expires_in", None))
        return await self._shown(call, *await self._commands.keys.create(call.caller, fields, call.once))

    async def revoke(self, call: Call) -> Reply:
        return Reply({"revoked": True, "key_id": await self._commands.keys.revoke(call.caller, call.word("key"))})

    async def rotate(self, call: Call) -> Reply:
        fields = read_fields(await call.fields(), {"overlap": duration(0, LONGEST_US, "1h")})
        overlap_us = fields.get("overlap", OVERLAP_US)
        old = await self._views.key(call.caller.tenant, call.word("key"))
        _refuse_wider(call, json.loads(old["scopes"]), "/key")
        made = await self._commands.keys.rotate(call.caller, call.word("key"), overlap_us, call.once)
        return await self._shown(call, *made)

    async def _expiry(self, at_us: int | None, in_us: int | None) -> int | None:
        if at_us is not None and in_us is not None:
            raise Invalid([Fault("/expires_in", 'Give "expires_at" or "expires_in", not both.', "Leave one out.")])
        if at_us is not None:
            refuse_past(at_us, await self._views.now(), "/expires_at")
            return at_us
        return None if in_us is None else await self._views.now() + in_us

    async def _shown(self, call: Call, key_id: str, key: str) -> Reply:
        row = await self._views.key(call.caller.tenant, key_id)
        return Reply(key_answer(row) | {"key": key}, 201)

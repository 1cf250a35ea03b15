"""Routes of tenants, with their quotas, and of the queues of one tenant."""

from __future__ import annotations

from typing import Any

from horae.api.body import check_flag, read_fields, require
from horae.api.hints import or_near
from horae.api.operation import NOTHING, Call, Operation, Reply, Takes, get, patch, post
from horae.api.query import CURSOR, DEFAULT_LIMIT, LIMIT, before_of, cut
from horae.api.shapes import queue_answer, tenant_answer
from horae.commands import Commands
from horae.core.checks import Check, check_token, integer, text
from horae.core.errors import NotFound
from horae.core.job import PRIORITY_NUMBER
from horae.ports import ViewStore

NEW = Takes("NewTenant")
CHANGE = Takes("ChangeTenant")
QUEUE = Takes("ChangeQueue")
LARGEST = 2_000_000_000
HEAVIEST = 100


# In the order of the answer: the field, its name in the store, and its check. Null takes a quota away.
QUOTAS: dict[str, tuple[str, Check]] = {
    "max_jobs": ("max_jobs", integer(0, LARGEST, 1000)),
    "max_queued_runs": ("max_queued", integer(0, LARGEST, 10_000)),
    "max_running_runs": ("max_running", integer(0, LARGEST, 50)),
    "requests_per_second": ("requests_per_second", integer(1, 1_000_000, 100)),
    "max_payload_bytes": ("max_payload_bytes", integer(0, 64 << 20, 65_536)),
}
OTHERS: dict[str, tuple[str, Check]] = {
    "description": ("description", text(most=500, least=0, example="The team of ads")),
    "weight": ("weight", integer(1, HEAVIEST, 2)),
    "paused": ("is_paused", check_flag),
}


class Tenants:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views

    def operations(self) -> list[Operation]:
        cap = "At most so many of its runs at once"
        return [
            get("/tenants", "listTenants", "Tenants by name", self.list, (LIMIT, CURSOR), gives="TenantList"),
            post("/tenants", "createTenant", "A tenant with its quotas", self.create, (), NEW, "Tenant", 201),
            get("/tenants/{tenant}", "getTenant", "One tenant, and what it uses", self.get, gives="Tenant"),
            patch("/tenants/{tenant}", "changeTenant", "Change the given fields", self.change, (), CHANGE, "Tenant"),
            get("/queues", "listQueues", "What waits and what runs in each", self.queues, gives="QueueList"),
            patch("/queues/{queue}", "changeQueue", cap, self.change_queue, (), QUEUE, "Queue"),
            post("/queues/{queue}/pause", "pauseQueue", "Start no runs of it", self.pause, (), NOTHING, "Queue"),
            post("/queues/{queue}/resume", "resumeQueue", "Start runs again", self.resume, (), NOTHING, "Queue"),
        ]

    async def list(self, call: Call) -> Reply:
        limit, after = call.query.get("limit", DEFAULT_LIMIT), before_of(call.query, "tenants")
        rows = await self._views.list_tenants(after, limit + 1)
        page, cursor = cut(rows, limit, "tenants", "tenant")
        return Reply({"tenants": [tenant_answer(row) for row in page], "next_cursor": cursor})

    async def create(self, call: Call) -> Reply:
        document = await call.document()
        fields = read_fields(document, {"tenant": check_token, **{name: check for name, (_, check) in _all()}})
        require(fields, {"tenant": 'Write "tenant": "ads".'})
        tenant = fields.pop("tenant")
        await self._commands.tenants.create(call.caller, tenant, _stored(document, fields), call.once)
        return await self._tenant(tenant, 201)

    async def get(self, call: Call) -> Reply:
        tenant = call.word("tenant")
        if tenant != call.caller.home and not call.caller.is_keeper:
            raise NotFound(f'There is no tenant "{tenant}".')
        return await self._tenant(tenant)

    async def change(self, call: Call) -> Reply:
        document = await call.document()
        fields = read_fields(document, {name: check for name, (_, check) in _all()})
        tenant = call.word("tenant")
        await self._commands.tenants.change(call.caller, tenant, _stored(document, fields))
        return await self._tenant(tenant)

    async def _tenant(self, tenant: str, status: int = 200) -> Reply:
        return Reply(tenant_answer(await self._views.tenant(tenant)), status)

    async def queues(self, call: Call) -> Reply:
        return Reply({"queues": [queue_answer(each) for each in await self._views.queues(call.caller.tenant)]})

    async def change_queue(self, call: Call) -> Reply:
        document = await call.document()
        fields = read_fields(document, {"max_running": integer(0, LARGEST, 10)})
        if isinstance(document, dict) and "max_running" in document:
            await self._change(call, {"max_running": fields.get("max_running")})
        return await self._queue(call)

    async def pause(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        await self._change(call, {"is_paused": True})
        return await self._queue(call)

    async def resume(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        await self._change(call, {"is_paused": False})
        return await self._queue(call)

    async def _change(self, call: Call, fields: dict[str, Any]) -> None:
        queue = check_token(call.word("queue"), "/path/queue")
        await self._commands.fleet.change_queue(call.caller, queue, fields, call.once)

    async def _queue(self, call: Call) -> Reply:
        name = call.word("queue")
        found = await self._views.queues(call.caller.tenant)
        for each in found:
            if each["queue"] == name:
                return Reply(queue_answer(each))
        if name == _UNUSED["queue"]:
            return Reply(queue_answer(_UNUSED))
        hint = or_near(name, [each["queue"] for each in found], "queue")
        raise NotFound(f'There is no queue "{name}": no job uses it and it has no limit.', hint=hint)


# The queue of jobs that name none, before the first of them.
_UNUSED: dict[str, Any] = {
    "queue": "default",
    "by_priority": {word: {"queued": 0, "oldest_us": None} for word in PRIORITY_NUMBER},
    "is_exact": True,
    "running": 0,
    "max_running": None,
    "is_paused": False,
}


def _all() -> list[tuple[str, tuple[str, Check]]]:
    return [*QUOTAS.items(), *OTHERS.items()]


def _stored(document: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """In the names of the store. A quota that is given as null is taken away; the others keep what they had."""
    taken_away = {stored: None for name, (stored, _) in QUOTAS.items() if name in document and document[name] is None}
    return taken_away | {stored: fields[name] for name, (stored, _) in _all() if name in fields}

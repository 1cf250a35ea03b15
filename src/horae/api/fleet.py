"""Routes of the fleet: workers, and how things stand."""

from __future__ import annotations

from horae.api.body import read_fields
from horae.api.operation import NOTHING, Call, Operation, Reply, get, post
from horae.api.problems import Refused
from horae.api.query import WINDOW
from horae.api.shapes import worker_answer
from horae.api.standing import series_answer, stats_answer
from horae.commands import Commands
from horae.core.access import DEFAULT_TENANT, is_shared
from horae.core.errors import Fault, NotFound
from horae.ports import StoredRow, ViewStore

HOUR_US = 3_600_000_000


class Fleet:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views

    def operations(self) -> list[Operation]:
        drain = "No new runs for this worker; those it has may end"
        return [
            get("/workers", "listWorkers", "Who runs the runs", self.workers, gives="WorkerList"),
            post("/workers/{worker}/drain", "drainWorker", drain, self.drain, (), NOTHING, "Drained", 202),
            get("/stats", "getStats", "How things stand", self.stats, gives="Stats"),
            get("/stats/series", "getSeries", "How the recent past went", self.series, (WINDOW,), gives="Series"),
        ]

    async def workers(self, call: Call) -> Reply:
        """A shared worker's host is the business of those who run it."""
        is_told = call.caller.is_of_the_house
        rows = await self._shown(call)
        return Reply(
            {"workers": [worker_answer(row, is_host_told=is_told or not is_shared(row["id"])) for row in rows]}
        )

    async def drain(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        worker = call.word("worker")
        if not call.caller.may_know(worker):
            raise NotFound(f"There is no live worker {worker}.")
        if is_shared(worker) and not call.caller.is_of_the_house:
            await self._refuse_shared(call, worker)
        await self._commands.fleet.drain_worker(call.caller, worker, call.once)
        return Reply({"worker_id": worker, "state": "draining"}, 202)

    async def _refuse_shared(self, call: Call, worker: str) -> None:
        """It runs the runs of others too. One that nobody has is left to be not found."""
        if any(row["id"] == worker for row in await self._views.workers()):
            detail = f'Worker {worker} is shared by all tenants; this is for keys of the tenant "{DEFAULT_TENANT}".'
            hint = f'Use a key of the tenant "{DEFAULT_TENANT}", or drain one of your own; GET /workers shows them.'
            raise Refused(403, "shared_worker", detail, [Fault("/path/worker", detail, hint)])

    async def stats(self, call: Call) -> Reply:
        return Reply(stats_answer(await self._views.stats(call.caller.tenant), await self._shown(call)))

    async def series(self, call: Call) -> Reply:
        return Reply(series_answer(await self._views.series(call.caller.tenant, call.query.get("window", HOUR_US))))

    async def _shown(self, call: Call) -> list[StoredRow]:
        return [row for row in await self._views.workers() if call.caller.may_know(row["id"])]

"""Routes of the fleet: workers, and how things stand."""

from __future__ import annotations

from horae.api.body import read_fields
from horae.api.operation import NOTHING, Call, Operation, Reply, get, post
from horae.api.query import WINDOW
from horae.api.shapes import worker_answer
from horae.api.standing import series_answer, stats_answer
from horae.commands import Commands
from horae.core.access import is_shown
from horae.core.errors import NotFound
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
        return Reply({"workers": [worker_answer(row) for row in await self._shown(call)]})

    async def drain(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        if not is_shown(call.word("worker"), call.caller.tenant):
            raise NotFound(f"There is no live worker {call.word('worker')}.")
        await self._commands.fleet.drain_worker(call.caller, call.word("worker"), call.once)
        return Reply({"worker_id": call.word("worker"), "state": "draining"}, 202)

    async def stats(self, call: Call) -> Reply:
        return Reply(stats_answer(await self._views.stats(call.caller.tenant), await self._shown(call)))

    async def series(self, call: Call) -> Reply:
        return Reply(series_answer(await self._views.series(call.caller.tenant, call.query.get("window", HOUR_US))))

    async def _shown(self, call: Call) -> list[StoredRow]:
        return [row for row in await self._views.workers() if is_shown(row["id"], call.caller.tenant)]

"""Routes of the fleet: workers, and how things stand."""

from __future__ import annotations

from horae.api.body import read_fields
from horae.api.operation import NOTHING, Call, Operation, Reply, get, post
from horae.api.shapes import stats_answer, worker_answer
from horae.commands import Commands
from horae.ports import ViewStore


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
        ]

    async def workers(self, call: Call) -> Reply:
        return Reply({"workers": [worker_answer(row) for row in await self._views.workers()]})

    async def drain(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        await self._commands.drain_worker(call.caller, call.word("worker"), call.once)
        return Reply({"worker_id": call.word("worker"), "state": "draining"}, 202)

    async def stats(self, call: Call) -> Reply:
        return Reply(stats_answer(await self._views.stats(call.caller.tenant), await self._views.workers()))

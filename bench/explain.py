"""How PostgreSQL carries out each hot statement beside many jobs: `python -m bench.explain 10000000`.

Prints EXPLAIN (ANALYZE, BUFFERS) of each on a private server, with batches as horae has them. Nothing is committed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.services import postgres
from horae.app import new_id
from horae.bench import fill
from horae.bench.bare import decide
from horae.bench.place import Place
from horae.ports import Again, Ending, Share, WorkerState
from horae.store import claims, fleet, gates, leases, results, trials, upkeep
from horae.store.database import Query, Rows, Transaction

WAITING = 100_000
FINISHED = 1_000_000
GATED_JOBS = 1_000
GATED = 10_000
GATED_LINE = f"{fill.GATED_HEAD}2|default"
WORKER = "explained"


class Explained:
    """A connection that carries verbs out and shows the plans of the statements that are asked for by name."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, title: str, transaction: Transaction[Any]) -> Any:
        steps = transaction.steps()
        try:
            query = next(steps)
            while True:
                query = steps.send(await self._fetch(title, query))
        except StopIteration as end:
            return end.value

    async def _fetch(self, title: str, query: Query) -> Rows:
        text, params = query.statement.for_postgres()[0], query.statement.postgres_params(query.params)
        if title:
            savepoint = self._connection.transaction()
            await savepoint.start()
            lines = await self._connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {text}", *params)
            await savepoint.rollback()
            print(f"### {title}\n\n```\n{chr(10).join(line[0] for line in lines)}\n```\n", flush=True)
        rows: Rows = await self._connection.fetch(text, *params)
        return rows


@asynccontextmanager
async def _undone(connection: Any) -> AsyncIterator[None]:
    transaction = connection.transaction()
    await transaction.start()
    yield
    await transaction.rollback()


async def explain(url: str, count: int) -> None:
    place = Place(url)
    hot = trials.HOT["postgres"]
    async with place.fresh() as store:
        alone = [{"schedule": "0 0 1 1 *", "max_concurrency": 1}]
        await fill.add_jobs(store, GATED_JOBS, alone)
        await fill.add_waiting(store, GATED, GATED_JOBS)
        daily = [{"schedule": f"{n % 60} {n // 60} * * *"} for n in range(1440)]
        await fill.add_jobs(store, count, daily, start=GATED_JOBS)
        await fill.add_waiting(store, WAITING, GATED_JOBS + count, start=GATED_JOBS)
        await fill.add_finished(store, 0, FINISHED, count)
        await fill.analyze(store)
        held = (await store.keep_leases(WORKER, 600_000_000, 0)).held
        ahead_us = fill.DAY_US
        connection = await place.connect()
        try:
            async with _undone(connection):
                database = Explained(connection)
                scan = await database.run("Scan of 1,000 due timers", hot.scan(sorted(held), ahead_us, 1000))
                minute = hot.scan(sorted(held), 60_000_000, count)
                await database.run("Scan of all that is due within a minute", minute)
                decisions = decide(scan, held, ahead_us)
                await database.run("Plan of 1,000 runs", hot.plan(WORKER, decisions))
                lines = await database.run("Which lines wait", hot.look([fill.HEAD]))
                head_us = next(line.head_us for line in lines.waiting if line.bucket == fill.LINE)
                soon = claims.coming([fill.LINE], 0, await store.now(), 10_000)
                versions = await database.run("Which 10,000 come soon", soon)
                await database.run("Definitions of 250", claims.specs(versions[:250]))
                claimed = await database.run("Claim of 500", hot.claim(WORKER, [Share(fill.LINE, 500, head_us)]))
                brought = claims.claim_postgres(WORKER, [Share(fill.LINE, 500, head_us)], with_specs=True)
                await database.run("Claim of 500 that brings definitions", brought)
                again = [Again(run.run_id, run.token, 1_000_000, "exception", "boom") for run in claimed[:100]]
                await database.run("Requeue of 100", results.requeue(WORKER, again))
                endings = [Ending(run.run_id, run.token, "succeeded", None, None, None) for run in claimed[100:]]
                await database.run("Settle of 400", hot.settle(WORKER, endings))
                gated = await database.run(
                    "Claim of 500 that may not overlap", gates.claim_gated(WORKER, [Share(GATED_LINE, 500)], 500)
                )
                endings = [Ending(run.run_id, run.token, "succeeded", None, None, None) for run in gated.claimed]
                await database.run("Settle of those", hot.settle(WORKER, endings))
                await database.run("Leases of a scheduler kept", leases.keep(WORKER, 600_000_000, 0))
                state = WorkerState(WORKER, "explained", "active", 500, 0, ["default"], [])
                await database.run("Heartbeat of a worker", fleet.beat(state, 600_000_000))
                await database.run("Which runs to stop", fleet.cancelled(WORKER))
                await database.run("What a worker runs", fleet.running_of(WORKER, 0))
                await database.run("Whether there is anything to repair", upkeep.chores())
                await database.run("Runs of silent workers", results.reap_postgres(100))
                new = fill.jobs_of(1000, new_id, await store.now())
                await database.run("Create of 1,000 jobs", hot.create("default", "explained", new, atomic=True))
        finally:
            await connection.close()


if __name__ == "__main__":
    with postgres() as url:
        asyncio.run(explain(url, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))

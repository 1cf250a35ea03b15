"""Short words for store tests: make a job, plan, claim, settle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from horae.core.document import parse_job
from horae.core.plan import GRACE_US
from horae.core.timeguard import TimeGuard
from horae.ports import Claimed, Ending, NewJob, NewRun, Share, WorkerState
from horae.scheduler.planner import Planner
from horae.scheduler.shards import Shards
from horae.store.database import Query, Statement, Steps, Transaction
from horae.store.store import Store

TENANT = "default"
TTL_US = 15_000_000
LATE_SECONDS = GRACE_US / 1e6 + 1


@contextmanager
def count_queries(store: Store) -> Iterator[list[Query]]:
    """Every query that reaches the database meanwhile."""
    seen: list[Query] = []
    run = store.database.run

    def counting(transaction: Transaction[Any]) -> Any:
        def steps() -> Steps[Any]:
            inner, rows = transaction.steps(), None
            try:
                while True:
                    query = inner.send(rows)  # type: ignore[arg-type]
                    seen.append(query)
                    rows = yield query
            except StopIteration as end:
                return end.value

        return run(replace(transaction, steps=steps))

    store.database.run = counting  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        store.database.run = run  # type: ignore[method-assign]


async def execute(store: Store, text: str, **params: Any) -> None:
    statement = Statement(text)

    def steps() -> Any:
        yield statement(**params)

    await store.database.run(Transaction(steps))


class World:
    """A scheduler and a worker that move only when told."""

    def __init__(self, store: Store, owner: str = "node-1") -> None:
        self.store = store
        self.owner = owner
        self.guard = TimeGuard()
        self.shards = Shards(store, owner, 15, self.guard)
        self.planner = Planner(store, self.shards, self.guard, 15, lambda: None)
        self._jobs = 0

    async def job(self, **fields: Any) -> str:
        self._jobs += 1
        document = {"name": f"job-{self._jobs}", "type": "noop", **fields}
        job_id = f"{self.owner}-{self._jobs}"
        definition = parse_job(document, job_id=job_id, now_us=await self.store.now(), tenant=TENANT)
        (answer,) = await self.store.create_jobs(None, TENANT, "test", [NewJob(job_id, definition)], atomic=True)
        assert answer == {"job_id": job_id}, answer
        return job_id

    async def plan(self) -> None:
        """Everything that is due within the look-ahead becomes runs."""
        self.guard.held = None
        await self.shards.tick()
        self.guard.held = None
        for _ in range(20):
            if await self.planner.tick() > 0.05:
                return

    async def run_now(self, job: str, key: str = "1", **fields: Any) -> str:
        (run,) = await self.store.trigger(None, TENANT, job, [NewRun("manual", f"manual:{key}", **fields)])
        return run

    async def worker(self, id_: str = "w1", ttl_us: int = TTL_US) -> None:
        await self.store.beat(WorkerState(id_, "host", "active", 100, 0, ["default"], []), ttl_us)

    async def claim(self, most: int = 100, worker: str = "w1") -> list[Claimed]:
        lines = await self.store.waiting_lines(["-", "+"])
        due = [line for line in lines.waiting if line.head_us <= lines.now_us]
        free = [Share(line.bucket, most, line.head_us) for line in due if line.bucket.startswith("-")]
        gated = [Share(line.bucket, most) for line in due if line.bucket.startswith("+")]
        claimed = await self.store.claim(worker, free) if free else []
        if gated:
            claimed += (await self.store.claim_gated(worker, gated, most - len(claimed))).claimed
        return claimed

    async def settle(self, claimed: list[Claimed], status: str = "succeeded", reason: str | None = None) -> int:
        endings = [Ending(c.run_id, c.token, status, reason, None, None) for c in claimed]
        return len((await self.store.settle("w1", endings)).ended)

    async def runs(self, job: str | None = None) -> list[Any]:
        filters = dict.fromkeys(("status", "queue", "priority", "worker", "reason", "due_after_us", "due_before_us"))
        return list((await self.store.runs(TENANT, job, filters, None, 1000)).rows)

    async def statuses(self, job: str) -> list[str]:
        """Oldest first."""
        return [row["status"] for row in reversed(await self.runs(job))]

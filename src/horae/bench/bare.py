"""The limit of the database: the statements of the store on plain connections, with no horae around them.

What can be known beforehand is prepared before the clock starts: parameters of plans and of new jobs are recorded in a
transaction that is undone. PostgreSQL's rows are not made into objects; SQLite's claims are, since they come as JSON.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, NamedTuple

from horae.bench.fill import HEAD, LINE, jobs_of
from horae.bench.place import Place
from horae.core.compiled import schedule_of
from horae.core.job import read_timing
from horae.core.plan import Cursor, plan
from horae.ports import Decision, Ending, Scan, Share
from horae.store.database import Query, Rows, Statement, Transaction
from horae.store.sqlite import system_now_us
from horae.store.store import open_store
from horae.store.trials import HOT, JOBS, WAITING
from horae.worker.taking import LOOK_SECONDS

BATCH = 500
PLAN_BATCH = 1000
CREATE_BATCH = 1000
LEASE_US = 600_000_000
WORKER = "bare"


class Ready(NamedTuple):
    """A statement as the driver takes it."""

    text: str
    params: Any


class Bare:
    """One plain connection of either database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_sqlite = isinstance(connection, sqlite3.Connection)

    def ready(self, query: Query) -> Ready:
        statement, params = query.statement, query.params
        if self._is_sqlite:
            return Ready(statement.for_sqlite(), statement.sqlite_params(params, system_now_us()))
        return Ready(statement.for_postgres()[0], statement.postgres_params(params))

    async def fetch(self, query: Query) -> Rows:
        return await self.send(self.ready(query))

    async def send(self, ready: Ready) -> Rows:
        if self._is_sqlite:
            cursor = self._connection.execute(*ready)
            return cursor.fetchall() if cursor.description else []
        rows: Rows = await self._connection.fetch(ready.text, *ready.params)
        return rows

    async def answer(self, transaction: Transaction[Any]) -> Any:
        """Of a whole verb; the rows alone, with nothing made of them, where it has only one statement."""
        if transaction.is_single:
            return await self.fetch(next(transaction.steps()))
        return (await self._drive(transaction))[0]

    async def _drive(self, transaction: Transaction[Any]) -> tuple[Any, list[Query]]:
        """A whole verb: its answer, and what it asked."""
        steps, asked = transaction.steps(), []
        try:
            query = next(steps)
            while True:
                asked.append(query)
                query = steps.send(await self.fetch(query))
        except StopIteration as end:
            return end.value, asked

    async def run(self, word: str) -> None:
        if self._is_sqlite:
            self._connection.execute("BEGIN IMMEDIATE" if word == "BEGIN" else word)
        else:
            await self._connection.execute(word)

    @asynccontextmanager
    async def transaction(self, end: str = "COMMIT", *, is_needed: bool = True) -> AsyncIterator[None]:
        """A single statement needs none on PostgreSQL."""
        if is_needed:
            await self.run("BEGIN")
        yield
        if is_needed:
            await self.run(end)

    async def record(self, transactions: list[Transaction[Any]]) -> list[list[Ready]]:
        """What each would ask, found out and undone."""
        recorded = []
        for each in transactions:
            async with self.transaction("ROLLBACK"):
                recorded.append([self.ready(query) for query in (await self._drive(each))[1]])
        if not self._is_sqlite:  # what was undone lies in the way
            await self._connection.execute("VACUUM jobs, job_versions, timers, runs, history")
        return recorded

    async def close(self) -> None:
        if self._is_sqlite:
            self._connection.close()
        else:
            await self._connection.close()


@asynccontextmanager
async def plain(place: Place) -> AsyncIterator[Bare]:
    bare = Bare(await place.connect())
    try:
        yield bare
    finally:
        await bare.close()


def decide(scan: Scan, epochs: dict[int, int], ahead_us: int) -> list[Decision]:
    """As the planner does, without its care for what is broken."""
    decisions = []
    for timer in scan.timers:
        timing = read_timing(timer.timing)
        cursor = Cursor(timer.job_id, timing, schedule_of(timing, timer.job_id, 0), timer.due_us, 0)
        decisions.append(Decision(timer, epochs[timer.shard], plan(cursor, scan.now_us, scan.now_us + ahead_us)))
    return decisions


async def plan_rate(place: Place, ahead_us: int, count: int, connections: int) -> float:
    """Timers a second: scan, move, insert, in batches as the planner has them, on so many connections at once."""
    async with _plains(place, connections) as plains:
        batches = await _plans(place, plains[0], ahead_us, count)

        async def send(bare: Bare, lane: int) -> None:
            for batch in batches[lane :: len(plains)]:
                await _plan(place, bare, batch)

        started = perf_counter()
        await asyncio.gather(*(send(bare, lane) for lane, bare in enumerate(plains)))
        seconds = perf_counter() - started
        await _check(plains[0], WAITING, count)
        return count / seconds


async def path_rate(place: Place, count: int, connections: int) -> float:
    """The whole path: a batch is scanned and planned, then claimed and settled, on so many connections at once."""
    async with _plains(place, connections) as plains:
        batches = await _plans(place, plains[0], 0, count)

        async def walk(bare: Bare, lane: int) -> int:
            done, taker = 0, Taker(place, bare)
            for batch in batches[lane :: len(plains)]:
                await _plan(place, bare, batch)
                for _ in range(PLAN_BATCH // BATCH):
                    done += await taker.take()
            return done + await taker.drain()

        started = perf_counter()
        done = sum(await asyncio.gather(*(walk(bare, lane) for lane, bare in enumerate(plains))))
        seconds = perf_counter() - started
    if done != count:
        raise AssertionError(f"{done} of {count} runs were drained")
    return count / seconds


async def _plans(place: Place, bare: Bare, ahead_us: int, count: int) -> list[tuple[list[Ready], list[Ready]]]:
    """A scan and a plan for each batch of due timers, ready to be sent."""
    hot = HOT[place.dialect]
    store = open_store(place.url)
    try:
        leases = await store.keep_leases(WORKER, LEASE_US, 0)
        scan = await store.due_timers(sorted(leases.held), ahead_us, count)
    finally:
        await store.close()
    decisions = decide(scan, leases.held, ahead_us)
    batches = [decisions[at : at + PLAN_BATCH] for at in range(0, len(decisions), PLAN_BATCH)]
    (looked,) = await bare.record([hot.scan(sorted(leases.held), ahead_us, PLAN_BATCH)])
    return [(looked, queries) for queries in await bare.record([hot.plan(WORKER, batch) for batch in batches])]


async def _plan(place: Place, bare: Bare, batch: tuple[list[Ready], list[Ready]]) -> None:
    looked, planned = batch
    for each in looked:
        await bare.send(each)
    await _send(bare, planned, is_single=place.dialect == "postgres")


@asynccontextmanager
async def _plains(place: Place, connections: int) -> AsyncIterator[list[Bare]]:
    """SQLite has one writer."""
    plains = [Bare(await place.connect()) for _ in range(1 if place.dialect == "sqlite" else connections)]
    try:
        yield plains
    finally:
        for bare in plains:
            await bare.close()


async def drain_rate(place: Place, count: int, connections: int) -> float:
    """Runs a second: look, claim, settle, on so many connections at once."""
    async with _plains(place, connections) as plains:
        started = perf_counter()
        done = sum(await asyncio.gather(*(Taker(place, bare).drain() for bare in plains)))
        seconds = perf_counter() - started
    if done != count:
        raise AssertionError(f"{done} of {count} runs were drained")
    return count / seconds


async def drain_on(place: Place, connections: int) -> None:
    """Whatever comes, until it is cancelled."""
    async with _plains(place, connections) as plains:
        await asyncio.gather(*(_drain_on(Taker(place, bare)) for bare in plains))


async def _drain_on(taker: Taker) -> None:
    while True:
        await taker.drain()
        await asyncio.sleep(0.01)


class Taker:
    """Claims and settles on one connection: from the head of the line, which it looks for as rarely as a worker does
    whose lines give all that it asks for.
    """

    def __init__(self, place: Place, bare: Bare) -> None:
        self._hot = HOT[place.dialect]
        self._is_single = place.dialect == "postgres"
        self._bare = bare
        self._head_us: int | None = None
        self._look_again_at = 0.0

    async def drain(self) -> int:
        done = 0
        while taken := await self.take():
            done += taken
        return done

    async def take(self) -> int:
        if (began := perf_counter()) > self._look_again_at:
            self._head_us = await self._look()
            looked = perf_counter()
            self._look_again_at = looked + max(LOOK_SECONDS, looked - began)
        if self._head_us is None:
            self._look_again_at = 0.0
            return 0
        async with self._bare.transaction(is_needed=not self._is_single):
            claimed = await self._bare.answer(self._hot.claim(WORKER, [Share(LINE, BATCH, self._head_us)]))
        if not claimed:
            return 0
        keys = ((row["id"], row["token"]) if self._is_single else (row.run_id, row.token) for row in claimed)
        endings = [Ending(run_id, token, "succeeded", None, None, None) for run_id, token in keys]
        async with self._bare.transaction(is_needed=not self._is_single):
            await self._bare.answer(self._hot.settle(WORKER, endings))
        return len(claimed)

    async def _look(self) -> int | None:
        """When the first of the line is due, unless nothing waits: from its very beginning a claim would walk past all
        that an old transaction keeps.
        """
        lines = await self._bare.answer(self._hot.look([HEAD]))
        return next((line["head_us"] for line in lines if line["bucket"] == LINE), None)


async def create_rate(place: Place, count: int, new_id: Callable[[], str]) -> float:
    """Jobs a second: the inserts of batches that were read and checked beforehand."""
    hot, now_us = HOT[place.dialect], system_now_us()
    sizes = [min(CREATE_BATCH, count - at) for at in range(0, count, CREATE_BATCH)]
    async with plain(place) as bare:
        made = [hot.create("default", "bench", jobs_of(size, new_id, now_us), atomic=True) for size in sizes]
        recorded = await bare.record(made)
        started = perf_counter()
        for queries in recorded:
            await _send(bare, queries, is_single=False)
        seconds = perf_counter() - started
        await _check(bare, JOBS, count)
        return count / seconds


async def _check(bare: Bare, counting: Statement, count: int) -> None:
    """Nothing that was only sent is a limit."""
    found = (await bare.fetch(counting()))[0]["n"]
    if found != count:
        raise AssertionError(f"{found} of {count} rows were written")


async def _send(bare: Bare, recorded: list[Ready], *, is_single: bool) -> None:
    async with bare.transaction(is_needed=not is_single):
        for each in recorded:
            await bare.send(each)

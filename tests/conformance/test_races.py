"""Two at the same moment on PostgreSQL: one has done its work and not committed, the other begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from horae.core.errors import Conflict
from horae.ports import Again, Claimed, Ending, Letters, NewRun
from horae.store import changes, results, runs
from horae.store.database import Transaction
from horae.store.postgres import PostgresDatabase
from horae.store.store import Store
from tests.conformance.world import TENANT, World

WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
LEFT = "SELECT count(*) FROM runs WHERE state = 'queued' OR cancel IS NULL"


class Hand:
    """A verb carried out on a connection of its own, up to its commit."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def do(self, transaction: Transaction[Any]) -> None:
        steps = transaction.steps()
        try:
            query = next(steps)
            while True:
                text, _ = query.statement.for_postgres()
                params = query.statement.postgres_params(query.params)
                query = steps.send(await self.connection.fetch(text, *params))
        except StopIteration:
            return

    async def held_up(self, other: asyncio.Task[Any]) -> None:
        """Until the other one waits for us, or is done."""
        async with asyncio.timeout(30):
            while not other.done() and not await self.connection.fetchval(WAITS):  # noqa: ASYNC110 no event tells it
                await asyncio.sleep(0.01)


@pytest.fixture
async def store(postgres_database: str) -> AsyncIterator[Store]:
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
async def world(store: Store) -> World:
    return World(store)


@asynccontextmanager
async def before_its_commit(url: str, transaction: Transaction[Any]) -> AsyncIterator[Hand]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            hand = Hand(connection)
            await hand.do(transaction)
            yield hand
    finally:
        await connection.close()


async def left(store: Store) -> int:
    async with store.database._borrow() as connection:
        return int(await connection.fetchval(LEFT))


async def claimed(world: World, job: str) -> Claimed:
    await world.run_now(job)
    await world.worker()
    (run,) = await world.claim()
    return run


def deletion(store: Store, job: str) -> asyncio.Task[Any]:
    return asyncio.ensure_future(store.delete_job(None, TENANT, job, "test", None))


async def test_a_job_that_is_deleted_while_somebody_starts_it_has_no_run_left(
    world: World, store: Store, postgres_database: str
) -> None:
    job = await world.job()

    new = [NewRun("manual", f"manual:{n}") for n in range(5)]
    async with before_its_commit(postgres_database, runs.trigger(TENANT, job, new)) as hand:
        deleted = deletion(store, job)
        await hand.held_up(deleted)
    await deleted

    assert await left(store) == 0
    assert await world.statuses(job) == ["cancelled"] * 5


async def test_who_starts_a_job_while_it_is_deleted_is_told(world: World, store: Store, postgres_database: str) -> None:
    job = await world.job()

    async with before_its_commit(postgres_database, changes.delete(TENANT, job, "test", None)) as hand:
        started = asyncio.ensure_future(store.trigger(None, TENANT, job, [NewRun("manual", "manual:1")]))
        await hand.held_up(started)

    with pytest.raises(Conflict, match="was deleted") as refused:
        await started
    assert refused.value.code == "job_deleted"
    assert await left(store) == 0


async def test_a_job_that_is_deleted_while_another_ends_before_it_has_no_run_left(
    world: World, store: Store, postgres_database: str
) -> None:
    first = await world.job()
    then = await world.job(after={"job": "job-1"})
    run = await claimed(world, first)

    ending = Ending(run.run_id, run.token, "succeeded", None, None, None)
    async with before_its_commit(postgres_database, results.settle_postgres("w1", [ending])) as hand:
        deleted = deletion(store, then)
        await hand.held_up(deleted)
    await deleted

    assert await left(store) == 0
    assert await world.statuses(then) == ["cancelled"]


async def test_a_run_that_is_retried_while_its_job_is_deleted_stays_over(
    world: World, store: Store, postgres_database: str
) -> None:
    job = await world.job()
    run = await claimed(world, job)
    await world.settle([run], "failed", "exception")

    async with before_its_commit(postgres_database, runs.retry(TENANT, run.run_id)) as hand:
        deleted = deletion(store, job)
        await hand.held_up(deleted)
    await deleted

    assert await left(store) == 0


async def test_letters_are_not_replayed_of_a_job_that_is_being_deleted(
    world: World, store: Store, postgres_database: str
) -> None:
    job = await world.job()
    await world.settle([await claimed(world, job)], "failed", "exception")

    names = ("queue", "priority", "reason", "due_after_us", "due_before_us")
    which = Letters(None, dict.fromkeys(names))
    async with before_its_commit(postgres_database, changes.delete(TENANT, job, "test", None)) as hand:
        replayed = asyncio.ensure_future(store.replay_many(None, TENANT, which, 1, 0, 10))
        await hand.held_up(replayed)

    with pytest.raises(Conflict, match="deleted meanwhile"):
        await replayed
    assert await left(store) == 0


async def test_a_run_that_comes_back_while_its_job_is_deleted_is_cancelled(
    world: World, store: Store, postgres_database: str
) -> None:
    job = await world.job()
    run = await claimed(world, job)

    again = Again(run.run_id, run.token, 0, "exception", "no")
    async with before_its_commit(postgres_database, results.requeue("w1", [again])) as hand:
        deleted = deletion(store, job)
        await hand.held_up(deleted)
    await deleted

    assert await left(store) == 0
    assert await world.statuses(job) == ["cancelled"]


async def test_an_end_brings_its_siblings_back_without_waiting_for_one_that_another_holds(
    world: World, store: Store, postgres_database: str
) -> None:
    await world.worker()
    jobs = [await world.job(max_concurrency=1) for _ in range(2)]
    running = [await claimed(world, job) for job in jobs]
    held, free = [await world.run_now(job, key="next") for job in jobs]
    assert await world.claim() == []  # both are put aside

    other = await asyncpg.connect(postgres_database)
    try:
        async with other.transaction():
            await other.execute("SELECT 1 FROM runs WHERE id = $1 FOR UPDATE", held)
            async with asyncio.timeout(10):
                assert await world.settle(running) == 2
            assert [run.run_id for run in await world.claim()] == [free]
    finally:
        await other.close()

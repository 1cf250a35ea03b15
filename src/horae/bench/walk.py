"""The hot path through horae's own objects in this process: jobs created, planned, claimed, run and settled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import perf_counter

from horae.app import new_id
from horae.bench.fill import AHEAD_SECONDS, jobs_of
from horae.core.timeguard import TimeGuard
from horae.executors.noop import NoopExecutor
from horae.node import Loop
from horae.ports import Executor
from horae.scheduler.planner import AGAIN_SECONDS, Planner
from horae.scheduler.shards import Shards
from horae.store.store import Store
from horae.store.trials import IS_ANY_LEFT, SPAN, WAITING, single
from horae.vault import Vault
from horae.worker.loop import Worker, WorkerSettings
from horae.worker.secrets import Secrets

SLOTS = 500
LEASE_SECONDS = 600.0
CREATE_BATCH = 1000
WAIT_SECONDS = 600.0


async def create_rate(store: Store, count: int) -> float:
    """Jobs a second: documents read, checked and saved, a batch at a time."""
    now_us = await store.now()
    started = perf_counter()
    for first in range(0, count, CREATE_BATCH):
        jobs = jobs_of(min(CREATE_BATCH, count - first), new_id, now_us)
        await store.create_jobs(None, "default", "bench", jobs, atomic=True)
    return count / (perf_counter() - started)


async def plan_rate(store: Store, count: int, ahead_seconds: float = AHEAD_SECONDS) -> float:
    """Due timers a second: scanned, decided and committed as runs, until none is left within the look-ahead."""
    async with _planner(store, ahead_seconds) as planner:
        before = await _staged(store)
        started = perf_counter()
        while await planner.tick() <= AGAIN_SECONDS:
            pass
        seconds = perf_counter() - started
    planned = await _staged(store) - before
    if planned != count:
        raise AssertionError(f"{planned} of {count} timers were planned")
    return count / seconds


@asynccontextmanager
async def _planner(
    store: Store, ahead_seconds: float, wake: Callable[[], None] = lambda: None
) -> AsyncIterator[Planner]:
    guard = TimeGuard()
    shards = Shards(store, new_id(), LEASE_SECONDS, guard)
    await shards.tick()
    yield Planner(store, shards, guard, ahead_seconds, wake)
    await shards.stop()


async def _staged(store: Store) -> int:
    return int((await store.database.run(single(WAITING)))[0]["n"])


async def drain_rate(
    store: Store, count: int, executors: Mapping[str, Executor] | None = None, slots: int = SLOTS
) -> float:
    """Waiting runs a second: claimed, executed, settled, and kept in the history, by one worker of this process."""
    async with _worker(store, executors or {"noop": NoopExecutor()}, slots) as (worker, _):
        started_us = await store.now()
        return await _drained(store, worker, count, started_us)


async def path_rate(store: Store, count: int) -> float:
    """The whole path: due timers planned, and their runs drained, at the same time by one process."""
    async with (
        _worker(store, {"noop": NoopExecutor()}, SLOTS) as (worker, wake),
        _planner(store, 0.0, wake) as planner,
    ):
        started_us = await store.now()
        while await planner.tick() <= AGAIN_SECONDS:
            pass
        return await _drained(store, worker, count, started_us)


@asynccontextmanager
async def _worker(
    store: Store, executors: Mapping[str, Executor], slots: int
) -> AsyncIterator[tuple[Worker, Callable[[], None]]]:
    """At work; and how it is told that there is more."""
    settings = WorkerSettings("bench", slots, ("default",), 60, 600)
    secrets = Secrets(store, Vault("a key for a benchmark, and for nothing else"))
    worker = Worker(store, settings, executors, (), TimeGuard(), new_id, secrets)
    await worker.beat()
    claims = Loop("worker", worker.tick)
    worker.on_room = worker.results.on_more = claims.wake
    tasks = [asyncio.create_task(claims.run()), asyncio.create_task(worker.results.run())]
    try:
        yield worker, claims.wake
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        worker.abandon()


async def _drained(store: Store, worker: Worker, count: int, started_us: int) -> float:
    # The state of the store is asked for rarely: it would compete with what is measured.
    async with asyncio.timeout(WAIT_SECONDS):
        is_any_left = True
        while is_any_left:
            await asyncio.sleep(0.02)
            if worker.running == 0 and worker.results.waiting == 0:
                is_any_left = (await store.database.run(single(IS_ANY_LEFT)))[0]["yes"]
    span = (await store.database.run(single(SPAN)))[0]
    if span["n"] != count:
        raise AssertionError(f"{span['n']} of {count} runs were drained")
    # To the last ending, on the store's clock: the time until we noticed is not in it.
    seconds: float = (span["last_us"] - started_us) / 1e6
    return count / seconds

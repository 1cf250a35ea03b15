"""Full rate for a long time, over rows that died: whether its last minute is as fast as its second one.

Due times are added as their runs are drained, so that both are at work all the time. With an old transaction held open
nothing that died can be cleared away; then runs are added, and horae is compared with the same SQL run bare, in the
same trouble.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import Any

from horae.bench import bare, fill, fleet
from horae.bench.place import Place
from horae.core.errors import Unavailable
from horae.store.store import Store
from horae.store.trials import ENDED, MAKE_DUE_AGAIN, single

JOBS = 20_000
# Never none: whoever finds a line empty looks again a second later, and that would be measured. Runs are added on
# several connections, as one alone gets less of the cores than a worker that drains them.
WAITING_AT_LEAST = 120_000
ADDED_AT_ONCE = 10_000
ADDERS = 3
LOOK_SECONDS = 0.25
STUCK_SECONDS = 60.0
MINUTE = 60.0
# PostgreSQL tells what it counted once a second: in less than some seconds nothing at all may seem to be done.
LEAST_SECONDS = 3.0

Drains = Callable[[Place], AbstractAsyncContextManager[Any]]
Adds = Callable[[Store, int], Awaitable[int]]
"""Adds to so many that came before; how many came."""


@asynccontextmanager
async def whole_path(place: Place) -> AsyncIterator[None]:
    """One process plans, another one drains."""
    async with fleet.process("serve", "--roles", "scheduler", url=place.url), by_horae(place):
        yield


async def due_times(store: Store, _: int) -> int:
    """Of every job that was planned. Many at a time: to look for them often would cost more than to plan them."""
    came = await store.database.run(single(MAKE_DUE_AGAIN, due_us=await store.now()))
    await asyncio.sleep(LOOK_SECONDS)
    return len(came)


async def runs(store: Store, added: int) -> int:
    starts = [added + number * ADDED_AT_ONCE for number in range(ADDERS)]
    await asyncio.gather(*(fill.add_waiting(store, ADDED_AT_ONCE, JOBS, start=start) for start in starts))
    return ADDERS * ADDED_AT_ONCE


@asynccontextmanager
async def by_horae(place: Place) -> AsyncIterator[None]:
    async with fleet.workers(place.url, 1):
        yield


@asynccontextmanager
async def by_bare(place: Place) -> AsyncIterator[None]:
    task = asyncio.create_task(bare.drain_on(place, 2))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # what it died of is why nothing was drained


async def soak(
    place: Place, seconds: float, drains: Drains, adds: Adds = runs, *, is_held: bool = False
) -> tuple[float, float]:
    """Runs a second in the second and in the last minute; of a short soak, in less of both. If `is_held`, a transaction
    is opened after the second one and not ended, for so many seconds.
    """
    window = window_of(seconds)
    seen: list[tuple[float, int]] = []
    start, until = 0.0, seconds + window
    most, moved_at = 0, 0.0
    async with place.fresh() as store:
        await fill.add_jobs(store, JOBS)
        await fill.add_waiting(store, WAITING_AT_LEAST, JOBS)
        await fill.analyze(store)
        async with drains(place), AsyncExitStack() as held:
            async for at, done in _samples(store, adds):
                seen.append((at, done))
                start = start or (at if done else 0.0)
                if done > most:
                    most, moved_at = done, at
                elif at - moved_at > STUCK_SECONDS:
                    raise Unavailable(f"Nothing was drained for {STUCK_SECONDS:g} s.")
                if is_held and start and at >= start + 2 * window:
                    await held.enter_async_context(_held(place))
                    is_held, until = False, at + seconds
                if at >= until and not is_held:
                    break
    return rate_between(seen, start + window, start + 2 * window), rate_between(seen, seen[-1][0] - window, seen[-1][0])


async def _samples(store: Store, adds: Adds) -> AsyncIterator[tuple[float, int]]:
    """When, and how many were done by then. Told by the server's own counts, a second late: with an old transaction
    open, to count the waiting ones would cost more than to drain them.
    """
    added, began = WAITING_AT_LEAST, perf_counter()
    while True:
        done = (await store.database.run(single(ENDED)))[0]["n"]
        yield perf_counter() - began, done
        came = await adds(store, added) if added - done < WAITING_AT_LEAST else 0
        added += came
        if not came:
            await asyncio.sleep(LOOK_SECONDS)


def window_of(seconds: float) -> float:
    return min(MINUTE, max(LEAST_SECONDS, seconds / 5))


def rate_between(seen: list[tuple[float, int]], start: float, end: float) -> float:
    """Between the last look before the window and the first after it: a busy machine may not look within it at all."""
    first, before = next((each for each in reversed(seen) if each[0] <= start), seen[0])
    last, after = next((each for each in seen if each[0] >= end), seen[-1])
    return (after - before) / max(last - first, 1e-6)


@asynccontextmanager
async def _held(place: Place) -> AsyncIterator[None]:
    """A transaction that has looked at everything and does not end."""
    connection = await place.connect()
    await connection.execute("SET idle_in_transaction_session_timeout = 0")
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.execute("SELECT 1")
    try:
        yield
    finally:
        await connection.close()

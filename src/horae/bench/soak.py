"""Full rate for a long time, over rows that died: whether its last minute is as fast as its second one.

Runs are added as they are drained. With an old transaction held open nothing that died can be cleared away; then horae
is compared with the same SQL run bare, in the same trouble.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from statistics import median
from time import perf_counter
from typing import Any

from horae.bench import bare, fill, fleet, growth, walk
from horae.bench.place import Place
from horae.core.errors import Unavailable
from horae.store.store import Store
from horae.store.trials import EMPTY, ENDED, single

JOBS = 20_000
# Never none: whoever finds a line empty looks again a second later, and that would be measured. Runs are added on
# several connections, as one alone gets less of the cores than a worker that drains them.
WAITING_AT_LEAST = 120_000
ADDED_AT_ONCE = 10_000
ADDERS = 3
PLANNED = 5_000
LOOK_SECONDS = 0.25
STUCK_SECONDS = 60.0
MINUTE = 60.0
# PostgreSQL tells what it counted once a second: in less than some seconds nothing at all may seem to be done.
LEAST_SECONDS = 3.0

Drains = Callable[[Place], AbstractAsyncContextManager[Any]]


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


async def soak(place: Place, seconds: float, drains: Drains, *, is_held: bool = False) -> tuple[float, float]:
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
            async for at, done in _samples(store):
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


async def plans(place: Place, seconds: float) -> tuple[float, float]:
    """Plans a second, early and late, of timers that are made due again and again: dead rows of timers and runs."""
    window = min(MINUTE, seconds / 5)
    seen: list[tuple[float, float]] = []
    async with place.fresh() as store:
        await fill.add_jobs(store, JOBS)
        await fill.analyze(store)
        began = perf_counter()
        while (at := perf_counter() - began) < seconds:
            await growth.make_these_due(store, range(PLANNED), len(seen))
            seen.append((at, await walk.plan_rate(store, PLANNED, growth.AHEAD_SECONDS)))
            await store.database.run(single(EMPTY))
    early = [rate for at, rate in seen if window <= at < 2 * window]
    late = [rate for at, rate in seen if at >= seconds - window]
    return median(early or [seen[0][1]]), median(late or [seen[-1][1]])


async def _samples(store: Store) -> AsyncIterator[tuple[float, int]]:
    """When, and how many were done by then. Told by the server's own counts, a second late: with an old transaction
    open, to count the waiting ones would cost more than to drain them.
    """
    added, began = WAITING_AT_LEAST, perf_counter()
    while True:
        done = (await store.database.run(single(ENDED)))[0]["n"]
        yield perf_counter() - began, done
        if added - done < WAITING_AT_LEAST:
            starts = [added + number * ADDED_AT_ONCE for number in range(ADDERS)]
            await asyncio.gather(*(fill.add_waiting(store, ADDED_AT_ONCE, JOBS, start=start) for start in starts))
            added += ADDERS * ADDED_AT_ONCE
        else:
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

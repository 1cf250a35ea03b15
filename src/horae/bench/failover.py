"""How long the shards of a scheduler are nobody's when it dies or stops, and how late runs start meanwhile."""

from __future__ import annotations

import asyncio
import signal
from time import perf_counter

from horae.bench import fill, fleet
from horae.bench.place import Place
from horae.bench.timing import late
from horae.core.errors import Unavailable
from horae.store.database import NOW, Database
from horae.store.trials import HELD, lateness, single

LEASE_SECONDS = 5
JOBS = 200
LOOK_SECONDS = 0.02
WAIT_SECONDS = 60.0
SETTLED_SECONDS = 2  # before it: what was staged late at the start is over; after it: what was due then has run
SCHEDULER = ("serve", "--roles", "scheduler", "--lease-seconds", str(LEASE_SECONDS))


async def failover(place: Place, how: signal.Signals) -> dict[str, float]:
    """Of two schedulers one is sent this signal: until the other holds all shards; and how late runs were around it."""
    async with place.fresh() as store:
        await fill.add_jobs(store, JOBS, [{"schedule": "* * * * * *"}])
        await fill.analyze(store)
    url = place.url
    async with (
        fleet.workers(url, 1),
        fleet.process(*SCHEDULER, url=url) as one,
        fleet.process(*SCHEDULER, url=url),
        place.beside() as database,
    ):
        await _held_by(database, 2)
        await asyncio.sleep(SETTLED_SECONDS)
        from_us = (await database.run(single(NOW)))[0]["now_us"]
        began = perf_counter()
        one.send(how)
        await _held_by(database, 1)
        seconds = perf_counter() - began
        await asyncio.sleep(2 * SETTLED_SECONDS)
        rows = await database.run(lateness(from_us, from_us + round((seconds + SETTLED_SECONDS) * 1e6)))
    return {"s": seconds} | late(rows)


async def _held_by(database: Database, count: int) -> None:
    """Until so many schedulers hold all shards between them."""
    deadline = perf_counter() + WAIT_SECONDS
    while perf_counter() < deadline:
        held = (await database.run(single(HELD)))[0]
        if held["owners"] == count and held["is_all"]:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise Unavailable(f"The shards were not held by {count} schedulers within {WAIT_SECONDS:.0f} s.")

"""How late runs start, read from the history of real processes: at a steady rate, and when a crowd is due at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from horae.bench import fill, fleet, marked
from horae.bench.figures import percentiles
from horae.bench.orphans import own_folder
from horae.bench.place import Place
from horae.core.job import PRIORITY_NUMBER
from horae.store.database import NOW, Database, Rows
from horae.store.sqlite import system_now_us
from horae.store.trials import DONE, lateness, single

SECOND_US = 1_000_000
WARM_SECONDS = 4
LATE_SECONDS = 120
PERIOD_SECONDS = 5  # leases and heartbeats come so often; a part of it would count them or not by luck


async def steady(place: Place, rate: int, seconds: float, *, is_even: bool) -> dict[str, float]:
    """So many runs a second for so long: each second all of them at its start, or spread over it by jitter."""
    document: dict[str, Any] = {"schedule": "* * * * * *"} | ({"jitter": "1s"} if is_even else {})
    async with place.fresh() as store:
        await fill.add_jobs(store, rate, [document])
    async with fleet.server(place.url), place.beside() as database:
        from_us = (await _now(database) // SECOND_US + WARM_SECONDS) * SECOND_US
        until_us, count = from_us + round(seconds) * SECOND_US, rate * round(seconds)
        await _sleep_until(database, until_us + SECOND_US)
        rows = await _done(database, from_us, until_us, count)
    return late(rows) | {"% done": 100 * len(rows) / count}


async def herd(place: Place, count: int, jitter: str | None = None) -> tuple[dict[str, float], dict[str, list[float]]]:
    """A crowd that is due in one second: when it was staged, how late it starts, when the last is done.

    Without jitter the start is that of the work itself, where a peer leaves its mark too. With it, and in the
    milliseconds late by priority, it is that of the claim, as the history has it.
    """
    async with place.fresh() as store:
        # Filled in and served well before, also on a machine that is busy: at a load of ten 13 seconds were too few.
        due_us = (await store.now() // SECOND_US + 20 + count // 4_000) * SECOND_US
        document = {"schedule": fill.once_at(due_us), "timezone": "UTC"} | ({"jitter": jitter} if jitter else {})
        await fill.add_jobs(store, count, [document], priorities=3)
        await fill.analyze(store)
    with own_folder() as folder:
        marks = folder / "marks"
        server = fleet.server(place.url, None if jitter else marks, fleet.CROWD_SLOTS)
        async with server, place.beside() as database:
            await _sleep_until(database, due_us + SECOND_US)
            if not jitter:
                await _started(marks, count)
            rows = await _done(database, due_us, due_us + 1, count)
            due_here_us = due_us + system_now_us() - await _now(database)
        starts = [] if jitter else [(at_us - due_here_us) / 1000 for at_us in marked.read(marks)]
    by_priority = {
        name: [row["late_us"] / 1000 for row in rows if row["priority"] == number]
        for name, number in PRIORITY_NUMBER.items()
    }
    return (late(rows) if jitter else _spread(starts)) | {
        "% staged before": 100 * sum(row["queued_us"] < due_us for row in rows) / count,
        "s staged ahead": (due_us - max(row["queued_us"] for row in rows)) / 1e6,
        "ms claimable late": max(0, *(row["queued_us"] - row["run_at_us"] for row in rows)) / 1000,
        "% done": 100 * len(rows) / count,
        "s to drain": max(row["ended_us"] - due_us for row in rows) / 1e6,
    } | _told(rows), by_priority


async def idle(place: Place, seconds: float, *words: str) -> dict[str, float]:
    """What a process of these words costs while there is nothing to do."""
    async with place.fresh():
        pass
    return await idle_now(place, seconds, *words)


async def idle_now(place: Place, seconds: float, *words: str) -> dict[str, float]:
    """The same for a store that is there."""
    seconds = max(1, round(seconds / PERIOD_SECONDS)) * PERIOD_SECONDS
    async with place.counted() as counted, fleet.process(*words, url=place.url) as started:
        if words == ("serve",):  # the others listen to nobody
            await started.wait_ready()
        await asyncio.sleep(2 * WARM_SECONDS)
        before, cpu = await counted.so_far() if counted else 0, started.cpu_seconds() if fleet.HAS_PROC else 0
        await asyncio.sleep(seconds)
        cost = started.memory()
        if fleet.HAS_PROC:
            cost["% of a core"] = 100 * (started.cpu_seconds() - cpu) / seconds
        if counted:
            cost[counted.unit] = (await counted.so_far() - before - 1) / seconds
    return cost


def late(rows: Rows) -> dict[str, float]:
    return _spread([row["late_us"] / 1000 for row in rows])


def _told(rows: Rows) -> dict[str, float]:
    """Until the result was stored."""
    _, p99, most = percentiles([row["done_us"] / 1000 for row in rows])
    return {"p99 ms to the end": p99, "max ms to the end": most}


def _spread(milliseconds: list[float]) -> dict[str, float]:
    p50, p99, most = percentiles(milliseconds)
    return {"p50 ms": p50, "p99 ms": p99, "max ms": most}


async def _started(marks: Path, count: int) -> None:
    """All of a crowd, or nothing more is to be waited for. By their marks, as those of a peer are waited for: to count
    them in the database takes a part of it from what is measured.
    """
    for _ in range(10 * LATE_SECONDS):
        if marked.count(marks) >= count:
            return
        await asyncio.sleep(0.1)


async def _done(database: Database, from_us: int, until_us: int, count: int) -> Rows:
    """What was due then, when all of it is over, or when nothing more is to be waited for. Only counted until then: the
    rows of a crowd would compete with what is measured.
    """
    for _ in range(LATE_SECONDS):
        await asyncio.sleep(1)
        if (await database.run(single(DONE, from_us=from_us, until_us=until_us)))[0]["n"] >= count:
            break
    return await database.run(lateness(from_us, until_us))


async def _now(database: Database) -> int:
    return int((await database.run(single(NOW)))[0]["now_us"])


async def _sleep_until(database: Database, at_us: int) -> None:
    """On the store's clock."""
    await asyncio.sleep(max(0.0, (at_us - await _now(database)) / 1e6))

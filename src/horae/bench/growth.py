"""What grows and what must not: the cost of one batch beside more jobs, a longer backlog, a longer history."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from horae.app import new_id
from horae.bench import fill, walk
from horae.ports import Ending, WorkerState
from horae.store.store import Store
from horae.store.trials import SIZE, single

DUE = 5_000
AHEAD_SECONDS = 15.0
SCAN = 1000
CLAIM = 500
TIMES = 10
TURNS = 4
SHARDS = list(range(64))
FIRST_DUE = 50_000_000  # numbers of the jobs that are due, far from those that only stand there
# At some minute of a day, and never in the minutes that a benchmark takes: the first of next month at the earliest.
STANDING = [{"schedule": f"{number} {number % 24} 1 */2 *"} for number in range(60)]


async def jobs(store: Store, number: int) -> dict[str, float]:
    """Milliseconds to scan and to plan 1,000 due jobs beside all that are registered, and the size of it all.

    The least of several: sizes are measured minutes apart, and what disturbs them only adds.
    """
    scans, plans = [], []
    for turn in range(TURNS):
        due_us = (await store.now() // 1_000_000 + 8) * 1_000_000
        document = {"schedule": fill.once_at(due_us), "timezone": "UTC"}
        await fill.add_jobs(store, DUE, [document], start=FIRST_DUE + (number * TURNS + turn) * DUE)
        for _ in range(TIMES):
            started = perf_counter()
            await store.due_timers(SHARDS, round(AHEAD_SECONDS * 1e6), SCAN)
            scans.append(perf_counter() - started)
        plans.append(SCAN / await walk.plan_rate(store, DUE, AHEAD_SECONDS))
    size = (await store.database.run(single(SIZE)))[0]["bytes"]
    return {"scan ms": 1000 * min(scans), "plan ms": 1000 * min(plans), "database MB": size / 1e6}


async def claims(store: Store) -> dict[str, float]:
    """Milliseconds to claim and to settle 500 runs, whatever else waits or is over."""
    worker = new_id()
    await store.beat(WorkerState(worker, "bench", "active", CLAIM, 0, ["default"], []), 600_000_000)
    looks, taken, settled = [], [], []
    for _ in range(TIMES):
        began = perf_counter()
        await store.waiting_lines([fill.HEAD])
        looked = perf_counter()
        runs = await store.claim(worker, [(fill.LINE, CLAIM)])
        claimed = perf_counter()
        if not runs:
            break
        await store.settle(worker, [Ending(run.run_id, run.token, "succeeded", None, None, None) for run in runs])
        looks.append(looked - began)
        taken.append((claimed - looked) * CLAIM / len(runs))
        settled.append((perf_counter() - claimed) * CLAIM / len(runs))
    return {"look ms": 1000 * median(looks), "claim ms": 1000 * median(taken), "settle ms": 1000 * median(settled)}

"""What grows and what must not: the cost of one batch beside more jobs, a longer backlog, a longer history."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from horae.app import new_id
from horae.bench import fill, walk
from horae.ports import Ending, WorkerState
from horae.store.store import Store
from horae.store.trials import SIZE, make_timers_due, single

DUE = 500
AHEAD_SECONDS = 15.0
SCAN = 1000
CLAIM = 500
TIMES = 10
TURNS = 6
SHARDS = list(range(64))


def standing(month: int) -> list[dict[str, str]]:
    """Jobs of this benchmark: at some minute of a day that is more than a month away."""
    return [{"schedule": f"{number} {number % 24} 1 {(month + 1) % 12 + 1} *"} for number in range(60)]


async def make_due(store: Store, count: int, turn: int) -> int:
    """Some jobs become due in a moment, far apart among all `count`: as many as are planned in one turn."""
    due = min(DUE, count // 2)
    step = (count // due - 1) | 1  # odd, so that all shards have their part
    first = turn % step
    await make_these_due(store, range(first, first + due * step, step), turn)
    return due


async def make_these_due(store: Store, numbers: range, turn: int) -> None:
    # Another millisecond in each turn: the same job at the same time would be the same run.
    due_us = (await store.now() // 1_000_000 + 8) * 1_000_000 + turn % 1000 * 1000
    await store.database.run(make_timers_due(numbers, due_us))


async def jobs(store: Store, count: int, turn: int) -> dict[str, float]:
    """Milliseconds to scan and to plan 500 due jobs among all that are registered. The first scan finds them where they
    lie, on a disk perhaps; the others find what it left in memory.
    """
    due = await make_due(store, count, turn)
    scans = []
    for _ in range(TIMES):
        started = perf_counter()
        await store.due_timers(SHARDS, round(AHEAD_SECONDS * 1e6), SCAN)
        scans.append(perf_counter() - started)
    plan = due / await walk.plan_rate(store, due, AHEAD_SECONDS)
    return {"first scan ms": 1000 * scans[0], "scan ms": 1000 * median(scans[1:]), "plan ms": 1000 * plan}


async def megabytes(store: Store) -> float:
    return float((await store.database.run(single(SIZE)))[0]["bytes"]) / 1e6


async def claims(store: Store) -> list[dict[str, float]]:
    """Milliseconds to claim and to settle 500 runs, whatever else waits or is over, for each turn."""
    worker = new_id()
    await store.beat(WorkerState(worker, "bench", "active", CLAIM, 0, ["default"], []), 600_000_000)
    turns = []
    for _ in range(TIMES):
        began = perf_counter()
        await store.waiting_lines([fill.HEAD])
        looked = perf_counter()
        runs = await store.claim(worker, [(fill.LINE, CLAIM)])
        claimed = perf_counter()
        if not runs:
            break
        await store.settle(worker, [Ending(run.run_id, run.token, "succeeded", None, None, None) for run in runs])
        each = 1000 * CLAIM / len(runs)
        took = {"claim ms": (claimed - looked) * each, "settle ms": (perf_counter() - claimed) * each}
        turns.append({"look ms": 1000 * (looked - began)} | took)
    return turns

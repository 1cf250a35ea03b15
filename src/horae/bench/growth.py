"""What grows and what must not: the cost of one batch beside more jobs, a longer backlog, a longer history."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from horae.app import new_id
from horae.bench import fill, walk
from horae.ports import Ending, Share, WorkerState
from horae.store.store import Store
from horae.store.trials import SIZE, make_timers_due, single

DUE = 500
AHEAD_SECONDS = 15.0
SCAN = 1000
CLAIM = 500
TIMES = 10
TURNS = 9
SETS = 2 * TURNS
LEAD_US = 3_600_000_000
APART_US = 60_000_000
SHARDS = list(range(64))


def standing(month: int) -> list[dict[str, str]]:
    """Jobs of this benchmark: at some minute of a day that is more than a month away."""
    return [{"schedule": f"{number} {number % 24} 1 {(month + 1) % 12 + 1} *"} for number in range(60)]


def _far_apart(count: int, number: int) -> range:
    """One of the sets of jobs that become due together, far apart among all `count`."""
    due = min(DUE, count // (SETS + 2))
    step = (count // due - 1) | 1  # odd, so that all shards have their part
    start = number * (step // SETS or 1)  # the sets too: none finds its pages as the one before has left them
    return range(start, start + due * step, step)


async def make_due_soon(store: Store, count: int) -> None:
    await make_these_due(store, _far_apart(count, 0), 0)


async def make_these_due(store: Store, numbers: range, turn: int) -> None:
    # Another millisecond in each turn: the same job at the same time would be the same run.
    due_us = (await store.now() // 1_000_000 + 8) * 1_000_000 + turn % 1000 * 1000
    await store.database.run(make_timers_due(numbers, due_us))


async def make_sets_due(store: Store, count: int) -> int:
    """One set after the other, much later than all that is measured here; when the first is due."""
    first_us = await store.now() // 1_000_000 * 1_000_000 + LEAD_US
    for number in range(SETS):
        await store.database.run(make_timers_due(_far_apart(count, number), first_us + number * APART_US))
    return first_us


async def jobs(store: Store, count: int, first_us: int, turn: int) -> dict[str, float]:
    """Milliseconds to scan and to plan 500 due jobs among all that are registered, each time others that nobody has
    looked at since autovacuum has been there: a scan of some, then more of the same, which find their pages at hand;
    and a plan of others, its own scan included.
    """
    scanned, planned = 2 * turn, 2 * turn + 1
    due = len(_far_apart(count, scanned))
    ahead_us = await _ahead_us(store, first_us, scanned)
    scans = []
    for _ in range(TIMES):
        started = perf_counter()
        found = await store.due_timers(SHARDS, ahead_us, SCAN)
        scans.append(perf_counter() - started)
        if len(found.timers) != due:
            raise AssertionError(f"{len(found.timers)} of {due} due timers were found")
    await walk.plan_rate(store, due, ahead_us / 1e6)  # out of the way of the others
    plan = due / await walk.plan_rate(store, due, await _ahead_us(store, first_us, planned) / 1e6)
    return {"scan ms": 1000 * scans[0], "scan again ms": 1000 * median(scans[1:]), "plan ms": 1000 * plan}


async def _ahead_us(store: Store, first_us: int, number: int) -> int:
    """How far a planner must look to see this set, and not the next."""
    return first_us + number * APART_US + APART_US // 2 - await store.now()


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
        runs = await store.claim(worker, [Share(fill.LINE, CLAIM)])
        claimed = perf_counter()
        if not runs:
            break
        await store.settle(worker, [Ending(run.run_id, run.token, "succeeded", None, None, None) for run in runs])
        each = 1000 * CLAIM / len(runs)
        took = {"claim ms": (claimed - looked) * each, "settle ms": (perf_counter() - claimed) * each}
        turns.append({"look ms": 1000 * (looked - began)} | took)
    return turns

"""What grows and what must not: the cost of one batch beside more jobs, a longer backlog, a longer history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from time import perf_counter

from horae.app import new_id
from horae.bench import fill, walk
from horae.ports import Ending, Share, WorkerState
from horae.store.store import Store
from horae.store.trials import SIZE, Spread, make_timers_due, single, spread_again

DUE = 500
SCAN = 1000
CLAIM = 500
TIMES = 10
TURNS = 9
SETS = 2 * TURNS
SLOTS = 20_000
LEAD_US = 3_600_000_000
APART_US = 60_000_000
SHARDS = list(range(64))


@dataclass(frozen=True, slots=True)
class Standing:
    """Jobs that are due in the coming days, as many in each minute: those of a minute lie as far apart as can be, and
    the more jobs there are, the fewer minutes have 500 of them. Then each is due again months later.
    """

    first_us: int

    @property
    def _spread(self) -> Spread:
        return Spread(self.first_us, SLOTS, APART_US)

    async def add(self, store: Store, count: int, start: int = 0) -> None:
        month = datetime.fromtimestamp(self.first_us / 1e6, UTC).month
        months_later = {"schedule": f"0 0 1 {(month + 1) % 12 + 1} *"}
        await fill.add_jobs(store, count, [months_later], start=start, spread=self._spread)

    async def again(self, store: Store) -> None:
        """Those that were planned before are due as at the beginning."""
        await store.database.run(spread_again(self._spread))

    def until_us(self, count: int, number: int) -> int:
        """How far a planner must look to see this set of so many jobs, and not the next."""
        return self.first_us + (number + 1) * _minutes(count) * APART_US - APART_US // 2


async def standing(store: Store) -> Standing:
    """Much later than all that is measured here."""
    return Standing(await store.now() // 1_000_000 * 1_000_000 + LEAD_US)


def _minutes(count: int) -> int:
    return max(1, min(DUE, count // (SETS + 2)) * SLOTS // max(count, SLOTS))


def due_in(count: int, number: int) -> int:
    """How many jobs of this set there are."""
    minutes = _minutes(count)
    return sum(len(range(slot, count, SLOTS)) for slot in range(number * minutes, (number + 1) * minutes))


async def make_due_soon(store: Store, count: int) -> None:
    due_us = (await store.now() // 1_000_000 + 8) * 1_000_000
    await store.database.run(make_timers_due(range(0, count, max(1, count // DUE)), due_us))


async def jobs(store: Store, count: int, jobs: Standing, turn: int) -> dict[str, float]:
    """Milliseconds to scan and to plan 500 due jobs among all that are registered, each time others that nobody has
    looked at since autovacuum has been there: the first scan of some, then more of the same, which find their pages at
    hand; and a plan of others, its own scan included.
    """
    scanned, planned = 2 * turn, 2 * turn + 1
    due = due_in(count, scanned)
    scans = []
    for _ in range(TIMES):
        ahead_us = jobs.until_us(count, scanned) - await store.now()
        started = perf_counter()
        found = await store.due_timers(SHARDS, ahead_us, SCAN)
        scans.append(perf_counter() - started)
        if len(found.timers) != due:
            raise AssertionError(f"{len(found.timers)} of {due} due timers were found")
    await walk.plan_rate(store, due, ahead_us / 1e6)  # out of the way of the others
    due = due_in(count, planned)
    ahead_us = jobs.until_us(count, planned) - await store.now()
    plan = due / await walk.plan_rate(store, due, ahead_us / 1e6)
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
        runs = await store.claim(worker, [Share(fill.LINE, CLAIM)])
        claimed = perf_counter()
        if not runs:
            break
        await store.settle(worker, [Ending(run.run_id, run.token, "succeeded", None, None, None) for run in runs])
        each = 1000 * CLAIM / len(runs)
        took = {"claim ms": (claimed - looked) * each, "settle ms": (perf_counter() - claimed) * each}
        turns.append({"look ms": 1000 * (looked - began)} | took)
    return turns

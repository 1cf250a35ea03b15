"""The cases by name, and their rounds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from horae.app import new_id
from horae.bench import bare, door, failover, fill, fleet, growth, http, soak, timing, walk
from horae.bench.figures import Figures, percentiles
from horae.bench.place import Place
from horae.bench.sizes import Size
from horae.core.errors import HoraeError
from horae.store.store import Store
from horae.store.trials import EMPTY, IS_ANY_LEFT, SPAN, make_timers_due, single

Told = Callable[[str], None]

JITTER = "10s"
GATED_RUNS = 500
DRAIN_SECONDS = 300
HTTP_PAIRS = 3
HAS_AIOHTTP = find_spec("aiohttp") is not None
CONNECTIONS = 2  # as many as a planner, or the claims and the results of a worker, keep busy


@dataclass(slots=True)
class Bench:
    """What is measured where. `rest` brings the server to rest before each turn; `number` is that of the round."""

    place: Place
    size: Size
    figures: Figures
    tell: Told
    cases: Sequence[str] = ()
    rest: Callable[[], None] = lambda: None
    number: int = 1


Case = Callable[[Bench], Awaitable[None]]
Measure = Callable[[Store], Awaitable[float]]
Limit = Callable[[], Awaitable[float]]


async def create(bench: Bench) -> None:
    count = bench.size.jobs
    ours, limit = partial(walk.create_rate, count=count), partial(bare.create_rate, bench.place, count, new_id)
    await _beside_bare(bench, "create", "jobs/s", _empty, ours, limit)


async def plan(bench: Bench) -> None:
    count = bench.size.jobs
    ahead_us = fill.AHEAD_SECONDS * 1_000_000
    limit = partial(bare.plan_rate, bench.place, ahead_us, count, CONNECTIONS)
    await _beside_bare(
        bench, "plan", "runs/s", partial(_registered, count=count), partial(walk.plan_rate, count=count), limit
    )


async def drain(bench: Bench) -> None:
    jobs, count = bench.size.jobs, bench.size.waiting
    limit = partial(bare.drain_rate, bench.place, count, CONNECTIONS)
    await _beside_bare(
        bench,
        "drain",
        "runs/s",
        partial(_waiting, jobs=jobs, count=count),
        partial(walk.drain_rate, count=count),
        limit,
    )


async def path(bench: Bench) -> None:
    """Both at the same time."""
    count = bench.size.jobs
    limit = partial(bare.path_rate, bench.place, count, CONNECTIONS)
    await _beside_bare(bench, "path", "runs/s", partial(_due, count=count), partial(walk.path_rate, count=count), limit)


async def processes(bench: Bench) -> None:
    """Drained by real worker processes."""
    if bench.place.dialect == "sqlite":
        bench.figures.remark("processes", "sqlite", "horae", "SQLite serves one process")
        return
    for count in bench.size.workers:
        await drain_by(bench, count, processes_of(count))


async def drain_by(bench: Bench, count: int, shape: str) -> None:
    """By real processes: from the first start to the last end, and the memory of the largest one then."""
    place, waiting = bench.place, bench.size.waiting
    async with place.fresh() as store:
        await _waiting(store, bench.size.jobs, waiting)
    async with fleet.workers(place.url, count) as started, place.beside() as database:
        for _ in range(DRAIN_SECONDS * 4):
            if not (await database.run(single(IS_ANY_LEFT)))[0]["yes"]:
                break
            await asyncio.sleep(0.25)
        span = (await database.run(single(SPAN)))[0]
        memory = max((each.memory() for each in started), key=lambda each: each.get("MB", 0))
    if span["n"] != waiting:
        raise AssertionError(f"{span['n']} of {waiting} runs were drained")
    rate = span["n"] / max(1e-6, (span["last_us"] - span["first_us"]) / 1e6)
    bench.figures.add("drain", shape, "horae", {"runs/s": rate})
    bench.figures.add("start", "worker", "horae", memory)


async def lateness(bench: Bench) -> None:
    for rate in bench.size.rates:
        for shape, is_even in ((f"{rate:,}/s even", True), (f"{rate:,}/s at once", False)):
            measured = await timing.steady(bench.place, rate, bench.size.seconds, is_even=is_even)
            bench.figures.add("lateness", shape, "horae", measured)


async def herd(bench: Bench) -> None:
    for count in bench.size.herd:
        for jitter in (None, JITTER):
            await crowd(bench, count, jitter)


async def crowd(bench: Bench, count: int, jitter: str | None = None) -> None:
    shape = f"{count:,}, jitter {jitter}" if jitter else f"{count:,}"
    measured, by_priority = await timing.herd(bench.place, count, jitter)
    bench.figures.add("herd", shape, "horae", measured)
    for name, values in by_priority.items():
        units = dict(zip(("p50 ms", "p99 ms", "max ms"), percentiles(values), strict=True))
        bench.figures.add("herd", f"{shape}, {name}", "horae", units)


async def idle(bench: Bench) -> None:
    """A host is one process of all roles; what each worker beside it costs is told, too."""
    seconds = bench.size.seconds
    bench.figures.add("idle", "one host", "horae", await timing.idle(bench.place, seconds, "serve"))
    if bench.place.dialect == "postgres":
        cost = await timing.idle(bench.place, seconds, "serve", "--roles", "worker")
        bench.figures.add("idle", "one more worker", "horae", cost)


async def failovers(bench: Bench) -> None:
    if bench.place.dialect == "sqlite":
        bench.figures.remark("failover", "sqlite", "horae", "SQLite serves one process")
        return
    for shape, how in (("kill -9", signal.SIGKILL), ("stop", signal.SIGTERM)):
        bench.figures.add("failover", shape, "horae", await failover.failover(bench.place, how))


async def grow_jobs(bench: Bench) -> None:
    """In one database that only gets larger, and in turn in a small one beside it."""
    beside = bench.place.another()
    try:
        async with bench.place.fresh() as large, beside.fresh() as small:
            await _grow_jobs(bench, large, small, beside)
    finally:
        await beside.wipe()


async def _grow_jobs(bench: Bench, large: Store, small: Store, beside: Place) -> None:
    jobs = await growth.standing(large)
    least = bench.size.registered[0]
    await jobs.add(small, least)
    for before, count in pairwise((0, *bench.size.registered)):
        await jobs.add(large, count - before, before)
        for store, place in ((large, bench.place), (small, beside)):
            await store.database.run(single(EMPTY))
            await jobs.again(store)
            await place.vacuum()
        shape = f"{count:,} jobs"
        sides = [(large, count, "horae"), (small, least, f"{least:,} jobs")]
        for turn in range(growth.TURNS):
            for store, among, subject in sides if turn % 2 else reversed(sides):
                bench.figures.add("growth", shape, subject, await growth.jobs(store, among, jobs, turn))
        bench.figures.add("growth", shape, "horae", {"database MB": await growth.megabytes(large)})
        if bench.place.dialect == "postgres":
            await growth.make_due_soon(large, count)  # its memory is that of one that has planned
            # The host last, when all of that is due and soon done.
            for who, words in (("scheduler", ("serve", "--roles", "scheduler")), ("host", ("serve",))):
                cost = await timing.idle_now(bench.place, min(10, bench.size.seconds), *words)
                bench.figures.add("growth", shape, "horae", {f"{who} {unit}": cost[unit] for unit in cost})


async def grow_backlog(bench: Bench) -> None:
    for count in bench.size.backlog:
        async with bench.place.fresh() as store:
            await _waiting(store, min(count, bench.size.jobs), count)
            _add_turns(bench, f"{count:,} waiting", await growth.claims(store))


async def grow_history(bench: Bench) -> None:
    async with bench.place.fresh() as store:
        await _registered(store, bench.size.jobs)
        before = 0
        for count in bench.size.history:
            await fill.add_finished(store, before, count, bench.size.jobs)
            await fill.add_waiting(store, growth.CLAIM * growth.TIMES, bench.size.jobs)
            await fill.analyze(store)
            _add_turns(bench, f"{count:,} finished", await growth.claims(store))
            before = count


def _add_turns(bench: Bench, shape: str, turns: list[dict[str, float]]) -> None:
    for measured in turns:
        bench.figures.add("growth", shape, "horae", measured)


async def grow_tenants(bench: Bench) -> None:
    for count in bench.size.tenants:
        async with bench.place.fresh() as store:
            await fill.add_jobs(store, bench.size.jobs, tenants=count)
            await fill.add_waiting(store, bench.size.waiting, bench.size.jobs)
            await fill.analyze(store)
            rate = await walk.drain_rate(store, bench.size.waiting)
        bench.figures.add("growth", f"{count:,} tenants", "horae", {"runs/s": rate})


async def gates(bench: Bench) -> None:
    """Runs that are checked against their siblings before they start, beside plain ones: one of each job, and several
    of which one may run at a time.
    """
    count = max(GATED_RUNS, bench.size.waiting // 5)
    shapes: list[tuple[str, dict[str, Any], int]] = [
        ("plain", {}, count),
        ("overlap: skip", {"overlap": "skip"}, count),
        ("max_concurrency: 5", {"max_concurrency": 5}, count),
        ("one of a hundred at a time", {"max_concurrency": 1}, count // 100),
    ]
    for shape, rule, jobs in shapes:
        async with bench.place.fresh() as store:
            documents = [document | rule for document in fill.six_hours(await store.now())]
            await fill.add_jobs(store, jobs, documents)
            await fill.add_waiting(store, count, jobs)
            await fill.analyze(store)
            rate = await walk.drain_rate(store, count)
        bench.figures.add("gates", f"{bench.place.dialect}, {shape}", "horae", {"runs/s": rate})


async def http_jobs(bench: Bench) -> None:
    """In several pairs: each is over in two seconds, in which a shared machine may do anything."""
    count = bench.size.waiting // 5
    async with http.small_server() as url:
        ours, limit = partial(http.rate, url=url, count=count), partial(http.bare_rate, url, count)
        for pair in range(HTTP_PAIRS):
            turn = replace(bench, number=bench.number + pair)
            await _beside_bare(turn, "http", "runs/s", _empty, ours, limit if HAS_AIOHTTP else None, "1 process")
    if not HAS_AIOHTTP:
        bench.figures.remark("http", "1 process", "bare", "aiohttp, which it is measured by, is not installed")


async def door_cases(bench: Bench) -> None:
    singles, rate = await door.creates(bench.place, bench.size.seconds / 2, max(1, bench.size.jobs // 4000))
    bench.figures.add("create", "http, one at a time", "horae", singles)
    bench.figures.add("create", "http, batches", "horae", {"jobs/s": rate})


async def soaks(bench: Bench) -> None:
    """Whether it stays as fast, also while an old transaction keeps the dead rows where they are."""
    place, figures = bench.place, bench.figures
    if place.dialect == "sqlite":
        figures.remark("soak", "sqlite", "horae", "SQLite leaves no dead rows behind")
        return
    seconds = bench.size.soak_seconds
    early, late = await soak.soak(place, seconds, soak.whole_path, soak.due_times)
    figures.add("soak", f"path, {seconds:g} s, early", "horae", {"runs/s": early})
    figures.add("soak", f"path, {seconds:g} s, late", "horae", {"runs/s": late})
    seconds = bench.size.held_seconds
    for subject, drains in (("horae", soak.by_horae), ("bare", soak.by_bare)):
        bench.rest()
        early, late = await soak.soak(place, seconds, drains, is_held=True)
        left = {"runs/s": late, "part left": late / max(early, 1e-6)}
        figures.add("soak", f"transaction held open, {seconds:g} s", subject, left)


async def start(bench: Bench) -> None:
    for shape, measured in (await door.starts()).items():
        bench.figures.add("start", shape, "horae", measured)


CASES: dict[str, Case] = {
    "create": create,
    "plan": plan,
    "drain": drain,
    "path": path,
    "processes": processes,
    "http": http_jobs,
    "door": door_cases,
    "lateness": lateness,
    "herd": herd,
    "failover": failovers,
    "idle": idle,
    "start": start,
    "jobs": grow_jobs,
    "backlog": grow_backlog,
    "history": grow_history,
    "tenants": grow_tenants,
    "gates": gates,
    "soak": soaks,
}
# Their tables take long to fill, and they measure many turns; a soak is long by itself.
ONCE = frozenset({"jobs", "backlog", "history", "soak"})


async def run(*benches: Bench) -> None:
    """Round by round, and case by case in turn, so that what disturbs the machine for a while disturbs all of them."""
    async with AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(bench.place.alone())
            stack.push_async_callback(_wipe, bench)
        for number in range(1, benches[0].size.rounds + 1):
            for name in dict.fromkeys(name for bench in benches for name in bench.cases):
                for bench in (bench for bench in benches if name in bench.cases):
                    if number == 1 or name not in ONCE:
                        bench.number = number
                        bench.tell(f"round {number} of {bench.size.rounds}: {name} on {bench.place.dialect}")
                        await attempt(bench, name)


async def _wipe(bench: Bench) -> None:
    try:
        for place in (bench.place, bench.place.another()):
            await place.wipe()
    except HoraeError as error:
        bench.figures.fail("bench", bench.place.dialect, f"What was made could not be removed. {error.detail}")


async def attempt(bench: Bench, name: str, case: Case | None = None) -> None:
    """A case that cannot be had, or what is done in its place, leaves its reason and lets the others go on."""
    try:
        bench.rest()
        await (case or CASES[name])(bench)
    except Exception as error:  # whatever it is, hours of the others must not be lost for it
        if (task := asyncio.current_task()) and task.cancelling():  # what broke while it was being stopped
            raise asyncio.CancelledError from error
        bench.figures.fail(name, bench.place.dialect, f"{type(error).__name__}: {error}")


def processes_of(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


async def _beside_bare(
    bench: Bench,
    case: str,
    unit: str,
    made: Callable[[Store], Awaitable[None]],
    ours: Measure,
    limit: Limit | None,
    shape: str = "",
) -> None:
    """Each in a store of its own that is `made` ready, on a server at rest; horae first in one round, last in the
    next.
    """
    sides = ("horae", "bare") if limit else ("horae",)
    for subject in sides if bench.number % 2 else reversed(sides):
        bench.rest()
        async with bench.place.fresh() as store:
            await made(store)
            rate = await ours(store) if subject == "horae" else 0.0
        if limit and subject == "bare":
            rate = await limit()
        bench.figures.add(case, shape or bench.place.dialect, subject, {unit: rate})


async def _empty(_: Store) -> None:
    """Nothing is needed."""


async def _registered(store: Store, count: int) -> None:
    await fill.add_jobs(store, count)
    await fill.analyze(store)


async def _due(store: Store, count: int) -> None:
    await _registered(store, count)
    await store.database.run(make_timers_due(range(count), await store.now()))


async def _waiting(store: Store, jobs: int, count: int) -> None:
    await fill.add_jobs(store, jobs)
    await fill.add_waiting(store, count, jobs)
    await fill.analyze(store)

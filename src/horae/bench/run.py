"""Which cases there are, how large each is made, and how often each is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from horae.app import new_id
from horae.bench import bare, fill, walk
from horae.bench.figures import Figures
from horae.bench.place import Place
from horae.store.store import Store

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    jobs: int
    waiting: int
    seconds: float
    herd: tuple[int, ...]
    rates: tuple[int, ...]
    registered: tuple[int, ...]
    backlog: tuple[int, ...]
    history: tuple[int, ...]
    workers: tuple[int, ...]
    tenants: tuple[int, ...]


QUICK = Size(1, 2_000, 5_000, 3, (500,), (100,), (1_000, 5_000), (1_000,), (1_000,), (1, 2), (1, 10))
NORMAL = Size(
    rounds=3,
    jobs=20_000,
    waiting=50_000,
    seconds=20,
    herd=(10_000,),
    rates=(100, 500, 1_000, 2_000),
    registered=(10_000, 100_000, 1_000_000),
    backlog=(1_000, 100_000),
    history=(0, 1_000_000),
    workers=(1, 2, 4),
    tenants=(1, 100, 1_000),
)
FULL = Size(
    rounds=5,
    jobs=50_000,
    waiting=100_000,
    seconds=60,
    herd=(10_000, 100_000),
    rates=(100, 500, 1_000, 2_000),
    registered=(10_000, 100_000, 1_000_000, 10_000_000),
    backlog=(1_000, 10_000, 100_000, 1_000_000),
    history=(0, 1_000_000, 10_000_000),
    workers=(1, 2, 4, 8),
    tenants=(1, 10, 100, 1_000),
)


@dataclass(slots=True)
class Bench:
    place: Place
    size: Size
    figures: Figures
    tell: Told


async def create(bench: Bench) -> None:
    place, count = bench.place, bench.size.jobs
    async with place.fresh() as store:
        now_us = await store.now()
        rate = await walk.create_rate(store, count)
    bench.figures.add("create", place.dialect, "horae", jobs_per_s=rate)
    async with place.fresh():
        pass
    bench.figures.add("create", place.dialect, "bare", jobs_per_s=await bare.create_rate(place, count, new_id, now_us))


async def plan(bench: Bench) -> None:
    place, count = bench.place, bench.size.jobs
    async with place.fresh() as store:
        await fill.add_jobs(store, count, fill.SIX_HOURS)
        await fill.analyze(store)
        rate = await walk.plan_rate(store, count)
    async with place.fresh() as store:
        await fill.add_jobs(store, count, fill.SIX_HOURS)
        await fill.analyze(store)
    limit = await bare.plan_rate(place, fill.AHEAD_SECONDS * 1_000_000, count)
    bench.figures.add("plan", place.dialect, "horae", runs_per_s=rate)
    bench.figures.add("plan", place.dialect, "bare", runs_per_s=limit)


async def drain(bench: Bench) -> None:
    place, count = bench.place, bench.size.waiting
    async with place.fresh() as store:
        await _waiting(store, bench.size.jobs, count)
        rate = await walk.drain_rate(store, count)
    async with place.fresh() as store:
        await _waiting(store, bench.size.jobs, count)
    limit = await bare.drain_rate(place, count, connections=2)
    bench.figures.add("drain", place.dialect, "horae", runs_per_s=rate)
    bench.figures.add("drain", place.dialect, "bare", runs_per_s=limit)


async def _waiting(store: Store, jobs: int, count: int) -> None:
    await fill.add_jobs(store, jobs, fill.SIX_HOURS)
    await fill.add_waiting(store, count, jobs)
    await fill.analyze(store)


CASES: dict[str, Callable[[Bench], Awaitable[None]]] = {"create": create, "plan": plan, "drain": drain}


async def run(bench: Bench, cases: Sequence[str]) -> None:
    """Round by round, so that what disturbs the machine for a while disturbs all of them."""
    await bench.place.check()
    try:
        for number in range(1, bench.size.rounds + 1):
            for name in cases:
                bench.tell(f"round {number} of {bench.size.rounds}: {name} on {bench.place.dialect}")
                await CASES[name](bench)
    finally:
        await bench.place.wipe()
    add_path(bench.figures, bench.place.dialect)


def add_path(figures: Figures, database: str) -> None:
    """Planned, then drained: what both take together, per run."""
    for subject in ("horae", "bare"):
        planned, drained = (figures.values.get((case, database, subject, "runs/s"), []) for case in ("plan", "drain"))  # type: ignore[call-overload]
        for plan_, drain_ in zip(planned, drained, strict=False):
            figures.add("path", database, subject, runs_per_s=1 / (1 / plan_ + 1 / drain_))

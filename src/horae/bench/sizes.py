"""How large each case is made: to see that it works, to know how fast it is, and to know it at every size."""

from __future__ import annotations

from dataclasses import dataclass


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
    soak_seconds: float
    held_seconds: float


QUICK = Size(1, 2_000, 5_000, 3, (500,), (100,), (1_000, 5_000), (1_000,), (1_000,), (1, 2), (1, 10), 15, 15)
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
    soak_seconds=120,
    held_seconds=60,
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
    soak_seconds=1_800,
    held_seconds=300,
)

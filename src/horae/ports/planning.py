"""What a scheduler asks of the store: its shards, and due timers into runs."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from horae.core.plan import Plan


@dataclass(frozen=True, slots=True)
class Leases:
    """Held shards with their epochs; the store's time, the highest ever trusted, and when another's lease runs out;
    the shards just taken that nobody had held for a while.
    """

    held: dict[int, int]
    now_us: int
    high_us: int
    others_us: int
    gaps: list[int]


class LeaseStore(Protocol):
    def keep_leases(self, owner: str, ttl_us: int, trusted_us: int) -> Awaitable[Leases]: ...

    def judge_overdue(self, shards: list[int]) -> Awaitable[dict[str, int]]: ...

    def release_leases(self, owner: str) -> Awaitable[None]: ...


class Line(NamedTuple):
    """Where the runs of a job wait, with whom they are counted, and how often they are tried."""

    bucket: str
    group_key: str | None
    max_attempts: int
    is_once: bool


class DueTimer(NamedTuple):
    """`timing` is what of the definition a planner needs, or all of it. If it is not `is_known`, the timer has nothing
    of it, nor of the line, and a planner should leave both there.
    """

    job_id: str
    shard: int
    due_us: int
    version: int
    fired: int
    created_us: int
    timing: str
    line: Line
    called_off: frozenset[int] = frozenset()
    staged: int = 0
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """Due timers, the store's time, when the next one beyond the look-ahead is due (None when unknown), when the first
    of all shards is (None without any), and whether nobody holds some of the shards.
    """

    timers: list[DueTimer]
    now_us: int
    next_us: int | None
    head_us: int | None
    has_free_shards: bool = False


class Decision(NamedTuple):
    timer: DueTimer
    epoch: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Planned:
    """Timers moved, runs opened, and due times skipped by reason."""

    moved: int
    opened: int
    skipped: dict[str, int]


class PlanStore(Protocol):
    def due_timers(self, shards: list[int], ahead_us: int, most: int, from_us: int = 0) -> Awaitable[Scan]:
        """Those that are due before `from_us` are left out."""
        ...

    def plan(self, owner: str, decisions: list[Decision]) -> Awaitable[Planned]: ...

    def keep_timings(self, timers: list[DueTimer]) -> Awaitable[None]: ...

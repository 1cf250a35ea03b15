"""From a job's cursor and the time to decisions: which due times become runs, which are skipped and why, what is next.

The same function serves the normal case, staging a few seconds ahead, and the late one after an outage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from horae.core.job import Definition, Misfire, Timing
from horae.core.run import fraction
from horae.core.schedule import Schedule, count_between, latest_at_or_before, next_after

# A due time this late is still on time: it covers a failover. Older ones go through the misfire policy.
GRACE_US = 5_000_000
SLOTS_AT_ONCE = 1000
COUNT_AT_MOST = 100_000


class Slot(NamedTuple):
    due_us: int
    run_at_us: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Due times from `from_us` to `until_us`, both included, that will not run. `count` stops at COUNT_AT_MOST."""

    from_us: int
    until_us: int
    count: int
    reason: str


class Plan(NamedTuple):
    slots: list[Slot]
    skips: list[Skip]
    next_us: int | None


class Cursor(NamedTuple):
    """Where a job's schedule stands: `due_us` is its first undecided due time. So many `waiting` runs were staged for
    due times before it that were missed: a catch-up counts them.
    """

    job_id: str
    definition: Definition | Timing
    schedule: Schedule
    due_us: int
    fired: int
    waiting: int = 0


def plan(cursor: Cursor, now_us: int, horizon_us: int) -> Plan:
    """Decides every due time up to `horizon_us`."""
    room = _room(cursor)
    if room <= 0:
        return Plan([], [], None)
    late_us = now_us - GRACE_US
    missed, skips, next_us = ([], [], cursor.due_us) if cursor.due_us > late_us else _missed(cursor, now_us, late_us)
    due = missed[:room]
    while next_us is not None and next_us <= horizon_us and len(due) < min(room, SLOTS_AT_ONCE):
        due.append(next_us)
        next_us = next_after(cursor.schedule, next_us)
    slots = [Slot(at, at + jitter_us(cursor.definition, cursor.job_id, at)) for at in due]
    most = cursor.definition.max_runs
    if most is None or cursor.fired + len(slots) < most:
        return Plan(slots, skips, next_us)
    # Behind the last allowed run there are no due times, so none to skip either.
    return Plan(slots, [skip for skip in skips if skip.from_us < slots[-1].due_us], None)


def too_late(misfire: Misfire, dues: list[int], now_us: int, *, is_last: bool) -> dict[int, str]:
    """Which staged due times that were missed will not run, and why. `is_last`: none was missed after them."""
    match misfire.policy:
        case "skip":
            return dict.fromkeys(dues, "scheduler_down")
        case "run_once":
            return dict.fromkeys(dues[:-1] if is_last else dues, "scheduler_down")
        case _:
            kept = [due_us for due_us in dues if due_us >= now_us - misfire.window_us][: misfire.max]
            return dict.fromkeys((due_us for due_us in dues if due_us not in kept), "catch_up_expired")


def jitter_us(definition: Definition | Timing, job_id: str, due_us: int) -> int:
    if not definition.jitter_us:
        return 0
    return int(definition.jitter_us * fraction(job_id, str(due_us)))


def _room(cursor: Cursor) -> int:
    most = cursor.definition.max_runs
    return SLOTS_AT_ONCE if most is None else min(most - cursor.fired, SLOTS_AT_ONCE)


def _missed(cursor: Cursor, now_us: int, late_us: int) -> tuple[list[int], list[Skip], int | None]:
    """What the misfire policy makes of the due times up to `late_us`; the cursor's own is one of them."""
    schedule, misfire = cursor.schedule, cursor.definition.misfire
    latest = latest_at_or_before(schedule, late_us, cursor.due_us) or cursor.due_us
    next_us = next_after(schedule, latest)
    match misfire.policy:
        case "skip":
            return [], skips_between(schedule, cursor.due_us, latest, "scheduler_down"), next_us
        case "run_once":
            return [latest], skips_between(schedule, cursor.due_us, latest - 1, "scheduler_down"), next_us
        case _:
            return *_catch_up(cursor, now_us - misfire.window_us, latest), next_us


def _catch_up(cursor: Cursor, window_us: int, latest: int) -> tuple[list[int], list[Skip]]:
    schedule = cursor.schedule
    first = cursor.due_us if cursor.due_us >= window_us else next_after(schedule, window_us - 1)
    if first is None or first > latest:
        return [], skips_between(schedule, cursor.due_us, latest, "catch_up_expired")
    caught: list[int] = []
    following: int | None = first
    most = cursor.definition.misfire.max - cursor.waiting
    while len(caught) < most and following is not None and following <= latest:
        caught.append(following)
        following = next_after(schedule, following)
    before = skips_between(schedule, cursor.due_us, first - 1, "catch_up_expired")
    after = skips_between(schedule, caught[-1] + 1 if caught else first, latest, "catch_up_expired")
    return caught, before + after


def skips_between(schedule: Schedule, from_us: int, until_us: int, reason: str) -> list[Skip]:
    """One record for a whole stretch, however long the outage was; none for an empty one. A due time that was called
    off has its own record, so a stretch ends before it.
    """
    gaps = sorted(at for at in schedule.without if from_us <= at <= until_us)
    stretches = zip([from_us, *gaps], [*gaps, until_us + 1], strict=True)
    found = []
    for start, end in stretches:
        first = next_after(schedule, start - 1)
        if first is not None and first < end:
            last = latest_at_or_before(schedule, end - 1, first) or first
            found.append(Skip(first, last, count_between(schedule, first, last, COUNT_AT_MOST), reason))
    return found

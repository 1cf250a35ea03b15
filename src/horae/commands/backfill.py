"""Runs for due times of the past that have none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from horae.commands.caller import Caller
from horae.core.compiled import schedule_of
from horae.core.duration import format_instant
from horae.core.errors import Conflict, Fault, Invalid, Stale
from horae.core.job import Priority
from horae.core.schedule import upcoming
from horae.ports import Backfill, BackfillStore, Once

SLICE = 1000
# A backfill looks at so many due times and no more; the answer says where to go on.
MOST_DUES = 100_000


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    from_us: int
    to_us: int
    most: int
    is_dry: bool = False
    priority: Priority | None = None
    base_version: int | None = None


@dataclass(frozen=True, slots=True)
class Backfilled:
    """Due times, and from where on there may be more."""

    dues: list[int]
    next_us: int | None


async def backfill(
    store: BackfillStore, caller: Caller, word: str, wish: BackfillRequest, once: Once | None
) -> Backfilled:
    """The due times that got a run, or would get one. Slice by slice, each a transaction of its own: a repeat goes
    on where a broken one ended, since a due time is backfilled once.
    """
    job = await store.backfill_facts(caller.tenant, word)
    _check(job, wish)
    priority = wish.priority or "LOW"
    made: list[int] = []
    looked_at = 0
    for number, dues in _slices(job, wish.from_us, wish.to_us):
        room = wish.most - len(made)
        if wish.is_dry:
            made += (await store.missing(job.job_id, dues))[:room]
        else:
            asked = caller.asked(once and once.part(number))
            made += await store.backfill(asked, caller.tenant, job.job_id, job.version, dues, priority, room)
        looked_at += len(dues)
        if len(made) >= wish.most or looked_at >= MOST_DUES:
            last = made[-1] if len(made) >= wish.most else dues[-1]
            return Backfilled(made, last + 1 if last < wish.to_us else None)
    return Backfilled(made, None)


def _check(job: Backfill, wish: BackfillRequest) -> None:
    if wish.base_version is not None and wish.base_version != job.version:
        raise Stale(f"The job is now version {job.version}; you have seen version {wish.base_version}.")
    if wish.to_us > job.now_us:
        detail = f"{format_instant(wish.to_us)} is to come; it is {format_instant(job.now_us)} now."
        raise Invalid([Fault("/to", detail, "A backfill is about the past: end it now or earlier.")])
    if job.definition.overlap in ("skip", "replace") and not wish.is_dry:
        detail = f'All but one of these runs would be given up: the job has overlap "{job.definition.overlap}".'
        raise Conflict(detail, "overlap", hint=f'PATCH /jobs/{job.definition.name} {{"overlap": "queue"}} first.')


def _slices(job: Backfill, from_us: int, to_us: int) -> Iterator[tuple[int, list[int]]]:
    """The due times of a range, a thousand at a time, each slice with its number."""
    schedule = schedule_of(job.definition, job.job_id, job.created_us)
    after_us = from_us - 1
    for number in count():
        dues = [due_us for due_us in upcoming(schedule, after_us, SLICE) if due_us <= to_us]
        if dues:
            yield number, dues
        if len(dues) < SLICE:
            return
        after_us = dues[-1]

"""How many runs are due in each stretch of the time to come: schedules in, counts out.

Crowds of jobs share a schedule and a cursor, and are counted once. Where due times are denser than the stretches, they
are counted by arithmetic, not one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from horae.core.cron import Cron
from horae.core.schedule import Schedule, count_between, interval_of, next_after

Kind = tuple[int, str]
"""Priority and queue."""


@dataclass(frozen=True, slots=True)
class Span:
    """`buckets` stretches of `bucket_us` from `start_us` on; nothing before `from_us` counts."""

    start_us: int
    from_us: int
    bucket_us: int
    buckets: int

    @property
    def until_us(self) -> int:
        return self.start_us + self.bucket_us * self.buckets

    def bucket(self, at_us: int) -> int:
        return (at_us - self.start_us) // self.bucket_us


class Forecast:
    """Jobs are only sorted into crowds as they come; `count` then works each crowd out once."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.counts: defaultdict[Kind, Counter[int]] = defaultdict(Counter)
        # By identity, as schedules that crowds share are one object: hashing them took longer than all the rest.
        self._crowds: dict[tuple[int, int, int | None], _Crowd] = {}
        self._paces: defaultdict[Kind, Counter[_Pace]] = defaultdict(Counter)

    def add_run(self, at_us: int, kind: Kind) -> None:
        if self.span.from_us <= at_us < self.span.until_us:
            self.counts[kind][self.span.bucket(at_us)] += 1

    def add_job(self, schedule: Schedule, first_us: int, most: int | None, kind: Kind) -> None:
        """A job from its next undecided due time on, for at most so many runs."""
        if most is not None:
            most = left_at(schedule, first_us, self.span.from_us, most)
        first_us = max(first_us, self.span.from_us)
        interval_us = interval_of(schedule) if most is None else None
        if interval_us is not None:
            due_us = next_after(schedule, first_us - 1)
            if due_us is not None and due_us < self.span.until_us:
                self._paces[kind][_pace(self.span, due_us, interval_us, schedule.end_us)] += 1
            return
        key = (id(schedule), first_us, most)
        crowd = self._crowds.get(key)
        if crowd is None:
            crowd = self._crowds[key] = _Crowd(schedule, first_us, most, Counter())
        crowd.kinds[kind] += 1

    def count(self) -> Iterator[None]:
        """Yields now and then, so that a long count can be interrupted."""
        for kind, paces in self._paces.items():
            # A list, as this is where most of the counting is done.
            counts = [0] * self.span.buckets
            for pace, jobs in paces.items():
                pace.add_to(counts, jobs)
                yield
            self.counts[kind].update({bucket: runs for bucket, runs in enumerate(counts) if runs})
        for crowd in _joined(self._crowds.values()):
            times: Counter[int] = Counter()
            yield from _count(times, self.span, crowd.schedule, crowd.first_us, crowd.most)
            for kind, jobs in crowd.kinds.items():
                found = self.counts[kind]
                for bucket, runs in times.items():
                    found[bucket] += jobs * runs
                yield


class _Pace(NamedTuple):
    """A due time in every `step` ticks from `first` on and before `end`; a stretch is `bucket` ticks long."""

    first: int
    step: int
    bucket: int
    end: int

    def add_to(self, counts: list[int], jobs: int) -> None:
        first, step, bucket, end = self
        if step >= bucket:
            for at in range(first, end, step):
                counts[at // bucket] += jobs
            return
        before = 0
        for number in range(first // bucket, -(-end // bucket)):
            so_far = (min(end, (number + 1) * bucket) - 1 - first) // step + 1
            counts[number] += jobs * (so_far - before)
            before = so_far


def _pace(span: Span, due_us: int, interval_us: int, end_us: int | None) -> _Pace:
    """Intervals are anchored to their jobs, so few are due at the same instant. But where interval and stretch are
    both so many ticks, nothing within a tick matters, and jobs that are due in the same one are counted as one.
    """
    if end_us is not None and end_us < span.until_us:
        return _Pace(due_us - span.start_us, interval_us, span.bucket_us, end_us + 1 - span.start_us)
    tick_us = gcd(interval_us, span.bucket_us)
    bucket = span.bucket_us // tick_us
    return _Pace((due_us - span.start_us) // tick_us, interval_us // tick_us, bucket, bucket * span.buckets)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Jobs that are due at the same times, counted by kind."""

    schedule: Schedule
    first_us: int
    most: int | None
    kinds: Counter[Kind]


def _joined(crowds: Iterable[_Crowd]) -> list[_Crowd]:
    """Those due at the same times as one, however that is written: an `H` is another minute for each job, but there
    are only sixty.
    """
    found: dict[tuple[object, ...], _Crowd] = {}
    for crowd in crowds:
        of = crowd.schedule
        lines = tuple(_times(line) if isinstance(line, Cron) else line for line in of.lines)
        key = (lines, of.zone, of.dst, of.anchor_us, of.start_us, of.end_us, of.calendar, of.without)
        same = found.setdefault((key, crowd.first_us, crowd.most), crowd)
        if same is not crowd:
            same.kinds.update(crowd.kinds)
    return list(found.values())


def _times(line: Cron) -> tuple[object, ...]:
    return line.second, line.minute, line.hour, line.day, line.month, line.weekday, line.is_elapsed


def left_at(schedule: Schedule, first_us: int, at_us: int, most: int) -> int:
    """Of `most` runs from `first_us` on, those that are left at a later time."""
    return most if at_us <= first_us else most - count_between(schedule, first_us, at_us - 1, most)


def _count(found: Counter[int], span: Span, schedule: Schedule, first_us: int, most: int | None) -> Iterator[None]:
    is_dense = count_between(schedule, first_us, span.until_us - 1, 2 * span.buckets) >= 2 * span.buckets
    if is_dense and most is None:
        for bucket in range(span.buckets):
            start_us = span.start_us + bucket * span.bucket_us
            end_us = start_us + span.bucket_us - 1
            n = count_between(schedule, max(start_us, first_us), end_us, span.bucket_us // 1_000_000 + 1)
            if n:
                found[bucket] = n
            yield
        return
    due_us = next_after(schedule, first_us - 1)
    while due_us is not None and due_us < span.until_us and (most is None or most > 0):
        found[span.bucket(due_us)] += 1
        most = None if most is None else most - 1
        due_us = next_after(schedule, due_us)
        if not found.total() % 64:
            yield

"""How many runs are due in each stretch of the time to come: schedules in, counts out.

Crowds of jobs share a schedule and a cursor, and are counted once. Where due times are denser than the stretches, they
are counted by arithmetic, not one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

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
    def __init__(self, span: Span) -> None:
        self.span = span
        self.counts: defaultdict[Kind, Counter[int]] = defaultdict(Counter)
        self._known: dict[tuple[Schedule, int, int | None], Counter[int]] = {}

    def add_run(self, at_us: int, kind: Kind) -> None:
        if self.span.from_us <= at_us < self.span.until_us:
            self.counts[kind][self.span.bucket(at_us)] += 1

    def add_job(self, schedule: Schedule, first_us: int, most: int | None, kind: Kind) -> Iterator[None]:
        """A job from its next undecided due time on, for at most so many runs. Yields now and then, so that a long
        count can be interrupted.
        """
        if most is not None:
            most = left_at(schedule, first_us, self.span.from_us, most)
        first_us = max(first_us, self.span.from_us)
        interval_us = interval_of(schedule) if most is None else None
        if interval_us is not None:
            yield from _count_interval(self.counts[kind], self.span, schedule, first_us, interval_us)
            return
        key = (schedule, first_us, most)
        found = self._known.get(key)
        if found is None:
            found = Counter()
            yield from _count(found, self.span, schedule, first_us, most)
            self._known[key] = found
        self.counts[kind].update(found)


def left_at(schedule: Schedule, first_us: int, at_us: int, most: int) -> int:
    """Of `most` runs from `first_us` on, those that are left at a later time."""
    return most if at_us <= first_us else most - count_between(schedule, first_us, at_us - 1, most)


def _count_interval(
    found: Counter[int], span: Span, schedule: Schedule, first_us: int, interval_us: int
) -> Iterator[None]:
    """Intervals are anchored to their jobs, so few share one: by plain arithmetic."""
    due_us = next_after(schedule, first_us - 1)
    if due_us is None:
        return
    until_us = span.until_us if schedule.end_us is None else min(span.until_us, schedule.end_us + 1)
    if interval_us >= span.bucket_us:
        for at_us in range(due_us, until_us, interval_us):
            found[(at_us - span.start_us) // span.bucket_us] += 1
        return
    before = 0
    for bucket in range(span.bucket(due_us), span.buckets):
        end_us = min(until_us, span.start_us + (bucket + 1) * span.bucket_us)
        if end_us <= due_us:
            break
        so_far = (end_us - 1 - due_us) // interval_us + 1
        if so_far > before:
            found[bucket] += so_far - before
            before = so_far
        yield


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

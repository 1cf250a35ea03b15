"""A forecast against counting one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core import forecast as module
from horae.core.forecast import Forecast, Span
from horae.core.schedule import Schedule, next_after, parse_schedule

NOW_US = 1_800_000_000_000_000
SECOND_US = 1_000_000


@settings(max_examples=300, deadline=None)
@given(
    text=st.sampled_from(
        [
            "* * * * *",
            "*/7 * * * *",
            "0 * * * *",
            "*/20 * * * * *",
            "@every 1s",
            "@every 7s",
            "@every 61s",
            "@every 3h",
            "@every 15s",
            "@every 90s",
        ]
    )
    | st.lists(st.sampled_from(["@every 50s", "30 * * * *", "@every 2h"]), min_size=2, max_size=3),
    anchor_s=st.integers(0, 10_000),
    offset_s=st.integers(0, 4000),
    bucket_s=st.sampled_from([1, 45, 60, 3600]),
    buckets=st.integers(1, 120),
    first_s=st.integers(0, 5000),
    end_s=st.none() | st.integers(0, 8000),
    most=st.none() | st.integers(0, 40),
)
def test_each_bucket_has_the_due_times_that_fall_into_it(  # noqa: PLR0913 each is a dimension of its own
    *,
    text: str,
    anchor_s: int,
    offset_s: int,
    bucket_s: int,
    buckets: int,
    first_s: int,
    end_s: int | None,
    most: int | None,
) -> None:
    end_us = None if end_s is None else NOW_US + end_s * SECOND_US
    schedule = parse_schedule(text, zone="UTC", anchor_us=NOW_US - anchor_s * SECOND_US, end_us=end_us)
    bucket_us = bucket_s * SECOND_US
    from_us = NOW_US + offset_s * SECOND_US + 1
    span = Span(from_us // bucket_us * bucket_us, from_us, bucket_us, buckets)
    first_us = NOW_US + first_s * SECOND_US

    forecast = Forecast(span)
    for kind in ((1, "a"), (2, "b")):
        forecast.add_job(schedule, first_us, most, kind)
    for _ in forecast.count():
        pass

    expected: Counter[int] = Counter()
    # A limit is used up by the due times before, too.
    due_us, left = next_after(schedule, (first_us if most else max(first_us, from_us)) - 1), most
    while due_us is not None and due_us < span.until_us and (left is None or left > 0):
        if due_us >= from_us:
            expected[(due_us - span.start_us) // bucket_us] += 1
        left = None if left is None else left - 1
        due_us = next_after(schedule, due_us)
    assert +forecast.counts[1, "a"] == +forecast.counts[2, "b"] == expected


def test_jobs_that_an_h_spreads_are_counted_by_the_minute_and_not_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    span = Span(NOW_US, NOW_US, 60 * SECOND_US, 1440)
    forecast, expected = Forecast(span), Counter[int]()
    for number in range(400):
        schedule = parse_schedule("H * * * *", zone="UTC", anchor_us=0, seed=f"job-{number}")
        forecast.add_job(schedule, NOW_US, None, (1, "a"))
        due_us = next_after(schedule, NOW_US - 1)
        assert due_us is not None
        expected.update(range(span.bucket(due_us), 1440, 60))
    asked = []

    def counting(schedule: Schedule, after_us: int) -> int | None:
        asked.append(after_us)
        return next_after(schedule, after_us)

    monkeypatch.setattr(module, "next_after", counting)
    for _ in forecast.count():
        pass

    assert forecast.counts[1, "a"] == expected
    assert len(asked) <= 60 * 25


def test_lines_with_an_h_do_not_meet_in_one_place_of_a_memo() -> None:
    lines = [parse_schedule("H * * * *", zone="UTC", anchor_us=0, seed=f"job-{n}").lines[0] for n in range(500)]

    assert len({hash(line) for line in lines}) > 490

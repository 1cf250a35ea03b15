"""Schedules against a slow oracle, at clock changes and far from them, and against tables worked out by hand."""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core import schedule as engine
from horae.core import zone as zones
from horae.core.calendars import Calendar
from horae.core.duration import parse_instant
from horae.core.errors import Invalid
from horae.core.schedule import (
    Dst,
    Schedule,
    count_between,
    is_due_at,
    kind,
    latest_at_or_before,
    next_after,
    parse_schedule,
    upcoming,
    warnings,
    why_not,
    without_limits,
)
from horae.core.zone import local
from tests.unit import oracle

ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "UTC",
)
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def us(text: str, zone: str = "UTC") -> int:
    return parse_instant(text, "", zone)


def schedule(text: str | list[str], zone: str = "UTC", anchor: str = "2026-11-15T12:00:00Z", **limits) -> Schedule:
    return parse_schedule(text, zone=zone, anchor_us=us(anchor), **limits)


def shown(found: Schedule, after: str, count: int) -> list[str]:
    return [local(at, found.zone) for at in upcoming(found, us(after), count)]


def numbers(low: int, high: int, names: str = "") -> st.SearchStrategy[str]:
    value = (
        st.integers(low, high).map(str) | st.sampled_from(names.split()) if names else st.integers(low, high).map(str)
    )
    step = st.integers(1, high).map(str)
    item = st.one_of(
        value,
        st.tuples(value, value).map("-".join),
        st.tuples(value, value, step).map(lambda p: f"{p[0]}-{p[1]}/{p[2]}"),
        st.tuples(value, step).map("/".join),
    )
    return st.one_of(st.just("*"), value, step.map("*/{}".format), st.lists(item, min_size=1, max_size=3).map(",".join))


SECONDS = st.sampled_from(["0", "0", "30", "*/20", "5,59"])
MINUTES = st.sampled_from(["0", "30", "*/15", "59"]) | numbers(0, 59)
HOURS = st.sampled_from(["0", "1", "2", "3", "*", "*/2", "1-3", "22-2", "0,2"]) | numbers(0, 23)
DAYS = st.sampled_from(["*", "?", "L", "L-2", "LW", "15W", "1W,31W", "1,L", "28-3"]) | numbers(1, 31)
MONTHS = st.sampled_from(["*", "NOV-FEB"]) | numbers(1, 12, "JAN MAR JUL DEC")
WEEKDAYS = st.sampled_from(["*", "?", "FRI-MON", "SUN", "7", "5L", "FRIL", "MON#2", "1#1,3", "5-7"]) | numbers(
    0, 6, "MON TUE FRI SUN"
)
CLOCKS = st.tuples(MINUTES, HOURS)
ANY_DAY = st.just("* * *") | st.tuples(DAYS, MONTHS, WEEKDAYS).map(" ".join)
POLICIES = st.builds(Dst, st.sampled_from(["shift", "skip"]), st.sampled_from(["first", "last", "both"]))


@st.composite
def moments(draw: st.DrawFn, zone: str) -> datetime:
    """Any second of the century, but mostly one near a change of the zone's clocks."""
    year = draw(st.integers(2000, 2099))
    changes = oracle.transitions(zone, draw(st.just(2011)) if zone == "Pacific/Apia" and year % 2 else year)
    if changes and draw(st.integers(0, 4)):
        return draw(st.sampled_from(changes)) + timedelta(seconds=draw(st.integers(-100_000, 20_000)))
    return datetime(year, 1, 1, tzinfo=UTC) + timedelta(seconds=draw(st.integers(0, 365 * 86_400)))


def parsed_or_none(line: str, zone: str, dst: Dst) -> Schedule | None:
    """None for a drawn line that never happens, such as 30 February."""
    try:
        return parse_schedule(line, zone=zone, anchor_us=0, dst=dst)
    except Invalid as invalid:
        if "never happens" in invalid.detail:
            return None
        raise


def check_against_oracle(line: str, zone: str, dst: Dst, start: datetime, length: timedelta) -> None:
    start_us, end_us = (round(at.timestamp()) * SECOND for at in (start, start + length))
    found = parsed_or_none(line, zone, dst)
    if found is None:
        return
    expected = [
        round(at.timestamp()) * SECOND for at in oracle.fires(line, zone, dst.gap, dst.fold, start, start + length)
    ]
    actual = upcoming(found, start_us - 1, len(expected) + 1)

    assert [at for at in actual if at <= end_us] == expected
    assert count_between(found, start_us, end_us, 10**9) == len(expected)
    assert latest_at_or_before(found, end_us, start_us) == (expected[-1] if expected else None)
    assert all(is_due_at(found, at) for at in expected[:3])


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(ZONES), POLICIES, CLOCKS, ANY_DAY)
def test_minutes_agree_with_the_oracle_around_clock_changes(data, zone, dst, clock, days):
    start = data.draw(moments(zone))

    check_against_oracle(" ".join([*clock, days]), zone, dst, start, timedelta(hours=40))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(ZONES), POLICIES, SECONDS, CLOCKS)
def test_seconds_agree_with_the_oracle_around_clock_changes(data, zone, dst, second, clock):
    start = data.draw(moments(zone))

    check_against_oracle(f"{second} {' '.join(clock)} * * *", zone, dst, start, timedelta(hours=6))


@settings(max_examples=80, deadline=None)
@given(
    st.data(), st.sampled_from(ZONES), POLICIES, st.sampled_from(["30 2", "0 0", "15,45 1-3"]), DAYS, MONTHS, WEEKDAYS
)
def test_rare_days_agree_with_the_oracle_over_a_year(data, zone, dst, clock, day, month, weekday):
    start = data.draw(moments(zone))

    check_against_oracle(f"{clock} {day} {month} {weekday}", zone, dst, start, timedelta(days=400))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(ZONES), POLICIES, CLOCKS, ANY_DAY)
def test_the_next_time_is_later_and_stays_next_until_it_comes(data, zone, dst, clock, days):
    start = round(data.draw(moments(zone)).timestamp()) * SECOND
    found = parsed_or_none(" ".join([*clock, days]), zone, dst)
    if found is None:
        return
    due = next_after(found, start)

    assert due is not None
    assert due > start
    assert due % SECOND == 0
    between = data.draw(st.integers(start, due - 1))
    assert next_after(found, between) == due
    assert latest_at_or_before(found, due, between) == due
    assert next_after(found, due) > due
    assert latest_at_or_before(found, due - 1, start + 1) is None


GAPS = [
    # Sunday 14 March 2027, 02:00 -> 03:00
    ("America/New_York", "30 2 * * *", "shift", "03-13T12:00", ["03-14T03:00:00-04:00", "03-15T02:30:00-04:00"]),
    ("America/New_York", "30 2 * * *", "skip", "03-13T12:00", ["03-15T02:30:00-04:00"]),
    ("America/New_York", "*/20 2 * * *", "shift", "03-13T12:00", ["03-14T03:00:00-04:00", "03-15T02:00:00-04:00"]),
    ("America/New_York", "0,30 2,3 * * *", "shift", "03-13T12:00", ["03-14T03:00:00-04:00", "03-14T03:30:00-04:00"]),
    ("America/New_York", "30 * * * *", "shift", "03-14T06:00", ["03-14T01:30:00-05:00", "03-14T03:30:00-04:00"]),
    # Sunday 28 March 2027, 02:00 -> 03:00
    ("Europe/Berlin", "0 2 * * *", "shift", "03-27T12:00", ["03-28T03:00:00+02:00", "03-29T02:00:00+02:00"]),
    ("Europe/Berlin", "0 2 * * *", "skip", "03-27T12:00", ["03-29T02:00:00+02:00"]),
    ("Europe/Berlin", "59 59 2 * * *", "shift", "03-27T12:00", ["03-28T03:00:00+02:00", "03-29T02:59:59+02:00"]),
    ("Europe/Berlin", "0 3 * * *", "skip", "03-27T12:00", ["03-28T03:00:00+02:00", "03-29T03:00:00+02:00"]),
    ("Europe/Berlin", "*/30 */2 * * *", "shift", "03-28T00:00", ["03-28T04:00:00+02:00", "03-28T04:30:00+02:00"]),
    # Sunday 3 October 2027, 02:00 -> 02:30
    ("Australia/Lord_Howe", "15 2 * * *", "shift", "10-02T12:00", ["10-03T02:30:00+11:00", "10-04T02:15:00+11:00"]),
    ("Australia/Lord_Howe", "15 2 * * *", "skip", "10-02T12:00", ["10-04T02:15:00+11:00"]),
    ("Australia/Lord_Howe", "30 2 * * *", "skip", "10-02T12:00", ["10-03T02:30:00+11:00", "10-04T02:30:00+11:00"]),
    ("Australia/Lord_Howe", "0,45 2 * * *", "shift", "10-02T12:00", ["10-03T02:30:00+11:00", "10-03T02:45:00+11:00"]),
    ("Australia/Lord_Howe", "*/20 * * * *", "shift", "10-02T15:15", ["10-03T02:40:00+11:00", "10-03T03:00:00+11:00"]),
    # Sunday 14 March 2027, after Ramadan, 02:00 -> 03:00
    ("Africa/Casablanca", "30 2 * * *", "shift", "03-13T12:00", ["03-14T03:00:00+01:00", "03-15T02:30:00+01:00"]),
    ("Africa/Casablanca", "30 2 * * *", "skip", "03-13T12:00", ["03-15T02:30:00+01:00"]),
    ("Africa/Casablanca", "0 2 * * SUN", "shift", "03-13T12:00", ["03-14T03:00:00+01:00", "03-21T02:00:00+01:00"]),
    ("Africa/Casablanca", "0 1,3 * * *", "shift", "03-13T12:00", ["03-14T01:00:00+00:00", "03-14T03:00:00+01:00"]),
    ("Africa/Casablanca", "15 * * * *", "shift", "03-14T01:00", ["03-14T01:15:00+00:00", "03-14T03:15:00+01:00"]),
]


def check_table(found: Schedule, after_us: int, expected: list[int]) -> None:
    assert upcoming(found, after_us, len(expected)) == expected
    assert count_between(found, after_us + 1, expected[-1], 100) == len(expected)
    assert latest_at_or_before(found, expected[-1] - 1, after_us + 1) == (expected[-2] if len(expected) > 1 else None)


@pytest.mark.parametrize(("zone", "line", "gap", "after", "expected"), GAPS)
def test_what_happens_when_the_clocks_jump_forward(zone, line, gap, after, expected):
    found = schedule(line, zone, dst=Dst(gap=gap))

    check_table(found, us(f"2027-{after}:00Z"), [us(f"2027-{text}") for text in expected])


FOLDS = [
    # Sunday 7 November 2027, 02:00 -> 01:00
    ("America/New_York", "30 1 * * *", "first", "11-06T12:00", ["11-07T01:30:00-04:00", "11-08T01:30:00-05:00"]),
    ("America/New_York", "30 1 * * *", "last", "11-06T12:00", ["11-07T01:30:00-05:00", "11-08T01:30:00-05:00"]),
    ("America/New_York", "30 1 * * *", "both", "11-06T12:00", ["11-07T01:30:00-04:00", "11-07T01:30:00-05:00"]),
    ("America/New_York", "30 * * * *", "first", "11-07T05:00", ["11-07T01:30:00-04:00", "11-07T01:30:00-05:00"]),
    ("America/New_York", "0 2 * * *", "both", "11-06T12:00", ["11-07T02:00:00-05:00", "11-08T02:00:00-05:00"]),
    # Sunday 31 October 2027, 03:00 -> 02:00
    ("Europe/Berlin", "0 2 * * *", "first", "10-30T12:00", ["10-31T02:00:00+02:00", "11-01T02:00:00+01:00"]),
    ("Europe/Berlin", "0 2 * * *", "last", "10-30T12:00", ["10-31T02:00:00+01:00", "11-01T02:00:00+01:00"]),
    ("Europe/Berlin", "0 2 * * *", "both", "10-30T12:00", ["10-31T02:00:00+02:00", "10-31T02:00:00+01:00"]),
    ("Europe/Berlin", "0 3 * * *", "last", "10-30T12:00", ["10-31T03:00:00+01:00", "11-01T03:00:00+01:00"]),
    ("Europe/Berlin", "*/30 2 * * *", "first", "10-31T00:15", ["10-31T02:30:00+02:00", "11-01T02:00:00+01:00"]),
    # Sunday 4 April 2027, 02:00 -> 01:30
    ("Australia/Lord_Howe", "45 1 * * *", "first", "04-03T12:00", ["04-04T01:45:00+11:00", "04-05T01:45:00+10:30"]),
    ("Australia/Lord_Howe", "45 1 * * *", "last", "04-03T12:00", ["04-04T01:45:00+10:30", "04-05T01:45:00+10:30"]),
    ("Australia/Lord_Howe", "45 1 * * *", "both", "04-03T12:00", ["04-04T01:45:00+11:00", "04-04T01:45:00+10:30"]),
    ("Australia/Lord_Howe", "15 1 * * *", "both", "04-03T12:00", ["04-04T01:15:00+11:00", "04-05T01:15:00+10:30"]),
    ("Australia/Lord_Howe", "45 * * * *", "first", "04-03T14:00", ["04-04T01:45:00+11:00", "04-04T01:45:00+10:30"]),
    # Sunday 7 February 2027, before Ramadan, 03:00 -> 02:00
    ("Africa/Casablanca", "30 2 * * *", "first", "02-06T12:00", ["02-07T02:30:00+01:00", "02-08T02:30:00+00:00"]),
    ("Africa/Casablanca", "30 2 * * *", "last", "02-06T12:00", ["02-07T02:30:00+00:00", "02-08T02:30:00+00:00"]),
    ("Africa/Casablanca", "30 2 * * *", "both", "02-06T12:00", ["02-07T02:30:00+01:00", "02-07T02:30:00+00:00"]),
    ("Africa/Casablanca", "0 3 * * *", "both", "02-06T12:00", ["02-07T03:00:00+00:00", "02-08T03:00:00+00:00"]),
    ("Africa/Casablanca", "0 */1 * * *", "first", "02-07T00:30", ["02-07T02:00:00+01:00", "02-07T02:00:00+00:00"]),
]


@pytest.mark.parametrize(("zone", "line", "fold", "after", "expected"), FOLDS)
def test_what_happens_when_the_clocks_go_back(zone, line, fold, after, expected):
    found = schedule(line, zone, dst=Dst(fold=fold))

    check_table(found, us(f"2027-{after}:00Z"), [us(f"2027-{text}") for text in expected])


@pytest.mark.parametrize(
    ("line", "gap", "expected"),
    [
        ("0 9 * * *", "shift", ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"]),
        ("0 9 * * *", "skip", ["2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00", "2012-01-01T09:00:00+14:00"]),
        ("0 0 30 12 *", "shift", ["2011-12-31T00:00:00+14:00", "2012-12-30T00:00:00+14:00"]),
        ("0 0 30 12 *", "skip", ["2012-12-30T00:00:00+14:00", "2013-12-30T00:00:00+14:00"]),
        (
            "0 */12 * * *",
            "shift",
            ["2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"],
        ),
        ("0 0 * * FRI", "shift", ["2011-12-31T00:00:00+14:00", "2012-01-06T00:00:00+14:00"]),
    ],
)
def test_the_day_that_samoa_left_out(line, gap, expected):
    found = schedule(line, "Pacific/Apia", dst=Dst(gap=gap))

    assert shown(found, "2011-12-29T18:00:00Z", len(expected)) == expected


@pytest.mark.parametrize("chunk", [1800, 5400, 7 * 86_400 + 60])
def test_where_time_is_cut_into_chunks_does_not_show(chunk, monkeypatch):
    monkeypatch.setattr("horae.core.zone._CHUNK_S", chunk)
    clear_caches()
    for zone, line, gap, after, expected in GAPS:
        found = schedule(line, zone, dst=Dst(gap=gap))
        check_table(found, us(f"2027-{after}:00Z"), [us(f"2027-{text}") for text in expected])
    for zone, line, fold, after, expected in FOLDS:
        found = schedule(line, zone, dst=Dst(fold=fold))
        check_table(found, us(f"2027-{after}:00Z"), [us(f"2027-{text}") for text in expected])
    clear_caches()


def clear_caches() -> None:
    zones._segments.cache_clear()
    engine._next_of_cron.cache_clear()


def test_a_fold_that_the_search_would_otherwise_jump_over():
    yearly = schedule("30 1 7 11 *", "America/New_York", dst=Dst(fold="both"))
    first = us("2027-11-07T05:30:00Z")

    assert upcoming(yearly, first - 1, 2) == [first, first + HOUR]
    assert next_after(yearly, first + 15 * MINUTE) == first + HOUR
    assert latest_at_or_before(yearly, first + 2 * DAY, first - DAY) == first + HOUR


def test_every_counts_from_the_anchor_and_never_fires_at_it():
    found = schedule("@every 90s", anchor="2026-11-15T12:00:00.5Z")
    anchor = us("2026-11-15T12:00:00.5Z")

    assert upcoming(found, 0, 2) == [anchor + 90 * SECOND, anchor + 180 * SECOND]
    assert next_after(found, anchor + 90 * SECOND) == anchor + 180 * SECOND
    assert latest_at_or_before(found, anchor + 1000 * SECOND, 0) == anchor + 990 * SECOND
    assert count_between(found, anchor, anchor + 180 * SECOND, 10) == 2
    assert count_between(found, anchor + 90 * SECOND, anchor + 180 * SECOND, 10) == 2
    assert count_between(found, anchor, anchor + 180 * SECOND, 1) == 1


@pytest.mark.parametrize(
    ("text", "zone", "dst", "expected"),
    [
        ("2026-12-24T18:00:00+01:00", "UTC", Dst(), ["2026-12-24T17:00:00Z"]),
        ("2026-12-24T18:00:00.25Z", "Europe/Berlin", Dst(), ["2026-12-24T18:00:00.25Z"]),
        ("2026-12-24 18:00", "Europe/Berlin", Dst(), ["2026-12-24T17:00:00Z"]),
        ("2027-03-28T02:30:00.5", "Europe/Berlin", Dst(), ["2027-03-28T01:00:00Z"]),
        ("2027-10-31T02:30:00", "Europe/Berlin", Dst(), ["2027-10-31T00:30:00Z"]),
        ("2027-10-31T02:30:00", "Europe/Berlin", Dst(fold="last"), ["2027-10-31T01:30:00Z"]),
        ("2027-10-31T02:30:00", "Europe/Berlin", Dst(fold="both"), ["2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"]),
    ],
)
def test_an_instant_fires_once_and_a_wall_clock_time_follows_the_policy(text, zone, dst, expected):
    found = schedule(text, zone, dst=dst)

    assert upcoming(found, 0, 5) == [us(at) for at in expected]
    assert kind(found) == "FUTURE"


def test_a_wall_clock_time_that_does_not_exist_is_refused_when_gaps_are_skipped():
    with pytest.raises(Invalid, match="does not exist in Europe/Berlin"):
        schedule("2027-03-28T02:30:00", "Europe/Berlin", dst=Dst(gap="skip"))


def test_now_is_the_anchor_and_manual_is_never():
    anchor = us("2026-11-15T12:00:00Z")

    assert upcoming(schedule("@now"), anchor - 1, 3) == [anchor]
    assert next_after(schedule("@now"), anchor) is None
    assert next_after(schedule("@manual"), 0) is None
    assert next_after(schedule([]), 0) is None


def test_several_lines_are_a_union_without_repetition():
    found = schedule(["0 9 * * *", "0 9 * * MON", "2026-11-16T09:00:00Z", "@every 12h"])

    assert shown(found, "2026-11-16T00:00:00Z", 4) == [
        "2026-11-16T09:00:00+00:00",
        "2026-11-16T12:00:00+00:00",
        "2026-11-17T00:00:00+00:00",
        "2026-11-17T09:00:00+00:00",
    ]
    assert count_between(found, us("2026-11-16T09:00:00Z"), us("2026-11-17T09:00:00Z"), 100) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@daily", "CRON"),
        ("@every 5m", "INTERVAL"),
        ("2026-12-24T18:00:00Z", "FUTURE"),
        ("@now", "IMMEDIATE"),
        ("@manual", "MANUAL"),
        ([], "MANUAL"),
        (["@every 5m", "@daily"], "CRON"),
        (["@manual", "@now", "2026-12-24T18:00:00Z"], "FUTURE"),
    ],
)
def test_the_kind_of_a_list_is_its_most_regular_line(text, expected):
    assert kind(schedule(text)) == expected


def test_the_window_includes_both_its_ends():
    found = schedule("0 * * * *", start_us=us("2026-11-16T09:00:00Z"), end_us=us("2026-11-16T11:00:00Z"))

    assert shown(found, "2026-11-01T00:00:00Z", 9) == [f"2026-11-16T{hour}:00:00+00:00" for hour in ("09", "10", "11")]
    assert latest_at_or_before(found, us("2027-01-01T00:00:00Z"), 0) == us("2026-11-16T11:00:00Z")
    assert count_between(found, 0, us("2027-01-01T00:00:00Z"), 100) == 3
    assert why_not(found, us("2026-11-16T08:00:00Z")) == "outside_window"
    assert why_not(found, us("2026-11-16T12:00:00Z")) == "outside_window"
    assert why_not(found, us("2026-11-16T09:00:00Z")) is None
    assert why_not(found, us("2026-11-16T08:30:00Z")) is None


def ordinals(*days: str) -> frozenset[int]:
    return frozenset(datetime.fromisoformat(day).toordinal() for day in days)


def test_excluded_days_are_local_days():
    christmas = Calendar(exclude=ordinals("2026-12-25", "2026-12-26"))
    found = schedule("0 0,23 * * *", "Asia/Kathmandu", calendar=christmas)

    assert shown(found, "2026-12-24T12:00:00Z", 3) == [
        "2026-12-24T23:00:00+05:45",
        "2026-12-27T00:00:00+05:45",
        "2026-12-27T23:00:00+05:45",
    ]
    assert why_not(found, us("2026-12-25T00:00:00", "Asia/Kathmandu")) == "calendar_excluded"
    assert next_after(without_limits(found), us("2026-12-24T18:00:00Z")) == us("2026-12-24T18:15:00Z")


def test_a_time_shifted_out_of_a_gap_belongs_to_the_day_it_runs_on():
    new_years_eve = Calendar(exclude=ordinals("2011-12-31"))
    found = schedule("0 9 30 12 *", "Pacific/Apia", calendar=new_years_eve)

    assert shown(found, "2011-12-01T00:00:00Z", 1) == ["2012-12-30T09:00:00+14:00"]


def test_a_calendar_of_included_days_is_found_from_far_away():
    lone = Calendar(include=ordinals("2097-06-01"), exclude=ordinals("2097-06-02"))
    found = schedule("* * * * * *", "Europe/Berlin", calendar=lone)

    assert shown(found, "2026-11-15T00:00:00Z", 1) == ["2097-06-01T00:00:00+02:00"]
    assert next_after(found, us("2097-06-01T21:59:59Z")) is None


def test_a_day_that_a_fold_at_midnight_shows_again_is_still_included():
    saturday = Calendar(include=ordinals("2006-10-28"))  # at 00:01 on Sunday the clocks went back to 23:01
    found = schedule("*/30 * * * *", "America/St_Johns", calendar=saturday)

    assert shown(found, "2006-10-29T01:45:00Z", 9) == ["2006-10-28T23:30:00-02:30", "2006-10-28T23:30:00-03:30"]


def test_a_line_that_its_calendar_always_leaves_out_ends():
    found = schedule("0 0 25 12 *", calendar=Calendar(country="DE"))

    assert next_after(found, us("2026-11-15T00:00:00Z")) is None
    assert "no due time" in warnings(found)[-1]


@settings(max_examples=40, deadline=None)
@given(
    st.data(),
    st.sampled_from(ZONES),
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 0,12 * * MON-FRI"]),
    st.sets(st.integers(-2, 8), max_size=8),
    st.booleans(),
)
def test_a_calendar_only_takes_away_days(data, zone, line, days, is_include):
    start = round(data.draw(moments(zone)).timestamp())
    today = datetime.fromtimestamp(start, UTC).toordinal()
    named = frozenset(today + day for day in days)
    bare = parse_schedule(line, zone=zone, anchor_us=0)
    calendar = Calendar(include=named) if is_include else Calendar(exclude=named)
    found = parse_schedule(line, zone=zone, anchor_us=0, calendar=calendar)
    end = (start + 5 * 86_400) * SECOND
    all_times = [at for at in upcoming(bare, start * SECOND, 1200) if at <= end]
    expected = [at for at in all_times if (datetime.fromisoformat(local(at, zone)).toordinal() in named) == is_include]

    assert [at for at in upcoming(found, start * SECOND, len(expected) + 1) if at <= end] == expected
    left_out = set(all_times) - set(expected)
    assert all(why_not(found, at) == ("calendar_excluded" if at in left_out else None) for at in all_times[::50])


def test_why_not_names_a_gap_by_the_time_it_stood_for_and_by_its_end():
    skipping = schedule("30 2 * * *", "America/New_York", dst=Dst(gap="skip"))
    shifting = schedule("30 2 * * *", "America/New_York")
    end_of_gap = us("2027-03-14T07:00:00Z")

    assert why_not(skipping, end_of_gap) == "dst_gap"
    assert why_not(skipping, end_of_gap + 30 * MINUTE) == "dst_gap"
    assert why_not(skipping, end_of_gap + 20 * MINUTE) is None
    assert why_not(shifting, end_of_gap) is None
    assert why_not(shifting, end_of_gap + 30 * MINUTE) == "dst_gap"
    assert why_not(schedule("30 * * * *", "America/New_York"), end_of_gap) is None


def test_the_year_2100_has_no_leap_day_and_2201_no_due_times():
    leap = schedule("0 0 29 2 *")

    assert shown(leap, "2096-03-01T00:00:00Z", 1) == ["2104-02-29T00:00:00+00:00"]
    assert next_after(schedule("0 0 1 1 *"), us("2200-01-01T00:00:00Z")) is None
    assert next_after(schedule("@every 1d"), us("2200-12-31T23:59:59Z")) is None
    assert next_after(leap, 10**30) is None
    assert next_after(schedule("0 0 1 1 *"), -(10**30)) == 0
    assert why_not(leap, 10**30) is None


@pytest.mark.parametrize(
    "line",
    ["0 0 29 2 *", "59 23 29 2 */7", "* * * * * *", "0 0 31 12 *", "0 0 LW 2 *", "0 0 1 1 */7", "30 2 * * *"],
)
@pytest.mark.parametrize("zone", ["America/New_York", "Africa/Casablanca"])
def test_searches_in_both_directions_are_quick(line, zone):
    found = schedule(line, zone)
    at = us("2097-01-01T00:00:00Z")
    started = time.perf_counter()
    next_after(found, at)
    latest_at_or_before(found, at, 0)
    count_between(found, at - 3650 * DAY, at, 10**12)

    assert time.perf_counter() - started < 0.5  # about 0.02 on a quiet machine, most of it probing zones


def test_latest_is_right_for_sparse_and_dense_lines():
    at = us("2027-07-01T12:34:56.789Z")

    assert latest_at_or_before(schedule("* * * * * *"), at, 0) == us("2027-07-01T12:34:56Z")
    assert latest_at_or_before(schedule("0 0 29 2 *"), at, 0) == us("2024-02-29T00:00:00Z")
    assert latest_at_or_before(schedule("0 0 29 2 *"), at, us("2024-02-29T00:00:01Z")) is None
    assert latest_at_or_before(schedule("@daily"), at, us("2027-07-01T00:00:00Z")) == us("2027-07-01T00:00:00Z")
    assert latest_at_or_before(schedule("@daily"), at, at + 1) is None


def test_latest_is_right_at_every_second_of_an_uneven_line():
    found, start = schedule("0,2,9,40,41 * * * * *"), us("2027-07-01T12:00:00Z")
    due = upcoming(found, start, 20)

    for at in range(due[0], due[-1], SECOND):
        assert latest_at_or_before(found, at, 0) == max(each for each in due if each <= at)


def random_line(draw: random.Random) -> str:
    def field(low: int, high: int, star: float) -> str:
        if draw.random() < star:
            return draw.choice(["*", "*", "*/2", "*/5"])
        return ",".join(str(draw.randint(low, high)) for _ in range(draw.choice([1, 1, 1, 2, 3])))

    return " ".join([field(0, 59, 0.1), field(0, 23, 0.3), field(1, 28, 0.7), field(1, 12, 0.8), field(0, 6, 0.6)])


def test_speed_of_different_and_of_shared_lines(capsys):
    draw = random.Random(1)
    lines = list({random_line(draw) for _ in range(15_000)})
    places = [ZONES[number % 4] for number in range(len(lines))]
    now = us("2026-11-15T19:00:00Z")
    started = time.process_time()
    found = [
        parse_schedule(line, zone=zone, anchor_us=now, seed=line) for line, zone in zip(lines, places, strict=True)
    ]
    assert all(next_after(each, now) for each in found)
    different = len(lines) / (time.process_time() - started)
    shared = found[:500] * 200
    started = time.process_time()
    for each in shared:
        next_after(each, now)
    same = len(shared) / (time.process_time() - started)
    with capsys.disabled():
        print(f"\nnext times a second: {different:,.0f} different with parsing, {same:,.0f} shared")

    assert different > 5_000
    assert same > 100_000

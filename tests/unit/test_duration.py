"""Durations and instants, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.duration import LONGEST_US, format_duration, format_instant, parse_duration, parse_instant
from horae.core.errors import Invalid


@pytest.mark.parametrize(
    ("value", "us"),
    [
        ("30s", 30_000_000),
        ("5m", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        ("250ms", 250_000),
        ("2d", 172_800_000_000),
        ("1w", 604_800_000_000),
        ("1.5h", 5_400_000_000),
        ("15", 15_000_000),
        ("0.1", 100_000),
        (" 0S ", 0),
        (30, 30_000_000),
        (0.25, 250_000),
        ("3650d", LONGEST_US),
    ],
)
def test_lengths_of_time_are_read(value, us):
    assert parse_duration(value, "/timeout") == us


@pytest.mark.parametrize(
    "value",
    [
        *["", "s", "5 parsecs", "1h-30m", "1,5h", "-5s", "-0.1", "3651d", "9" * 1000, "1e5", "٣s", "10y", "5mm"],
        *[-1, float("nan"), float("inf"), float("-inf"), 1e300, 1e308, -1e308, 10**400, None, True, []],
    ],
)
def test_other_lengths_are_refused(value):
    with pytest.raises(Invalid) as refused:
        parse_duration(value, "/timeout")

    assert refused.value.faults[0].pointer == "/timeout"
    assert refused.value.faults[0].hint


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"),
        (30_000_000, "30s"),
        (5_400_000_000, "1h30m"),
        (250_000, "250ms"),
        (1_250_500, "1s250ms500us"),
        (604_800_000_000, "7d"),
        (86_461_000_000, "1d1m1s"),
    ],
)
def test_lengths_are_written(us, text):
    assert format_duration(us) == text


@given(st.integers(0, LONGEST_US))
def test_a_length_survives_writing_and_reading(us):
    assert parse_duration(format_duration(us), "") == us


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-11-15T09:00:00Z", "UTC", "2026-11-15T09:00:00Z"),
        ("2026-11-15t09:00:00z", "UTC", "2026-11-15T09:00:00Z"),
        ("2026-11-15T09:00Z", "UTC", "2026-11-15T09:00:00Z"),
        ("2026-11-15 09:00:00+01:00", "UTC", "2026-11-15T08:00:00Z"),
        ("2026-11-15T09:00:00.25-05:30", "UTC", "2026-11-15T14:30:00.250Z"),
        ("2026-11-15T09:00:00.123456789Z", "UTC", "2026-11-15T09:00:00.123456Z"),
        ("2026-11-15T09:00:00", "UTC", "2026-11-15T09:00:00Z"),
        ("2026-11-15T09:00:00", "Europe/Berlin", "2026-11-15T08:00:00Z"),
        ("2027-03-28T02:30:00", "Europe/Berlin", "2027-03-28T01:00:00Z"),
        ("2027-10-31T02:30:00", "Europe/Berlin", "2027-10-31T00:30:00Z"),
        ("0001-01-01T00:00:00Z", "UTC", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "UTC", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_instants_are_read_and_written(text, zone, expected):
    assert format_instant(parse_instant(text, "/start_at", zone)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *["", "now", "2026-11-15", "15.11.2026 09:00", "2026-11-15T25:00:00Z", "2026-02-30T00:00:00Z", "2" * 1000],
        *["2026-11-15T09:00:60Z", "2026-11-15T09:00:00+25:00", "2026-11-15T09:00:00+24:00", "2026-11-15T09:00:00 CET"],
        *[None, 5],
    ],
)
def test_other_instants_are_refused(text):
    with pytest.raises(Invalid) as refused:
        parse_instant(text, "/start_at")

    assert refused.value.faults[0].pointer == "/start_at"
    assert refused.value.faults[0].hint


def test_a_wall_clock_time_far_off_needs_an_offset():
    with pytest.raises(Invalid, match="outside 1970 to 2200"):
        parse_instant("9999-01-01T00:00:00", "", "Europe/Berlin")


@given(st.integers(-(10**15), 10**16))
def test_an_instant_survives_writing_and_reading(us):
    assert parse_instant(format_instant(us), "") == us

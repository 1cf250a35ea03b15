"""Zones: names, wall clocks, and segments that agree with zoneinfo everywhere."""

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.errors import Invalid
from horae.core.zone import HORIZON_S, check_zone, clock_changes, instants_of, local, local_day, segment_at

NAMES = sorted(name for name in available_timezones() if name not in ("localtime", "Factory"))


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST"])
def test_known_zones_are_taken(name):
    assert check_zone(name) == name


def test_every_zone_of_the_machine_is_known():
    assert [check_zone(name) for name in NAMES] == NAMES


@pytest.mark.parametrize(
    ("name", "detail", "hint"),
    [
        ("Europe/Berln", '"Europe/Berln" is not a time zone.', "Did you mean Europe/Berlin?"),
        ("europe/berlin", '"europe/berlin" is not a time zone.', "Did you mean Europe/Berlin?"),
        ("New York", '"New York" is not a time zone.', "Did you mean America/New_York?"),
        ("utc", '"utc" is not a time zone.', "Did you mean UTC?"),
        (
            "PST",
            '"PST" is an abbreviation, not a time zone, and is ambiguous.',
            "Use a place, such as America/Los_Angeles, so that clock changes are handled.",
        ),
        (
            "UTC+2",
            '"UTC+2" is an offset, not a time zone, and knows no clock changes.',
            "Use a place, such as Europe/Berlin, or UTC.",
        ),
        ("../../etc/passwd", '"../../etc/passwd" is not a time zone.', None),
        ("Europe", '"Europe" is not a time zone.', None),
        ("right/UTC", '"right/UTC" is not a time zone.', None),
        ("", '"" is not a time zone.', None),
        ("\x00", '"\x00" is not a time zone.', None),
        (7, '"7" is not a time zone.', None),
    ],
)
def test_other_names_are_refused_with_the_nearest(name, detail, hint):
    with pytest.raises(Invalid) as refused:
        check_zone(name, "/tz")

    (fault,) = refused.value.faults
    assert (fault.pointer, fault.detail) == ("/tz", detail)
    assert fault.hint == hint or (hint is None and "Europe/Berlin" in fault.hint)


def test_a_long_name_is_refused_quickly():
    started = time.perf_counter()
    with pytest.raises(Invalid):
        check_zone("Europe/" * 10_000)

    assert time.perf_counter() - started < 1


def test_local_shows_the_offset():
    assert local(1_794_816_000_000_000, "Europe/Berlin") == "2026-11-16T09:00:00+01:00"
    assert local(1_794_816_000_500_000, "UTC") == "2026-11-16T08:00:00.500000+00:00"


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, HORIZON_S - 1))
def test_offsets_agree_with_zoneinfo_in_every_zone(name, at):
    expected = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(name))
    segment = segment_at(name, at)

    assert segment.start_s <= at < segment.until_s
    assert segment.offset_s == expected.utcoffset().total_seconds()
    assert local_day(name, at) == expected.toordinal() - datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def test_changes_are_found_to_the_second():
    start, end = seconds("2027-01-01T00:00:00Z"), seconds("2028-01-01T00:00:00Z")

    assert list(clock_changes("America/New_York", start, end)) == [
        (seconds("2027-03-14T07:00:00Z"), -5 * 3600, -4 * 3600),
        (seconds("2027-11-07T06:00:00Z"), -4 * 3600, -5 * 3600),
    ]
    assert list(clock_changes("Asia/Kathmandu", start, end)) == []
    assert list(clock_changes("Pacific/Apia", seconds("2011-12-01T00:00:00Z"), seconds("2012-01-31T00:00:00Z"))) == [
        (seconds("2011-12-30T10:00:00Z"), -10 * 3600, 14 * 3600)
    ]


def test_the_changes_of_a_century_agree_with_zoneinfo():
    changes = list(clock_changes("Europe/Berlin", seconds("2000-01-01T00:00:00Z"), seconds("2100-01-01T00:00:00Z")))
    place = ZoneInfo("Europe/Berlin")

    assert len(changes) == 200
    for at, before, after in changes:
        assert datetime.fromtimestamp(at - 1, place).utcoffset().total_seconds() == before
        assert datetime.fromtimestamp(at, place).utcoffset().total_seconds() == after


def test_a_wall_time_has_one_instant_two_or_none():
    def wall(text: str) -> int:
        return seconds(f"{text}+00:00")

    berlin = "Europe/Berlin"
    assert instants_of(berlin, wall("2027-06-01T12:00:00"), "skip", "both") == [seconds("2027-06-01T10:00:00Z")]
    assert instants_of(berlin, wall("2027-03-28T02:30:00"), "skip", "both") == []
    assert instants_of(berlin, wall("2027-03-28T02:30:00"), "shift", "both") == [seconds("2027-03-28T01:00:00Z")]
    assert instants_of(berlin, wall("2027-10-31T02:30:00"), "skip", "both") == [
        seconds("2027-10-31T00:30:00Z"),
        seconds("2027-10-31T01:30:00Z"),
    ]

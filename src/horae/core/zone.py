"""Time zones as whole numbers: stretches of one offset, found by probing zoneinfo, and the instants at which a
wall clock shows what a caller looks for. Knows no schedule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from horae.core.errors import Fault, Invalid

SECOND_US = 1_000_000
DAY_S = 86_400
HORIZON_S = 7_289_654_400  # 2201-01-01T00:00:00Z: nothing is planned from here on
NEVER_S = 1 << 62

FindWall = Callable[[int], int]
"""The first wanted wall-clock second at or after the given one, or NEVER_S. Wall seconds are UTC seconds + offset."""

_CHUNK_S = 366 * DAY_S
_MARGIN_S = 3 * DAY_S
_PROBE_S = 6 * 3600


class Segment(NamedTuple):
    """A stretch of time with one offset. `start_s` and `until_s` are UTC, the last two wall clock."""

    start_s: int
    until_s: int
    offset_s: int
    reached_s: int  # what clocks had come to when it began: what they were put back from, or jumped from
    resumes_s: int  # where clocks go on after it; what it shows from there on is shown again


def check_zone(name: str, pointer: str = "/timezone") -> str:
    """The name itself, if it is a zone; else Invalid with the nearest one."""
    if isinstance(name, str) and _is_zone(name):
        return name
    raise Invalid([_zone_fault(name, pointer)])


def local(us: int, zone: str) -> str:
    """The instant on the zone's wall clock, with its offset: 2026-11-16T09:00:00+01:00."""
    return wall_clock(us, zone).isoformat()


def wall_clock(us: int, zone: str) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).astimezone(ZoneInfo(zone))


def segment_at(zone: str, at_s: int) -> Segment:
    for segment in _segments(zone, at_s // _CHUNK_S):
        if at_s < segment.until_s:
            return segment
    raise AssertionError("segments cover their chunk")


def local_day(zone: str, at_s: int) -> int:
    """The day on the wall clock, counted from 1970-01-01."""
    return (at_s + segment_at(zone, at_s).offset_s) // DAY_S


def clock_changes(zone: str, from_s: int, to_s: int) -> Iterator[tuple[int, int, int]]:
    """Every change of offset in the range: the instant, the offset before, the offset after."""
    before = segment_at(zone, from_s)
    while before.until_s <= to_s:
        after = segment_at(zone, before.until_s)
        if after.offset_s != before.offset_s:
            yield after.start_s, before.offset_s, after.offset_s
        before = after


def next_instant(zone: str, after_s: int, find: FindWall, gap: str, fold: str) -> int | None:
    """The first instant strictly after the given one at which the clock shows what `find` looks for.

    A wanted time in a gap counts at the gap's end (`gap="shift"`) or not (`"skip"`); one that is shown twice
    counts at its `first`, `last` or `both` instants.
    """
    at = after_s + 1
    while at < HORIZON_S:
        segment = segment_at(zone, at)
        start, until, offset, reached, resumes = segment
        if gap == "shift" and at == start and reached < start + offset and find(reached) < start + offset:
            return start
        low, high = wanted_walls(segment, at, until, fold)
        wall = find(low)
        if wall < high:
            return wall - offset if wall - offset < HORIZON_S else None
        # Nothing is wanted before `wall`, so skip the probing of the years between; but not past a fold that
        # will show what lies before `low` again. Two days hide any offset and any gap.
        at = until if resumes < low else max(until, wall - 2 * DAY_S)
    return None


def wanted_walls(segment: Segment, from_s: int, until_s: int, fold: str) -> tuple[int, int]:
    """The wall seconds of a part of the segment that count, from the first up to, not including, the second."""
    low, high = from_s + segment.offset_s, until_s + segment.offset_s
    if fold == "first" and segment.reached_s > low:
        return segment.reached_s, high
    if fold == "last" and segment.resumes_s < high:
        return low, segment.resumes_s
    return low, high


def instants_of(zone: str, wall_s: int, gap: str, fold: str) -> list[int]:
    """When the zone's clock shows one wall second: once, twice, or (in a skipped gap) never."""
    found: list[int] = []
    after = wall_s - 2 * DAY_S
    while (at := next_instant(zone, after, lambda low: wall_s if low <= wall_s else NEVER_S, gap, fold)) is not None:
        found.append(at)
        after = at
    return found


@lru_cache(maxsize=4096)
def _segments(zone: str, chunk: int) -> tuple[Segment, ...]:
    start, end = chunk * _CHUNK_S, (chunk + 1) * _CHUNK_S
    # The margin shows each chunk the changes just outside it, whose gaps and folds reach inside.
    changes = _probe(ZoneInfo(zone), start - _MARGIN_S, end + _MARGIN_S)
    found = []
    for index, (at, offset) in enumerate(changes):
        before = changes[max(index - 1, 0)][1]
        until, after = changes[index + 1] if index + 1 < len(changes) else (end + _MARGIN_S, offset)
        if until > start and at < end:
            reached = at + before if at >= start else max(at + before, start + offset)
            found.append(Segment(max(at, start), min(until, end), offset, reached, until + after))
    return tuple(found)


def _probe(zone: ZoneInfo, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """(instant, offset from then on), the first at `from_s`."""
    changes = [(from_s, _offset(zone, from_s))]
    for at in range(from_s + _PROBE_S, to_s, _PROBE_S):
        offset = _offset(zone, at)
        if offset != changes[-1][1]:
            changes.append((_change_between(zone, at - _PROBE_S, at), offset))
    return changes


def _change_between(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second of the offset that holds at `high` and not yet at `low`."""
    wanted = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == wanted:
            high = middle
        else:
            low = middle
    return high


def _offset(zone: ZoneInfo, at_s: int) -> int:
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    return 0 if offset is None else offset.days * DAY_S + offset.seconds


_ZONE_NAME = re.compile(
    r"(?!posix/|right/|localtime|Factory|posixrules)[A-Za-z0-9_+-]{1,30}(/[A-Za-z0-9_+-]{1,30}){0,2}"
)
_OFFSET_NAME = re.compile(r"(UTC|GMT)?\s*[+-]\s*\d.*", re.IGNORECASE)

_PLACES = {
    "America/New_York": "EDT ET",
    "America/Chicago": "CST CDT CT",
    "America/Denver": "MDT MT",
    "America/Los_Angeles": "PST PDT PT",
    "America/Anchorage": "AKST AKDT",
    "America/Halifax": "AST ADT",
    "America/Sao_Paulo": "BRT",
    "Europe/London": "BST",
    "Europe/Lisbon": "WEST",
    "Europe/Berlin": "CEST MEZ MESZ",
    "Europe/Athens": "EEST",
    "Europe/Moscow": "MSK",
    "Africa/Johannesburg": "SAST",
    "Asia/Kolkata": "IST",
    "Asia/Shanghai": "CNST",
    "Asia/Singapore": "SGT",
    "Asia/Tokyo": "JST",
    "Asia/Seoul": "KST",
    "Australia/Sydney": "AEST AEDT",
    "Australia/Adelaide": "ACST ACDT",
    "Australia/Perth": "AWST",
    "Pacific/Auckland": "NZST NZDT",
}


@lru_cache(maxsize=1024)
def _is_zone(name: str) -> bool:
    if not _ZONE_NAME.fullmatch(name):
        return False
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


def _zone_fault(name: str, pointer: str) -> Fault:
    seen = f'"{str(name)[:60]}"'
    place = next((zone for zone, short in _PLACES.items() if str(name).upper() in short.split()), None)
    if place:
        return Fault(
            pointer,
            f"{seen} is an abbreviation, not a time zone, and is ambiguous.",
            f"Use a place, such as {place}, so that clock changes are handled.",
        )
    if isinstance(name, str) and _OFFSET_NAME.fullmatch(name):
        return Fault(
            pointer,
            f"{seen} is an offset, not a time zone, and knows no clock changes.",
            "Use a place, such as Europe/Berlin, or UTC.",
        )
    nearest = _nearest_zone(str(name)[:60])
    hint = f"Did you mean {nearest}?" if nearest else "Write a place of the tz database, such as Europe/Berlin, or UTC."
    return Fault(pointer, f"{seen} is not a time zone.", hint)


def _nearest_zone(name: str) -> str | None:
    names = {zone.lower(): zone for zone in sorted(available_timezones()) if _ZONE_NAME.fullmatch(zone)}
    cities = {zone.rpartition("/")[2]: full for zone, full in names.items() if "/" in zone}
    wanted = name.strip().lower().replace(" ", "_")
    for known in (names, cities):
        close = get_close_matches(wanted, known, n=1, cutoff=0.75)
        if close:
            return known[close[0]]
    return None

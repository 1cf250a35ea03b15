"""A slow second opinion on schedules: it looks at every minute or second with datetime and zoneinfo.

Shares no code with horae, and is meant to be believed by reading it.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
NAMES = {name: number for number, name in enumerate(MONTHS, 1)} | {name: n for n, name in enumerate(WEEKDAYS)}
BOUNDS = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def fires(line: str, zone: str, gap: str, fold: str, start: datetime, end: datetime) -> list[datetime]:
    """Every due time from start to end, both included, in UTC."""
    fields = (["0"] if len(line.split()) == 5 else []) + line.upper().split()
    place = ZoneInfo(zone)
    if fields[2].startswith("*"):
        found = {at for at in seconds_of(fields, start, end, place) if matches(fields, at.astimezone(place))}
    else:
        found = set()
        for wall in walls_of(fields, start.astimezone(place).date(), end.astimezone(place).date()):
            found |= set(resolve(wall, place, gap, fold))
    return sorted(at for at in found if start <= at <= end)


def seconds_of(fields: list[str], start: datetime, end: datetime, place: ZoneInfo) -> Iterator[datetime]:
    """Every second from start to end, or only every minute when the line has no seconds."""
    at = start.replace(second=0, microsecond=0)
    while at <= end:
        yield from [at] if fields[0] == "0" else [at + timedelta(seconds=second) for second in range(60)]
        at += MINUTE


def walls_of(fields: list[str], first: date, last: date) -> Iterator[datetime]:
    """Every matching wall-clock time, whether the zone's clocks show it or not."""
    day = first - timedelta(days=2)
    while day <= last + timedelta(days=2):
        if matches_day(fields, day):
            for minute in range(24 * 60):
                if fits(fields[2], 2, minute // 60) and fits(fields[1], 1, minute % 60):
                    for second in range(60):
                        if fits(fields[0], 0, second):
                            yield datetime.combine(day, clock(minute // 60, minute % 60, second))
        day += timedelta(days=1)


def resolve(wall: datetime, place: ZoneInfo, gap: str, fold: str) -> list[datetime]:
    guesses = sorted({wall.replace(tzinfo=place, fold=number).astimezone(UTC) for number in (0, 1)})
    real = [at for at in guesses if at.astimezone(place).replace(tzinfo=None) == wall]
    if not real:
        return [first_after_gap(guesses[0], place)] if gap == "shift" else []
    return {"first": real[:1], "last": real[-1:], "both": real}[fold]


def first_after_gap(before: datetime, place: ZoneInfo) -> datetime:
    at = before.replace(second=0)
    offset = at.astimezone(place).utcoffset()
    while at.astimezone(place).utcoffset() == offset:
        at += MINUTE
    return at


def matches(fields: list[str], wall: datetime) -> bool:
    shown = (wall.second, wall.minute, wall.hour)
    return all(fits(fields[place], place, shown[place]) for place in range(3)) and matches_day(fields, wall.date())


def matches_day(fields: list[str], day: date) -> bool:
    if not fits(fields[4], 4, day.month):
        return False
    by_day = fits(fields[3], 3, day.day) or has_mark(fields[3], 3, day)
    by_weekday = fits(fields[5], 5, day.isoweekday() % 7) or has_mark(fields[5], 5, day)
    if fields[3][0] in "*?" or fields[5][0] in "*?":
        return by_day and by_weekday
    return by_day or by_weekday


@lru_cache(maxsize=100_000)
def fits(field: str, place: int, value: int) -> bool:
    return any(value in values_of(item, place) for item in field.split(",") if not is_mark(item, place))


def is_mark(item: str, place: int) -> bool:
    """Whether the item depends on the month."""
    return (
        (place == 3 and item[-1] in "LW") or item.startswith("L-") or (place == 5 and ("#" in item or item[-1] == "L"))
    )


@lru_cache(maxsize=10_000)
def values_of(item: str, place: int) -> set[int]:
    low, high = BOUNDS[place]
    span, _, step = item.partition("/")
    if span in ("*", "?"):
        first, last = low, high
    else:
        first, *rest = [number_of(end) for end in span.split("-")]
        last = rest[0] if rest else high if step else first
    values = [*range(first, last + 1)] if first <= last else [*range(first, high + 1), *range(low, last + 1)]
    return {value % 7 if place == 5 else value for value in values[:: int(step or 1)]}


def has_mark(field: str, place: int, day: date) -> bool:
    return any(is_marked(item, day) for item in field.split(",") if is_mark(item, place))


def is_marked(item: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    weekday = day.isoweekday() % 7
    if item == "L" or item.startswith("L-"):
        return day.day == last - int(item[2:] or 0)
    if item.endswith("W"):
        return is_nearest_workday(last if item == "LW" else int(item[:-1]), day, last)
    if "#" in item:
        name, number = item.split("#")
        return weekday == number_of(name) % 7 and (day.day - 1) // 7 + 1 == int(number)
    if item.endswith("L"):
        return weekday == number_of(item[:-1]) % 7 and day.day + 7 > last
    raise ValueError(item)


def is_nearest_workday(wanted: int, day: date, last: int) -> bool:
    """Whether no workday of the month is nearer to the wanted day."""
    if wanted > last:
        return False
    workdays = [n for n in range(1, last + 1) if day.replace(day=n).isoweekday() < 6]
    return day.day == min(workdays, key=lambda n: abs(n - wanted))


def number_of(name: str) -> int:
    return NAMES[name] if name in NAMES else int(name)


@lru_cache(maxsize=2000)
def transitions(zone: str, year: int) -> list[datetime]:
    """The hours of the year in which the zone's offset changes."""
    place, at, found = ZoneInfo(zone), datetime(year, 1, 1, tzinfo=UTC), []
    offset = at.astimezone(place).utcoffset()
    while at.year == year:
        if at.astimezone(place).utcoffset() != offset:
            offset = at.astimezone(place).utcoffset()
            found.append(at)
        at += timedelta(hours=1)
    return found

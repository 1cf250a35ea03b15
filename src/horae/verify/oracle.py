"""Due times, worked out a second time in another way: nothing is shared with core/cron.py or core/schedule.py.

Where the engine computes with masks and offset tables, this walks the calendar day by day with datetime and ZoneInfo.
"""

from __future__ import annotations

import calendar
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from zoneinfo import ZoneInfo

US = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)

BOUNDS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 6)}
NAMES = {
    name: number
    for number, name in enumerate(
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], 1
    )
}
NAMES |= {name: number for number, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])}
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def due_times(spec: dict[str, Any], job_id: str, created_us: int, from_us: int, to_us: int) -> list[int]:
    """Every due time from `from_us` to `to_us`, both included, of a stored definition."""
    from_us = max(from_us, spec.get("start_us") or from_us)
    to_us = min(to_us, spec.get("end_us") or to_us)
    found: set[int] = set()
    for text in spec.get("schedule", ()):
        found.update(_of_text(text, spec, job_id, created_us, from_us, to_us))
    rules = spec.get("calendar")
    if not rules:
        return sorted(found)
    zone = ZoneInfo(spec.get("timezone", "UTC"))
    return [us for us in sorted(found) if _is_let_in(rules, _instant(us).astimezone(zone).date())]


def _of_text(text: str, spec: dict[str, Any], job_id: str, created_us: int, from_us: int, to_us: int) -> Iterator[int]:
    word = text.strip().lower()
    anchor_us = spec.get("start_us") or created_us
    if word == "@manual" or from_us > to_us:
        return
    if word == "@now":
        yield from (us for us in (created_us,) if from_us <= us <= to_us)
    elif word.startswith("@every"):
        yield from _of_interval(_length_us(word.removeprefix("@every").strip()), anchor_us, from_us, to_us)
    elif word[:4].isdigit():
        yield from (us for us in _of_instant(text.strip(), spec) if from_us <= us <= to_us)
    else:
        line = MACROS.get(word, text)
        dst = spec.get("dst", {})
        policy = (spec.get("timezone", "UTC"), dst.get("gap", "shift"), dst.get("fold", "first"))
        seed = job_id if "H" in line.upper() else ""
        day = _instant(from_us).date() - 3 * DAY
        while day <= _instant(to_us).date() + 3 * DAY:
            times = _of_day(line, seed, *policy, day)
            yield from times[bisect_left(times, from_us) : bisect_right(times, to_us)]
            day += DAY


def _of_interval(every_us: int, anchor_us: int, from_us: int, to_us: int) -> Iterator[int]:
    us = anchor_us + max(1, -(-(from_us - anchor_us) // every_us)) * every_us
    while us <= to_us:
        yield us
        us += every_us


def _of_instant(text: str, spec: dict[str, Any]) -> list[int]:
    at = datetime.fromisoformat(text.upper())
    if at.tzinfo is not None:
        return [_us(at.astimezone(UTC))]
    dst = spec.get("dst", {})
    zone = ZoneInfo(spec.get("timezone", "UTC"))
    return [_us(found) for found in _resolve(at, zone, dst.get("gap", "shift"), dst.get("fold", "first"))]


@lru_cache(maxsize=200)
def _of_day(line: str, seed: str, zone: str, gap: str, fold: str, day: date) -> Sequence[int]:
    """The instants that one wall-clock day of a line gives, in order."""
    named = _fields(line)
    if not _is_day(named["day"], named["month"], named["weekday"], day, seed):
        return ()
    offset_us = _steady_offset_us(zone, day)
    if offset_us is None:
        return _of_odd_day(line, seed, zone, gap, fold, day)
    midnight_us = (day.toordinal() - EPOCH.toordinal()) * 86_400 * US - offset_us
    return array("q", [midnight_us + us for us in _times_of_day(line, seed)])


@lru_cache(maxsize=10_000)
def _fields(line: str) -> dict[str, str]:
    fields = line.upper().split()
    names = ["minute", "hour", "day", "month", "weekday"]
    return dict(zip(["second", *names] if len(fields) == 6 else names, fields, strict=True))


@lru_cache(maxsize=100)
def _times_of_day(line: str, seed: str) -> tuple[int, ...]:
    """In microseconds from midnight, in order."""
    named = _fields(line)
    return tuple(
        ((hour * 60 + minute) * 60 + second) * US
        for hour in _values(named["hour"], "hour", seed)
        for minute in _values(named["minute"], "minute", seed)
        for second in _values(named.get("second", "0"), "second", seed)
    )


@lru_cache(maxsize=20_000)
def _steady_offset_us(zone: str, day: date) -> int | None:
    """How far the clocks of a place are ahead on a day, if they stay so all day; asked every quarter of an hour."""
    midnight, place = datetime.combine(day, clock()), ZoneInfo(zone)
    walls = (midnight + timedelta(minutes=15 * number) for number in range(97))
    offsets = {wall.replace(tzinfo=place, fold=fold).utcoffset() for wall in walls for fold in (0, 1)}
    return (offsets.pop() or timedelta()) // timedelta(microseconds=1) if len(offsets) == 1 else None


def _of_odd_day(line: str, seed: str, zone: str, gap: str, fold: str, day: date) -> Sequence[int]:
    """A day on which the clocks of a place are changed: time by time."""
    place = ZoneInfo(zone)
    is_elapsed = _fields(line)["hour"].startswith(("*", "H/"))
    found: set[int] = set()
    for us in _times_of_day(line, seed):
        wall = datetime.combine(day, clock()) + timedelta(microseconds=us)
        instants = _real(wall, place) if is_elapsed else _resolve(wall, place, gap, fold)
        found.update(_us(at) for at in instants)
    return array("q", sorted(found))


def _real(wall: datetime, place: ZoneInfo) -> list[datetime]:
    """The instants at which the clocks of a place show this time: none in a gap, two in a fold."""
    guesses = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(at for at in guesses if at.astimezone(place).replace(tzinfo=None) == wall)


def _resolve(wall: datetime, place: ZoneInfo, gap: str, fold: str) -> list[datetime]:
    real = _real(wall, place)
    if not real:
        return [_end_of_gap(wall, place)] if gap == "shift" else []
    return real if fold == "both" else real[:1] if fold == "first" else real[-1:]


def _end_of_gap(wall: datetime, place: ZoneInfo) -> datetime:
    """The first instant whose wall clock is past the gap: between the two readings of a time inside it."""
    low, high = sorted(wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
        if middle.astimezone(place).replace(tzinfo=None) < wall:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=20_000)
def _is_day(days: str, months: str, weekdays: str, day: date, seed: str) -> bool:
    if day.month not in _values(months, "month", seed):
        return False
    by_day = day.day in _days_of_month(days, day.year, day.month, seed)
    by_weekday = day.day in _days_of_week(weekdays, day.year, day.month, seed)
    if days[0] in "*?" or weekdays[0] in "*?":
        return by_day and by_weekday
    return by_day or by_weekday


@lru_cache(maxsize=20_000)
def _days_of_month(field: str, year: int, month: int, seed: str) -> frozenset[int]:
    last = calendar.monthrange(year, month)[1]
    days: set[int] = set()
    for item in field.split(","):
        if item == "LW":
            days.add(_nearest_workday(year, month, last))
        elif item.startswith("L"):
            days.add(last - int(item[2:] or 0))
        elif item.endswith("W"):
            if int(item[:-1]) <= last:
                days.add(_nearest_workday(year, month, int(item[:-1])))
        else:
            days.update(_values(item, "day", seed))
    return frozenset(days)


@lru_cache(maxsize=20_000)
def _days_of_week(field: str, year: int, month: int, seed: str) -> frozenset[int]:
    last = calendar.monthrange(year, month)[1]
    by_weekday: dict[int, list[int]] = {number: [] for number in range(7)}
    for day in range(1, last + 1):
        by_weekday[date(year, month, day).isoweekday() % 7].append(day)
    days: set[int] = set()
    for item in field.split(","):
        if "#" in item:
            name, nth = item.split("#")
            days.update(by_weekday[_number(name) % 7][int(nth) - 1 : int(nth)])
        elif item.endswith("L"):
            days.add(by_weekday[_number(item[:-1]) % 7][-1])
        else:
            for number in _values(item, "weekday", seed):
                days.update(by_weekday[number])
    return frozenset(days)


def _nearest_workday(year: int, month: int, day: int) -> int:
    """Monday to Friday, without leaving the month."""
    last = calendar.monthrange(year, month)[1]
    for distance in (0, -1, 1, -2, 2):
        candidate = day + distance
        if 1 <= candidate <= last and date(year, month, candidate).isoweekday() <= 5:
            return candidate
    raise AssertionError


@lru_cache(maxsize=20_000)
def _values(field: str, unit: str, seed: str) -> tuple[int, ...]:
    low, high = BOUNDS[unit]
    found: set[int] = set()
    for item in field.split(","):
        body, _, step = item.partition("/")
        if body in ("*", "?"):
            found.update(range(low, high + 1, int(step or 1)))
        elif body.startswith("H"):
            found.update(_spread(body, int(step or 0), unit, seed))
        elif "-" in body:
            first, last = (_number(end) for end in body.split("-"))
            found.update(_range(first, last, unit)[:: int(step or 1)])
        else:
            found.update(range(_number(body), high + 1, int(step)) if step else [_number(body)])
    return tuple(sorted({value % 7 if unit == "weekday" else value for value in found}))


def _range(first: int, last: int, unit: str) -> list[int]:
    low, high = BOUNDS[unit]
    if first <= last:
        return list(range(first, last + 1))
    return [*range(first, high + 1), *range(low, last + 1)]


def _spread(body: str, step: int, unit: str, seed: str) -> list[int]:
    """Where an H falls: by a hash of the job's id and the unit's name, modulo its range or its step."""
    low, high = BOUNDS[unit]
    if unit == "day":
        high = 28
    if body != "H":
        low, high = (_number(end) for end in body[2:-1].split("-"))
    values = _range(low, high, unit)
    number = int.from_bytes(blake2b(f"{seed}/{unit}".encode(errors="replace"), digest_size=8).digest())
    return values[number % step :: step] if step else [values[number % len(values)]]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else NAMES[text]


def _length_us(text: str) -> int:
    units = {"ms": 1000, "s": US, "m": 60 * US, "h": 3600 * US, "d": 86_400 * US}
    total, digits, letters = 0, "", ""
    for letter in f"{text} ":
        if letters and not letter.isalpha():
            total += int(float(digits) * units[letters])
            digits, letters = "", ""
        if letter.isalpha():
            letters += letter
        elif letter != " ":
            digits += letter
    return total + (int(float(digits) * US) if digits else 0)


def _is_let_in(rules: dict[str, Any], day: date) -> bool:
    text = day.isoformat()
    if rules.get("include") and text not in rules["include"]:
        return False
    return text not in rules.get("exclude", ()) and text not in _holidays(rules, day.year)


def _holidays(rules: dict[str, Any], year: int) -> frozenset[str]:
    country = rules.get("holidays")
    return _country_days(country, rules.get("subdivision") or "", year) if country else frozenset()


@lru_cache(maxsize=1000)
def _country_days(country: str, subdivision: str, year: int) -> frozenset[str]:
    from holidays import country_holidays  # the extra `calendars`

    return frozenset(day.isoformat() for day in country_holidays(country, subdiv=subdivision or None, years=year))


def _instant(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def _us(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)

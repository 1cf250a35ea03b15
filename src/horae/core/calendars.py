"""Days: the shapes of months, days that depend on them, and the calendars that leave days out. Knows no clock."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from horae.core.errors import Fault, Invalid

MOST_DATES = 1000

MONTH_NAMES = (
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_LENGTHS = ((), (31,), (28, 29), *((length,) for length in (31, 30, 31, 30, 31, 31, 30, 31, 30, 31)))

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_FIRSTS = [date(year, month, 1) for year in range(1969, 2204) for month in range(1, 13)]
MONTH_STARTS = [first.toordinal() - EPOCH_ORDINAL for first in _FIRSTS]
MONTH_SHAPES = [
    (first.isoweekday() % 7, after - start)
    for first, start, after in zip(_FIRSTS, MONTH_STARTS, MONTH_STARTS[1:], strict=False)
]
"""The weekday of the first (0 is Sunday) and the number of days, for each of MONTH_STARTS, January 1969 onwards."""


class Mark(NamedTuple):
    """A day that depends on the month. `last`: nth days before its end; `workday`: the one nearest to `day` (0: to
    the end); `last_weekday` and `nth_weekday`: the last or nth such weekday.
    """

    rule: str
    day: int = 0
    nth: int = 0


class Field(NamedTuple):
    bits: int
    marks: tuple[Mark, ...] = ()
    is_open: bool = False  # starts with `*` or is `?`: cron's day-or-weekday rule does not count it


def matching_days(day: Field, weekday: Field, first_weekday: int, length: int) -> int:
    """The days that match in a month of this shape; bit 0 is the first."""
    by_day, week = day.bits >> 1, weekday.bits
    by_weekday = ((week >> first_weekday | week << 7 - first_weekday) & 0x7F) * 0x10204081  # the week, five times over
    if day.marks or weekday.marks:
        by_day |= _marked_days(day.marks, first_weekday, length)
        by_weekday |= _marked_days(weekday.marks, first_weekday, length)
    both_or_either = by_day & by_weekday if day.is_open or weekday.is_open else by_day | by_weekday
    return both_or_either & (1 << length) - 1


@lru_cache(maxsize=4096)
def _marked_days(marks: tuple[Mark, ...], first_weekday: int, length: int) -> int:
    bits = 0
    for mark in marks:
        day = _marked_day(mark, first_weekday, length)
        if 1 <= day <= length:
            bits |= 1 << day - 1
    return bits


def _marked_day(mark: Mark, first_weekday: int, length: int) -> int:
    """The day of the month, outside it when the month has none."""
    match mark.rule:
        case "last":
            return length - mark.nth
        case "workday":
            return _nearest_workday(mark.day or length, first_weekday, length)
        case "last_weekday":
            return length - (first_weekday + length - 1 - mark.day) % 7
        case _:
            return 1 + (mark.day - first_weekday) % 7 + 7 * (mark.nth - 1)


def _nearest_workday(day: int, first_weekday: int, length: int) -> int:
    """Monday to Friday, and never in another month."""
    weekday = (first_weekday + day - 1) % 7
    if day > length or weekday not in (0, 6):
        return day
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    return day + 1 if day < length else day - 2


@dataclass(frozen=True, slots=True)
class Calendar:
    """The days on which a job may run. Days are ordinals, as `date.toordinal` counts them."""

    name: str = ""
    exclude: frozenset[int] = frozenset()
    include: frozenset[int] | None = None
    country: str = ""
    subdivision: str = ""


def parse_calendar(value: object, pointer: str = "/calendar") -> Calendar:
    """`{"exclude": ["2026-12-25"], "include": [...], "holidays": "DE", "subdivision": "BY"}`: a day is left out when
    it is excluded or a holiday, or when days are included and it is not among them. With `name` and `version` it is
    one that the tenant has defined.
    """
    if not isinstance(value, Mapping):
        detail = f"A calendar is a name or an object; got {type(value).__name__}."
        raise Invalid([Fault(pointer, detail, 'Write {"holidays": "DE"} or {"exclude": ["2026-12-25"]}.')])
    known = (*DAYS, "name", "version") if "name" in value else DAYS
    faults = [_unknown_key(str(key), pointer) for key in value if key not in known]
    name = value.get("name", "")
    if not isinstance(name, str) or ("name" in value and not _NAME.fullmatch(name)):
        faults.append(Fault(f"{pointer}/name", "Must be the name of a calendar.", 'Write "company-days".'))
    exclude = _dates([] if value.get("exclude") is None else value["exclude"], f"{pointer}/exclude", faults)
    include = _dates(value["include"], f"{pointer}/include", faults) if value.get("include") is not None else None
    country, subdivision = _texts(value, pointer, faults)
    if faults:
        raise Invalid(faults)
    calendar = Calendar(name, exclude, include, country, subdivision)
    if country:
        _check_country(calendar, pointer)
    return calendar


def check_calendar(value: Any, pointer: str) -> Any:
    """The calendar of a job: an object, or the name of a country or of a part of it: "DE", "US-CA"."""
    if not isinstance(value, str):
        parse_calendar(value, pointer)
        return value
    country, _, part = value.upper().partition("-")
    calendar = {"holidays": country, **({"subdivision": part} if part else {})}
    try:
        parse_calendar(calendar, pointer)
    except Invalid as error:
        if any("library" in fault.detail for fault in error.faults):
            raise
        name = value if _NAME.fullmatch(value) else "company-days"
        hint = f'Define it with PUT /calendars/{name}, or name a country such as "DE", or write the days here.'
        raise Invalid([Fault(pointer, f'There is no calendar "{value[:60]}".', hint)]) from None
    return calendar


def check_days(value: object) -> dict[str, Any]:
    """The days of a calendar that is being defined."""
    parse_calendar(value, "")
    given = dict(value) if isinstance(value, Mapping) else {}
    if not any(given.get(key) for key in DAYS) and given.get("include") is None:
        raise Invalid([Fault("", "A calendar must name some days.", 'Write {"exclude": ["2026-12-25"]}.')])
    return {key: given[key] for key in DAYS if given.get(key) is not None}


def why_left_out(calendar: Calendar, day: int) -> str | None:
    """In words, or None when the day is allowed."""
    if calendar.include is not None and day not in calendar.include:
        return "not one of the included dates"
    if day in calendar.exclude:
        return "an excluded date"
    if calendar.country:
        return _holidays(calendar.country, calendar.subdivision, date.fromordinal(day).year).get(day)
    return None


def next_included(calendar: Calendar, day: int) -> int | None:
    """The first day at or after the given one that `include` does not rule out."""
    if calendar.include is None:
        return day
    days = _in_order(calendar.include)
    index = bisect_left(days, day)
    return days[index] if index < len(days) else None


DAYS = ("exclude", "include", "holidays", "subdivision")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@lru_cache(maxsize=256)
def _in_order(days: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(days))


@lru_cache(maxsize=1024)
def _holidays(country: str, subdivision: str, year: int) -> dict[int, str]:
    library = import_module("holidays")
    # Without a language the names would follow the machine's.
    found = library.country_holidays(country, subdiv=subdivision or None, years=[year], language="en_US")
    return {day.toordinal(): str(name) for day, name in found.items()}


def _check_country(calendar: Calendar, pointer: str) -> None:
    try:
        _holidays(calendar.country, calendar.subdivision, 2026)
    except ModuleNotFoundError:
        raise Invalid(
            [Fault(f"{pointer}/holidays", "Holidays need a library.", 'Run: pip install "horae[calendars]"')]
        ) from None
    except NotImplementedError as unknown:
        is_country = str(unknown).startswith("Country")
        where, seen = ("holidays", calendar.country) if is_country else ("subdivision", calendar.subdivision)
        hint = (
            'Write a country code such as "DE" or "US".'
            if is_country
            else 'Write a code such as "BY", or leave it out.'
        )
        raise Invalid([Fault(f"{pointer}/{where}", f'There are no holidays for "{seen}".', hint)]) from None


def _unknown_key(key: str, pointer: str) -> Fault:
    near = get_close_matches(key[:100], DAYS, n=1)
    hint = f'Did you mean "{near[0]}"?' if near else f"Known fields: {', '.join(DAYS)}."
    return Fault(f"{pointer}/{key[:60]}", f'A calendar has no field "{key[:60]}".', hint)


def _dates(value: object, pointer: str, faults: list[Fault]) -> frozenset[int]:
    if not isinstance(value, list) or len(value) > MOST_DATES:
        faults.append(Fault(pointer, f"Must be a list of at most {MOST_DATES} dates.", 'Write ["2026-12-25"].'))
        return frozenset()
    days = set()
    for index, text in enumerate(value):
        try:
            days.add(date.fromisoformat(text).toordinal())
        except (ValueError, TypeError):
            detail = f'A date looks like 2026-12-25; got "{str(text)[:40]}".'
            faults.append(Fault(f"{pointer}/{index}", detail, 'Write "2026-12-25".'))
    return frozenset(days)


def _texts(value: Mapping[str, Any], pointer: str, faults: list[Fault]) -> tuple[str, str]:
    country, subdivision = ("" if (text := value.get(key)) is None else text for key in ("holidays", "subdivision"))
    for key, text in (("holidays", country), ("subdivision", subdivision)):
        if not isinstance(text, str) or not (text == "" or (text.isascii() and text.isalnum())) or len(text) > 20:
            faults.append(Fault(f"{pointer}/{key}", "Must be a code of letters.", 'Write "DE", or "BY" for Bavaria.'))
            return "", ""
    if subdivision and not country:
        faults.append(Fault(f"{pointer}/subdivision", "A subdivision needs a country.", 'Add "holidays": "DE".'))
    return country.upper(), subdivision

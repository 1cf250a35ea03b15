"""Cron lines: from text to bit masks, and from masks to the wall-clock seconds that match. Knows no zones."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from horae.core.calendars import (
    MONTH_LENGTHS,
    MONTH_NAMES,
    MONTH_SHAPES,
    MONTH_STARTS,
    WEEKDAY_NAMES,
    Field,
    Mark,
    matching_days,
)
from horae.core.errors import Fault, Invalid
from horae.core.zone import DAY_S, NEVER_S

LONGEST_TEXT = 500

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """Masks have bit n for the value n. `is_elapsed` lines follow elapsed time through clock changes."""

    text: str
    second: int
    minute: int
    hour: int
    day: Field
    month: int
    weekday: Field
    is_elapsed: bool
    seed: str  # empty unless an `H` depends on it

    def __hash__(self) -> int:
        # Texts remember their hashes; all fields would cost more than the memo lookup. Crowds share a text with `H`.
        return hash(self.text) ^ hash(self.seed)


class Unit(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    wanted: str = ""


UNITS = (
    Unit("second", 0, 59, (), "0-59"),
    Unit("minute", 0, 59, (), "0-59"),
    Unit("hour", 0, 23, (), "0-23"),
    Unit("day", 1, 31, (), "1-31"),
    Unit("month", 1, 12, tuple(name[:3].upper() for name in MONTH_NAMES[1:]), "1-12 or JAN-DEC"),
    Unit("weekday", 0, 6, tuple(name[:3].upper() for name in WEEKDAY_NAMES), "0-7 or SUN-SAT"),
)
DAY, WEEKDAY = 3, 5

_VALUE = r"[0-9]+|[A-Z]{2,}"
_ITEM = re.compile(rf"(?:([*?])|(H)(?:\(({_VALUE})-({_VALUE})\))?|({_VALUE})(?:-({_VALUE}))?)(?:/([0-9]+))?")
_DAY_MARK = re.compile(r"(L)(?:-([0-9]+))?|(LW)|([0-9]+)W")
_WEEKDAY_MARK = re.compile(r"([0-9]+|[A-Z]{3})(?:L|#([0-9]+))")
_HASHED = re.compile(r"(?<![A-Z])H(?![A-Z])")


def parse_cron(text: str, seed: str = "", pointer: str = "/schedule") -> Cron:
    """The line as masks. `seed` decides where each `H` falls."""
    if len(text) > LONGEST_TEXT:
        detail = f"A schedule has {LONGEST_TEXT} characters at most; this one has {len(text)}."
        raise Invalid([Fault(pointer, detail, "Split it into a list of shorter lines.")])
    try:
        return _parse(text, seed if _HASHED.search(text.upper()) else "")
    except Invalid as invalid:
        raise Invalid([replace(fault, pointer=pointer) for fault in invalid.faults]) from None


def next_wall(cron: Cron, wall_s: int) -> int:
    """The first wall-clock second at or after the given one that matches, or NEVER_S."""
    today, second = divmod(wall_s, DAY_S)
    day = _next_day(cron, today)
    if day == today:
        time = _next_time(cron, second)
        if time < DAY_S:
            return day * DAY_S + time
        day = _next_day(cron, today + 1)
    return NEVER_S if day == NEVER_S else day * DAY_S + _next_time(cron, 0)


def count_walls(cron: Cron, low_s: int, high_s: int) -> int:
    """How many wall-clock seconds match from `low_s` up to, not including, `high_s`."""
    if low_s >= high_s:
        return 0
    (low_day, low_time), (high_day, high_time) = divmod(low_s, DAY_S), divmod(high_s, DAY_S)
    count = _times_before(cron, DAY_S) * count_days(cron, low_day, high_day)
    count -= _times_before(cron, low_time) if _next_day(cron, low_day) == low_day else 0
    return count + (_times_before(cron, high_time) if _next_day(cron, high_day) == high_day else 0)


def count_days(cron: Cron, from_day: int, to_day: int) -> int:
    """How many days match from `from_day` up to, not including, `to_day`, both counted from 1970-01-01."""
    first, last = bisect_right(MONTH_STARTS, from_day) - 1, bisect_right(MONTH_STARTS, to_day) - 1
    count = 0
    for index in range(first, last + 1):
        if cron.month >> index % 12 + 1 & 1:
            days = matching_days(cron.day, cron.weekday, *MONTH_SHAPES[index])
            if index == first:
                days &= -1 << from_day - MONTH_STARTS[index]
            if index == last:
                days &= (1 << to_day - MONTH_STARTS[index]) - 1
            count += days.bit_count()
    return count


def lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def values_of(bits: int) -> list[int]:
    return [value for value in range(bits.bit_length()) if bits >> value & 1]


def _next_day(cron: Cron, day: int) -> int:
    """The first matching day at or after the given one, counted from 1970-01-01."""
    month = bisect_right(MONTH_STARTS, day) - 1
    skipped = day - MONTH_STARTS[month]
    for index in range(month, len(MONTH_SHAPES)):
        if cron.month >> index % 12 + 1 & 1:
            days = matching_days(cron.day, cron.weekday, *MONTH_SHAPES[index]) >> skipped
            if days:
                return MONTH_STARTS[index] + skipped + lowest(days)
        skipped = 0
    return NEVER_S


def _next_time(cron: Cron, second: int) -> int:
    """The first matching second of the day at or after the given one; a day or more when there is none left."""
    hour, rest = divmod(second, 3600)
    minute, second = divmod(rest, 60)
    if cron.hour >> hour & 1:
        if cron.minute >> minute & 1:
            left = cron.second >> second
            if left:
                return hour * 3600 + minute * 60 + second + lowest(left)
        left = cron.minute >> minute + 1
        if left:
            return hour * 3600 + (minute + 1 + lowest(left)) * 60 + lowest(cron.second)
    left = cron.hour >> hour + 1
    if left:
        return (hour + 1 + lowest(left)) * 3600 + lowest(cron.minute) * 60 + lowest(cron.second)
    return DAY_S


def _times_before(cron: Cron, second: int) -> int:
    """How many seconds of a day match before the given one."""
    hour, rest = divmod(second, 3600)
    minute, second = divmod(rest, 60)
    seconds, minutes = cron.second.bit_count(), cron.minute.bit_count()
    count = (cron.hour & (1 << hour) - 1).bit_count() * minutes * seconds
    if cron.hour >> hour & 1:
        count += (cron.minute & (1 << minute) - 1).bit_count() * seconds
        if cron.minute >> minute & 1:
            count += (cron.second & (1 << second) - 1).bit_count()
    return count


@lru_cache(maxsize=8192)
def _parse(text: str, seed: str) -> Cron:
    fields = MACROS.get(text.strip().lower(), text).upper().split()
    if len(fields) not in (5, 6):
        raise Invalid([_wrong_count(text, fields)])
    parsed, faults = [], []
    for position, field in enumerate(["0", *fields][-6:]):
        try:
            parsed.append(_parse_field(field, position, seed if seed and _HASHED.search(field) else ""))
        except _WrongField as wrong:
            faults.append(_explain(wrong, position, fields))
    if faults:
        raise Invalid(faults)
    second, minute, hour, day, month, weekday = parsed
    is_elapsed = fields[-4].startswith(("*", "H/"))
    cron = Cron(text, second.bits, minute.bits, hour.bits, day, month.bits, weekday, is_elapsed, seed)
    if not _can_match(day, month.bits, weekday):
        raise Invalid([_never(cron, fields)])
    return cron


@lru_cache(maxsize=4096)
def _can_match(day: Field, months: int, weekday: Field) -> bool:
    """Whether some month, in some year, has a day for it: every shape of a month comes within 40 years."""
    lengths = {length for month in values_of(months) for length in MONTH_LENGTHS[month]}
    return any(matching_days(day, weekday, first, length) for length in lengths for first in range(7))


@lru_cache(maxsize=16384)
def _parse_field(text: str, position: int, seed: str) -> Field:
    unit = UNITS[position]
    bits, marks = 0, []
    for item in text.split(","):
        mark = _parse_mark(item, position)
        if mark:
            marks.append(mark)
        else:
            bits |= _parse_item(item, unit, seed)
    return Field(bits, tuple(marks), text[0] in "*?")


def _parse_mark(item: str, position: int) -> Mark | None:
    if position == DAY and (match := _DAY_MARK.fullmatch(item)):
        if match[1]:
            return Mark("last", nth=_number(match[2] or "0", 0, 30, "Days before the last"))
        return Mark("workday", 0 if match[3] else _number(match[4], 1, 31, "The day of W"))
    if position == WEEKDAY and (match := _WEEKDAY_MARK.fullmatch(item)):
        weekday = _value(match[1], UNITS[WEEKDAY]) % 7
        if match[2]:
            return Mark("nth_weekday", weekday, _number(match[2], 1, 5, "The number after #"))
        return Mark("last_weekday", weekday)
    return None


def _parse_item(item: str, unit: Unit, seed: str) -> int:
    match = _ITEM.fullmatch(item)
    if match is None or (match[1] == "?" and unit.name not in ("day", "weekday")):
        raise _unreadable(item, unit)
    _, hashed, hash_low, hash_high, low, high, step = match.groups()
    low, high = low or hash_low, high or hash_high
    first = _value(low, unit) if low else unit.low
    if high:
        last = _value(high, unit)
    elif low and not step:
        last = first
    else:
        last = 28 if hashed and unit.name == "day" else unit.high  # every month has a 28th
    values = _range(first, last, unit)
    every = _step(step, unit, len(values) if hashed else unit.high - unit.low + 1) if step else 1
    if hashed:
        spread = _spread(seed, unit)
        values = values[spread % every :] if step else [values[spread % len(values)]]
    return sum(1 << value for value in set(values[::every]))


def _range(low: int, high: int, unit: Unit) -> list[int]:
    """From low to high, past the end and on from the beginning if need be; Sunday as 7 becomes 0."""
    size = unit.high - unit.low + 1
    length = high - low if low <= high else (high - low) % size
    return [(value - unit.low) % size + unit.low for value in range(low, low + length + 1)]


def _spread(seed: str, unit: Unit) -> int:
    return int.from_bytes(blake2b(f"{seed}/{unit.name}".encode(errors="replace"), digest_size=8).digest())


def _value(text: str, unit: Unit) -> int:
    if text.isdecimal():
        if unit.low <= int(text) <= (7 if unit.name == "weekday" else unit.high):
            return int(text)
        raise _out_of_range(text, unit)
    if text in unit.names:
        return unit.low + unit.names.index(text)
    raise _unknown_name(text, unit)


def _step(text: str, unit: Unit, most: int) -> int:
    if 1 <= int(text) <= most:
        return int(text)
    letter = {"second": "s", "minute": "m", "hour": "h", "day": "d"}.get(unit.name)
    is_length = letter and 0 < int(text) < 1000
    hint = f'For every {text} {unit.name}s write "@every {text}{letter}".' if is_length else 'Write "*/2".'
    raise _WrongField(f"The {unit.name} step must be 1-{most}; got {text[:20]}", hint=hint)


def _number(text: str, low: int, high: int, what: str) -> int:
    if low <= int(text) <= high:
        return int(text)
    raise _WrongField(f"{what} must be {low}-{high}; got {text[:20]}", text, str(high), "The most is")


class _WrongField(Exception):
    """What is wrong with one field, and what to put in the place of `seen`."""

    def __init__(
        self, detail: str, seen: str = "", fix: str = "", lead: str = "", *, hint: str = "", belongs: int = -1
    ) -> None:
        super().__init__(detail)
        self.detail, self.seen, self.fix, self.lead, self.hint, self.belongs = detail, seen, fix, lead, hint, belongs


def _out_of_range(seen: str, unit: Unit) -> _WrongField:
    detail = f"{unit.name.capitalize()} must be {unit.wanted}; got {seen[:20]}"
    lead, fix = "The last one is", str(unit.high)
    if int(seen) < unit.low:
        lead, fix = "The first one is", str(unit.low)
    elif unit.name == "hour" and seen == "24":
        lead, fix = "For midnight write", "0"
    elif unit.name in ("day", "weekday"):
        lead, fix = ("For the last day of the month write", "L") if unit.name == "day" else ("For Sunday write", "7")
    return _WrongField(detail, seen, fix, lead)


def _unknown_name(seen: str, unit: Unit) -> _WrongField:
    belongs = next((position for position, other in enumerate(UNITS) if seen in other.names), -1)
    near = get_close_matches(seen, unit.names, n=1, cutoff=0.4)
    fix = seen[:3] if seen[:3] in unit.names else near[0] if near else ""
    detail = f'{unit.name.capitalize()} must be {unit.wanted}; got "{seen[:20]}"'
    return _WrongField(detail, seen, fix, "Did you mean", belongs=belongs)


def _unreadable(item: str, unit: Unit) -> _WrongField:
    if not item:
        return _WrongField(f"The {unit.name} field has a comma too many", hint="Leave it out.")
    hint = f'Write {unit.wanted}, a list "1,2", a range "1-5", a step "*/2" or "*".'
    return _WrongField(f'The {unit.name} field cannot be read: "{item[:40]}"', hint=hint)


def _explain(wrong: _WrongField, position: int, fields: list[str]) -> Fault:
    line, index = " ".join(fields), position - 6 + len(fields)
    if wrong.belongs >= 0:
        return _misplaced(wrong.belongs - 6 + len(fields), position, fields)
    fixed = fields.copy()
    fixed[index] = fixed[index].replace(wrong.seen, wrong.fix, 1)
    hint = wrong.hint or f"Write {UNITS[position].wanted}."
    if UNITS[position].name == "minute" and (later := _carry_hour(fields[index:])):
        hint = f'For {later[1]:0>2}:{later[0]:0>2} write "{" ".join([*fields[:index], *later])}".'
    elif wrong.fix and _is_readable(fixed):
        hint = f'{wrong.lead} "{" ".join(fixed)}"{"?" if wrong.lead == "Did you mean" else "."}'
    return Fault("", f'{wrong.detail} in "{shortened(line)}".', hint)


def _carry_hour(fields: list[str]) -> list[str] | None:
    """Minute 61 of hour 9 as minute 1 of hour 10."""
    if not (fields[0].isdecimal() and fields[1].isdecimal() and 60 <= int(fields[0]) < 120 and int(fields[1]) < 23):
        return None
    later = [str(int(fields[0]) - 60), str(int(fields[1]) + 1), *fields[2:]]
    return later if _is_readable(later) else None


def _misplaced(right: int, position: int, fields: list[str]) -> Fault:
    index = position - 6 + len(fields)
    seen, place = shortened(fields[index]), ("1st", "2nd", "3rd", "4th", "5th", "6th")[index]
    where = "Weekdays go last" if right == len(fields) - 1 else "Months go before the weekday"
    fixed = fields.copy()
    fixed[right], fixed[index] = fields[index], "*"
    hint = f'Did you mean "{" ".join(fixed)}"?' if _is_readable(fixed) else ""
    return Fault("", f'"{seen}" is in the {UNITS[position].name} field ({place}). {where}.', hint)


def _wrong_count(text: str, fields: list[str]) -> Fault:
    names = "minute hour day month weekday"
    detail = f'A cron schedule has 5 fields ({names}), or 6 with seconds first; "{shortened(text)}" has {len(fields)}.'
    if len(fields) > 6:
        lead, fixed = "If the last field is a year, leave it out", fields[:6]
    else:
        lead, fixed = "A field that does not matter is a *", (fields + ["*"] * 5)[:5]
    return Fault("", detail, f'{lead}: "{" ".join(fixed) if _is_readable(fixed) else "0 9 * * *"}".')


def _never(cron: Cron, fields: list[str]) -> Fault:
    months = [MONTH_NAMES[month] for month in values_of(cron.month)]
    line, day = shortened(" ".join(fields)), lowest(cron.day.bits)
    names = listed(months) if len(months) < 12 else "any month"
    if cron.day.marks or day <= max(MONTH_LENGTHS[month][-1] for month in values_of(cron.month)):
        why = f'no day of {names} is "{fields[-3]}"' + (f' and "{fields[-1]}"' if fields[-1] not in "*?" else "")
        return Fault("", f'"{line}" never happens: {why}.', 'For the last day of a month use "L".')
    whose, have = ("those months", "have") if len(months) > 1 else (names, "has")
    fixed = " ".join([*fields[:-3], "L", *fields[-2:]])
    why = f"{names} {have} no day {day}"
    return Fault("", f'"{line}" never happens: {why}.', f'For the last day of {whose} use "{fixed}".')


def _is_readable(fields: list[str]) -> bool:
    try:
        return len([_parse_field(field, position, "") for position, field in enumerate(["0", *fields][-6:])]) == 6
    except _WrongField:
        return False


def shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

"""A schedule in plain words: what it means, and what about it may surprise."""

from __future__ import annotations

import re
from datetime import date

from horae.core.calendars import EPOCH_ORDINAL, MONTH_NAMES, WEEKDAY_NAMES, Calendar, Field, Mark
from horae.core.cron import MACROS, Cron, count_days, listed, next_wall, parse_cron, values_of
from horae.core.duration import format_duration
from horae.core.errors import Invalid
from horae.core.schedule import At, Every, Manual, Now, Schedule, next_after
from horae.core.zone import DAY_S, SECOND_US, clock_changes, local, wall_clock

MOST_TIMES = 6

_ALL = {
    "second": (1 << 60) - 1,
    "minute": (1 << 60) - 1,
    "hour": (1 << 24) - 1,
    "day": (1 << 32) - 2,
    "month": (1 << 13) - 2,
    "weekday": 127,
}
_WORKDAYS = 0b0111110
_NTH = ("", "first", "second", "third", "fourth", "fifth")


def describe(schedule: Schedule) -> str:
    """Every weekday (Monday to Friday) at 09:00, Europe/Berlin time."""
    parts = list(dict.fromkeys(_line(line, schedule.zone) for line in schedule.lines)) or [_line(Manual(), "")]
    text = "; also ".join(parts)
    if any(isinstance(line, (Cron, At)) for line in schedule.lines):
        text += ", UTC" if schedule.zone == "UTC" else f", {schedule.zone} time"
    text += f", from {local(schedule.start_us, schedule.zone)}" if schedule.start_us is not None else ""
    text += f", until {local(schedule.end_us, schedule.zone)}" if schedule.end_us is not None else ""
    text += _limits(schedule.calendar) if schedule.calendar else ""
    return text[0].upper() + text[1:]


def surprises(schedule: Schedule, from_us: int) -> list[str]:
    """What is legal but may not be meant, looking a year ahead."""
    found = []
    for line in schedule.lines:
        if isinstance(line, Cron):
            found += [*_six_fields(line), *_short_steps(line), *_crowded(line)]
            found += [*_either_day(schedule, line, from_us), *_clock_changes(schedule, line, from_us)]
    if schedule.zone in _FIXED:
        found.append(
            f"{schedule.zone} never changes to summer time. If that is not meant, use {_FIXED[schedule.zone]}."
        )
    is_manual = all(isinstance(line, Manual) for line in schedule.lines)
    if not is_manual and next_after(schedule, from_us - 1) is None:
        found.append("This schedule has no due time left: see its window, its calendar and its dates.")
    return list(dict.fromkeys(found))


def _line(line: Cron | Every | At | Now | Manual, zone: str) -> str:
    match line:
        case Cron():
            return _cron(line)
        case Every():
            return f"every {_length(line.interval_us)}"
        case At():
            at = wall_clock(line.at_us, zone)
            day = f"{WEEKDAY_NAMES[at.isoweekday() % 7]} {at.day} {MONTH_NAMES[at.month]} {at.year}"
            return f"once, on {day} at {at.time().isoformat('auto' if at.second else 'minutes')}"
        case Now():
            return "once, right away"
        case Manual():
            return "only when asked for"


def _length(us: int) -> str:
    """1 hour 30 minutes; hour when it is just one."""
    units = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
    parts = [(count, units[letter]) for count, letter in re.findall(r"([0-9]+)([dhms])", format_duration(us))]
    if len(parts) == 1 and parts[0][0] == "1":
        return parts[0][1]
    return " ".join(f"{count} {unit}{'' if count == '1' else 's'}" for count, unit in parts)


def _limits(calendar: Calendar) -> str:
    if calendar.name:
        return f', on the days of calendar "{calendar.name}"'
    text = f", only on {_dates(len(calendar.include))}" if calendar.include is not None else ""
    excepted = [_dates(len(calendar.exclude))] if calendar.exclude else []
    if calendar.country:
        place = f"{calendar.country} ({calendar.subdivision})" if calendar.subdivision else calendar.country
        excepted.append(f"holidays of {place}")
    return f"{text}, except on {listed(excepted)}" if excepted else text


def _dates(count: int) -> str:
    return "1 given date" if count == 1 else f"{count} given dates"


def _cron(cron: Cron) -> str:
    days = _days(cron)
    count = cron.hour.bit_count() * cron.minute.bit_count() * cron.second.bit_count()
    if count <= MOST_TIMES:
        return f"{days} at {listed(_times(cron))}"
    return _rhythm(cron) if days == "every day" else f"{_rhythm(cron)}, {days}"


def _times(cron: Cron) -> list[str]:
    has_seconds = cron.second != 1
    return [
        f"{hour:02}:{minute:02}" + (f":{second:02}" if has_seconds else "")
        for hour in values_of(cron.hour)
        for minute in values_of(cron.minute)
        for second in values_of(cron.second)
    ]


def _rhythm(cron: Cron) -> str:
    """Many times a day: every 15 minutes from 09:00 to 17:45."""
    hours, minutes = values_of(cron.hour), values_of(cron.minute)
    if cron.second == 1 and cron.minute.bit_count() == 1 and (step := _step(cron.hour, 24)):
        every = "every hour" if step == 1 else f"every {step} hours from 00:{minutes[0]:02}"
        return f"{every} at minute {minutes[0]}" if step == 1 else every
    if cron.second == 1 and (step := _step(cron.minute, 60)):
        every = "every minute" if step == 1 else f"every {step} minutes"
    elif cron.minute == _ALL["minute"] and (step := _step(cron.second, 60)):
        every = "every second" if step == 1 else f"every {step} seconds"
        minutes = [0, 59]
    else:
        seconds = "" if cron.second == 1 else f"{_numbers('second', cron.second)} of "
        every = f"at {seconds}{_numbers('minute', cron.minute)}"
    if cron.hour == _ALL["hour"]:
        return f"{every} of every hour" if every.startswith("at ") else every
    if hours[-1] - hours[0] + 1 == len(hours) and not every.startswith("at "):
        return f"{every} from {hours[0]:02}:00 to {hours[-1]:02}:{minutes[-1]:02}"
    return f"{every} {'of' if every.startswith('at ') else 'in'} {_numbers('hour', cron.hour)}"


def _step(bits: int, size: int) -> int:
    """The n of 0, n, 2n and so on, evenly through the size; 0 for any other values."""
    values = values_of(bits)
    step = size // len(values)
    return step if len(values) > 1 and values == list(range(0, size, step)) and size % step == 0 else 0


def _numbers(unit: str, bits: int) -> str:
    """As in minute 5, minutes 0 to 29 and 45, days 1 to 31 in steps of 2."""
    values = values_of(bits)
    if bits == _ALL[unit]:
        return f"every {unit}"
    if len(values) == 1:
        return f"{unit} {values[0]}"
    step = values[1] - values[0]
    if step > 1 and len(values) > 3 and values == list(range(values[0], values[-1] + 1, step)):
        return f"{unit}s {values[0]} to {values[-1]} in steps of {step}"
    return f"{unit}s {listed(_runs(bits, [str(value) for value in range(61)]))}"


def _runs(bits: int, names: list[str]) -> list[str]:
    """The names of the values, three or more in a row as `a to c`."""
    runs: list[list[int]] = []
    for value in values_of(bits):
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words = []
    for run in runs:
        words += [names[value] for value in run] if len(run) < 3 else [f"{names[run[0]]} to {names[run[-1]]}"]
    return words


def _days(cron: Cron) -> str:
    is_every_month = cron.month == _ALL["month"]
    months = "every month" if is_every_month else listed(_runs(cron.month, list(MONTH_NAMES)))
    within = "" if is_every_month else f" in {months}"
    is_any_day, is_any_weekday = cron.day.bits == _ALL["day"], cron.weekday.bits == _ALL["weekday"]
    is_either = not (cron.day.is_open or cron.weekday.is_open)
    if (is_any_day and is_any_weekday) or (is_either and (is_any_day or is_any_weekday)):
        return f"every day{within}"
    by_day = f"on {listed(_days_of_month(cron.day))} of {months}"
    by_weekday = _weekdays(cron.weekday, months, within)
    if is_any_day:
        return by_weekday
    if is_any_weekday:
        return by_day
    if is_either:
        return f"{by_day} and also {by_weekday}"
    named = _weekday_names(cron.weekday) + [_mark(mark) for mark in cron.weekday.marks]
    return f"{by_day}, but only if that is {' or '.join(named)}"


def _days_of_month(day: Field) -> list[str]:
    plain = [_numbers("day", day.bits)] if day.bits else []
    return plain + [_mark(mark) for mark in day.marks]


def _weekdays(weekday: Field, months: str, within: str) -> str:
    words = []
    if weekday.bits == _WORKDAYS:
        words.append(f"every weekday (Monday to Friday){within}")
    elif weekday.bits:
        words.append(f"every {listed(_weekday_names(weekday))}{within}")
    if weekday.marks:
        words.append(f"on {listed([_mark(mark) for mark in weekday.marks])} of {months}")
    return " and also ".join(words)


def _weekday_names(weekday: Field) -> list[str]:
    """Monday first."""
    return [WEEKDAY_NAMES[value % 7] for value in range(1, 8) if weekday.bits >> value % 7 & 1]


def _mark(mark: Mark) -> str:
    match mark.rule:
        case "last":
            days = "day" if mark.nth == 1 else "days"
            return f"the day {mark.nth} {days} before the last" if mark.nth else "the last day"
        case "workday":
            return f"the workday nearest to day {mark.day}" if mark.day else "the last workday"
        case "last_weekday":
            return f"the last {WEEKDAY_NAMES[mark.day]}"
        case _:
            return f"the {_NTH[mark.nth]} {WEEKDAY_NAMES[mark.day]}"


_FIXED = {"EST": "America/New_York", "MST": "America/Denver", "HST": "Pacific/Honolulu"}


def _fields(cron: Cron) -> list[str]:
    return MACROS.get(cron.text.lower(), cron.text).split()


def _six_fields(cron: Cron) -> list[str]:
    fields = _fields(cron)
    if len(fields) == 5 or fields[0] != "0":
        return []
    about = "horae reads the first as seconds; Quartz also starts with seconds, AWS ends with a year."
    return [f'"{cron.text}" has 6 fields. {about} Without seconds write "{" ".join(fields[1:])}".']


def _short_steps(cron: Cron) -> list[str]:
    found = []
    for field, size, unit in ((_fields(cron)[-5], 60, "minute"), (_fields(cron)[-4], 24, "hour")):
        step = field.removeprefix("*/")
        if field.startswith("*/") and step.isdecimal() and size % int(step):
            found.append(
                f'"{field}" in the {unit} field starts anew at 0, so its last step is shorter. '
                f'For every {step} {unit}s write "@every {step}{unit[0]}".'
            )
    return found


def _crowded(cron: Cron) -> list[str]:
    fields = _fields(cron)
    if fields[-5] != "0" or cron.second != 1:
        return []
    spread = " ".join([*fields[:-5], "H", *fields[-4:]])
    return [f'Many jobs run at minute 0. "{spread}" gives this one a minute of its own.']


def _either_day(schedule: Schedule, cron: Cron, from_us: int) -> list[str]:
    if cron.day.is_open or cron.weekday.is_open:
        return []
    *_, day, month, weekday = fields = _fields(cron)
    year = wall_clock(from_us, schedule.zone).year + 1
    first, end = (date(number, 1, 1).toordinal() - EPOCH_ORDINAL for number in (year, year + 1))
    by_day, by_weekday = (" ".join([*fields[:-3], *days]) for days in ((day, month, "*"), ("*", month, weekday)))
    effect = f"runs on day {day} and also on weekday {weekday} ({count_days(cron, first, end)} days in {year})"
    why = "because cron joins day and weekday with OR"
    lines = " or ".join(f'"{line}"' for line in (by_day, by_weekday) if _can_happen(line))
    return [f'"{cron.text}" {effect}, {why}. For one of them write {lines}.']


def _can_happen(line: str) -> bool:
    try:
        parse_cron(line)
    except Invalid:
        return False
    return True


_OUTCOMES = {
    "shift": 'runs right after the jump; choose dst.gap "skip" to leave it out',
    "skip": 'leaves it out; choose dst.gap "shift" to run right after the jump',
    "first": 'runs at the first; choose dst.fold "last" or "both" to change that',
    "last": 'runs at the last; choose dst.fold "first" or "both" to change that',
    "both": 'runs at both; choose dst.fold "first" or "last" to run once',
}


def _clock_changes(schedule: Schedule, cron: Cron, from_us: int) -> list[str]:
    """The first gap and the first fold of the coming year that the line meets."""
    found: dict[bool, str] = {}
    from_s = from_us // SECOND_US
    for at_s, before, after in () if cron.is_elapsed else clock_changes(schedule.zone, from_s, from_s + 366 * DAY_S):
        is_gap, wall = before < after, next_wall(cron, at_s + min(before, after))
        if wall < at_s + max(before, after) and is_gap not in found:
            clocks = f"clocks go from {_on_clock(at_s + before)} to {_on_clock(at_s + after)}"
            if after - before == DAY_S:
                clocks = "the whole day is left out"
            day = date.fromordinal(wall // DAY_S + EPOCH_ORDINAL)
            what = "does not exist" if is_gap else "comes twice"
            outcome = _OUTCOMES[schedule.dst.gap if is_gap else schedule.dst.fold]
            found[is_gap] = f"{_on_clock(wall)} {what} in {schedule.zone} on {day} ({clocks}). horae {outcome}."
    return list(found.values())


def _on_clock(wall_s: int) -> str:
    minutes = wall_s % DAY_S // 60
    return f"{minutes // 60:02}:{minutes % 60:02}"

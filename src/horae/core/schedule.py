"""When a job is due: the union of cron lines, intervals and instants, in a zone, within a window, minus a calendar.

Instants are microseconds since the epoch. Nothing here reads a clock, and every answer comes in bounded time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache, partial

from horae.core.calendars import EPOCH_ORDINAL, Calendar, next_included, why_left_out
from horae.core.cron import LONGEST_TEXT, MACROS, Cron, count_walls, next_wall, parse_cron, shortened
from horae.core.duration import parse_duration, parse_instants
from horae.core.errors import Fault, Invalid
from horae.core.zone import (
    DAY_S,
    HORIZON_S,
    SECOND_US,
    check_zone,
    clock_changes,
    local_day,
    next_instant,
    segment_at,
    wanted_walls,
)

MOST_LINES = 20
HORIZON_US = HORIZON_S * SECOND_US
# Holidays further off are nobody's knowledge, and a line that a calendar always leaves out must end somewhere.
CALENDAR_US = 30 * 366 * DAY_S * SECOND_US


@dataclass(frozen=True, slots=True)
class Dst:
    """What a fixed time does when the clocks jump over it or show it twice.

    `gap` is shift or skip; `fold` is first, last or both.
    """

    gap: str = "shift"
    fold: str = "first"


@dataclass(frozen=True, slots=True)
class Every:
    text: str
    interval_us: int


@dataclass(frozen=True, slots=True)
class At:
    text: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Now:
    text: str = "@now"


@dataclass(frozen=True, slots=True)
class Manual:
    text: str = "@manual"


Line = Cron | Every | At | Now | Manual


@dataclass(frozen=True, slots=True)
class Schedule:
    lines: tuple[Line, ...]
    zone: str
    dst: Dst
    anchor_us: int
    start_us: int | None
    end_us: int | None
    calendar: Calendar | None
    seed: str
    without: frozenset[int] = frozenset()


def parse_schedule(  # noqa: PLR0913 - the whole of what decides when a job is due
    text: str | Sequence[str],
    *,
    zone: str,
    anchor_us: int,
    seed: str = "",
    dst: Dst = Dst(),  # noqa: B008 - frozen
    start_us: int | None = None,
    end_us: int | None = None,
    calendar: Calendar | None = None,
    pointer: str = "/schedule",
) -> Schedule:
    """Reads one line or a list of them; Invalid lists everything that is wrong.

    `anchor_us` is where `@every` counts from and `@now` falls; `seed`, normally the job's id, places each `H`.
    """
    check_zone(zone)
    faults = _policy_faults(dst, start_us, end_us)
    lines: list[Line] = []
    for line, where in _texts(text, pointer):
        try:
            lines += _parse_line(line, zone, dst, seed, where)
        except Invalid as invalid:
            faults += invalid.faults
    if faults:
        raise Invalid(faults)
    return Schedule(tuple(dict.fromkeys(lines)), zone, dst, anchor_us, start_us, end_us, calendar, seed)


def next_after(schedule: Schedule, after_us: int) -> int | None:
    """The first due time strictly after the given instant."""
    due_us = _next_within(schedule, after_us)
    while due_us in schedule.without:
        due_us = _next_within(schedule, due_us)
    return due_us


def _next_within(schedule: Schedule, after_us: int) -> int | None:
    start_us, end_us = schedule.start_us, schedule.end_us
    if start_us is not None and after_us < start_us:
        after_us = start_us - 1
    due_us = (
        _next_bare(schedule, after_us)
        if schedule.calendar is None
        else _next_allowed(schedule, schedule.calendar, after_us)
    )
    return None if due_us is None or (end_us is not None and due_us > end_us) else due_us


def latest_at_or_before(schedule: Schedule, at_us: int, floor_us: int) -> int | None:
    """The last due time from `floor_us` to `at_us`, both included."""
    span = SECOND_US
    while (found := next_after(schedule, max(floor_us, at_us - span) - 1)) is None or found > at_us:
        if at_us - span <= floor_us:
            return None
        span *= 4
    none_after = at_us
    while (later := next_after(schedule, found)) is not None and later <= none_after:
        found, middle = later, (later + none_after) // 2
        later = next_after(schedule, middle)
        if later is None or later > none_after:
            none_after = middle
        else:
            found = later
    return found


def upcoming(schedule: Schedule, after_us: int, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count and (due_us := next_after(schedule, after_us)) is not None:
        found.append(due_us)
        after_us = due_us
    return found


def count_between(schedule: Schedule, from_us: int, to_us: int, at_most: int) -> int:
    """How many due times from `from_us` to `to_us`, both included; stops at `at_most`."""
    from_us = from_us if schedule.start_us is None else max(from_us, schedule.start_us)
    to_us = min(to_us, HORIZON_US - 1 if schedule.end_us is None else schedule.end_us)
    is_plain = len(schedule.lines) == 1 and schedule.calendar is None and not schedule.without
    line = schedule.lines[0] if is_plain else None
    if isinstance(line, Cron):
        return min(at_most, _count_of_cron(schedule, line, from_us, to_us))
    if isinstance(line, Every):
        before, until = (max(0, (us - schedule.anchor_us) // line.interval_us) for us in (from_us - 1, to_us))
        return min(at_most, max(0, until - before))
    count, after_us = 0, from_us - 1
    while count < at_most and (due_us := next_after(schedule, after_us)) is not None and due_us <= to_us:
        count, after_us = count + 1, due_us
    return count


def interval_of(schedule: Schedule) -> int | None:
    """The length of a schedule that is one plain interval."""
    line = schedule.lines[0]
    is_plain = len(schedule.lines) == 1 and schedule.calendar is None and not schedule.without
    return line.interval_us if is_plain and isinstance(line, Every) else None


def is_due_at(schedule: Schedule, at_us: int) -> bool:
    return next_after(schedule, at_us - 1) == at_us


def why_not(schedule: Schedule, at_us: int) -> str | None:
    """Why a due time of the bare lines was left out: `outside_window`, `calendar_excluded` or `dst_gap`.

    None when it is due after all, or was never a due time. A time that the clocks jumped over has no instant;
    it is asked for by the one that the offset before the jump gives, or by the end of the jump.
    """
    is_bare = _next_bare(schedule, at_us - 1) == at_us
    is_hidden = not is_bare and 0 <= at_us < HORIZON_US and _is_in_gap(schedule, at_us)
    if not is_bare and not is_hidden:
        return None
    if at_us < (schedule.start_us or at_us) or at_us > (schedule.end_us or at_us):
        return "outside_window"
    if schedule.calendar and why_left_out(schedule.calendar, _ordinal(schedule.zone, at_us)):
        return "calendar_excluded"
    return "dst_gap" if is_hidden else None


def without_limits(schedule: Schedule) -> Schedule:
    """The bare lines, for asking `why_not` about each of their due times."""
    return replace(schedule, start_us=None, end_us=None, calendar=None)


def kind(schedule: Schedule) -> str:
    if len(schedule.lines) == 1:
        return _KINDS[type(schedule.lines[0])]
    kinds = {_KINDS[type(line)] for line in schedule.lines}
    return next((name for name in _KINDS.values() if name in kinds), "MANUAL")


_KINDS = {Cron: "CRON", Every: "INTERVAL", At: "FUTURE", Now: "IMMEDIATE", Manual: "MANUAL"}


def warnings(schedule: Schedule, from_us: int | None = None) -> list[str]:
    """What is legal but may surprise, looking a year ahead of `from_us`, by default the anchor."""
    from horae.core.words import surprises  # which itself reads schedules

    if from_us is None:
        from_us = max(schedule.anchor_us, schedule.start_us or schedule.anchor_us)
    return surprises(schedule, from_us)


def _texts(text: object, pointer: str) -> list[tuple[object, str]]:
    if isinstance(text, str):
        return [(text, pointer)]
    if not isinstance(text, (list, tuple)) or len(text) > MOST_LINES:
        detail = f"A schedule is a text, or a list of at most {MOST_LINES} texts."
        raise Invalid([Fault(pointer, detail, 'Write "0 9 * * 1-5" or ["0 9 * * 1-5", "0 12 * * 6"].')])
    return [(line, f"{pointer}/{index}") for index, line in enumerate(text)]


def _policy_faults(dst: Dst, start_us: int | None, end_us: int | None) -> list[Fault]:
    faults = []
    if dst.gap not in ("shift", "skip"):
        faults.append(Fault("/dst/gap", f'dst.gap must be shift or skip; got "{dst.gap}".', 'Write "shift".'))
    if dst.fold not in ("first", "last", "both"):
        faults.append(Fault("/dst/fold", f'dst.fold must be first, last or both; got "{dst.fold}".', 'Write "first".'))
    if start_us is not None and end_us is not None and end_us < start_us:
        faults.append(Fault("/end_at", "end_at is before start_at, so the job would never run.", "Swap them."))
    return faults


def _parse_line(text: object, zone: str, dst: Dst, seed: str, pointer: str) -> list[Line]:
    if not isinstance(text, str) or not text.strip():
        raise Invalid([Fault(pointer, "A schedule must be a text and not empty.", 'Write "0 9 * * *" or "@manual".')])
    line = text.strip()
    if line[0] == "@" and line.lower() not in MACROS and len(line) <= LONGEST_TEXT:
        return [_parse_word(line, pointer)]
    if line[:4].isdecimal() and line[4:5] == "-" and len(line) <= LONGEST_TEXT:
        return [*_parse_at(line, zone, dst, pointer)]
    return [parse_cron(line, seed, pointer)]


def _parse_word(line: str, pointer: str) -> Line:
    word, _, rest = line.lower().partition(" ")
    if word == "@every":
        return _parse_every(line, rest, pointer)
    if line.lower() in ("@now", "@manual"):
        return Now() if word == "@now" else Manual()
    if word == "@reboot":
        detail = '"@reboot" has no time: a job of horae belongs to no machine, and so to no start of one.'
        raise Invalid([Fault(pointer, detail, 'For once, right away, write "@now"; for every day, "@daily".')])
    known = [*MACROS, "@every 30s", "@now", "@manual"]
    near = get_close_matches(shortened(line.lower()), known, n=1)
    hint = f'Did you mean "{near[0]}"?' if near else f"Known words: {', '.join(known)}."
    raise Invalid([Fault(pointer, f'"{shortened(line)}" is not a schedule.', hint)])


def _parse_every(line: str, length: str, pointer: str) -> Every:
    interval_us = parse_duration(length.strip(), pointer)
    if interval_us < SECOND_US or interval_us % SECOND_US:
        detail = f'@every takes whole seconds, 1s or more; got "{shortened(line)}".'
        hint = f'Write "@every {max(1, round(interval_us / SECOND_US))}s".'
        raise Invalid([Fault(pointer, detail, hint)])
    return Every(line, interval_us)


def _parse_at(line: str, zone: str, dst: Dst, pointer: str) -> list[At]:
    instants = parse_instants(line, pointer, zone, dst.gap, dst.fold)
    if instants[0] < 0 or instants[-1] >= HORIZON_US:
        detail = f'"{line}" is outside 1970 to 2200, the years planned for.'
        raise Invalid([Fault(pointer, detail, 'For a job without a time write "@manual".')])
    return [At(line, at_us) for at_us in instants]


def _next_bare(schedule: Schedule, after_us: int) -> int | None:
    """The next due time of the lines, whatever the window and the calendar say."""
    lines = schedule.lines
    if len(lines) == 1:
        return _next_of_line(schedule, lines[0], after_us)
    found = [due_us for line in lines if (due_us := _next_of_line(schedule, line, after_us)) is not None]
    return min(found, default=None)


def _next_of_line(schedule: Schedule, line: Line, after_us: int) -> int | None:
    if isinstance(line, Cron):
        gap, fold = _policy(schedule, line)
        return _next_of_cron(line, schedule.zone, gap, fold, after_us // SECOND_US)
    if isinstance(line, Every):
        steps = max(1, (after_us - schedule.anchor_us) // line.interval_us + 1)
        due_us = schedule.anchor_us + steps * line.interval_us
        return due_us if due_us < HORIZON_US else None
    if isinstance(line, Manual):
        return None
    due_us = line.at_us if isinstance(line, At) else schedule.anchor_us
    return due_us if due_us > after_us else None


# Many jobs share a line, a zone and a due time; 16,384 answers are about 4 MB.
@lru_cache(maxsize=16384)
def _next_of_cron(cron: Cron, zone: str, gap: str, fold: str, after_s: int) -> int | None:
    found = next_instant(zone, max(after_s, -1), partial(next_wall, cron), gap, fold)
    return None if found is None else found * SECOND_US


def _policy(schedule: Schedule, cron: Cron) -> tuple[str, str]:
    return ("skip", "both") if cron.is_elapsed else (schedule.dst.gap, schedule.dst.fold)


def _next_allowed(schedule: Schedule, calendar: Calendar, after_us: int) -> int | None:
    """The next due time on a day that the calendar allows."""
    last_us = HORIZON_US if schedule.end_us is None else schedule.end_us
    while (due_us := _next_bare(schedule, after_us)) is not None and due_us <= last_us:
        day = _ordinal(schedule.zone, due_us)
        if not why_left_out(calendar, day):
            return due_us
        # A fold at midnight shows the day before once more, hence the step back.
        included = next_included(calendar, day - 1)
        if included is None:
            return None
        if calendar.include is None:
            last_us = min(last_us, due_us + CALENDAR_US)
        start = (included - EPOCH_ORDINAL - 2) * DAY_S
        after_us = max(_end_of_day(schedule.zone, due_us // SECOND_US), start) * SECOND_US - 1
    return None


def _end_of_day(zone: str, at_s: int) -> int:
    """When the local date changes next, or the clocks do."""
    segment = segment_at(zone, at_s)
    return min(segment.until_s, ((at_s + segment.offset_s) // DAY_S + 1) * DAY_S - segment.offset_s)


def _ordinal(zone: str, at_us: int) -> int:
    return local_day(zone, at_us // SECOND_US) + EPOCH_ORDINAL


def _count_of_cron(schedule: Schedule, cron: Cron, from_us: int, to_us: int) -> int:
    gap, fold = _policy(schedule, cron)
    at, last = max(0, -(-from_us // SECOND_US)), to_us // SECOND_US
    count = 0
    while at <= last:
        segment = segment_at(schedule.zone, at)
        low, high = wanted_walls(segment, at, min(segment.until_s, last + 1), fold)
        count += count_walls(cron, low, high)
        if gap == "shift" and at == segment.start_s:
            end_of_gap = segment.start_s + segment.offset_s
            count += next_wall(cron, segment.reached_s) < end_of_gap < next_wall(cron, end_of_gap)
        at = segment.until_s
    return count


def _is_in_gap(schedule: Schedule, at_us: int) -> bool:
    """Whether some line wanted a wall time that the clocks jumped over and that this instant stands for."""
    at_s, rest = divmod(at_us, SECOND_US)
    for start, before, after in clock_changes(schedule.zone, at_s - 2 * DAY_S, at_s):
        if rest or not start <= at_s < start + after - before:
            continue
        for line in schedule.lines:
            if isinstance(line, Cron) and not line.is_elapsed:
                wall = next_wall(line, at_s + before)
                if wall == at_s + before or (at_s == start and wall < start + after):
                    return True
    return False

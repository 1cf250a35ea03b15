"""Lengths of time and instants, between the texts people write and whole microseconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from horae.core.errors import Fault, Invalid
from horae.core.zone import DAY_S, HORIZON_S, SECOND_US, instants_of

LONGEST_US = 3650 * DAY_S * SECOND_US
_BEYOND_S = LONGEST_US // SECOND_US + 1

_UNITS_US = {
    "w": 7 * DAY_S * SECOND_US,
    "d": DAY_S * SECOND_US,
    "h": 3600 * SECOND_US,
    "m": 60 * SECOND_US,
    "s": SECOND_US,
    "ms": 1000,
    "us": 1,
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|us|[wdhms])")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?:\.([0-9]{1,9}))?\s?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(value: str | float, pointer: str) -> int:
    """Microseconds of "30s", "5m", "1h30m", "250ms", "2d"; a bare number is seconds."""
    if isinstance(value, str):
        us = _duration_of_text(value.strip().lower())
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or _is_nan(value):
        us = None
    else:
        # Bounded first: what is too much anyway may be more than a float holds.
        us = round(max(-_BEYOND_S, min(value, _BEYOND_S)) * SECOND_US)
    if us is None:
        raise _fault(pointer, f"A length of time looks like 30s, 5m or 1h30m; got {_shown(value)}.", 'Write "30s".')
    if us < 0:
        raise _fault(pointer, f"A length of time cannot be negative; got {_shown(value)}.", 'Write "0s" or more.')
    if us > LONGEST_US:
        raise _fault(pointer, f"A length of time is 10 years at most; got {_shown(value)}.", 'Write "3650d" or less.')
    return us


def format_duration(us: int) -> str:
    """The shortest exact text: 1h30m, 30s, 0s, 250ms. `parse_duration` reads it back."""
    parts = []
    for unit, size in _UNITS_US.items():
        if unit != "w" and us >= size:
            count, us = divmod(us, size)
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_instant(text: str, pointer: str, zone: str = "UTC") -> int:
    """Microseconds since the epoch of an RFC 3339 time. Without an offset it is the zone's wall clock."""
    return parse_instants(text, pointer, zone, "shift", "first")[0]


def parse_instants(text: str, pointer: str, zone: str, gap: str, fold: str) -> list[int]:
    """As `parse_instant`, but a wall-clock time that a clock change hides or repeats follows the policy."""
    match = _INSTANT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        detail = f"A time looks like 2026-11-15T09:00:00Z; got {_shown(text)}."
        raise _fault(pointer, detail, 'Write the date, a "T", the time, and "Z" or an offset such as "+01:00".')
    day, clock, fraction, offset = match.groups()
    try:
        at = datetime.fromisoformat(f"{day}T{clock}{(offset or 'Z').upper()}")
        us = (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        detail = f"{_shown(text)} is not on the calendar or not on the clock."
        raise _fault(pointer, detail, "Write a time that exists, such as 2026-11-15T09:00:00Z.") from None
    fraction_us = int((fraction or "").ljust(6, "0")[:6])
    if offset or zone == "UTC":
        return [us + fraction_us]
    return _on_wall_clock(text, pointer, us // SECOND_US, fraction_us, zone, gap, fold)


def format_instant(us: int) -> str:
    """2026-11-15T09:00:00Z, with milli- or microseconds only when there are any."""
    at = (_EPOCH + timedelta(microseconds=us)).replace(tzinfo=None)
    precision = "seconds" if not us % SECOND_US else "milliseconds" if not us % 1000 else "microseconds"
    return f"{at.isoformat(timespec=precision)}Z"


def _is_nan(value: float) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _duration_of_text(text: str) -> int | None:
    if len(text) > 60:
        return None
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("-+")
    if _NUMBER.fullmatch(text):
        return sign * int(Decimal(text) * SECOND_US)
    total, end = Decimal(0), 0
    while match := _PART.match(text, end):
        total += Decimal(match[1]) * _UNITS_US[match[2]]
        end = match.end()
    return sign * int(total) if end and end == len(text) else None


def _on_wall_clock(text: str, pointer: str, wall_s: int, fraction_us: int, zone: str, gap: str, fold: str) -> list[int]:
    if not 0 <= wall_s < HORIZON_S - DAY_S:
        raise _fault(pointer, f"{_shown(text)} is outside 1970 to 2200 and has no offset.", 'Add "Z" or "+01:00".')
    instants = instants_of(zone, wall_s, gap, fold)
    if not instants:
        detail = f'{_shown(text)} does not exist in {zone}: the clocks jump over it, and dst.gap is "skip".'
        raise _fault(pointer, detail, 'Choose another time, or dst.gap "shift" to run right after the jump.')
    is_shifted = not instants_of(zone, wall_s, "skip", "first")
    return [at * SECOND_US + (0 if is_shifted else fraction_us) for at in instants]


def _shown(value: object) -> str:
    text = str(value)
    text = text if len(text) <= 60 else f"{text[:60]}…"
    return f'"{text}"' if isinstance(value, str) else text


def _fault(pointer: str, detail: str, hint: str) -> Invalid:
    return Invalid([Fault(pointer, detail, hint)])

"""Times as people write and read them: `09:00`, `tomorrow 9:00`, `-2h`; in the zone of this machine unless told."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from pathlib import Path

from horae.cli.failure import USAGE, Failure

_CLOCK = re.compile(r"(?:(today|tomorrow|yesterday)\s*)?(\d{1,2}):(\d\d)(?::(\d\d))?")
_DAYS = {None: 0, "today": 0, "tomorrow": 1, "yesterday": -1}


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the clock of the person who asks


def read_time(text: str, flag: str, zone: str | None = None, *, is_future: bool = False) -> str:
    """RFC 3339 in UTC. A bare clock time is today's, or with `is_future` the next one."""
    found = _relative(text, flag) or _clock(text, zone, is_future=is_future) or _written(text, zone)
    if found is None:
        hint = "2030-01-04T09:00:00Z, 2030-01-04, 09:00, 'tomorrow 09:00', now, -2h or +30m."
        raise Failure(USAGE, f'{flag}: "{text}" is no time.', code="time", hint=hint)
    return rfc3339(found)


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_length(text: str, flag: str) -> float:
    """Seconds."""
    from horae.core.duration import parse_duration

    return parse_duration(text, flag) / 1_000_000


def shown_time(text: str) -> str:
    """`09:00:05 CET, in 4 m`; with the date if it is not near."""
    at = datetime.fromisoformat(text).astimezone()
    if abs((at - now()).total_seconds()) >= 43_200:
        return f"{at:%a %Y-%m-%d %H:%M %Z}"
    return f"{at:%H:%M:%S %Z}, {distance(text)}"


def short_time(text: str) -> str:
    """The same for a cell of a table: `09:00:05, in 4 m`."""
    at = datetime.fromisoformat(text).astimezone()
    if abs((at - now()).total_seconds()) >= 43_200:
        return f"{at:%a %Y-%m-%d %H:%M}"
    largest = re.sub(r"( [dhm]) \d+ [hms]", r"\1", distance(text))
    return f"{at:%H:%M:%S}, {largest}"


def distance(text: str) -> str:
    """`in 4 m`, `3 s ago`."""
    from horae.cli.output import shown_length

    seconds = (datetime.fromisoformat(text) - now()).total_seconds()
    length = shown_length(max(round(abs(seconds)), 1))
    return f"in {length}" if seconds > 0 else f"{length} ago"


def local_zone() -> str | None:
    """The name of this machine's zone, if it can be told."""
    name = os.environ.get("TZ", "").lstrip(":")
    if name and "/" in name and not name.startswith("/"):
        return name
    link = Path("/etc/localtime")
    if link.is_symlink():
        _, _, tail = str(link.resolve()).partition("zoneinfo/")
        if tail:
            return "UTC" if tail in ("Etc/UTC", "UCT", "Universal", "Zulu") else tail
    file = Path("/etc/timezone")
    if file.exists():
        return file.read_text().strip().replace("Etc/UTC", "UTC") or None
    return None


def _relative(text: str, flag: str) -> datetime | None:
    if text == "now":
        return now()
    if text[:1] not in ("+", "-"):
        return None
    length = timedelta(seconds=read_length(text[1:].strip(), flag))
    return now() + length if text[0] == "+" else now() - length


def _clock(text: str, zone: str | None, *, is_future: bool) -> datetime | None:
    match = _CLOCK.fullmatch(text.strip().lower())
    if match is None:
        return None
    here = now().astimezone(_zone(zone))
    hour, minute, second = int(match[2]), int(match[3]), int(match[4] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    clock = time(hour, minute, second)
    day = (here + timedelta(days=_DAYS[match[1]])).date()
    at = _on(datetime.combine(day, clock), zone)
    if is_future and match[1] is None and at < now():
        at = _on(datetime.combine(day + timedelta(days=1), clock), zone)
    return at


def _written(text: str, zone: str | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at if at.tzinfo else _on(at, zone)


def _on(wall: datetime, zone: str | None) -> datetime:
    """A wall clock time of that zone, or of this machine."""
    return wall.replace(tzinfo=_zone(zone)) if zone else wall.astimezone()


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    from zoneinfo import ZoneInfo

    from horae.core.zone import check_zone

    return ZoneInfo(check_zone(name, "--tz"))

"""systemd timers as jobs. OnCalendar becomes a cron line where one says the same; the rest says why not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from horae.cli.crontab import Entry

TIMEOUT = "24h"
WORDS = {
    "minutely": "* * * * *", "hourly": "@hourly", "daily": "@daily", "weekly": "0 0 * * 1", "monthly": "@monthly",
    "yearly": "@yearly", "annually": "@yearly", "quarterly": "0 0 1 1,4,7,10 *", "semiannually": "0 0 1 1,7 *",
}  # fmt: skip
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNIT_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60,
                 "minutes": 60, "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600, "d": 86_400, "day": 86_400,
                 "days": 86_400, "w": 604_800, "week": 604_800, "weeks": 604_800}  # fmt: skip
_RANGE = re.compile(r"(?:\*|\d+(?:\.\.\d+)?)(?:/\d+)?(?:,(?:\*|\d+(?:\.\.\d+)?)(?:/\d+)?)*")


def read_timers(paths: list[Path], *, zone: str, prefix: str = "") -> list[Entry]:
    """Every .timer of these files and folders, with the .service beside it."""
    entries = []
    for number, path in enumerate(_timers(paths), 1):
        entries.append(_entry(number, path, zone, prefix))
    return entries


def _timers(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.timer")) if path.is_dir() else [path]
    return found


def _entry(number: int, path: Path, zone: str, prefix: str) -> Entry:
    timer = read_unit(path)
    written = [*timer.get("Timer.OnCalendar", []), *timer.get("Timer.OnUnitActiveSec", [])]
    entry = Entry(number, path.name, ", ".join(written), path.stem)
    name = (timer.get("Timer.Unit") or [f"{path.stem}.service"])[-1]
    service_path = path.with_name(name)
    if not service_path.exists():
        entry.refusal = f"{name} is not beside it: what it runs is not known."
        return entry
    schedules, refusal, zone = _schedules(entry, timer, zone)
    if refusal:
        entry.refusal = refusal
        return entry
    target, refusal = _target(entry, read_unit(service_path))
    if refusal:
        entry.refusal = refusal
        return entry
    is_persistent = _is_yes(timer.get("Timer.Persistent"))
    entry.notes += ["Persistent: a missed time runs once, when there is a scheduler again"] if is_persistent else []
    job: dict[str, Any] = {
        "name": f"{prefix}{path.stem}",
        "schedule": schedules[0] if len(schedules) == 1 else schedules,
        "timezone": zone,
        "type": "shell",
        "target": target,
        "retry": {"max_retries": 0},
        "misfire": {"policy": "run_once" if is_persistent else "skip"},
        # A unit that is active already is not started again.
        "overlap": "skip",
        "timeout": TIMEOUT,
        "labels": {"imported": "systemd"},
        "description": (timer.get("Unit.Description") or [""])[-1][:500],
    }
    delay = _length((timer.get("Timer.RandomizedDelaySec") or ["0"])[-1])
    if delay:
        job["jitter"] = f"{round(delay)}s"
    entry.job = job
    return entry


def read_unit(path: Path) -> dict[str, list[str]]:
    """`Section.Key` to its values; an empty value forgets the earlier ones."""
    found: dict[str, list[str]] = {}
    section, text = "", path.read_text().replace("\\\n", " ")
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, _, value = line.partition("=")
        name, value = f"{section}.{key.strip()}", value.strip()
        found[name] = [*found.get(name, []), value] if value else []
    return found


def _schedules(entry: Entry, timer: dict[str, list[str]], zone: str) -> tuple[list[str], str, str]:
    lines = []
    for text in timer.get("Timer.OnCalendar", []):
        line, own_zone, refusal = calendar_to_cron(text)
        if refusal:
            return [], refusal, zone
        if own_zone:
            zone = own_zone
        lines.append(line)
    for key in ("OnUnitActiveSec", "OnUnitInactiveSec"):
        for text in timer.get(f"Timer.{key}", []):
            seconds = _length(text)
            if not seconds:
                return [], f"{key}={text} is no length of time.", zone
            lines.append(f"@every {round(seconds)}s")
            entry.notes.append(f"{key}: the distance is between due times, not from the end of the last run")
    for key in ("OnBootSec", "OnStartupSec", "OnActiveSec"):
        if timer.get(f"Timer.{key}"):
            entry.notes.append(f"{key} is left out: a job belongs to no machine")
    return lines, "" if lines else "has no OnCalendar and no OnUnitActiveSec: nothing that comes again.", zone


def calendar_to_cron(text: str) -> tuple[str, str, str]:
    """A line of cron, a zone of its own if it names one, and why not."""
    words = text.split()
    zone = (
        words.pop() if len(words) > 1 and (("/" in words[-1] and words[-1][0].isalpha()) or words[-1] == "UTC") else ""
    )
    if len(words) == 1 and words[0].lower() in WORDS:
        return WORDS[words[0].lower()], zone, ""
    weekday = "*"
    if words and words[0][0].isalpha():
        found = _weekdays(words.pop(0))
        if found is None:
            return "", zone, f'"{text}": the days of the week cannot be read.'
        weekday = found
    date = words.pop(0) if words and "-" in words[0] else "*-*-*"
    clock = words.pop(0) if words else "00:00:00"
    if words or "~" in text:
        return "", zone, f'"{text}" has no like among cron lines.'
    return _joined(text, weekday, date, clock, zone)


def _joined(text: str, weekday: str, date: str, clock: str, zone: str) -> tuple[str, str, str]:
    year, month, day = date.split("-") if date.count("-") == 2 else ("*", *date.split("-", 1))
    parts = clock.split(":")
    if len(parts) == 2:
        parts.append("00")
    if year != "*":
        return "", zone, f'"{text}" names a year; cron has none.'
    if len(parts) != 3 or not all(_RANGE.fullmatch(part) for part in (*parts, month, day)):
        return "", zone, f'"{text}" has no like among cron lines.'
    if weekday != "*" and day != "*":
        return "", zone, f'"{text}": day and weekday must both hold, and cron joins them by either.'
    hour, minute, second = (_field(part) for part in parts)
    line = f"{minute} {hour} {_field(day)} {_field(month)} {weekday}"
    return (line if second == "0" else f"{second} {line}"), zone, ""


def _field(text: str) -> str:
    """`08` is 8, `1..5` is 1-5, `0/15` is */15 from 0 on."""
    made = []
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, dots, high = span.partition("..")
        low = low if low == "*" else str(int(low))
        base = f"{low}-{int(high)}" if dots else "*" if low == "0" and step else low
        made.append(f"{base}/{step}" if step else base)
    return ",".join(made)


def _weekdays(text: str) -> str | None:
    made = []
    for part in text.rstrip(",").split(","):
        ends = [_day(each) for each in part.replace("..", "-").split("-")]
        if None in ends or len(ends) > 2:
            return None
        made.append("-".join(str(each) for each in ends))
    return ",".join(made)


def _day(text: str) -> int | None:
    short = text[:3].lower()
    return DAYS.index(short) + 1 if short in DAYS else None


def _target(entry: Entry, service: dict[str, list[str]]) -> tuple[dict[str, Any], str]:
    commands = [each.lstrip("@-:+!") for each in service.get("Service.ExecStart", [])]
    if not commands:
        return {}, "its service has no ExecStart."
    if any(re.search(r"(?<!%)%[a-zA-Z]", each) for each in commands):
        entry.notes.append("% specifiers such as %i are not filled in: write their values")
    target: dict[str, Any] = {"command": " && ".join(each.replace("%%", "%") for each in commands)}
    env = dict(
        word.partition("=")[::2] for line in service.get("Service.Environment", []) for word in shlex.split(line)
    )
    if env:
        target["env"] = env
        entry.notes.append(f"environment: {', '.join(env)}")
    if service.get("Service.EnvironmentFile"):
        entry.notes.append("EnvironmentFile is not read: put its values into env, or into secrets")
    if service.get("Service.WorkingDirectory"):
        target["cwd"] = service["Service.WorkingDirectory"][-1].lstrip("-")
    if service.get("Service.User"):
        entry.notes.append(f"ran as {service['Service.User'][-1]}; now runs as the user of the worker")
    if service.get("Service.ExecStartPre") or service.get("Service.ExecStartPost"):
        entry.notes.append("ExecStartPre and ExecStartPost are left out")
    return target, ""


def _is_yes(values: list[str] | None) -> bool:
    return bool(values) and (values or [""])[-1].lower() in ("1", "yes", "true", "on")


def _length(text: str) -> float:
    """Seconds; 0 for what is none."""
    if text.strip().isdigit():
        return float(text)
    total = 0.0
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.lower()):
        total += float(number) * _UNIT_SECONDS.get(unit, 0)
    return total

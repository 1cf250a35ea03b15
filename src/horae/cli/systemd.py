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
# Before a command: `@` its own name follows, `-` failure is ignored, `:` no variables, `+` and `!` more rights.
MARKS = "@-:+!"
UNDERSTOOD = {
    "Timer": {"OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", "OnBootSec", "OnStartupSec", "OnActiveSec",
              "Persistent", "RandomizedDelaySec", "AccuracySec", "Unit"},
    "Service": {"ExecStart", "ExecStartPre", "ExecStartPost", "Environment", "EnvironmentFile", "WorkingDirectory",
                "User", "Type"},
    "Unit": {"Description", "Documentation", "After", "Before", "Wants"},
}  # fmt: skip
_VARIABLE = re.compile(r"(\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\$)")
_WHOLE_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
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
    service = read_unit(service_path)
    target, refusal = _target(entry, service)
    if refusal:
        entry.refusal = refusal
        return entry
    _note_what_is_lost(entry, {path: timer, service_path: service})
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
    told = (timer.get("Timer.RandomizedDelaySec") or ["0"])[-1]
    delay = _length(told)
    if delay:
        job["jitter"] = f"{round(delay)}s"
    elif told != "0":
        entry.notes.append(f"RandomizedDelaySec={told} is left out: no length of time that is known here")
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
    lines, zones = [], list[str]()
    for text in timer.get("Timer.OnCalendar", []):
        line, own_zone, refusal = calendar_to_cron(text)
        if refusal:
            return [], refusal, zone
        zones.append(own_zone or zone)
        lines.append(line)
    if len(set(zones)) > 1:
        told = " and ".join(dict.fromkeys(zones))
        return [], f"its OnCalendar follow {told}; a job has one zone. Make a timer for each.", zone
    zone = zones[0] if zones else zone
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
    command, refusal = _command(entry, service.get("Service.ExecStart", []))
    if refusal:
        return {}, refusal
    target: dict[str, Any] = {"command": command}
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


def _command(entry: Entry, lines: list[str]) -> tuple[str, str]:
    """One command of a shell that does what these do without one: the next only if the last went well."""
    if not lines:
        return "", "its service has no ExecStart."
    if any(re.search(r"(?<!%)%[a-zA-Z]", each) for each in lines):
        entry.notes.append("% specifiers such as %i are not filled in: write their values")
    made = []
    for line in lines:
        text = line.lstrip(MARKS)
        marks = line.removesuffix(text)
        try:
            words, is_several = shlex.split(text.replace("%%", "%")), ";" in shlex.split(text, posix=False)
        except ValueError:
            return "", f"ExecStart={line}: its quotes do not match."
        if is_several or not words:
            return "", f"ExecStart={line}: one command is wanted. Give each an ExecStart of its own."
        if "@" in marks:
            del words[1:2]
        if "+" in marks or "!" in marks:
            entry.notes.append("ran with more rights than its user has; now runs as the user of the worker")
        if "\\" in text:
            entry.notes.append("a backslash is read as a shell reads it: look at the command")
        command = " ".join(_word(each, is_filled_in=":" not in marks) for each in words)
        made.append(f"({command} || true)" if "-" in marks else command)
    return " && ".join(made), ""


def _word(word: str, *, is_filled_in: bool) -> str:
    """A word for a shell. systemd knows no pipes and no patterns; variables are `$A` as a word, and `${A}` in one."""
    if not is_filled_in:
        return shlex.quote(word)
    if _WHOLE_VARIABLE.fullmatch(word):
        return word
    parts = [each for each in _VARIABLE.split(word) if each] or [""]
    return "".join(f'"{each}"' if each[:2] == "${" else shlex.quote(each.replace("$$", "$")) for each in parts)


def _note_what_is_lost(entry: Entry, units: dict[Path, dict[str, list[str]]]) -> None:
    keys = [key for unit in units.values() for key, values in unit.items() if values]
    lost = [
        key for section, _, key in (each.partition(".") for each in keys) if key not in UNDERSTOOD.get(section, key)
    ]
    if lost:
        entry.notes.append(f"left out: {', '.join(dict.fromkeys(lost))}")
    drop_ins = [f"{path.name}.d" for path in units if path.with_name(f"{path.name}.d").is_dir()]
    if drop_ins:
        entry.notes.append(f"not read: {', '.join(drop_ins)}")


def _is_yes(values: list[str] | None) -> bool:
    return bool(values) and (values or [""])[-1].lower() in ("1", "yes", "true", "on")


def _length(text: str) -> float:
    """Seconds; 0 for what is none. `M` are months, which differ in length."""
    if text.strip().isdigit():
        return float(text)
    parts = re.findall(r"([\d.]+)\s*([A-Za-z]+)|(\S)", text)
    if any(other or unit not in _UNIT_SECONDS or number.count(".") > 1 for number, unit, other in parts):
        return 0
    return sum(float(number.strip(".") or 0) * _UNIT_SECONDS[unit] for number, unit, _ in parts)

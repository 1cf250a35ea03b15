"""A crontab as jobs. Its traps are named: what cannot be taken over says why, what changes meaning is a note."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from pwd import getpwnam
from shutil import which
from typing import Any

from horae.core.errors import Invalid
from horae.core.schedule import parse_schedule

MACROS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
OTHER_MACROS = {"@every_minute": "* * * * *"}
# An attempt of a crontab line has no time limit; this is a long one.
TIMEOUT = "24h"
SUSPECT = "begins with the name of a user: is this a system table? Then add --system"
# Found in system tables, and no commands.
USERS = {"root", "nobody", "daemon", "www-data", "postgres", "mysql", "nginx", "apache"}

_SETTING = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$""")
_FIELD = re.compile(r"[0-9A-Za-z*,/~?#-]+")
_TILDE = re.compile(r"(\d*)~(\d*)")
_USER = re.compile(r"[a-z_][a-z0-9_-]*\$?", re.IGNORECASE)
_WRAPPERS = {"sudo", "nice", "ionice", "nohup", "env", "exec", "time", "timeout", "flock", "chronic", "sh", "bash"}
_WRAPPERS |= {"python", "python3", "perl", "ruby", "php", "node", "cd", "test", "[", "command"}


@dataclass(slots=True)
class Entry:
    """One line of the table: a job, or why there is none, or a setting that is worth a note.

    `schedule` and `name` are what it says there, for those that become no job. `is_unwanted`: somebody chose others.
    """

    line: int
    text: str
    schedule: str = ""
    name: str = ""
    job: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    refusal: str = ""
    is_unwanted: bool = False


@dataclass(slots=True)
class _State:
    """Settings apply to the lines below them."""

    zone: str
    env: dict[str, str] = field(default_factory=dict)
    shell: str = ""
    zone_fault: str = ""
    mailto: str = ""
    told: set[str] = field(default_factory=set)
    jitter_minutes: int = 0
    comment: list[str] = field(default_factory=list)


def read_crontab(
    text: str, *, zone: str, has_user: bool = False, user: str | None = None, prefix: str = ""
) -> list[Entry]:
    """Every line that is one: comments, empty lines and settings are read, not listed.

    `has_user`: the sixth column names a user, as in /etc/crontab. Lines of another than `user` are refused.
    """
    state, entries, taken = _State(zone), [], set[str]()
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped:
            state.comment = []
        elif stripped.startswith("#"):
            state.comment.append(stripped.lstrip("# ").strip())
        elif setting := _setting(stripped):
            note = _set(state, *setting)
            if note:
                entries.append(Entry(number, stripped, notes=[note]))
        else:
            entry = _entry(Entry(number, stripped), state, has_user=has_user, user=user)
            state.comment = []
            if entry.job is not None:
                entry.job["name"] = unique(prefix + entry.job["name"], taken)
            entries.append(entry)
    return entries


def _setting(line: str) -> tuple[str, str] | None:
    match = _SETTING.match(line)
    if match is None or line[0] in "*@-" or line[0].isdigit():
        return None
    name, value = (part.strip() for part in match.groups())
    return _unquoted(name), _unquoted(value)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text


def _set(state: _State, name: str, value: str) -> str:
    match name:
        case "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING":
            state.mailto = value if name == "MAILTO" else state.mailto
        case "TZ":
            state.env[name] = value
            return "TZ is what commands see; cron's schedules follow CRON_TZ or the machine. With --tz you choose."
        case "CRON_TZ":
            try:
                parse_schedule("@daily", zone=value, anchor_us=0)
            except Invalid as error:
                state.zone_fault = f"CRON_TZ above it is wrong: {error.faults[0].detail}"
                return error.faults[0].detail
            state.zone, state.zone_fault = value, ""
        case "SHELL":
            state.shell = value
        case "RANDOM_DELAY" if value.isdigit():
            state.jitter_minutes = int(value)
        case "START_HOURS_RANGE":
            return "START_HOURS_RANGE is anacron's: write the hours into the schedule."
        case _:
            state.env[name] = value
            if "$" in value:
                return f"{name}: neither cron nor horae expands variables here; {value} is taken as it is."
    return ""


def _entry(entry: Entry, state: _State, *, has_user: bool, user: str | None) -> Entry:
    schedule, rest, refusal = _split_schedule(entry.text)
    fields = 1 if entry.text.startswith("@") else 5
    entry.schedule = " ".join(entry.text.split(None, fields)[:fields])
    if refusal:
        entry.refusal = refusal
        return entry
    owner = ""
    if has_user:
        owner, _, rest = rest.partition(" ") if " " in rest else (rest, "", "")
        owner, rest = owner.partition("\t")[0], (owner.partition("\t")[2] + " " + rest).strip()
        if not _USER.fullmatch(owner):
            entry.refusal = f'"{owner}" is no user. Without --system the table has no column of users.'
            return entry
        if user is not None and owner != user:
            entry.refusal = f"runs as {owner}, and only lines of {user} are taken."
            entry.is_unwanted = True
            return entry
        if user is None:
            entry.refusal = (
                f"runs as {owner}; horae runs commands as the user of the worker. Take it with --user {owner}."
            )
            return entry
        entry.notes.append(f"ran as {owner}; now runs as the user of the worker")
    if not rest:
        entry.refusal = "has no command."
        return entry
    if not has_user and _begins_with_user(rest):
        entry.notes.append(SUSPECT)
    return _with_job(entry, state, schedule, rest, owner)


def _begins_with_user(rest: str) -> bool:
    """A user and more: one that everybody knows, or a person's account of this machine that is no command here."""
    word, *more = rest.split(None, 1)
    if not more or not _USER.fullmatch(word):
        return False
    return word in USERS or (_is_account(word) and which(word) is None)


def _is_account(word: str) -> bool:
    try:
        # Below are those of the system, and some of them, such as mail, are commands as well.
        return getpwnam(word).pw_uid >= 1000
    except KeyError:
        return False


def _split_schedule(line: str) -> tuple[str, str, str]:
    """The schedule, what follows it, and why not."""
    if line.startswith("@"):
        word, _, rest = line.replace("\t", " ").partition(" ")
        word = word.lower()
        if word == "@reboot":
            return "", "", "@reboot has no time: a job belongs to no machine. Use the machine's service manager."
        if word[1:].isdigit():
            return f"@every {word[1:]}s", rest.strip(), ""
        known = OTHER_MACROS.get(word, word if word in MACROS else "")
        return known, rest.strip(), "" if known else f"{word} is not known."
    quiet = line.removeprefix("-")
    parts = quiet.split(None, 5)
    if len(parts) < 6:
        return "", "", "needs five fields and a command."
    if not all(_FIELD.fullmatch(part) for part in parts[:5]):
        wrong = next(part for part in parts[:5] if not _FIELD.fullmatch(part))
        return "", "", f'"{wrong}" is no field of a schedule.'
    return " ".join(parts[:5]), parts[5].strip(), ""


def _with_job(entry: Entry, state: _State, schedule: str, rest: str, owner: str) -> Entry:
    if state.zone_fault:
        entry.refusal = state.zone_fault
        return entry
    schedule = _without_tilde(entry, schedule)
    try:
        parse_schedule(schedule, zone=state.zone, anchor_us=0, seed="crontab")
    except Invalid as error:
        entry.refusal = f"{error.faults[0].detail} {error.faults[0].hint}".strip()
        return entry
    command, has_input = _command(rest)
    if has_input:
        entry.notes.append("% ends the command, what follows is its standard input; kept that way")
    target: dict[str, Any] = {"command": [state.shell, "-c", command] if state.shell else command}
    env = dict(state.env)
    if "HOME" in env:
        target["cwd"] = env["HOME"]
    if env:
        target["env"] = env
        entry.notes.append(f"environment: {', '.join(env)}")
    if "PATH" not in env and not rest.startswith("/"):
        _tell_once(entry, state, "no PATH in the table: cron's is /usr/bin:/bin, the job gets the worker's")
    if state.mailto:
        _tell_once(entry, state, f"MAILTO {state.mailto}: no mail; output is kept, a webhook can tell of failures")
    job: dict[str, Any] = {
        "name": _slug(rest),
        "schedule": schedule,
        "timezone": state.zone,
        "type": "shell",
        "target": target,
        # As cron does it: no repeats, nothing made up for, no limit that bites.
        "retry": {"max_retries": 0},
        "misfire": {"policy": "skip"},
        "timeout": TIMEOUT,
        "labels": {"imported": "crontab"} | ({"user": owner} if owner else {}),
        "description": " ".join(state.comment)[:500],
    }
    if state.jitter_minutes:
        job["jitter"] = f"{state.jitter_minutes}m"
    entry.job = job
    return entry


def _tell_once(entry: Entry, state: _State, note: str) -> None:
    if note not in state.told:
        state.told.add(note)
        entry.notes.append(note)


def _without_tilde(entry: Entry, schedule: str) -> str:
    """`0~59` is a random value of OpenBSD's cron and of cronie; `H(0-59)` is one that stays."""
    if "~" not in schedule:
        return schedule
    entry.notes.append("~ draws a new value at each load; H keeps one for each job")
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    return " ".join(_hashed(text, *range_) for text, range_ in zip(schedule.split(), ranges, strict=True))


def _hashed(text: str, low: int, high: int) -> str:
    return _TILDE.sub(lambda match: f"H({match[1] or low}-{match[2] or high})", text)


def _command(text: str) -> tuple[str, bool]:
    r"""The command as a shell reads it. A bare `%` ends it, further ones are line ends, `\%` is a percent sign."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text)]
    if len(parts) == 1:
        return parts[0], False
    lines = parts[1:]
    mark = "END_OF_INPUT"
    while mark in lines:
        mark += "_"
    return "\n".join(["{", parts[0].strip(), f"}} <<'{mark}'", *lines, mark]), True


def _slug(command: str) -> str:
    """A name from what is run: the first word that says something."""
    words = re.split(r"[\s;&|<>()'\"%]+", re.sub(r"^\s*cd\s+\S+\s*(&&|;)", "", command))
    meaning = [word for word in words if word and not word.startswith(("-", "$")) and "=" not in word]
    names = [PurePosixPath(word).name for word in meaning]
    chosen = next(
        (name for name in names if name not in _WRAPPERS and not name.isdigit()), names[0] if names else "job"
    )
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\.(sh|py|pl|rb|php|js)$", "", chosen.lower())).strip("-")
    return slug[:60] or "job"


def unique(name: str, taken: set[str]) -> str:
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name}-{number}"
    taken.add(made)
    return made

"""A Celery beat schedule as jobs. The module is read, not run: nothing of Celery needs to be there.

Understood are dictionaries written out: `beat_schedule = {…}`, `app.conf.beat_schedule = {…}`, `CELERY_BEAT_SCHEDULE`,
`CELERYBEAT_SCHEDULE`, `app.conf.update(beat_schedule={…})`.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from horae.cli.crontab import Entry
from horae.core.errors import Invalid
from horae.core.schedule import parse_schedule

NAMES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
ZONES = ("timezone", "CELERY_TIMEZONE")
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1, "weeks": 604_800, "milliseconds": 0.001}


class Unreadable(Exception):
    """Worked out when the module runs; cannot be read from its text."""


def read_beat(text: str, *, zone: str | None, prefix: str = "") -> list[Entry]:
    """Raises SyntaxError for what is no Python."""
    schedules, told_zone = _found(ast.parse(text))
    zone = zone or told_zone or "UTC"
    entries = []
    for schedule in schedules:
        for key, value in zip(schedule.keys, schedule.values, strict=True):
            entries.append(_entry(key, value, zone, prefix))
    return entries


def _found(tree: ast.Module) -> tuple[list[ast.Dict], str | None]:
    schedules, zone = [], None
    for name, value in _assigned(tree):
        if name in NAMES and isinstance(value, ast.Dict):
            schedules.append(value)
        elif name in ZONES and isinstance(value, ast.Constant) and isinstance(value.value, str):
            zone = value.value
    return schedules, zone


def _assigned(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """Names, attributes and keywords with what they are set to, in the order of the text."""
    found: list[tuple[str, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found += [(_last_name(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            found.append((_last_name(node.target), node.value))
        elif isinstance(node, ast.Call):
            found += [(keyword.arg or "", keyword.value) for keyword in node.keywords]
    return found


def _last_name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _entry(key: ast.expr | None, value: ast.expr, zone: str, prefix: str) -> Entry:
    entry = Entry(value.lineno, ast.unparse(key) if key is not None else ast.unparse(value))
    written = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
    try:
        name = entry.name = str(_value(key))
        fields = {str(_value(each)): inner for each, inner in written}
        entry.schedule = ast.unparse(fields["schedule"]) if "schedule" in fields else ""
        if "task" not in fields or "schedule" not in fields:
            entry.refusal = "has no task and schedule written out."
            return entry
        schedule = _schedule(entry, fields["schedule"])
        parse_schedule(schedule, zone=zone, anchor_us=0, seed=name)
        given = {each: _value(fields[each]) for each in ("args", "kwargs", "options") if each in fields}
        told = {"args": list(given.get("args", ())), "kwargs": dict(given.get("kwargs", {}))}
        json.dumps(told)
        task = str(_value(fields["task"]))
    except Unreadable as error:
        entry.refusal = f"{error} is worked out when the module runs; write it out."
    except Invalid as error:
        entry.refusal = f"{error.faults[0].detail} {error.faults[0].hint}".strip()
    except (TypeError, ValueError) as error:
        entry.refusal = f"its arguments are no JSON: {error}."
    else:
        job = _job(entry, f"{prefix}{name}", task, told | {"options": dict(given.get("options", {}))})
        entry.job = job | {"schedule": schedule, "timezone": zone}
    return entry


def _job(entry: Entry, name: str, task: str, fields: dict[str, Any]) -> dict[str, Any]:
    entry.notes.append(f"needs the handler {task}")
    if fields["args"]:
        entry.notes.append('arguments are in the payload as "args"')
    payload = fields["kwargs"] | ({"args": fields["args"]} if fields["args"] else {})
    job: dict[str, Any] = {
        "name": name,
        "type": "python",
        "target": {"handler": task},
        # beat sends and forgets: repeats are the task's own.
        "retry": {"max_retries": 0},
        "misfire": {"policy": "run_once"},
        "labels": {"imported": "celery"},
    }
    if payload:
        job["payload"] = payload
    if fields["options"].get("queue"):
        job["queue"] = str(fields["options"]["queue"])
    if fields["options"].get("expires"):
        entry.notes.append("expires: a misfire window says how late a run may still start")
    return job


def _schedule(entry: Entry, node: ast.expr) -> str:
    if isinstance(node, ast.Call) and _last_name(node.func) in ("crontab", "schedule", "timedelta"):
        return _called(entry, _last_name(node.func), node)
    return _every(_value(node))


def _called(entry: Entry, name: str, node: ast.Call) -> str:
    given = {keyword.arg or "": keyword.value for keyword in node.keywords}
    if name == "timedelta":
        for position, unit in enumerate(("days", "seconds")):
            if position < len(node.args):
                given[unit] = node.args[position]
        return _every(sum(_SECONDS[unit] * float(_value(each)) for unit, each in given.items()))
    if name == "schedule":
        return _schedule(entry, given.get("run_every") or node.args[0])
    if len(node.args) > 2:
        raise Unreadable("a third argument of crontab without its name (versions of Celery differ in the order)")
    given |= dict(zip(FIELDS, node.args, strict=False))
    if "minute" not in given and given:
        entry.notes.append("minute is not set: every minute of those hours, as in Celery; minute=0 is once an hour")
    fields = [str(_value(given[field])) if field in given else "*" for field in FIELDS]
    if fields[2] != "*" and fields[4] != "*":
        # Celery wants both to hold, cron either.
        raise Unreadable("a day of the month together with a day of the week (Celery: both, cron: either)")
    return " ".join(field.replace(" ", "") for field in fields)


def _every(value: Any) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise Unreadable(repr(value))
    return f"@every {value:g}s"


def _value(node: ast.expr | None) -> Any:
    if node is None:
        raise Unreadable("**")
    try:
        return ast.literal_eval(node)
    except ValueError:
        product = _product(node)
        if product is None:
            raise Unreadable(ast.unparse(node)) from None
        return product


def _product(node: ast.expr) -> float | None:
    """`60 * 5`, as many write lengths."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _product(node.left), _product(node.right)
        return None if left is None or right is None else left * right
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None

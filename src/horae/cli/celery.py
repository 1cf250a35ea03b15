"""A Celery beat schedule as jobs. The module is read, not run: nothing of Celery needs to be there.

Understood is what is written out: `beat_schedule = {…}`, `app.conf.beat_schedule["name"] = {…}`, `.update({…})`, `|=`,
`app.conf.update(beat_schedule={…})`, `CELERY_BEAT_SCHEDULE`, `CELERYBEAT_SCHEDULE`. The rest is refused one by one.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from horae.cli.crontab import Entry
from horae.core.errors import Invalid
from horae.core.schedule import parse_schedule

NAMES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
ZONES = ("timezone", "CELERY_TIMEZONE")
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1, "weeks": 604_800, "milliseconds": 1e-3,
            "microseconds": 1e-6}  # fmt: skip


class Refused(Exception):
    """Why an entry is not taken over."""


class Unreadable(Refused):
    def __init__(self, written: str) -> None:
        super().__init__(f"{written} is worked out when the module runs; write it out.")


class Item(NamedTuple):
    """An entry of a schedule as it is written; without a key, something that makes entries when the module runs."""

    key: ast.expr | None
    value: ast.expr


def read_beat(text: str, *, zone: str | None, prefix: str = "") -> list[Entry]:
    """Raises SyntaxError for what is no Python."""
    tree = ast.parse(text)
    told_zones = [value.value for name, value in _settings(tree) if name in ZONES and isinstance(value, ast.Constant)]
    zone = zone or next((each for each in told_zones if isinstance(each, str)), "UTC")
    items = sorted(_items(tree), key=lambda item: (item.value.lineno, item.value.col_offset))
    entries = [_entry(item, zone, prefix) for item in items]
    lines: dict[str, int] = {}
    for entry in reversed(entries):
        if entry.job and entry.name in lines:
            entry.job, entry.refusal = None, f"is set again in line {lines[entry.name]}."
        lines.setdefault(entry.name, entry.line)
    return entries


def _items(tree: ast.Module) -> Iterator[Item]:
    for name, value in _settings(tree):
        if name in NAMES:
            yield from _inside(value)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=value) if _is_schedule(owner):
                yield Item(key, value)
            case ast.AugAssign(target=owner, value=value) if _is_schedule(owner):
                yield from _inside(value)
            case ast.Call(func=ast.Attribute(value=owner, attr="update")) if _is_schedule(owner):
                for value in node.args:
                    yield from _inside(value)
                yield from _named(node)
            case ast.Call() if _last_name(node.func) == "add_periodic_task":
                yield Item(None, node)


def _inside(value: ast.expr) -> Iterator[Item]:
    if isinstance(value, ast.Dict):
        yield from map(Item, value.keys, value.values)
    elif isinstance(value, ast.Call) and _last_name(value.func) == "dict" and not value.args:
        yield from _named(value)
    elif not _is_schedule(value) and not (isinstance(value, ast.Constant) and value.value is None):
        yield Item(None, value)


def _named(call: ast.Call) -> Iterator[Item]:
    for keyword in call.keywords:
        yield Item(None if keyword.arg is None else ast.Constant(keyword.arg), keyword.value)


def _is_schedule(node: ast.expr) -> bool:
    return _last_name(node) in NAMES


def _settings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names, attributes, keywords and keys with what they are set to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((_last_name(target), node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield _last_name(node.target), node.value
        elif isinstance(node, ast.Call):
            yield from ((keyword.arg or "", keyword.value) for keyword in node.keywords)
        elif isinstance(node, ast.Dict):
            keys = [each.value if isinstance(each, ast.Constant) else "" for each in node.keys]
            if set(keys).intersection(NAMES):
                yield from zip(map(str, keys), node.values, strict=True)


def _last_name(target: ast.expr) -> str:
    """`beat_schedule` of that, of `app.conf.beat_schedule` and of `app.conf["beat_schedule"]`."""
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""


def _entry(item: Item, zone: str, prefix: str) -> Entry:
    key, value = item
    entry = Entry(value.lineno, ast.unparse(key) if key is not None else ast.unparse(value))
    if key is None:
        entry.refusal = str(Unreadable(_last_name(value.func) if isinstance(value, ast.Call) else entry.text))
        return entry
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
    except Refused as error:
        entry.refusal = str(error)
    except Invalid as error:
        entry.refusal = f"{error.faults[0].detail} {error.faults[0].hint}".strip()
    except (TypeError, ValueError) as error:
        entry.refusal = f"its arguments are no JSON: {error}."
    else:
        lost = [each for each in fields if each not in ("task", "schedule", "args", "kwargs", "options")]
        lost += [f"options {each}" for each in given.get("options", {}) if each not in ("queue", "expires")]
        entry.notes += [f"left out: {', '.join(lost)}"] if lost else []
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
    given = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    if name == "crontab":
        return _crontab(entry, node, given)
    if name == "schedule":
        given |= dict(zip(("run_every", "relative"), node.args, strict=False))
        if set(given) != {"run_every"}:
            raise Unreadable(ast.unparse(node))
        return _schedule(entry, given["run_every"])
    given |= dict(zip(("days", "seconds", "microseconds", "milliseconds"), node.args, strict=False))
    if not set(given) <= set(_SECONDS):
        raise Unreadable(ast.unparse(node))
    return _every(sum(_SECONDS[unit] * _number(_value(each)) for unit, each in given.items()))


def _crontab(entry: Entry, node: ast.Call, given: dict[str, ast.expr]) -> str:
    if len(node.args) > 2:
        raise Refused("has a third argument of crontab without its name, and versions of Celery differ in the order.")
    given |= dict(zip(FIELDS, node.args, strict=False))
    if not set(given) <= set(FIELDS):
        raise Unreadable(ast.unparse(node))
    if "minute" not in given and given:
        entry.notes.append("minute is not set: every minute of those hours, as in Celery; minute=0 is once an hour")
    fields = [str(_value(given[field])) if field in given else "*" for field in FIELDS]
    if fields[2] != "*" and fields[4] != "*":
        raise Refused("has a day of the month together with a day of the week (Celery: both, cron: either).")
    return " ".join(field.replace(" ", "") for field in fields)


def _every(value: Any) -> str:
    seconds = _number(value)
    if seconds <= 0:
        raise Refused(f"{value!r} is no distance between two runs.")
    # Not as 1.2096e+06.
    return f"@every {seconds:.6f}".rstrip("0").rstrip(".") + "s"


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Refused(f"{value!r} is no number of seconds, no timedelta and no crontab.")
    return float(value)


def _value(node: ast.expr | None) -> Any:
    if node is None:
        raise Unreadable("what follows **")
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

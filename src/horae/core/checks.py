"""Checks of single JSON values. Each takes a value and the JSON pointer to it, and returns the value or raises Invalid.

What a job's fields mean, and how they depend on each other, is document.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from horae.core.calendars import check_calendar
from horae.core.duration import format_duration, parse_duration
from horae.core.errors import Fault, Invalid
from horae.core.job import PRIORITY_NAME, PRIORITY_NUMBER, TYPES, After
from horae.core.webhooks import ALWAYS, EVENT_OF
from horae.core.zone import DAY_S, SECOND_US, check_zone

Check = Callable[[Any, str], Any]
T = TypeVar("T")

MOST_FAULTS = 50
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(slots=True)
class Collector:
    """Gathers faults, so that one answer names them all."""

    faults: list[Fault] = field(default_factory=list)

    def attempt(self, otherwise: T, check: Callable[..., T], *args: Any) -> T:
        """What `check` returns, or `otherwise` with its faults kept."""
        try:
            return check(*args)
        except Invalid as error:
            self.faults += error.faults
            return otherwise

    def finish(self) -> None:
        if self.faults:
            raise Invalid(self.faults[:MOST_FAULTS])


def refuse(pointer: str, wanted: str, value: object, example: object = None, hint: str = "") -> Invalid:
    """The error of one value: the rule, what was seen, and an example to paste."""
    fix = hint or (f"Write {snippet(pointer, example)}." if example is not None else f"Write {wanted}.")
    return Invalid([Fault(pointer, f"{label(pointer)} must be {wanted}; got {shown(value)}.", fix)])


def label(pointer: str) -> str:
    if not pointer:
        return "The document"
    path = pointer[1:].replace("/", ".").replace("~1", "/").replace("~0", "~")
    return f'"{path[:80]}"'


def shown(value: object) -> str:
    match value:
        case dict():
            return "an object" if value else "{}"
        case list() | tuple():
            return "a list" if value else "[]"
        case str() if len(value) > 60:
            return f"{json.dumps(value[:57], ensure_ascii=False)}… ({len(value)} characters)"
        case str() | bool() | int() | float() | None:
            return json.dumps(value, ensure_ascii=False)
        case _:
            return f"a Python {type(value).__name__}"


def snippet(pointer: str, example: object) -> str:
    """The field as it would stand in the document: `"retry": {"delay": "2s"}`, `"events": ["run.failed"]`; a header, a
    parameter or a part of the path as it would stand there.
    """
    head, *path = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]] or [""]
    if head in _AROUND and len(path) == 1:
        return _AROUND[head].format(name=path[0], value=example)
    text = json.dumps(example, ensure_ascii=False)
    for part in reversed(path):
        text = f"[{text}]" if part.isdecimal() else f"{{{json.dumps(part, ensure_ascii=False)}: {text}}}"
    return f"{json.dumps(head)}: {text}" if head else text


# Where else than in the body a pointer may lead.
_AROUND = {"headers": "{name}: {value}", "query": "{name}={value}", "path": "{value}"}


def beside(error: Invalid, name: str, kept: Mapping[str, Any]) -> Invalid:
    """The same about a field of a record, with what must stand beside it in what is to be pasted."""
    field_, others = f"{json.dumps(name)}: ", json.dumps(dict(kept), ensure_ascii=False)[:-1]
    return Invalid(
        [replace(fault, hint=fault.hint.replace(f"{{{field_}", f"{others}, {field_}", 1)) for fault in error.faults]
    )


def unknown_field(name: str, pointer: str, names: Iterable[str], whose: str = "here", near: str | None = None) -> Fault:
    """A name that is none of these, with the one that may have been meant."""
    near = near or nearest(name, names)
    detail = f"{shown(name)} is not a field {whose}" + (f'; did you mean "{near}"?' if near else ".")
    hint = f'Write "{near}".' if near else f"The fields are {', '.join(names) or 'none'}."
    return Fault(f"{pointer}/{escape(name[:200])}", detail, hint)


def escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name most like `word`, whatever its case, or None."""
    by_folded = {name.casefold(): name for name in names}
    found = get_close_matches(word[:64].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def text(*, most: int, least: int = 1, forbidden: re.Pattern[str] = CONTROL, example: str = "") -> Check:
    wanted = f"text of {least} to {most} characters"

    def check(value: Any, pointer: str) -> str:
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise refuse(pointer, wanted, value, example or None)
        if bad := forbidden.search(value):
            raise refuse(pointer, f"{wanted} without {json.dumps(bad[0])}", value, example or None)
        return value

    return check


def integer(least: int, most: int, example: int) -> Check:
    def check(value: Any, pointer: str) -> int:
        if type(value) is not int or not least <= value <= most:
            raise refuse(pointer, f"a whole number from {least} to {most}", value, example)
        return value

    return check


def number(least: float, most: float, example: float) -> Check:
    def check(value: Any, pointer: str) -> float:
        if type(value) not in (int, float) or not least <= value <= most:
            raise refuse(pointer, f"a number from {least:g} to {most:g}", value, example)
        return float(value)

    return check


def choice(*names: str, synonyms: Mapping[str, str] | None = None) -> Check:
    """One of a closed list. `synonyms` are words that people write instead; they only serve the hint."""
    allowed, known = frozenset(names), synonyms or {}

    def check(value: Any, pointer: str) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        near = nearest(value, (*names, *known)) if isinstance(value, str) else None
        best = known.get(near, near) if near else names[0]
        hint = f"{'Did you mean' if near else 'Write'} {snippet(pointer, best)}{'?' if near else '.'}"
        raise refuse(pointer, f"one of {', '.join(names)}", value, hint=hint)

    return check


def duration(least_us: int, most_us: int, example: str) -> Check:
    wanted = f"a duration from {format_duration(least_us)} to {format_duration(most_us)}"

    def check(value: Any, pointer: str) -> int:
        try:
            us = parse_duration(value, pointer)
        except Invalid:
            us = -1
        if not least_us <= us <= most_us:
            raise refuse(pointer, wanted, value, example)
        return us

    return check


def each(check: Check, *, most: int, what: str, example: Any = None) -> Check:
    """A list of at most `most`, every item checked; all bad items are named."""

    def check_all(value: Any, pointer: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise refuse(pointer, f"a list of at most {most} {what}", value, example)
        found = Collector()
        items = tuple(found.attempt(None, check, item, f"{pointer}/{index}") for index, item in enumerate(value))
        found.finish()
        return items

    return check_all


LARGEST = 256 * 1024
DAY_US = DAY_S * SECOND_US
MOST_LABELS, LONGEST_LABEL = 32, 255
MOST_RULES = 20

_TYPES = {
    **{name: name for name in TYPES},
    "http_request": "http",
    "http/script": "http",
    "script": "shell",
    **dict.fromkeys(("database_query", "notification", "etl_task", "data_sync"), "custom"),
}
_RULE = {"url": "https://example.com/hook", "on": ["failure"]}
_ENDINGS = {"succeeded": "success", "failed": "failure"}
# Of dots alone it could not stand in a path: clients take `..` for the way up.
_TOKEN = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,64}")
_LABEL_KEY = re.compile(r"[A-Za-z0-9._/-]{1,63}")

short_text = text(most=200, example="daily-report")


def check_size(value: Any, pointer: str) -> Any:
    size = len(msgspec.json.encode(value))
    if size <= LARGEST:
        return value
    hint = "Store it elsewhere and send its address."
    if isinstance(value, dict):
        biggest = max(value, key=lambda key: len(msgspec.json.encode(value[key])))
        hint += f" The largest part is {shown(biggest)}."
    raise Invalid([Fault(pointer, f"{label(pointer)} has {size:,} bytes as JSON; the limit is {LARGEST:,}.", hint)])


def check_token(value: Any, pointer: str) -> str:
    """The name of a queue or a tenant."""
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise refuse(pointer, "1 to 64 letters, digits, dots, dashes or underscores, not dots alone", value, "default")
    return value


def _name(value: Any, pointer: str) -> str:
    name = str(short_text(value, pointer))
    if "/" in name or not name.strip() or name in (".", ".."):
        example = name.strip("./ ").replace("/", "-") or "daily-report"
        raise refuse(pointer, 'a name that can stand in a URL, without "/"', value, example)
    return name


def _type(value: Any, pointer: str) -> str:
    known = _TYPES.get(value.strip().casefold()) if isinstance(value, str) else None
    return known or str(choice(*TYPES, synonyms=_TYPES)(value, pointer))


def _priority(value: Any, pointer: str) -> str:
    if type(value) is int and value in PRIORITY_NAME:
        return PRIORITY_NAME[value]
    word = value.upper() if isinstance(value, str) else value
    return str(choice(*PRIORITY_NUMBER)("MEDIUM" if word == "NORMAL" else word, pointer))


def _labels(value: Any, pointer: str) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MOST_LABELS:
        raise refuse(pointer, f"an object of at most {MOST_LABELS} texts", value, {"team": "billing"})
    found = Collector()
    for key, item in value.items():
        where = f"{pointer}/{escape(key)}"
        if not _LABEL_KEY.fullmatch(key):
            detail = (
                f"A label's key has 1 to 63 letters, digits, dots, dashes, underscores or slashes; got {shown(key)}."
            )
            found.faults.append(Fault(where, detail, f"Write {snippet(pointer, {'team': 'billing'})}."))
        found.attempt("", _label_value, item, where)
    found.finish()
    return value


_label_value = text(least=0, most=LONGEST_LABEL)


def _after(value: Any, pointer: str) -> tuple[After, ...]:
    rules = _afters(value, pointer) if isinstance(value, list) else (_one_after(value, pointer),)
    return tuple(dict.fromkeys(rules))


def _one_after(value: Any, pointer: str) -> After:
    if isinstance(value, str):
        return After(job_id=short_text(value, pointer))
    rule = _record(value, pointer, ("job", "job_id", "on"), {"job": "other-job", "on": "success"})
    name = "job" if "job" in rule or "job_id" not in rule else "job_id"
    job = short_text(rule.get(name), f"{pointer}/{name}")
    try:
        return After(job_id=job, on=_ending(rule.get("on") or "success", f"{pointer}/on"))
    except Invalid as error:
        raise beside(error, "on", {name: job}) from None


_afters = each(_one_after, most=MOST_RULES, what="jobs")


def _ending(value: Any, pointer: str, names: tuple[str, ...] = ("success", "failure", "always")) -> Any:
    return choice(*names)(_ENDINGS.get(value, value) if isinstance(value, str) else value, pointer)


def _notice(value: Any, pointer: str) -> dict[str, Any]:
    """Who is told, by URL or by the name of a channel, and of which endings."""
    rule = {"url": value} if isinstance(value, str) else value
    rule = _record(rule, pointer, ("url", "channel", "on"), _RULE)
    name = "channel" if rule.get("url") is None and "channel" in rule else "url"
    if not isinstance(rule.get(name), str) or (name == "url" and rule.get("channel") is not None):
        raise refuse(pointer, 'an object with "url" or "channel"', value, {"url": "https://example.com/hook"})
    try:
        return {name: rule[name], "on": _notice_endings(rule.get("on"), f"{pointer}/on")}
    except Invalid as error:
        raise beside(error, "on", {name: rule[name]}) from None


def _notice_endings(value: Any, pointer: str) -> list[str]:
    names = (*EVENT_OF, ALWAYS)
    endings = ["failure"] if value is None else value if isinstance(value, list) else [value]
    if not 1 <= len(endings) <= len(names):
        raise refuse(pointer, f"a list of {', '.join(names)}", value, ["failure"])
    words = {event: word for word, event in EVENT_OF.items()}
    known = [words.get(ending, ending) if isinstance(ending, str) else ending for ending in endings]
    return list(dict.fromkeys(_ending(ending, pointer, names) for ending in known))


def _record(value: Any, pointer: str, keys: tuple[str, ...], example: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(pointer, f"an object with {', '.join(keys)}", value, example)
    unknown = [unknown_field(key, pointer, keys, f"of {label(pointer)}") for key in value if key not in keys]
    if unknown:
        raise Invalid(unknown[:MOST_FAULTS])
    return value


# The fields that stand for themselves: the attribute of a Definition, and the check of a value that is not null.
FIELDS: dict[str, tuple[str, Check]] = {
    "name": ("name", _name),
    "timezone": ("timezone", check_zone),
    "type": ("type", _type),
    "payload": ("payload", check_size),
    "priority": ("priority", _priority),
    "queue": ("queue", check_token),
    "timeout": ("timeout_us", duration(1_000, DAY_US, "30s")),
    "retry.max_retries": ("retry.max_retries", integer(0, 100, 3)),
    "retry.backoff": ("retry.backoff", choice("exponential", "linear", "fixed", synonyms={"constant": "fixed"})),
    "retry.delay": ("retry.delay_us", duration(0, 365 * DAY_US, "2s")),
    "retry.factor": ("retry.factor", number(1, 100, 2)),
    "retry.max_delay": ("retry.max_delay_us", duration(0, 365 * DAY_US, "1h")),
    "retry.jitter": ("retry.jitter", number(0, 1, 0.1)),
    "misfire.policy": ("misfire.policy", choice("skip", "run_once", "catch_up", synonyms={"all": "catch_up"})),
    "misfire.window": ("misfire.window_us", duration(0, 366 * DAY_US, "1h")),
    "misfire.max": ("misfire.max", integer(1, 1000, 10)),
    "overlap": ("overlap", choice("allow", "skip", "queue", "replace", synonyms={"forbid": "skip"})),
    "max_concurrency": ("max_concurrency", integer(1, 10_000, 1)),
    "concurrency_key": ("concurrency_key", text(most=200, example="billing")),
    "jitter": ("jitter_us", duration(0, DAY_US, "30s")),
    "dst.gap": ("dst.gap", choice("shift", "skip")),
    "dst.fold": ("dst.fold", choice("first", "last", "both")),
    "calendar": ("calendar", check_calendar),
    "max_runs": ("max_runs", integer(1, 2**31 - 1, 10)),
    "delivery": ("delivery", choice("at_least_once", "at_most_once")),
    "after": ("after", _after),
    "notify": ("notify", each(_notice, most=MOST_RULES, what="objects", example=[_RULE])),
    "labels": ("labels", _labels),
    "description": ("description", text(least=0, most=4000, forbidden=re.compile("\0"))),
}

"""One name for one thing: turns a job document, with every name that users know from elsewhere, into canonical fields.

Each field keeps the pointer to where the user wrote it. Whether its value is right is document.py's to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from horae.core.answered import READ_ONLY
from horae.core.checks import Check, Collector, choice, duration, label, nearest, refuse, shown, unknown_field
from horae.core.duration import LONGEST_US, format_duration, format_instant
from horae.core.errors import Fault, Invalid
from horae.core.schedule import MOST_LINES
from horae.core.sound import unsound

PLAIN = (
    "name", "timezone", "type", "priority", "queue", "timeout", "overlap", "max_concurrency", "concurrency_key",
    "jitter", "calendar", "start_at", "end_at", "max_runs", "delivery", "after", "notify", "labels", "description",
)  # fmt: skip
GROUPS = {
    "retry": ("max_retries", "backoff", "delay", "factor", "max_delay", "jitter"),
    "misfire": ("policy", "window", "max"),
    "dst": ("gap", "fold"),
}
# A group said in one word: `"retry": 3`, `"misfire": "skip"`.
SHORT: dict[str, tuple[type, str]] = {"retry": (int, "max_retries"), "misfire": (str, "policy")}
EXAMPLES: dict[str, dict[str, Any]] = {
    "retry": {"max_retries": 3},
    "misfire": {"policy": "skip"},
    "dst": {"gap": "skip"},
}
RETRIES = ("max_retries", "maxRetries", "retries")
PAYLOADS = ("payload", "parameters")

SCHEDULE_TYPES = ("CRON", "INTERVAL", "FUTURE", "IMMEDIATE", "MANUAL", "AFTER")
NEEDS = {
    "CRON": ("cron_expression", '"cron_expression": "0 9 * * *"'),
    "FUTURE": ("schedule_time", '"schedule_time": "2030-01-01T09:00:00Z"'),
    "INTERVAL": ("interval", '"interval": "5m"'),
    "AFTER": ("after", '"after": {"job": "other-job", "on": "success"}'),
}
# The key that shows the type of a target whose type is not said.
TELLTALES = {"url": "http", "command": "shell", "handler": "python", "sleep": "noop", "fail": "noop"}
NOW = "@now"
MOST_UNKNOWN = 20
SMALLEST_MS, LARGEST_MS = 10**11, 7_258_118_400_000  # 1973, 2200

_INSTANT = re.compile(r"\d{4}-")
_KINDS = {"@every": "INTERVAL", NOW: "IMMEDIATE", "@manual": "MANUAL"}

# Words of other schedulers that no likeness would find.
_ELSEWHERE = {
    "tags": "labels", "tz": "timezone", "url": "target", "command": "target", "script": "target", "handler": "target",
    "run_at": "schedule", "at": "schedule", "every": "interval", "catch_up": "misfire", "backoff": "retry",
    "concurrency": "max_concurrency", "depends_on": "after", "upstream": "after", "webhook": "notify",
}  # fmt: skip


class Given(NamedTuple):
    """A value and where the user wrote it. None asks for the default."""

    pointer: str
    value: Any


class Target(NamedTuple):
    """A target as an object, and where those of its keys came from that were not written inside `target`."""

    value: Any
    origins: Mapping[str, str]
    is_url: bool = False
    is_partial: bool = False


def gather(document: Mapping[str, Any], answer: Mapping[str, Any], found: Collector) -> dict[str, Given]:
    """The canonical fields that a document speaks of; those of a group as `retry.delay`.

    `answer` is what a read of the job gives now, and empty for a new one: of two names for one thing, one that only
    repeats it yields, so that a read document can be edited at either name and sent back.
    """
    found.faults += _unknown(document)
    given = {name: Given(f"/{name}", document[name]) for name in PLAIN if name in document}
    given |= _grouped(document, found)
    for name, value in (
        ("retry.max_retries", found.attempt(None, _retries, given, document, answer)),
        ("payload", found.attempt(None, _payload, document, answer)),
        ("schedule", found.attempt(None, _schedule, document, answer)),
    ):
        if value is not None:
            given[name] = value
    return given


def gather_target(document: Mapping[str, Any], answer: Mapping[str, Any]) -> Target | None:
    target, callback = document.get("target"), document.get("callback_url")
    if callback is not None and not isinstance(callback, str):
        raise refuse("/callback_url", "a URL", callback, "https://example.com/hook")
    if not isinstance(target, (dict, str, type(None))):
        raise refuse("/target", "an object or a URL", target, {"url": "https://example.com/hook"})
    if callback is None:
        if "target" not in document:
            return None
        is_url = isinstance(target, str)
        return Target({"url": target} if is_url else target, {"url": "/target"} if is_url else {}, is_url)
    told = target if isinstance(target, str) else (target or {}).get("url")
    pointer = "/target" if isinstance(target, str) else "/target/url"
    current = (answer.get("target") or {}).get("url")
    url = settle([Given(pointer, told), Given("/callback_url", callback)], [current, current])
    keys = target if isinstance(target, dict) else {}
    return Target(keys | {"url": url.value}, {"url": url.pointer}, is_url=True, is_partial=target is None)


# A target that is told in the payload: for each key of the payload, the target's.
_IN_PAYLOAD = {
    "http": {"url": "url", "method": "method", "headers": "headers", "body": "body"},
    "shell": {"command": "command", "script": "command", "cwd": "cwd", "env": "env"},
}


def inside_payload(type_: str, payload: Any) -> dict[str, str]:
    """For each key of the target, the payload's key that holds it; nothing without a URL or a command."""
    names = _IN_PAYLOAD.get(type_, {})
    if not isinstance(payload, dict):
        return {}
    inside = {key: source for source, key in reversed(names.items()) if source in payload}
    return inside if inside.keys() & {"url", "command"} else {}


def at_origin(fault: Fault, origins: Mapping[str, str]) -> Fault:
    """A target's fault, told at the place the user wrote what it is about."""
    key, _, rest = fault.pointer.removeprefix("/target").removeprefix("/").partition("/")
    origin = origins.get(key)
    if origin is None:
        return fault
    pointer = f"{origin}/{rest}" if rest and origin.endswith(f"/{key}") else origin
    detail = fault.detail.replace(label(fault.pointer), label(pointer))
    hint = fault.hint.replace('"target": {', f'"{origin.split("/")[1]}": {{') if origin.count("/") > 1 else fault.hint
    return Fault(pointer, detail, hint)


@lru_cache(maxsize=4096)
def kind_of(text: str) -> str:
    """The schedule type of one schedule text."""
    if _INSTANT.match(text):
        return "FUTURE"
    return _KINDS.get(text.partition(" ")[0].lower(), "CRON")


def texts_of(schedule: Any) -> tuple[str, ...]:
    """A schedule's texts without `@manual`, which adds no time."""
    texts = [schedule] if isinstance(schedule, str) else schedule or ()
    return tuple(NOW if kind_of(text) == "IMMEDIATE" else text for text in texts if kind_of(text) != "MANUAL")


def settle(
    names: list[Given], current: list[Any], agrees: Callable[[Any, Any], bool] = lambda one, other: bool(one == other)
) -> Given:
    """The one value behind several names; `current` is what each of them would say of the job as it is."""
    said = [(name, now) for name, now in zip(names, current, strict=True) if name.value is not None]
    if not said:
        return names[0]
    first, *others = [name for name, now in said if name.value != now] or [name for name, _ in said]
    for other in others:
        if not agrees(first.value, other.value):
            raise Invalid([_disagreement(first, other)])
    return first


def _disagreement(first: Given, other: Given) -> Fault:
    return Fault(
        other.pointer,
        f"{label(first.pointer)} ({shown(first.value)}) and {label(other.pointer)} ({shown(other.value)}) "
        "disagree; they are about the same thing.",
        f"Leave out {label(other.pointer)}.",
    )


def _unknown(document: Mapping[str, Any]) -> Iterator[Fault]:
    unknown = [key for key in document if key not in _KNOWN]
    for key in unknown[:MOST_UNKNOWN]:
        near = _ELSEWHERE.get(key.casefold()) or nearest(key, _NAMES)
        yield unknown_field(key, "", _FIELDS, "of a job", near)


def _grouped(document: Mapping[str, Any], found: Collector) -> dict[str, Given]:
    given: dict[str, Given] = {}
    nothing: dict[str, Given] = {}
    for group in (name for name in GROUPS if name in document):
        keys = found.attempt(nothing, _open_group, group, document[group], found)
        given |= {f"{group}.{key}": value for key, value in keys.items()}
    return given


def _open_group(group: str, value: Any, found: Collector) -> dict[str, Given]:
    keys, pointer = GROUPS[group], f"/{group}"
    if value is None:
        return {key: Given(pointer, None) for key in keys}
    if group in SHORT and type(value) is SHORT[group][0]:
        return {SHORT[group][1]: Given(pointer, value)}
    if not isinstance(value, dict):
        raise refuse(pointer, f"an object of {', '.join(keys)}", value, EXAMPLES[group])
    for key in [key for key in value if key not in keys][:MOST_UNKNOWN]:
        found.faults.append(unknown_field(key, pointer, keys, f'of "{group}"'))
    return {key: Given(f"{pointer}/{key}", value[key]) for key in keys if key in value}


def _retries(given: Mapping[str, Given], document: Mapping[str, Any], answer: Mapping[str, Any]) -> Given | None:
    names = [given["retry.max_retries"]] if "retry.max_retries" in given else []
    names += [Given(f"/{name}", document[name]) for name in RETRIES if name in document]
    return settle(names, [answer.get("max_retries")] * len(names)) if names else None


def _payload(document: Mapping[str, Any], answer: Mapping[str, Any]) -> Given | None:
    names = [Given(f"/{name}", _opened(document[name], f"/{name}")) for name in PAYLOADS if name in document]
    return settle(names, [answer.get("payload")] * len(names)) if names else None


def _opened(payload: Any, pointer: str) -> Any:
    """The object or list that a payload text holds; any other text, `"5"` among them, stays what it is."""
    if not isinstance(payload, str) or not payload.lstrip().startswith(("{", "[")):
        return payload
    try:
        value = msgspec.json.decode(payload)
    except RecursionError:
        raise refuse(pointer, "JSON of at most 64 levels", payload) from None
    except msgspec.MsgspecError:
        return payload
    if flaws := unsound(value):
        raise Invalid([Fault(pointer, flaw.detail, flaw.hint) for flaw in flaws])
    return value


def _schedule(document: Mapping[str, Any], answer: Mapping[str, Any]) -> Given | None:
    names, current = [], []
    for name, (convert, echo) in _SCHEDULE_NAMES.items():
        value, pointer = document.get(name), f"/{name}"
        # A Java `long` that was never set arrives as 0.
        if name in document and not (convert is _instant and value == 0):
            names.append(Given(pointer, value if value is None else convert(value, pointer)))
            current.append(answer.get(echo))
    chosen = settle(names, current, _covers) if names else None
    return _typed(chosen, document, answer) if document.get("schedule_type") is not None else chosen


def _typed(chosen: Given | None, document: Mapping[str, Any], answer: Mapping[str, Any]) -> Given | None:
    """The schedule, once `schedule_type` had its say."""
    pointer, told = "/schedule_type", document["schedule_type"]
    wanted = choice(*SCHEDULE_TYPES)(told.upper() if isinstance(told, str) else told, pointer)
    if chosen is not None and chosen.value is not None:
        kinds = {kind_of(text) for text in ([chosen.value] if isinstance(chosen.value, str) else chosen.value)}
        if wanted in kinds or wanted in answer.get("schedule_types", ()):
            return chosen
        raise Invalid([_disagreement(chosen, Given(pointer, told))])
    if wanted in answer.get("schedule_types", ()) or (wanted == "AFTER" and document.get("after")):
        return chosen
    if wanted in NEEDS:
        field, example = NEEDS[wanted]
        raise Invalid([Fault(pointer, f'"schedule_type" {wanted} needs "{field}".', f"Add {example}.")])
    return Given(pointer, NOW if wanted == "IMMEDIATE" else "@manual")


def _covers(schedule: Any, other: Any) -> bool:
    return set(_words(other)) <= set(_words(schedule))


def _words(schedule: Any) -> list[str]:
    return [" ".join(text.split()) for text in ([schedule] if isinstance(schedule, str) else schedule)]


def _texts(value: Any, pointer: str) -> str | list[str]:
    texts = value if isinstance(value, list) else [value]
    if not 1 <= len(texts) <= MOST_LINES:
        raise refuse(pointer, f"a text, or a list of 1 to {MOST_LINES} of them", value, "@manual")
    for at, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            where = f"{pointer}/{at}" if isinstance(value, list) else pointer
            raise refuse(where, "a schedule", text, hint=f'Write "{pointer[1:]}": "0 9 * * *".')
    return [text.strip() for text in texts] if isinstance(value, list) else texts[0].strip()


def _instant(value: Any, pointer: str) -> str:
    if type(value) is int and SMALLEST_MS <= abs(value) <= LARGEST_MS:
        return format_instant(value * 1000)
    if type(value) is int and 0 < value * 1000 <= LARGEST_MS:
        raise refuse(pointer, "milliseconds since 1970", value, value * 1000)
    if not isinstance(value, str) or kind_of(value.strip()) != "FUTURE":
        raise refuse(pointer, "a time, or milliseconds since 1970", value, "2030-01-01T09:00:00Z")
    return value.strip()


_interval_us = duration(1, LONGEST_US, "5m")


def _interval(value: Any, pointer: str) -> str:
    return f"@every {format_duration(_interval_us(value, pointer))}"


# Each name of the schedule: how it becomes a schedule text, and the field of an answer that would repeat it.
_SCHEDULE_NAMES: dict[str, tuple[Check, str]] = {
    "schedule": (_texts, "schedule"),
    "cron": (_texts, "cron_expression"),
    "cron_expression": (_texts, "cron_expression"),
    "cronExpression": (_texts, "cron_expression"),
    "schedule_time": (_instant, "schedule"),
    "scheduledTime": (_instant, "schedule"),
    "interval": (_interval, "schedule"),
}

_FIELDS = ("name", "schedule", "target", "payload", *GROUPS, *PLAIN[1:])
_NAMES = (*_FIELDS, *_SCHEDULE_NAMES, *PAYLOADS, *RETRIES, "schedule_type", "callback_url")
_KNOWN = READ_ONLY.union(_NAMES)
# What makes a document a job of its own rather than a change of one.
WHOLE = frozenset({*_SCHEDULE_NAMES, "schedule_type", "type", "target", "callback_url", "after"})

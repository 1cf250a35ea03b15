"""Query parameters: each known by name, read and checked once; an unknown one is refused with the nearest right one."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

from horae.api.body import check_instant
from horae.api.schema_words import FLAG, TEXT, TIME, one_of
from horae.core.checks import FIELDS, Check, Collector, duration, escape, nearest, shown
from horae.core.errors import Fault, Invalid
from horae.core.job import PRIORITY_NUMBER
from horae.core.run import REASONS
from horae.ports import StoredRow

DEFAULT_LIMIT, LARGEST_LIMIT = 100, 1000
MOST_PARAMETERS = 50
LONGEST_TEXT = 300

JOB_STATUSES = ("SCHEDULED", "PAUSED", "COMPLETED", "CANCELLED")
HEALTHS = ("failing", "late", "never_run")
RUN_STATUSES = (
    "PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "UNKNOWN",
)  # fmt: skip
RUN_SYNONYMS = {
    "SUCCESS": "SUCCEEDED",
    "COMPLETED": "SUCCEEDED",
    "DONE": "SUCCEEDED",
    "FAILURE": "FAILED",
    "ENQUEUED": "QUEUED",
}
DELIVERY_STATES = ("waiting", "delivered", "dead")
SORTS = tuple(sign + name for name in ("name", "next_fire_time", "updated_at") for sign in ("", "-"))
_KEYS = frozenset({"key", "api_key", "apikey", "api-key", "x-api-key", "access_token", "token", "authorization"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """`read` turns the text into a value or raises Invalid; `schema` tells the same in the words of OpenAPI."""

    name: str
    read: Check
    about: str
    schema: dict[str, Any] = field(default_factory=lambda: dict(TEXT))


def read_query(request: Request, parameters: Iterable[Parameter], *, is_dry_by_body: bool = False) -> dict[str, Any]:
    """The parameters given, by name. An empty one counts as not given, but for a flag: who writes it means it."""
    items = request.query_params.multi_items()
    known = {parameter.name: parameter for parameter in parameters}
    if len(items) > MOST_PARAMETERS:
        detail = f"There are more than {MOST_PARAMETERS} query parameters."
        raise Invalid([Fault("/query", detail, "Leave out those that this needs not.")])
    found = Collector()
    values: dict[str, Any] = {}
    for name, text in items:
        pointer = f"/query/{escape(name[:100])}"
        if name == DRY_RUN.name and is_dry_by_body:
            detail = "Here a dry run is asked for in the body, not in the address."
            found.faults.append(Fault(pointer, detail, 'Write "dry_run": true in the body.'))
        elif name not in known:
            found.faults.append(_unknown(name, pointer, known))
        elif name in values:
            found.faults.append(Fault(pointer, f'"{name}" is given twice.', "Give it once."))
        elif text or known[name].read is _flag:
            values[name] = found.attempt(None, _checked, known[name], text, pointer)
    found.finish()
    return values


def read_cursor(text: str, pointer: str) -> Cursor:
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(raw, type=Cursor)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise bad_cursor(pointer) from None
    is_storable = all("\0" not in part for part in (cursor.id, cursor.key) if isinstance(part, str))
    if not is_storable or (isinstance(cursor.key, int) and abs(cursor.key) >= 2**63):
        raise bad_cursor(pointer)
    return cursor


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page ends: the list it belongs to, the sort value of its last row, and that row's id."""

    list: str
    key: str | int | None
    id: str

    def text(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


def after_of(values: Mapping[str, Any], sort: str) -> tuple[Any, str] | None:
    """Where a list in this order goes on. A cursor of another order would skip rows, so it is refused."""
    cursor: Cursor | None = values.get("cursor")
    if cursor is None:
        return None
    kind = {"name": str, "next_fire_time": int | None}.get(sort.lstrip("-"), int)
    if cursor.list != sort or not isinstance(cursor.key, kind):
        raise bad_cursor("/query/cursor")
    return cursor.key, cursor.id


def before_of(values: Mapping[str, Any], list_: str) -> str | None:
    cursor: Cursor | None = values.get("cursor")
    if cursor is None:
        return None
    if cursor.list != list_:
        raise bad_cursor("/query/cursor")
    return cursor.id


def cut(rows: Sequence[StoredRow], limit: int, list_: str, id_: str = "id") -> tuple[Sequence[StoredRow], str | None]:
    """Of one row more than was asked for: the page, and the cursor of the next one if there is one."""
    is_last = len(rows) <= limit
    return rows[:limit], None if is_last else Cursor(list_, None, str(rows[limit - 1][id_])).text()


def next_link(request: Request, cursor: str | None) -> dict[str, str]:
    """The Link header to the next page, if there is one."""
    if cursor is None:
        return {}
    items = [(name, text) for name, text in request.query_params.multi_items() if name != "cursor"]
    path = request.scope.get("raw_path", b"").split(b"?")[0].decode("ascii", "replace") or request.url.path
    return {"Link": f'<{path}?{urlencode([*items, ("cursor", cursor)])}>; rel="next"'}


def _checked(parameter: Parameter, text: str, pointer: str) -> Any:
    if "\0" in text or len(text) > (4000 if parameter.name == "cursor" else LONGEST_TEXT):
        detail = f'"{parameter.name}" is too long, or holds a NUL character.'
        raise Invalid([Fault(pointer, detail, f"Give at most {LONGEST_TEXT} characters.")])
    return parameter.read(text, pointer)


def _unknown(name: str, pointer: str, known: Mapping[str, Parameter]) -> Fault:
    if name.lower() in _KEYS:
        detail = "A key does not belong in the address, which is written to logs on its way."
        return Fault(pointer, detail, "Send it as Authorization: Bearer KEY, and treat this one as leaked.")
    near = nearest(name, known)
    if near:
        return Fault(pointer, f'{shown(name)} is not a parameter here; did you mean "{near}"?', f'Write "{near}".')
    return Fault(pointer, f"{shown(name)} is not a parameter here.", f"Parameters: {', '.join(known) or 'none'}.")


def bad_cursor(pointer: str) -> Invalid:
    detail = "This cursor is not one that this list gave out, or it was given for another order."
    return Invalid([Fault(pointer, detail, "Take next_cursor from the last answer, or leave it out to start anew.")])


def _limit(text: str, pointer: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", text) or not 1 <= int(text) <= LARGEST_LIMIT:
        detail = f'"limit" must be a whole number from 1 to {LARGEST_LIMIT}; got {shown(text)}.'
        raise Invalid([Fault(pointer, detail, f"Write limit={DEFAULT_LIMIT}.")])
    return int(text)


def _number(text: str, pointer: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise Invalid([Fault(pointer, f"This must be a whole number; got {shown(text)}.", "Write 1.")])
    return int(text)


def _flag(text: str, pointer: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise Invalid([Fault(pointer, f"This must be true or false; got {shown(text)}.", "Write true.")])
    return text.lower() in ("true", "1")


def _word(names: Iterable[str], synonyms: Mapping[str, str] | None = None) -> Check:
    """One of a closed list, in any case."""
    known = {name.casefold(): name for name in names} | {
        word.casefold(): name for word, name in (synonyms or {}).items()
    }

    def read(text: Any, pointer: str) -> str:
        if isinstance(text, str) and (name := known.get(text.casefold())) is not None:
            return name
        near = nearest(text, known.values()) if isinstance(text, str) else None
        hint = f"Did you mean {near}?" if near else f"Write {next(iter(known.values()))}."
        raise Invalid([Fault(pointer, f"This must be one of {', '.join(names)}; got {shown(text)}.", hint)])

    return read


def _priority(text: str, pointer: str) -> int:
    value: Any = int(text) if text in ("1", "2", "3") else text
    return PRIORITY_NUMBER[FIELDS["priority"][1](value, pointer)]


def _search(text: str, _: str) -> str:
    """As a LIKE pattern in which the text stands for itself."""
    escaped = re.sub(r"([%_\\])", r"\\\1", text.lower())
    return f"%{escaped}%"


def _label(text: str, pointer: str) -> str:
    key, colon, _ = text.partition(":")
    if not colon or not key:
        detail = f"A label is asked for as key:value; got {shown(text)}."
        raise Invalid([Fault(pointer, detail, "Write label=team:billing.")])
    return text


def _text(text: str, _: str) -> str:
    return text


_LENGTH = {"type": "string", "default": "1m", "examples": ["1m", "1h"]}

check_reason = _word(sorted(REASONS))
LIMIT = Parameter(
    "limit", _limit, "How many at most", {"type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT, "default": 100}
)
CURSOR = Parameter("cursor", read_cursor, "Where the last page ended: its next_cursor")
PRIORITY = Parameter("priority", _priority, "HIGH, MEDIUM or LOW", one_of(PRIORITY_NUMBER))
QUEUE = Parameter("queue", _text, "Of this queue")
AT = Parameter("at", check_instant, "The instant to explain; if left out the next due time, else the latest run", TIME)
ATOMIC = Parameter("atomic", _flag, "All or none", FLAG)
DRY_RUN = Parameter("dry_run", _flag, "Try it, say what it would change, and change nothing", FLAG)
FOLLOW = Parameter("follow", _flag, "As server-sent events, until the run is over", FLAG)
ATTEMPT = Parameter(
    "attempt", _number, "Only of this attempt", {"type": "integer", "minimum": 0, "maximum": 999_999_999}
)
FROM = Parameter("from", check_instant, "From this time on, not before now; now if left out", TIME)
TO = Parameter("to", check_instant, "Until this time; a day later if left out", TIME)
BUCKET = Parameter("bucket", duration(1_000_000, 86_400_000_000, "1m"), "How long each stretch is", _LENGTH)
JOB = Parameter("job", _text, "Of this job: its id or its name")
DUE_BEFORE = Parameter("due_before", check_instant, "Due before this time", TIME)

JOB_FILTERS = (
    Parameter("status", _word(JOB_STATUSES), "In this state; cancelled ones only if asked for", one_of(JOB_STATUSES)),
    Parameter("health", _word(HEALTHS), "With dead letters, more than a minute late, or never run", one_of(HEALTHS)),
    Parameter("q", _search, "With this in the name"),
    Parameter("label", _label, "With this label, as key:value"),
    Parameter("type", FIELDS["type"][1], "Of this type"),
    QUEUE,
    PRIORITY,
    DUE_BEFORE,
)
DEAD_FILTERS = (
    QUEUE,
    PRIORITY,
    Parameter("due_after", check_instant, "Due at this time or later", TIME),
    DUE_BEFORE,
    Parameter("reason", check_reason, "With this reason", one_of(sorted(REASONS))),
)
ERROR = Parameter("error", _text, "With this error, as the groups of dead letters tell it")
WINDOW = Parameter("window", duration(60_000_000, 86_400_000_000, "1h"), "How far back", _LENGTH | {"default": "1h"})
RUN_FILTERS = (
    Parameter("status", _word(RUN_STATUSES, RUN_SYNONYMS), "In this state", one_of(RUN_STATUSES)),
    *DEAD_FILTERS,
    Parameter("worker", _text, "On this worker"),
)
DELIVERY_STATE = Parameter("state", _word(DELIVERY_STATES), "In this state", one_of(DELIVERY_STATES))
SORT = Parameter("sort", _word(SORTS), "The order", {**one_of(SORTS), "default": "name"})


def job_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    """In the words of the store."""
    plain = {name: values.get(name) for name in ("status", "health", "label", "type", "queue", "priority")}
    return plain | {"search": values.get("q"), "due_before_us": values.get("due_before")}


def run_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    status = values.get("status")
    return dead_filters(values) | {"status": status.lower() if status else None, "worker": values.get("worker")}


def dead_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: values.get(name) for name in ("queue", "priority", "reason")},
        "due_after_us": values.get("due_after"),
        "due_before_us": values.get("due_before"),
    }


def letter_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    return dead_filters(values) | {"fingerprint": values.get("error")}

"""Request bodies: bytes within a limit, JSON without its traps, and the small documents of single routes.

What a job's document means is core/document.py's to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from starlette.requests import Request

from horae.api.problems import Refused
from horae.core.checks import Check, Collector, refuse, shown, unknown_field
from horae.core.duration import parse_instant
from horae.core.errors import Fault, HoraeError, Invalid
from horae.core.schedule import HORIZON_US
from horae.core.sound import unsound

MOST_BYTES = 1 << 20
MOST_BATCH_BYTES = 64 << 20
MOST_ITEMS = 10_000
MOST_LINES = 100_000
# A value of JSON may be two bytes, its Python object is 30 times that: this bounds what a body of 64 MiB can take.
MOST_VALUES = 2_000_000
LARGE_BYTES = 256 << 10
MOST_UNKNOWN = 20

BODY_SECONDS = 30
# A body that is too large, but not larger than this, is taken and thrown away before it is refused.
MOST_POURED_BYTES = 32 << 20
POUR_SECONDS = 0.9

_JSON = frozenset({"", "application/json", "text/json"})
_NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})


_LINE = re.compile(rb"\S[^\n]*")


async def read_body(request: Request, most: int) -> bytes:
    told = request.headers.get("content-length", "")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            if told.isdecimal() and (len(told) > 15 or int(told) > most):
                if len(told) < 15 and int(told) <= MOST_POURED_BYTES and "expect" not in request.headers:
                    await _pour_away(request)
                raise _too_large(most)
            return await _read_all(request, most)
    except TimeoutError:
        detail = f"The body did not arrive within {BODY_SECONDS} seconds."
        fault = Fault("", detail, "Send it again, over a better connection or in smaller parts.")
        raise Refused(408, "slow_body", detail, [fault], {"Connection": "close"}) from None


async def refuse_body(request: Request) -> None:
    """Of a request that takes none: whoever wrote one meant something by it, which would be dropped."""
    body = (await read_body(request, MOST_BYTES)).strip()
    if body not in (b"", b"{}", b"null"):
        detail = "This request takes no body; what is in it would have no effect."
        raise Invalid([Fault("", detail, "Leave the body out. A dry run is asked for with ?dry_run=true.")])


async def _pour_away(request: Request) -> None:
    """Many callers read no answer before they have sent all, and would see a broken connection."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(POUR_SECONDS):
            async for _ in request.stream():
                pass


async def _read_all(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def is_ndjson(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() in _NDJSON


async def stream_lines(request: Request, at_once: int) -> AsyncIterator[list[Any | HoraeError]]:
    """The lines of a body as they come, `at_once` at a time and decoded; one that is not JSON is an error in its place.

    What ends the stream early (too many, too slow) is the last item: those before it have been dealt with by then.
    """
    _media_type(request)
    reader = _LineReader(request)
    number = 0
    while not reader.is_over:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                lines = await reader.read(at_once)
        except TimeoutError:
            detail = f"The next lines did not arrive within {BODY_SECONDS} seconds."
            yield [_whole(408, "slow_body", detail, "Send the lines from here on again, in a request of their own.")]
            return
        items = []
        for line in lines:
            number += 1
            if line.strip():
                items.append(_line(line, number))
        if reader.fault is not None:
            items.append(reader.fault)
        if items:
            yield items


class _LineReader:
    def __init__(self, request: Request) -> None:
        self._parts = request.stream().__aiter__()
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._count = 0
        self._has_ended = False
        self._is_skipping = False
        self.fault: HoraeError | None = None

    @property
    def is_over(self) -> bool:
        return self.fault is not None or (self._has_ended and not self._lines)

    async def read(self, most: int) -> list[bytes]:
        while len(self._lines) < most and not self._has_ended and self.fault is None:
            await self._more()
        taken = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
        self._count += sum(1 for line in taken if line.strip())
        if self._count > MOST_LINES:
            taken = taken[: MOST_LINES - self._count]
            detail = f"A body has at most {MOST_LINES:,} lines."
            self.fault = _whole(413, "too_large", detail, "Send the rest in another request.")
        return taken

    async def _more(self) -> None:
        try:
            part = await anext(self._parts)
        except StopAsyncIteration:
            self._has_ended = True
            self._lines += [self._rest] if self._rest else []
            return
        self._size += len(part)
        if self._is_skipping:
            end = part.find(b"\n")
            self._is_skipping = end < 0
            part = b"" if end < 0 else part[end:]
        *whole, self._rest = (self._rest + part).split(b"\n") if b"\n" in part else (self._rest + part,)
        self._lines += whole
        if self._size > MOST_BATCH_BYTES:
            self.fault = _too_large(MOST_BATCH_BYTES)
        elif len(self._rest) > MOST_BYTES:
            # Refused in its place; those after it are read.
            self._rest = self._rest[: MOST_BYTES + 1]
            self._is_skipping = True


async def read_json(request: Request, body: bytes) -> Any:
    if not _is_json(_media_type(request)):
        raise _unsupported(request, "application/json")
    return await _off_the_loop(partial(decode, body), len(body))


async def read_object(request: Request, body: bytes) -> Any:
    """As `read_json`, but no body at all is an empty object."""
    return await read_json(request, body) if body.strip() else {}


async def read_items(request: Request, body: bytes, name: str) -> list[Any | HoraeError]:
    """The items of a batch: `{name: […]}`, or a line each. A line that is not JSON is an error in its place."""
    media_type = _media_type(request)
    if media_type in _NDJSON:
        lines: list[Any | HoraeError] = await _off_the_loop(partial(_lines, body), len(body))
        return lines
    if not _is_json(media_type):
        raise _unsupported(request, "application/json or application/x-ndjson")
    document = await _off_the_loop(partial(decode, body), len(body))
    fields = read_fields(document, {name: check_items}, deep=False)
    require(fields, {name: f'Write {{"{name}": […]}}.'})
    items: list[Any | HoraeError] = fields[name]
    return items


def decode(body: bytes) -> Any:
    """JSON as RFC 8259 has it, and no name twice: of two values one would be lost without a word."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MOST_VALUES:
        raise _whole(
            413, "too_large", f"The body has more than {MOST_VALUES:,} values.", "Send it in several requests."
        )
    if not body.strip():
        raise _not_json("it is empty")
    try:
        return _decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _not_json(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _not_json("it is nested too deeply; 64 levels are the limit") from None
    except ValueError as error:
        # Python's own words about very long numbers are advice to programmers.
        is_number = "integer string conversion" in str(error)
        raise _not_json("a number in it has too many digits" if is_number else str(error)) from None


def read_fields(
    document: object, fields: Mapping[str, Check], pointer: str = "", *, deep: bool = True
) -> dict[str, Any]:
    """The fields of a small document, checked; null is the same as absent. `deep` looks for what cannot be stored."""
    if not isinstance(document, dict):
        raise refuse(pointer, "a JSON object", document)
    if deep and (flaws := unsound(document)):
        raise Invalid([Fault(f"{pointer}{flaw.pointer}", flaw.detail, flaw.hint) for flaw in flaws])
    found = Collector()
    found.faults += _unknown(document, fields, pointer)
    values = {
        name: found.attempt(None, check, document[name], f"{pointer}/{name}")
        for name, check in fields.items()
        if document.get(name) is not None
    }
    found.finish()
    return values


def require(fields: Mapping[str, Any], hints: Mapping[str, str], pointer: str = "") -> None:
    """Raises Invalid with every name that is missing, and its hint."""
    missing = [
        Fault(f"{pointer}/{name}", f'"{name}" is missing.', hint) for name, hint in hints.items() if name not in fields
    ]
    if missing:
        raise Invalid(missing)


def check_instant(value: Any, pointer: str) -> int:
    if not isinstance(value, str):
        raise refuse(pointer, "a time", value, hint="Write a time such as 2030-01-01T09:00:00Z.")
    us = parse_instant(value, pointer)
    if not 0 <= us < HORIZON_US:
        raise refuse(pointer, "a time from 1970 to 2200", value, hint="Write a time such as 2030-01-01T09:00:00Z.")
    return us


def check_flag(value: Any, pointer: str) -> bool:
    if not isinstance(value, bool):
        raise refuse(pointer, "true or false", value, hint="Write true.")
    return value


def check_items(value: Any, pointer: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise refuse(pointer, f"a list of at most {MOST_ITEMS:,} objects", value)
    return value


def _lines(body: bytes) -> list[Any | HoraeError]:
    """Found one by one: a body of nothing but line ends must not become a list of millions."""
    items: list[Any | HoraeError] = []
    number, counted_to = 1, 0
    for line in _LINE.finditer(body):
        if len(items) == MOST_ITEMS:
            detail = f"A body that is read as a whole has at most {MOST_ITEMS:,} lines."
            raise Invalid([Fault("", detail, "Send the rest in another request; without atomic a body may be longer.")])
        number, counted_to = number + body.count(b"\n", counted_to, line.start()), line.start()
        items.append(_line(line[0], number))
    return items


def _line(line: bytes, number: int) -> Any | HoraeError:
    if len(line) > MOST_BYTES:
        detail = f"Line {number} has {len(line):,} bytes; a job may have {MOST_BYTES:,}."
        return _whole(413, "too_large", detail, "Send a reference to the data instead, such as a URL in the payload.")
    try:
        return decode(line)
    except Refused as error:
        detail = f"Line {number}: {error.detail}"
        return Refused(error.status, error.code, detail, [replace(fault, detail=detail) for fault in error.faults])


async def _off_the_loop(read: Callable[[], Any], size: int) -> Any:
    return await asyncio.to_thread(read) if size > LARGE_BYTES else read()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"the name {shown(name)} comes twice in one object")
            names.add(name)
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant).decode


def _unknown(document: Mapping[str, Any], fields: Mapping[str, Check], pointer: str) -> Iterator[Fault]:
    unknown = [name for name in document if name not in fields]
    yield from (unknown_field(name, pointer, fields) for name in unknown[:MOST_UNKNOWN])


def _media_type(request: Request) -> str:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.partition("charset=")[2].strip(' "').lower()
    if charset not in ("", "utf-8", "utf8"):
        raise _unsupported(request, "JSON in UTF-8")
    if (packed := request.headers.get("content-encoding", "identity")).lower() != "identity":
        detail = f"The body must not be compressed; its Content-Encoding is {shown(packed)}."
        fault = Fault("/headers/Content-Encoding", detail, "Send it as it is, without Content-Encoding.")
        raise Refused(415, "unsupported_media_type", detail, [fault])
    return kind.strip().lower()


def _is_json(media_type: str) -> bool:
    return media_type in _JSON or (media_type.startswith("application/") and media_type.endswith("+json"))


def _unsupported(request: Request, wanted: str) -> Refused:
    got = shown(request.headers.get("content-type", ""))
    hint = "With curl: -H 'Content-Type: application/json'."
    fault = Fault("/headers/Content-Type", f"The body must be {wanted}; its Content-Type is {got}.", hint)
    return Refused(415, "unsupported_media_type", fault.detail, [fault])


def _not_json(why: str) -> Refused:
    return _whole(
        400, "not_json", f"The body is not JSON: {why}.", 'Write one JSON object, such as {"name": "report"}.'
    )


def _too_large(most: int) -> Refused:
    hint = "Send less, or in several requests; many jobs at once go to POST /jobs:batch."
    return _whole(413, "too_large", f"The body is larger than {most:,} bytes.", hint)


def _whole(status: int, code: str, detail: str, hint: str) -> Refused:
    """A fault of the body as a whole, to which the empty pointer points."""
    return Refused(status, code, detail, [Fault("", detail, hint)])

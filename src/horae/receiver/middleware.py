"""Middleware that gives every key one call at a time and one success."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Any

from .inbox import Answer, Inbox, State

KEY_HEADER = "idempotency-key"
FENCE_HEADER = "x-horae-fence"
JOB_HEADER = "x-horae-job"
LONGEST_KEY = 255
LONGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """What its headers say of a call. Without a key it is let through, unless keys are required."""

    key: str
    fence: int
    job: str


def read_call(headers: Mapping[str, str]) -> Call | None:
    """None when there is no key; ValueError when there is something wrong with it."""
    key = headers.get(KEY_HEADER, "")
    if not key:
        return None
    fence = headers.get(FENCE_HEADER, "0")
    if len(key) > LONGEST_KEY or not fence.isdecimal() or len(fence) > 18:
        raise ValueError("The key or the fence cannot be read.")
    return Call(key, int(fence), headers.get(JOB_HEADER, "")[:300])


_WORDS: dict[str, tuple[int, str]] = {
    "busy": (503, "Another call with this key is under way. Try again in a while."),
    "stale": (409, "A newer attempt of this call was here before. This one changes nothing."),
    "unreadable": (400, "The key or the fence of this call cannot be read."),
    "required": (400, "This needs an Idempotency-Key."),
}


def _refusal(code: str, wait_seconds: float = 0) -> Answer:
    status, detail = _WORDS[code]
    headers = [("Content-Type", "application/json")]
    if wait_seconds:
        # horae waits so long before the next attempt, so that this one is not used up in vain.
        headers.append(("Retry-After", str(ceil(wait_seconds))))
    return Answer(status, headers, json.dumps({"code": code, "detail": detail}).encode())


class _Guard:
    """What both kinds of middleware do around a call."""

    def __init__(self, inbox: Inbox, methods: Iterable[str], *, is_required: bool) -> None:
        self._inbox = inbox
        self._methods = frozenset(methods)
        self._is_required = is_required

    def admit(self, method: str, headers: Mapping[str, str]) -> Call | Answer | None:
        """The call to work on, an answer to give at once, or None for a call that is not watched."""
        if method.upper() not in self._methods:
            return None
        try:
            call = read_call(headers)
        except ValueError:
            return _refusal("unreadable")
        if call is None:
            return _refusal("required") if self._is_required else None
        entry = self._inbox.begin(call.key, call.fence, call.job)
        if entry.state is State.FIRST:
            return call
        if entry.answer is not None:
            told = [*entry.answer.headers, ("Idempotency-Replayed", "true")]
            return Answer(entry.answer.status, told, entry.answer.body)
        return _refusal(entry.state.value, entry.wait_seconds)

    def end(self, call: Call, answer: Answer | None) -> None:
        """A success is remembered; anything else gives the key back."""
        if answer is not None and 200 <= answer.status < 300 and len(answer.body) <= LONGEST_ANSWER:
            self._inbox.finish(call.key, call.fence, answer)
        elif answer is not None and 200 <= answer.status < 300:
            self._inbox.finish(call.key, call.fence, Answer(answer.status, [], b""))
        else:
            self._inbox.give_back(call.key, call.fence)


METHODS = ("POST", "PUT", "PATCH", "DELETE")


class IdempotentWSGI:
    """`app = IdempotentWSGI(app, inbox)`. Answers are held until they are whole."""

    def __init__(self, app: Any, inbox: Inbox, *, methods: Iterable[str] = METHODS, is_required: bool = False) -> None:
        self._app = app
        self._guard = _Guard(inbox, methods, is_required=is_required)

    def __call__(self, environ: MutableMapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        call = self._guard.admit(environ.get("REQUEST_METHOD", "GET"), headers)
        if call is None:
            found: Iterable[bytes] = self._app(environ, start_response)
            return found
        answer = call if isinstance(call, Answer) else self._work(environ, call)
        start_response(f"{answer.status} {_phrase(answer.status)}", answer.headers)
        return [answer.body]

    def _work(self, environ: MutableMapping[str, Any], call: Call) -> Answer:
        answer = None
        try:
            answer = _gather(self._app, environ)
            return answer
        finally:
            self._guard.end(call, answer)


def _gather(app: Any, environ: MutableMapping[str, Any]) -> Answer:
    told: list[tuple[str, list[tuple[str, str]]]] = []
    parts: list[bytes] = []

    def start(status: str, headers: list[tuple[str, str]], _: Any = None) -> Callable[[bytes], None]:
        told.append((status, headers))
        return parts.append

    result = app(environ, start)
    try:
        parts += result
    finally:
        if hasattr(result, "close"):
            result.close()
    status, headers = told[-1]
    return Answer(int(status.split()[0]), headers, b"".join(parts))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


Message = MutableMapping[str, Any]


class IdempotentASGI:
    """`app = IdempotentASGI(app, inbox)`. Answers are held until they are whole; the inbox is asked in a thread."""

    def __init__(self, app: Any, inbox: Inbox, *, methods: Iterable[str] = METHODS, is_required: bool = False) -> None:
        self._app = app
        self._guard = _Guard(inbox, methods, is_required=is_required)

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        call = await asyncio.to_thread(self._guard.admit, scope["method"], headers)
        if call is None:
            await self._app(scope, receive, send)
            return
        answer = call if isinstance(call, Answer) else await self._work(scope, receive, call)
        pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer.body})

    async def _work(self, scope: Message, receive: Callable[[], Awaitable[Message]], call: Call) -> Answer:
        status, headers, parts = 500, list[tuple[str, str]](), list[bytes]()

        async def keep(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in message.get("headers", ())]
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        answer = None
        try:
            await self._app(scope, receive, keep)
            answer = Answer(status, headers, b"".join(parts))
            return answer
        finally:
            # Also when the caller hung up: what was done stays done.
            await asyncio.shield(asyncio.to_thread(self._guard.end, call, answer))

"""One request and what may come of it, without sending anything: both clients share this, and only this decides."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from horae.sdk.errors import ApiError, Unavailable, WaitTimeout, error_of

if TYPE_CHECKING:
    import httpx2

DEFAULT_URL = "http://127.0.0.1:8700"
BASE = "/api/v1"
RETRIES = 5
FIRST_SECONDS = 0.2
LONGEST_SECONDS = 10.0
LONGEST_ASKED_SECONDS = 60.0
# Of a run that is waited for.
POLL_FIRST_SECONDS = 0.1
POLL_LONGEST_SECONDS = 2.0
POLL_GROWTH = 1.5

_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. A POST has an idempotency key, the same however often it is sent."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the API is and who asks."""

    url: str
    key: str
    tenant: str | None

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "horae-sdk"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if self.tenant:
            headers["X-Horae-Tenant"] = self.tenant
        return headers


def place_of(url: str | None, key: str | None, tenant: str | None) -> Place:
    """What is not given comes from HORAE_URL and HORAE_API_KEY."""
    url = url or os.environ.get("HORAE_URL") or DEFAULT_URL
    key = os.environ.get("HORAE_API_KEY", "") if key is None else key
    if not url.startswith(("http://", "https://")):
        raise ApiError(f'"{url}" is no address of a horae; write one such as {DEFAULT_URL}.', code="bad_url")
    return Place(url.rstrip("/") + BASE, key, tenant)


def get(path: str, **query: Any) -> Ask:
    return Ask("GET", path, _query(query))


def post(path: str, body: Any = None, key: str | None = None, query: Mapping[str, Any] | None = None) -> Ask:
    headers = {"Idempotency-Key": key or str(uuid4())}
    return Ask("POST", path, _query(query or {}), plain(body or {}), headers)


def put(path: str, body: Any) -> Ask:
    return Ask("PUT", path, body=plain(body))


def patch(path: str, body: Any, version: int | None = None) -> Ask:
    return Ask("PATCH", path, body=plain(body), headers={} if version is None else {"If-Match": f'"v{version}"'})


def delete(path: str) -> Ask:
    return Ask("DELETE", path)


def part(word: str) -> str:
    """A name as one part of a path."""
    return quote(word, safe="")


def given(**fields: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def plain(value: Any) -> Any:
    """JSON out of what people write in Python: datetimes and lengths of time as the API reads them."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; write datetime(…, tzinfo=UTC).")
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        raise TypeError(f"{value!r} has no order, and JSON has no sets; write sorted(…) or list(…).")
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _query(fields: Mapping[str, Any]) -> dict[str, str]:
    told = {name.rstrip("_"): plain(value) for name, value in fields.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in told.items()}


class Tries:
    """The life of one request: after each try, whether and when there is another. With a patience none outlasts it."""

    def __init__(self, ask: Ask, retries: int, random: Random, patience: Patience | None = None) -> None:
        self._ask = ask
        self._left = retries
        self._random = random
        self._patience = patience
        self._count = 0

    def timeout(self, seconds: float) -> float:
        """How long the next try may take, which takes `seconds` at most."""
        return seconds if self._patience is None else self._patience.at_most(seconds)

    def after_error(self, error: Exception) -> float:
        """Seconds to wait. Every request may be sent again: a POST has its key, the others change nothing twice."""
        self._count += 1
        if self._patience is not None:
            self._patience.check(f"there was no answer about it: {error or type(error).__name__}")
        if self._left <= 0:
            raise Unavailable(
                f"{self._ask.method} {self._ask.path} got no answer: {error}", code="unreachable"
            ) from error
        self._left -= 1
        return self._backoff()

    def after_answer(self, response: httpx2.Response) -> float | None:
        """Seconds to wait before the next try, or None when this answer is the last word."""
        self._count += 1
        if response.status_code not in _AGAIN or self._left <= 0:
            return None
        self._left -= 1
        asked = response.headers.get("retry-after", "")
        return min(float(asked), LONGEST_ASKED_SECONDS) if asked.isdecimal() else self._backoff()

    def read(self, response: httpx2.Response) -> Any:
        document = _document(response)
        if response.is_success:
            return document
        if self._ask.method == "DELETE" and response.status_code == 404 and self._count > 1:
            return {"deleted": True}  # by an earlier try, whose answer was lost
        raise error_of(response.status_code, document)

    def _backoff(self) -> float:
        longest = min(FIRST_SECONDS * 2.0 ** (self._count - 1), LONGEST_SECONDS)
        return longest * (0.5 + self._random.random() / 2)


def _document(response: httpx2.Response) -> Any:
    if "json" in response.headers.get("content-type", ""):
        try:
            return response.json()
        except ValueError:
            return None
    return response.text


class Patience:
    """How a run is waited for: a look now and then, less often the longer it takes, until the time is up."""

    def __init__(self, run: str, timeout_seconds: float | None, now: Callable[[], float]) -> None:
        self._run = run
        self._timeout_seconds = timeout_seconds
        self._now = now
        self._end = None if timeout_seconds is None else now() + timeout_seconds
        self._pause = POLL_FIRST_SECONDS

    def pause(self, status: str) -> float:
        """Seconds until the next look. Raises WaitTimeout when there is no time for it."""
        pause = self._pause
        self.check(f"it is {status}", pause)
        self._pause = min(pause * POLL_GROWTH, POLL_LONGEST_SECONDS)
        return pause

    def check(self, why: str, pause: float = FIRST_SECONDS) -> None:
        """Raises WaitTimeout when the time is up, or would be after a pause."""
        if self._end is not None and self._now() + pause > self._end:
            raise WaitTimeout(
                f"Run {self._run} was waited for {self._timeout_seconds:g} s: {why}.", code="wait_timeout"
            )

    def at_most(self, seconds: float) -> float:
        return seconds if self._end is None else min(seconds, max(self._end - self._now(), 0.05))


class EventReader:
    """Server-sent events, line by line; `last_id` is the place to go on from after a break."""

    def __init__(self) -> None:
        self.last_id = ""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, line: str) -> tuple[str, Any] | None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self.last_id = value
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif not line and self._data:
            event = self._kind, json.loads("\n".join(self._data))
            self._kind, self._data = "", []
            return event
        return None

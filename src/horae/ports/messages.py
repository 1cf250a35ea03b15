"""Messages to the outside: taken from the store, sent, told of."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from horae.ports.rows import JsonObject


@dataclass(frozen=True, slots=True)
class Message:
    """One attempt to tell somebody of an event. Without a webhook of its own it goes to a plain URL."""

    id: str
    attempt: int
    tenant: str
    event: str
    at_us: int
    now_us: int
    webhook_id: str | None
    url: str
    is_wanted: bool
    sealed: list[str]
    run: JsonObject | None


@dataclass(frozen=True, slots=True)
class Delivered:
    """How an attempt ended; `gap_us` is the wait before the next one, None when there is none."""

    id: str
    attempt: int
    is_delivered: bool
    gap_us: int | None
    status: int | None
    error: str | None
    took_ms: int


class Outlook(NamedTuple):
    """Microseconds until the next message is due, None when none waits; and whether anybody asked to be told of runs
    that do not start in time.
    """

    wait_us: int | None
    has_late: bool


class MessageStore(Protocol):
    def take_messages(self, most: int, lease_us: int, busy: list[str]) -> Awaitable[list[Message]]: ...

    def outlook(self) -> Awaitable[Outlook]: ...

    def finish_messages(self, done: list[Delivered]) -> Awaitable[None]: ...

    def tell_late(self, window_us: int) -> Awaitable[None]: ...


class Sender(Protocol):
    """Sends a message: the status of the answer, or why there is none."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, str | None]: ...

    async def close(self) -> None: ...

"""What a worker tells the store after an attempt."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Ending(NamedTuple):
    """The end of a run, fenced by the token of its last attempt."""

    run_id: str
    token: int
    status: str
    reason: str | None
    error: str | None
    result: str | None
    job_id: str = ""
    """Ends of one job are stored in their order."""


@dataclass(frozen=True, slots=True)
class Again:
    """Back to the queue. An attempt that does not count gives its number back; `grace` adds one to the budget."""

    run_id: str
    token: int
    delay_us: int
    reason: str | None
    error: str | None
    counts: bool = True
    grace: int = 0


class Settled(NamedTuple):
    """The ids of the runs that were ended: those whose tokens were current. And whether others may have waited for
    these ends, which can be claimed now.
    """

    ended: set[str]
    has_more: bool


@dataclass(frozen=True, slots=True)
class LogChunk:
    run_id: str
    attempt: int
    seq: int
    text: str
    tenant: str


class ResultStore(Protocol):
    @property
    def is_parallel(self) -> bool:
        """As that of ClaimStore."""

    def settle(self, worker: str, endings: list[Ending]) -> Awaitable[Settled]: ...

    def requeue(self, worker: str, again: list[Again]) -> Awaitable[set[str]]:
        """The ids of the runs that went back."""

    def add_logs(self, chunks: list[LogChunk]) -> Awaitable[None]: ...

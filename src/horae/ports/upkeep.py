"""What the janitor asks of the store."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from horae.ports.changes import JobEditor
from horae.ports.remote import Closing, Held


@dataclass(frozen=True, slots=True)
class Chores:
    has_lost: bool
    has_gated: bool
    has_stale: bool = False
    has_unsealed: bool = False


@dataclass(frozen=True, slots=True)
class StaleJob:
    """A job planned by an older version of the calendar that it names."""

    tenant: str
    job_id: str
    calendar: str


class LogCloser(Protocol):
    """Prepares the end of logs that lost workers left unfinished; worker/pieces.py."""

    def __call__(self, runs: list[tuple[str, Held]]) -> Awaitable[Closing]: ...


class JanitorStore(JobEditor, Protocol):
    def chores(self) -> Awaitable[Chores]: ...

    def unfinished_logs(self, most: int) -> Awaitable[list[tuple[str, Held]]]: ...

    def reap(self, most: int, logs: Closing | None = None) -> Awaitable[int]: ...

    def gate(self) -> Awaitable[int]: ...

    def sweep(self, retention_us: int) -> Awaitable[int]: ...

    def seal_audit(self, most: int) -> Awaitable[int]: ...

    def counted_tenants(self) -> Awaitable[list[str]]: ...

    def recount_jobs(self, tenant: str) -> Awaitable[None]: ...

    def stale_jobs(self, most: int) -> Awaitable[list[StaleJob]]: ...

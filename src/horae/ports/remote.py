"""Workers that come over HTTP: what the door asks for them, and what is asked of the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from horae.ports.claims import Claimed, ClaimStore
from horae.ports.executors import Outcome, Request
from horae.ports.fleet import FleetStore
from horae.ports.results import ResultStore
from horae.ports.rows import StoredRow


@dataclass(frozen=True, slots=True)
class Held:
    """A run as the worker holds it that runs it now; `now_us` is the store's time."""

    run_id: str
    job_id: str
    version: int
    worker: str
    token: int
    attempt: int
    max_attempts: int
    started_us: int
    cancel: str | None
    now_us: int


class LogPieces(Protocol):
    """Keeps secrets out of a log that comes in pieces; worker/pieces.py."""

    def add(
        self, seq: int, text: str, held: str | None, *, is_next: bool, is_followed: bool
    ) -> tuple[str, str | None]: ...

    def end(self, seq: int, held: str, *, is_cut: bool) -> str: ...


Closing = Mapping[tuple[str, int], LogPieces]
"""By run and token: what brings the log of an attempt to its end."""


class RemoteStore(ClaimStore, ResultStore, FleetStore, Protocol):
    """All that is asked for a worker that comes over HTTP."""

    def beat_known(
        self, worker: str, running: int, ttl_us: int, *, is_draining: bool = False
    ) -> Awaitable[str | None]: ...

    def retire(self, worker: str) -> Awaitable[None]: ...

    def has_left(self, worker: str) -> Awaitable[bool]: ...

    def held(self, tenant: str, run_ids: list[str]) -> Awaitable[dict[str, Held]]: ...

    def errors_of(self, tenant: str, run_id: str, token: int) -> Awaitable[list[str | None]]: ...

    def write_piece(
        self, tenant: str, run: Held, seq: int, text: str, cap: int, pieces: LogPieces | None
    ) -> Awaitable[bool]: ...

    def end_pieces(self, tenant: str, run: Held, pieces: LogPieces, *, is_cut: bool = False) -> Awaitable[None]: ...

    def run(self, tenant: str, run_id: str) -> Awaitable[tuple[StoredRow, list[StoredRow]]]: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What a worker that comes over HTTP wants: runs of these handlers on these queues, as many as it has slots for
    beside those it holds.
    """

    worker: str
    node: str
    queues: tuple[str, ...]
    handlers: tuple[str, ...]
    slots: int
    holds: frozenset[str]
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Given:
    """The answer to it. `is_draining`: there will be no more."""

    worker_id: str
    runs: list[tuple[Claimed, Request]]
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What a worker should do about a run: go on (`running`), stop it (`cancelled`), forget it (`lost`)."""

    run_id: str
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    heartbeat_seconds: float
    visibility_seconds: float


class RemoteWorkers(Protocol):
    """What the door asks for workers that come over HTTP."""

    @property
    def pace(self) -> Pace: ...

    def claim(self, tenant: str, ask: Ask, is_over: Callable[[], Awaitable[bool]]) -> Awaitable[Given]: ...

    def heartbeat(
        self, tenant: str, name: str, runs: dict[str, int], *, is_draining: bool = False
    ) -> Awaitable[tuple[list[State], bool]]: ...

    def log(self, tenant: str, run_id: str, fence: int, seq: int, text: str) -> Awaitable[bool]: ...

    def complete(self, tenant: str, run_id: str, fence: int, outcome: Outcome) -> Awaitable[bool]: ...

    def stopped(self, tenant: str, run_id: str, fence: int, *, is_cancel: bool) -> Awaitable[bool]: ...

    def leave(self, tenant: str, name: str) -> Awaitable[None]: ...

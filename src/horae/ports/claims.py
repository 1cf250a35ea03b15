"""What a worker asks of the store before it works."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from horae.ports.rows import JsonObject


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting line and when its first run may be taken."""

    bucket: str
    head_us: int


@dataclass(frozen=True, slots=True)
class Lines:
    waiting: list[Waiting]
    now_us: int


class Claimed(NamedTuple):
    """A run that is ours until its token is no longer current."""

    run_id: str
    job_id: str
    tenant: str
    version: int
    cause: str
    due_us: int
    run_at_us: int
    attempt: int
    max_attempts: int
    token: int
    payload: str | None
    parent_id: str | None
    waited_us: int = 0
    started_us: int = 0
    spec: str | None = None
    """How its version is run: if the claim was asked for it, its store can bring it and it is short."""


class Gated(NamedTuple):
    """What the gate let through, how many due times it skipped for an overlap, the running runs (id, group, job) whose
    end those that it held back wait for, and the lines whose tenant or queue has no place left.
    """

    claimed: list[Claimed]
    skipped: int
    blockers: list[tuple[str, str | None, str]]
    shut: list[str]


@dataclass(frozen=True, slots=True)
class Limit:
    """What a tenant (queue '') or one of its queues may do."""

    tenant: str
    queue: str
    max_running: int | None
    is_paused: bool
    weight: int = 1


class Share(NamedTuple):
    """So many of a line, from this time on: what lies before its first run are the remains of those that were taken,
    and while an old transaction is open they are not cleared away.
    """

    bucket: str
    n: int
    from_us: int = 0


class ClaimStore(Protocol):
    @property
    def is_parallel(self) -> bool:
        """Whether the database works on several statements at a time."""

    def waiting_lines(self, prefixes: list[str]) -> Awaitable[Lines]: ...

    def claim(self, worker: str, shares: list[Share], *, with_specs: bool = False) -> Awaitable[list[Claimed]]: ...

    def claim_gated(self, worker: str, shares: list[Share], room: int) -> Awaitable[Gated]:
        """What a line does not use of its share goes to the others."""

    def coming(self, lines: list[str], after_us: int, until_us: int, most: int) -> Awaitable[list[tuple[str, int]]]: ...

    def make_ready(self, worker: str) -> Awaitable[None]: ...

    def specs(self, versions: list[tuple[str, int]]) -> Awaitable[dict[tuple[str, int], str]]: ...

    def results_of(self, run_ids: list[str]) -> Awaitable[dict[str, JsonObject]]: ...

    def limits(self) -> Awaitable[list[Limit]]: ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret as it lies in the store: one of a job's, what signs the messages to a webhook, or either a webhook's or
    an API key in an answer that is kept for a repeat, under its idempotency key.
    """

    tenant: str
    name: str
    sealed: str
    kind: str = "secret"
    kept_under: str = ""

    @property
    def place(self) -> tuple[str, ...]:
        """Where it belongs; put elsewhere it does not open."""
        if self.kind == "secret":
            return self.tenant, self.name
        return self.tenant, "key" if self.kind == "key" else "webhook", self.name


class SecretStore(Protocol):
    def find_secrets(self, wanted: list[tuple[str, str]]) -> Awaitable[list[Sealed]]: ...

"""What people ask for, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypedDict

from horae.core.answered import Standing
from horae.core.job import Definition
from horae.ports.rows import JsonObject


@dataclass(frozen=True, slots=True)
class Once:
    """An idempotency key and what it was used for: a digest of method, path and body."""

    tenant: str
    key: str
    request: str

    def part(self, number: int) -> Once:
        """Each part of a large request has a key of its own, which no caller can send; the first has the caller's."""
        return replace(self, key=f"{self.key}\n{number}") if number else self


@dataclass(frozen=True, slots=True)
class Asked:
    """By whom a change was asked for, for the audit log, and under which idempotency key. A dry one is tried and
    undone.
    """

    actor: str
    once: Once | None = None
    key_id: str | None = None
    address: str | None = None
    request_id: str | None = None
    is_dry: bool = False


class Rehearsed(Exception):
    """Ends a dry change that would go well: it is undone, and this is what it would change, as in the audit log."""

    def __init__(self, changes: list[JsonObject], result: object) -> None:
        super().__init__("A dry run ends here.")
        self.changes = changes
        self.result = result


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer, kept for a repeat."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class NewJob:
    id: str
    definition: Definition


class Merge(Protocol):
    """Makes the new definition out of the current one, under the job's lock."""

    def __call__(self, current: Definition, standing: Standing, now_us: int) -> Definition: ...


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that somebody asked for. `key` makes its identity; `due_us` None is now; `payload` is JSON text."""

    cause: str
    key: str
    due_us: int | None = None
    priority: str | None = None
    payload: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class Letters:
    """Which dead letters are meant: of a job by id or name, what the runs must be like, and whether those of deleted
    jobs are among them.
    """

    job_word: str | None
    filters: JsonObject
    with_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Backfill:
    """A job whose past is asked for, and the store's time."""

    job_id: str
    definition: Definition
    version: int
    created_us: int
    now_us: int


@dataclass(frozen=True, slots=True)
class NewWebhook:
    id: str
    name: str
    url: str
    events: list[str]
    late_us: int
    is_active: bool = True


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is kept: its hash, and what of it may be shown. `sealed` is the key itself, kept for a day with an
    idempotency key and nowhere else.
    """

    id: str
    name: str
    role: str
    scopes: tuple[str, ...]
    prefix: str
    hash: str
    requests_per_second: int | None = None
    expires_us: int | None = None
    sealed: str | None = None


class MadeKey(TypedDict):
    """What is kept for a repeat of the request that made a key: its id, and the key itself, sealed."""

    key_id: str
    sealed: str | None

"""What the door asks of the store to let people in, and what they look at."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from horae.core.access import KeyFacts, Quota
from horae.core.rate import Taken
from horae.ports.asked import Answer, Once
from horae.ports.rows import JobPage, JsonObject, Page, StoredRow


class AccessStore(Protocol):
    """What the door asks about somebody who comes in."""

    def now(self) -> Awaitable[int]: ...

    def find_key(self, hash_: str) -> Awaitable[KeyFacts | None]: ...

    def touch_keys(self, key_ids: list[str]) -> Awaitable[None]: ...

    def quota(self, tenant: str) -> Awaitable[Quota]: ...

    def take_tokens(self, bucket: str, want: int, rate: int) -> Awaitable[Taken]: ...


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand: waiting lines, counts that stop at `most_counted`, and the newest runs that were due within the
    window and are over, by status; no more than `sample` of each.
    """

    now_us: int
    most_counted: int
    window_us: int
    sample: int
    lines: list[StoredRow]
    counts: StoredRow
    recent: dict[str, list[StoredRow]]


@dataclass(frozen=True, slots=True)
class Series:
    """The recent past in stretches of `step_us`, numbered from `from_us` on: counts by name and number, and lateness.
    Not `is_whole` when there were too many runs to go back as far as was asked.
    """

    now_us: int
    from_us: int
    step_us: int
    is_whole: bool
    counts: dict[str, dict[int, int]]
    late: dict[int, StoredRow]
    overall: StoredRow | None


@dataclass(frozen=True, slots=True)
class LetterGroups:
    """The largest groups of dead letters, and how many groups and letters match in all."""

    rows: list[StoredRow]
    all_groups: int
    all_runs: int


@dataclass(frozen=True, slots=True)
class Schedules:
    """A part of the jobs that have due times to come, and below which name and id to go on."""

    rows: list[StoredRow]
    after: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Happened:
    """What changed since an instant: jobs, runs that started, runs that ended. No more than so many of each."""

    now_us: int
    jobs: list[StoredRow]
    started: list[StoredRow]
    ended: list[StoredRow]


class ViewStore(AccessStore, Protocol):
    """What people look at. Rows carry the store's column names; times are microseconds."""

    def check_schema(self) -> Awaitable[None]: ...

    def job(self, tenant: str, word: str) -> Awaitable[StoredRow]: ...

    def jobs(
        self, tenant: str, filters: JsonObject, sort: str, after: tuple[Any, str] | None, most: int
    ) -> Awaitable[JobPage]: ...

    def runs(
        self, tenant: str, job_word: str | None, filters: JsonObject, before_id: str | None, most: int
    ) -> Awaitable[Page]: ...

    def run(self, tenant: str, run_id: str) -> Awaitable[tuple[StoredRow, list[StoredRow]]]: ...

    def logs(self, tenant: str, run_id: str, attempt: int, seq: int, most: int) -> Awaitable[list[StoredRow]]: ...

    def calendars(self, tenant: str) -> Awaitable[list[StoredRow]]: ...

    def secrets(self, tenant: str) -> Awaitable[list[StoredRow]]: ...

    def webhooks(self, tenant: str) -> Awaitable[list[StoredRow]]: ...

    def deliveries(
        self, tenant: str, word: str | None, state: str | None, before_id: str | None, most: int
    ) -> Awaitable[list[StoredRow]]: ...

    def versions(self, tenant: str, word: str) -> Awaitable[list[StoredRow]]: ...

    def dead_letters(
        self, tenant: str, job_word: str | None, filters: JsonObject, before_id: str | None, most: int
    ) -> Awaitable[Page]: ...

    def letter_groups(
        self, tenant: str, job_word: str | None, filters: JsonObject, most: int
    ) -> Awaitable[LetterGroups]: ...

    def workers(self) -> Awaitable[list[StoredRow]]: ...

    def stats(self, tenant: str) -> Awaitable[Standing]: ...

    def series(self, tenant: str, window_us: int) -> Awaitable[Series]: ...

    def schedules_version(self, tenant: str) -> Awaitable[tuple[int, int]]: ...

    def schedules(self, tenant: str, until_us: int, after: tuple[str, str] | None) -> Awaitable[Schedules]: ...

    def staged(self, tenant: str, from_us: int, until_us: int, after_id: str) -> Awaitable[list[StoredRow]]: ...

    def happened(self, tenants: list[str], since_us: int, most: int) -> Awaitable[Happened]: ...

    def recall(self, once: Once) -> Awaitable[Answer | None]: ...

    def remember(self, once: Once, answer: Answer) -> Awaitable[None]: ...

    def list_keys(self, tenant: str, before_id: str | None, most: int) -> Awaitable[list[StoredRow]]: ...

    def key(self, tenant: str, key_id: str) -> Awaitable[StoredRow]: ...

    def list_tenants(self, after: str | None, most: int) -> Awaitable[list[StoredRow]]: ...

    def tenant(self, tenant: str) -> Awaitable[StoredRow]: ...

    def queues(self, tenant: str) -> Awaitable[list[JsonObject]]: ...

    def audit_entries(self, tenant: str, filters: JsonObject, before_id: int | None, most: int) -> Awaitable[Page]: ...

    def audit_page(self, tenant: str, after_id: int, most: int) -> Awaitable[list[StoredRow]]: ...

    def check_audit(self, tenant: str) -> Awaitable[JsonObject]: ...

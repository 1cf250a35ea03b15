"""What the use cases ask of the store, by what they change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from horae.core.job import Priority
from horae.ports.asked import Asked, Backfill, Letters, MadeKey, Merge, NewJob, NewKey, NewRun, NewWebhook
from horae.ports.claims import SecretStore
from horae.ports.rows import JsonObject, StoredRow


class JobEditor(Protocol):
    """Changes one job, whoever asks: people, or a calendar that it follows."""

    def change_job(
        self, asked: Asked | None, tenant: str, word: str, actor: str, merge: Merge, base_version: int | None
    ) -> Awaitable[str]: ...


class JobStore(JobEditor, SecretStore, Protocol):
    """Jobs: what they name is looked up before they are saved."""

    def now(self) -> Awaitable[int]: ...

    def create_jobs(
        self, asked: Asked | None, tenant: str, actor: str, jobs: list[NewJob], *, atomic: bool
    ) -> Awaitable[list[JsonObject]]: ...

    def pause_job(
        self,
        asked: Asked | None,
        tenant: str,
        word: str,
        actor: str,
        until_us: int | None,
        reason: str | None,
        base_version: int | None = None,
    ) -> Awaitable[str]: ...

    def resume_job(
        self, asked: Asked | None, tenant: str, word: str, actor: str, base_version: int | None = None
    ) -> Awaitable[str]: ...

    def delete_job(
        self, asked: Asked | None, tenant: str, word: str, actor: str, base_version: int | None
    ) -> Awaitable[str]: ...

    def find_calendars(self, tenant: str, names: list[str]) -> Awaitable[dict[str, JsonObject]]: ...


class RunStore(Protocol):
    """Runs that somebody asks for, stops or wants again."""

    def trigger(
        self, asked: Asked | None, tenant: str, word: str, runs: list[NewRun], base_version: int | None = None
    ) -> Awaitable[list[str]]: ...

    def cancel_run(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[None]: ...

    def retry_run(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[None]: ...


class LetterStore(Protocol):
    """Runs that failed for good: run anew, or put aside."""

    def replay(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[str]: ...

    def discard(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[None]: ...

    def count_letters(self, tenant: str, which: Letters, most: int) -> Awaitable[list[str]]: ...

    def replay_many(
        self, asked: Asked | None, tenant: str, which: Letters, expected: int | None, step_us: int, most: int
    ) -> Awaitable[list[str]]: ...

    def discard_many(
        self, asked: Asked | None, tenant: str, which: Letters, expected: int, most: int
    ) -> Awaitable[list[str]]: ...


class BackfillStore(Protocol):
    """Runs for due times of the past."""

    def backfill_facts(self, tenant: str, word: str) -> Awaitable[Backfill]: ...

    def missing(self, job_id: str, dues: list[int]) -> Awaitable[list[int]]: ...

    def backfill(
        self,
        asked: Asked | None,
        tenant: str,
        job_id: str,
        version: int,
        dues: list[int],
        priority: Priority,
        most: int,
    ) -> Awaitable[list[int]]: ...


class WebhookStore(Protocol):
    def create_webhook(
        self, asked: Asked | None, tenant: str, webhook: NewWebhook, sealed: str
    ) -> Awaitable[StoredRow]: ...

    def change_webhook(
        self, asked: Asked | None, tenant: str, word: str, changes: JsonObject
    ) -> Awaitable[StoredRow]: ...

    def rotate_webhook(
        self, asked: Asked | None, tenant: str, word: str, seal: Callable[[str], str], overlap_us: int
    ) -> Awaitable[StoredRow]: ...

    def delete_webhook(self, asked: Asked | None, tenant: str, word: str) -> Awaitable[str]: ...

    def try_webhook(self, asked: Asked | None, tenant: str, word: str, delivery_id: str) -> Awaitable[str]: ...

    def resend(self, asked: Asked | None, tenant: str, delivery_id: str) -> Awaitable[StoredRow]: ...


class SecretKeeper(Protocol):
    def put_secret(self, asked: Asked | None, tenant: str, name: str, sealed: str) -> Awaitable[list[StoredRow]]: ...

    def delete_secret(self, asked: Asked | None, tenant: str, name: str) -> Awaitable[None]: ...


class CalendarStore(Protocol):
    def put_calendar(self, asked: Asked | None, tenant: str, name: str, spec: JsonObject) -> Awaitable[StoredRow]: ...

    def delete_calendar(self, asked: Asked | None, tenant: str, name: str) -> Awaitable[None]: ...


class KeyStore(Protocol):
    def create_key(self, asked: Asked | None, tenant: str, actor: str, key: NewKey) -> Awaitable[MadeKey | str]: ...

    def rotate_key(
        self, asked: Asked | None, tenant: str, actor: str, key_id: str, key: NewKey, overlap_us: int
    ) -> Awaitable[MadeKey | str]: ...

    def revoke_key(self, asked: Asked | None, tenant: str, key_id: str) -> Awaitable[str]: ...


class TenantStore(Protocol):
    def create_tenant(self, asked: Asked | None, tenant: str, fields: JsonObject) -> Awaitable[str]: ...

    def change_tenant(self, asked: Asked | None, tenant: str, fields: JsonObject) -> Awaitable[str]: ...


class QueueStore(Protocol):
    """Queues, and the workers that serve them."""

    def change_queue(self, asked: Asked | None, tenant: str, queue: str, fields: JsonObject) -> Awaitable[None]: ...

    def ask_to_drain(self, asked: Asked | None, tenant: str, worker: str) -> Awaitable[None]: ...


class ChangeStore(
    JobStore,
    RunStore,
    LetterStore,
    BackfillStore,
    WebhookStore,
    SecretKeeper,
    CalendarStore,
    KeyStore,
    TenantStore,
    QueueStore,
    Protocol,
):
    """Every change that people ask for. It is written down who asked; with a key, a repeat is answered from the first
    time.
    """

"""Every seam on one page: what the movers ask of the store, and what a worker asks of an executor.

One verb of a store is one transaction and takes a batch; it raises Unavailable when its outcome is unknown, and can
then be repeated safely.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from horae.core.access import KeyFacts, Quota
from horae.core.job import Definition, Priority
from horae.core.plan import Plan
from horae.core.rate import Taken

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt of one run, as an executor sees it. `target` and `payload` are already validated."""

    run_id: str
    job_id: str
    job_name: str
    tenant: str
    attempt: int
    fence: int
    scheduled_for_us: int
    timeout_seconds: float
    target: Mapping[str, Any] = field(repr=False)
    payload: Any = field(repr=False)
    upstream: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt ended. `reason` is a code of the closed list when it did not succeed. `is_unsent`: nothing was
    done at all, so it does not count as an attempt.
    """

    succeeded: bool
    reason: str | None = None
    error: str | None = None
    result: Any = None
    is_retryable: bool = True
    retry_after_seconds: float | None = None
    is_unsent: bool = False


Log = Callable[[str], Awaitable[None]]


class Mover(Protocol):
    """Moves what is ready and says in how many seconds it wants to be asked again; 0 is at once."""

    async def tick(self) -> float: ...


class Executor(Protocol):
    """Runs one attempt. A failing job is an Outcome; an exception is our bug.

    Cancelling the task that awaits `run` stops the work: nothing of it is left when the task has ended.
    """

    async def run(self, request: Request, log: Log) -> Outcome: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Leases:
    """Held shards with their epochs; the store's time, the highest ever trusted, and when another's lease runs out;
    the shards just taken that nobody had held for a while.
    """

    held: dict[int, int]
    now_us: int
    high_us: int
    others_us: int
    gaps: list[int]


class LeaseStore(Protocol):
    def keep_leases(self, owner: str, ttl_us: int, trusted_us: int) -> Awaitable[Leases]: ...

    def judge_overdue(self, shards: list[int]) -> Awaitable[int]: ...

    def release_leases(self, owner: str) -> Awaitable[None]: ...


class DueTimer(NamedTuple):
    job_id: str
    shard: int
    due_us: int
    version: int
    fired: int
    created_us: int
    spec: str
    called_off: frozenset[int] = frozenset()
    staged: int = 0


@dataclass(frozen=True, slots=True)
class Scan:
    """Due timers, the store's time, and when the next one beyond the look-ahead is due (None when unknown)."""

    timers: list[DueTimer]
    now_us: int
    next_us: int | None


class Decision(NamedTuple):
    timer: DueTimer
    epoch: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Planned:
    moved: int
    opened: int
    skipped: int


class PlanStore(Protocol):
    def due_timers(self, shards: list[int], ahead_us: int, most: int) -> Awaitable[Scan]: ...

    def plan(self, owner: str, decisions: list[Decision]) -> Awaitable[Planned]: ...


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
    """A run that is ours until its token is no longer current. `spec` is filled from a cache when None."""

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


@dataclass(frozen=True, slots=True)
class Limit:
    """What a tenant (queue '') or one of its queues may do."""

    tenant: str
    queue: str
    max_running: int | None
    is_paused: bool
    weight: int = 1


class ClaimStore(Protocol):
    def waiting_lines(self, prefixes: list[str]) -> Awaitable[Lines]: ...

    def claim(self, worker: str, shares: list[tuple[str, int]]) -> Awaitable[list[Claimed]]: ...

    def claim_gated(self, worker: str, buckets: list[str], room: int) -> Awaitable[list[Claimed]]: ...

    def specs(self, versions: list[tuple[str, int]]) -> Awaitable[dict[tuple[str, int], str]]: ...

    def results_of(self, run_ids: list[str]) -> Awaitable[dict[str, JsonObject]]: ...

    def limits(self) -> Awaitable[list[Limit]]: ...


class Ending(NamedTuple):
    """The end of a run, fenced by the token of its last attempt."""

    run_id: str
    token: int
    status: str
    reason: str | None
    error: str | None
    result: str | None


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


@dataclass(frozen=True, slots=True)
class LogChunk:
    run_id: str
    attempt: int
    seq: int
    text: str


class ResultStore(Protocol):
    def settle(self, worker: str, endings: list[Ending]) -> Awaitable[int]: ...

    def requeue(self, worker: str, again: list[Again]) -> Awaitable[int]: ...

    def add_logs(self, chunks: list[LogChunk]) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class WorkerState:
    id: str
    node: str
    state: str
    slots: int
    running: int
    queues: list[str]
    needs: list[str]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat brings back: whether the fleet still counts on this worker, and whether it should drain."""

    is_known: bool
    should_drain: bool


class FleetStore(Protocol):
    def beat(self, worker: WorkerState, ttl_us: int) -> Awaitable[Beat]: ...

    def cancelled(self, worker: str) -> Awaitable[dict[str, str]]: ...

    def running_of(self, worker: str, older_than_us: int) -> Awaitable[dict[str, int]]: ...

    def leave(self, worker: str) -> Awaitable[None]: ...


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


class RemoteStore(ClaimStore, ResultStore, FleetStore, Protocol):
    """All that is asked for a worker that comes over HTTP."""

    def beat_known(self, worker: str, running: int, ttl_us: int) -> Awaitable[str | None]: ...

    def held(self, tenant: str, run_ids: list[str]) -> Awaitable[dict[str, Held]]: ...

    def errors_of(self, tenant: str, run_id: str, token: int) -> Awaitable[list[str | None]]: ...

    def write_log(self, tenant: str, run: Held, seq: int, text: str, cap: int) -> Awaitable[bool]: ...

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

    def heartbeat(self, tenant: str, name: str, runs: dict[str, int]) -> Awaitable[tuple[list[State], bool]]: ...

    def log(self, tenant: str, run_id: str, fence: int, seq: int, text: str) -> Awaitable[bool]: ...

    def complete(self, tenant: str, run_id: str, fence: int, outcome: Outcome) -> Awaitable[bool]: ...

    def stopped(self, tenant: str, run_id: str, fence: int, *, is_cancel: bool) -> Awaitable[bool]: ...

    def leave(self, tenant: str, name: str) -> Awaitable[None]: ...


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


class JanitorStore(Protocol):
    def chores(self) -> Awaitable[Chores]: ...

    def reap(self, most: int) -> Awaitable[int]: ...

    def gate(self) -> Awaitable[int]: ...

    def sweep(self, retention_us: int) -> Awaitable[int]: ...

    def seal_audit(self, most: int) -> Awaitable[int]: ...

    def counted_tenants(self) -> Awaitable[list[str]]: ...

    def recount_jobs(self, tenant: str) -> Awaitable[None]: ...

    def stale_jobs(self, most: int) -> Awaitable[list[StaleJob]]: ...

    def change_job(
        self, asked: Asked | None, tenant: str, word: str, actor: str, merge: Merge, base_version: int | None
    ) -> Awaitable[str]: ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret as it lies in the store."""

    tenant: str
    name: str
    sealed: str


class SecretStore(Protocol):
    def find_secrets(self, wanted: list[tuple[str, str]]) -> Awaitable[list[Sealed]]: ...


@dataclass(frozen=True, slots=True)
class NewWebhook:
    id: str
    name: str
    url: str
    events: list[str]
    late_us: int
    is_active: bool = True


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


class MessageStore(Protocol):
    def take_messages(self, most: int, lease_us: int) -> Awaitable[list[Message]]: ...

    def next_message(self) -> Awaitable[int | None]: ...

    def finish_messages(self, done: list[Delivered]) -> Awaitable[None]: ...

    def tell_late(self, window_us: int) -> Awaitable[None]: ...


class Sender(Protocol):
    """Sends a message: the status of the answer, or why there is none."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, str | None]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Once:
    """An idempotency key and what it was used for: a digest of method, path and body."""

    tenant: str
    key: str
    request: str


@dataclass(frozen=True, slots=True)
class Asked:
    """By whom a change was asked for, for the audit log, and under which idempotency key."""

    actor: str
    once: Once | None = None
    key_id: str | None = None
    address: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer, kept for a repeat."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class NewJob:
    id: str
    definition: Definition


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
class Backfill:
    """A job whose past is asked for, and the store's time."""

    job_id: str
    definition: Definition
    version: int
    created_us: int
    now_us: int


@dataclass(frozen=True, slots=True)
class Replays:
    """Which dead letters a replay in bulk is about: a job by id or name, and what its runs must be like."""

    job_word: str | None
    filters: JsonObject


class Merge(Protocol):
    """Makes the new definition out of the current one, under the job's lock."""

    def __call__(self, current: Definition, job_id: str, now_us: int, created_us: int) -> Definition: ...


class JobStore(Protocol):
    """What people ask for. It is written down who asked; with a key, a repeat is answered from the first time."""

    def now(self) -> Awaitable[int]: ...

    def create_jobs(
        self, asked: Asked | None, tenant: str, actor: str, jobs: list[NewJob], *, atomic: bool
    ) -> Awaitable[list[JsonObject]]: ...

    def change_job(
        self, asked: Asked | None, tenant: str, word: str, actor: str, merge: Merge, base_version: int | None
    ) -> Awaitable[str]: ...

    def pause_job(
        self, asked: Asked | None, tenant: str, word: str, actor: str, until_us: int | None, reason: str | None
    ) -> Awaitable[str]: ...

    def resume_job(self, asked: Asked | None, tenant: str, word: str, actor: str) -> Awaitable[str]: ...

    def delete_job(self, asked: Asked | None, tenant: str, word: str, actor: str) -> Awaitable[str]: ...

    def trigger(self, asked: Asked | None, tenant: str, word: str, runs: list[NewRun]) -> Awaitable[list[str]]: ...

    def webhooks(self, tenant: str) -> Awaitable[list[StoredRow]]: ...

    def create_webhook(
        self, asked: Asked | None, tenant: str, webhook: NewWebhook, sealed: str
    ) -> Awaitable[StoredRow]: ...

    def change_webhook(
        self, asked: Asked | None, tenant: str, word: str, changes: JsonObject
    ) -> Awaitable[StoredRow]: ...

    def rotate_webhook(
        self, asked: Asked | None, tenant: str, word: str, sealed: str, overlap_us: int
    ) -> Awaitable[StoredRow]: ...

    def delete_webhook(self, asked: Asked | None, tenant: str, word: str) -> Awaitable[str]: ...

    def try_webhook(self, asked: Asked | None, tenant: str, word: str, delivery_id: str) -> Awaitable[str]: ...

    def resend(self, asked: Asked | None, tenant: str, delivery_id: str) -> Awaitable[StoredRow]: ...

    def put_secret(self, asked: Asked | None, tenant: str, name: str, sealed: str) -> Awaitable[list[StoredRow]]: ...

    def delete_secret(self, asked: Asked | None, tenant: str, name: str) -> Awaitable[None]: ...

    def find_secrets(self, wanted: list[tuple[str, str]]) -> Awaitable[list[Sealed]]: ...

    def find_calendars(self, tenant: str, names: list[str]) -> Awaitable[dict[str, JsonObject]]: ...

    def put_calendar(self, asked: Asked | None, tenant: str, name: str, spec: JsonObject) -> Awaitable[StoredRow]: ...

    def delete_calendar(self, asked: Asked | None, tenant: str, name: str) -> Awaitable[None]: ...

    def cancel_run(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[None]: ...

    def retry_run(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[None]: ...

    def replay(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[str]: ...

    def discard(self, asked: Asked | None, tenant: str, run_id: str) -> Awaitable[None]: ...

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

    def count_letters(self, tenant: str, which: Replays, most: int) -> Awaitable[list[str]]: ...

    def replay_many(
        self, asked: Asked | None, tenant: str, which: Replays, expected: int | None, step_us: int, most: int
    ) -> Awaitable[list[str]]: ...

    def ask_to_drain(self, asked: Asked | None, tenant: str, worker: str) -> Awaitable[None]: ...


StoredRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is kept: its hash, and what of it may be shown."""

    id: str
    name: str
    role: str
    scopes: tuple[str, ...]
    prefix: str
    hash: str
    requests_per_second: int | None = None
    expires_us: int | None = None


class AccessStore(Protocol):
    """What the door asks about somebody who comes in."""

    def now(self) -> Awaitable[int]: ...

    def find_key(self, hash_: str) -> Awaitable[KeyFacts | None]: ...

    def touch_keys(self, key_ids: list[str]) -> Awaitable[None]: ...

    def quota(self, tenant: str) -> Awaitable[Quota]: ...

    def take_tokens(self, bucket: str, want: int, rate: int) -> Awaitable[Taken]: ...


class AdminStore(Protocol):
    """Keys, tenants and queues: what admins and operators ask for."""

    def create_key(self, asked: Asked | None, tenant: str, actor: str, key: NewKey) -> Awaitable[str]: ...

    def rotate_key(
        self, asked: Asked | None, tenant: str, actor: str, key_id: str, key: NewKey, overlap_us: int
    ) -> Awaitable[str]: ...

    def revoke_key(self, asked: Asked | None, tenant: str, key_id: str) -> Awaitable[str]: ...

    def create_tenant(self, asked: Asked | None, tenant: str, fields: JsonObject) -> Awaitable[str]: ...

    def change_tenant(self, asked: Asked | None, tenant: str, fields: JsonObject) -> Awaitable[str]: ...

    def change_queue(self, asked: Asked | None, tenant: str, queue: str, fields: JsonObject) -> Awaitable[None]: ...


class ChangeStore(JobStore, AdminStore, Protocol):
    """Every change that people ask for."""


class Page(NamedTuple):
    """A page of a list, newest first, and below which id to go on; None when there is nothing left.

    A search for what is rare ends after so many rows: its page may be short, or empty, and still go on.
    """

    rows: list[StoredRow]
    before_id: str | None


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

    def now(self) -> Awaitable[int]: ...

    def check_schema(self) -> Awaitable[None]: ...

    def job(self, tenant: str, word: str) -> Awaitable[StoredRow]: ...

    def jobs(
        self, tenant: str, filters: JsonObject, sort: str, after: tuple[Any, str] | None, most: int
    ) -> Awaitable[list[StoredRow]]: ...

    def runs(
        self, tenant: str, job_word: str | None, filters: JsonObject, before_id: str | None, most: int
    ) -> Awaitable[Page]: ...

    def run(self, tenant: str, run_id: str) -> Awaitable[tuple[StoredRow, list[StoredRow]]]: ...

    def logs(self, run_id: str, attempt: int, seq: int, most: int) -> Awaitable[list[StoredRow]]: ...

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

    def workers(self) -> Awaitable[list[StoredRow]]: ...

    def stats(self, tenant: str) -> Awaitable[Standing]: ...

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

    def audit_entries(
        self, tenant: str, filters: JsonObject, before_id: int | None, most: int
    ) -> Awaitable[list[StoredRow]]: ...

    def audit_page(self, tenant: str, after_id: int, most: int) -> Awaitable[list[StoredRow]]: ...

    def check_audit(self, tenant: str) -> Awaitable[JsonObject]: ...

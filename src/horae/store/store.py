"""The store: every verb by its name, bound to one open database. Each is one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from horae.ports import Beat, Leases, Once, WorkerState
from horae.store import (
    backfill,
    changes,
    claims,
    demo,
    explain,
    export,
    feed,
    fleet,
    forecasts,
    job_lists,
    jobs,
    leases,
    meta,
    once,
    plans,
    replays,
    results,
    run_lists,
    runs,
    stats,
    upkeep,
    views,
)
from horae.store.database import Database, Transaction
from horae.store.migrate import SchemaOwner, check_schema, migrate
from horae.store.postgres import PostgresDatabase
from horae.store.sqlite import SqliteDatabase

P = ParamSpec("P")
T = TypeVar("T")


def _verb(prepare: Callable[P, Transaction[T]]) -> Callable[Concatenate[Store, P], Awaitable[T]]:
    def run(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.database.run(prepare(*args, **kwargs))

    return run


def _pair(
    postgres: Callable[P, Transaction[T]], sqlite: Callable[P, Transaction[T]]
) -> Callable[Concatenate[Store, P], Awaitable[T]]:
    """A verb whose statements truly differ; there are five of them, each with its reason beside it."""

    def run(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        prepare = postgres if self.database.dialect == "postgres" else sqlite
        return self.database.run(prepare(*args, **kwargs))

    return run


def _change(prepare: Callable[P, Transaction[T]]) -> Callable[Concatenate[Store, Once | None, P], Awaitable[T]]:
    """A verb that people ask for; with an idempotency key it is done once, however often it is asked."""

    def run(self: Store, key: Once | None, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.database.run(once.guarded(key, prepare(*args, **kwargs)))

    return run


class Store:
    """`control` is a second way in for leases and heartbeats, so that other traffic cannot starve them."""

    def __init__(self, database: Database, control: Database | None = None) -> None:
        self.database = database
        self.control = control or database

    now = _verb(views.now)

    create_jobs = _change(jobs.create)
    change_job = _change(changes.change)
    pause_job = _change(changes.pause)
    resume_job = _change(changes.resume)
    delete_job = _change(changes.delete)
    trigger = _change(runs.trigger)

    cancel_run = _change(runs.cancel)
    retry_run = _change(runs.retry)
    replay = _change(runs.replay)
    discard = _change(runs.discard)
    count_letters = _verb(replays.letters)
    replay_many = _change(replays.replay)

    backfill_facts = _verb(backfill.facts)
    missing = _verb(backfill.missing)
    backfill = _change(backfill.backfill)

    due_timers = _verb(plans.due)
    plan = _pair(plans.plan_postgres, plans.plan_sqlite)

    waiting_lines = _verb(claims.waiting_lines)
    claim = _pair(claims.claim_postgres, claims.claim_sqlite)
    claim_gated = _verb(claims.claim_gated)
    gate = _verb(claims.gate)
    chores = _verb(upkeep.chores)
    specs = _verb(claims.specs)
    results_of = _verb(claims.results_of)
    limits = _verb(claims.limits)

    settle = _pair(results.settle_postgres, results.settle_sqlite)
    requeue = _verb(results.requeue)
    reap = _pair(results.reap_postgres, results.reap_sqlite)
    add_logs = _verb(results.add_logs)
    sweep = _pair(upkeep.sweep_postgres, upkeep.sweep_sqlite)

    job = _verb(views.job)
    jobs = _verb(job_lists.jobs)
    runs = _verb(run_lists.runs)
    run = _verb(views.run)
    logs = _verb(views.logs)
    versions = _verb(views.versions)
    dead_letters = _verb(run_lists.dead_letters)
    workers = _verb(views.workers)
    ask_to_drain = _change(fleet.ask_to_drain)
    stats = _verb(stats.stats)
    schedules_version = _verb(forecasts.version)
    schedules = _verb(forecasts.schedules)
    staged = _verb(forecasts.staged)
    happened = _verb(feed.happened)
    explain_facts = _verb(explain.facts)

    keep_first = _verb(meta.first)
    recall = _verb(once.recall)
    remember = _verb(once.remember)

    def keep_leases(self, owner: str, ttl_us: int, trusted_us: int) -> Awaitable[Leases]:
        return self.control.run(leases.keep(owner, ttl_us, trusted_us))

    def judge_overdue(self, shards: list[int]) -> Awaitable[int]:
        return self.control.run(leases.judge_overdue(shards))

    def release_leases(self, owner: str) -> Awaitable[None]:
        return self.control.run(leases.release(owner))

    def beat(self, worker: WorkerState, ttl_us: int) -> Awaitable[Beat]:
        return self.control.run(fleet.beat(worker, ttl_us))

    def cancelled(self, worker: str) -> Awaitable[dict[str, str]]:
        return self.control.run(fleet.cancelled(worker))

    def running_of(self, worker: str, older_than_us: int) -> Awaitable[dict[str, int]]:
        return self.control.run(fleet.running_of(worker, older_than_us))

    def leave(self, worker: str) -> Awaitable[None]:
        return self.control.run(fleet.leave(worker))

    make_runs = _verb(demo.finished)

    async def make_days(self, days: int) -> None:
        """Only PostgreSQL keeps days apart."""
        if self.database.dialect == "postgres":
            await self.database.run(upkeep.past_days(days))

    async def export(self, retention_us: int, tenant: str | None = None) -> AsyncIterator[str]:
        """The whole history as lines of JSON, page by page."""
        yield await self.database.run(export.head(retention_us))
        for kind in export.KINDS:
            key: export.Key | None = export.START
            while key is not None:
                lines, key = await self.database.run(export.page(kind, tenant, key))
                for line in lines:
                    yield line

    async def migrate(self) -> list[str]:
        assert isinstance(self.database, SchemaOwner)  # noqa: S101 a wrapped one in a test has its schema already
        return await migrate(self.database)

    async def check_schema(self) -> None:
        await check_schema(self.database)

    async def close(self) -> None:
        await self.database.close()
        if self.control is not self.database:
            await self.control.close()


def open_store(url: str, *, is_shared: bool = False) -> Store:
    """`sqlite:///path`, `sqlite:///:memory:` or `postgresql://…`. A shared SQLite file is only read."""
    if url.startswith(("postgresql://", "postgres://")):
        return Store(PostgresDatabase(url), PostgresDatabase(url, size=2, deadline_seconds=5))
    return Store(SqliteDatabase(url.removeprefix("sqlite:///"), is_read_only=is_shared))

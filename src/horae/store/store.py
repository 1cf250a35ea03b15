"""The store: every verb by its name, bound to one open database. Each is one transaction, but for the gate, which looks
back at its own once it is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, replace
from typing import Concatenate, ParamSpec, TypeVar, cast

from horae.core.audit import Chain
from horae.core.errors import Unavailable
from horae.lanes import abreast
from horae.ports import Answer, Asked, Beat, Gated, JsonObject, Leases, Once, Rehearsed, Share, WorkerState
from horae.store import (
    audit,
    backfill,
    calendars,
    changes,
    claims,
    demo,
    explain,
    export,
    feed,
    fleet,
    forecasts,
    gates,
    job_lists,
    jobs,
    keys,
    leases,
    letters,
    once,
    pieces,
    plans,
    quotas,
    remote,
    replays,
    results,
    run_lists,
    runs,
    secrets,
    series,
    stats,
    tenants,
    upkeep,
    views,
    webhooks,
)
from horae.store.database import Database, Transaction
from horae.store.migrate import SchemaOwner, check_schema, migrate
from horae.store.postgres import PostgresDatabase
from horae.store.sqlite import SqliteDatabase

P = ParamSpec("P")
T = TypeVar("T")

AUDIT_PAGE = 1000


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


def _view(
    prepare: Callable[Concatenate[str, P], Transaction[T]],
) -> Callable[Concatenate[Store, str, P], Awaitable[T]]:
    """A verb that looks at things of one tenant, and is shown no others."""

    def run(self: Store, tenant: str, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.database.run(replace(prepare(tenant, *args, **kwargs), tenant=tenant))

    return run


def _change(
    prepare: Callable[Concatenate[str, P], Transaction[T]], *, is_walled: bool = True
) -> Callable[Concatenate[Store, Asked | None, str, P], Awaitable[T]]:
    """A verb that people ask for, on things of one tenant. It is written down who asked; with an idempotency key it
    is done once, however often it is asked. A dry one is undone, and ends in `Rehearsed` if it would change something.
    """

    async def rehearse(store: Store, wanted: Transaction[T], tenant: str) -> T:
        try:
            return await store.database.run(replace(audit.rehearsed(wanted), tenant=tenant if is_walled else None))
        except Rehearsed as done:
            if done.changes:
                raise
            # Nothing to tell: what the verb answers says why.
            return cast("T", done.result)

    def run(self: Store, asked: Asked | None, tenant: str, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        if asked is not None and asked.is_dry:
            return rehearse(self, prepare(tenant, *args, **kwargs), tenant)
        noted = audit.audited(asked, tenant, prepare(tenant, *args, **kwargs))
        guarded = once.guarded(asked.once if asked else None, noted)
        return self.database.run(replace(guarded, tenant=tenant if is_walled else None))

    return run


class Store:
    """`control` is a second way in for leases and heartbeats, so that other traffic cannot starve them."""

    def __init__(self, database: Database, control: Database | None = None) -> None:
        self.database = database
        self.control = control or database
        self.is_parallel = database.dialect == "postgres"

    now = _verb(views.now)

    create_jobs = _change(jobs.create)
    change_job = _change(changes.change)
    pause_job = _change(changes.pause)
    resume_job = _change(changes.resume)
    delete_job = _change(changes.delete)
    trigger = _change(runs.trigger)

    create_webhook = _change(webhooks.create)
    change_webhook = _change(webhooks.change)
    rotate_webhook = _change(webhooks.rotate)
    delete_webhook = _change(webhooks.delete)
    try_webhook = _change(webhooks.try_out)
    take_messages = _verb(webhooks.take)
    outlook = _verb(webhooks.outlook)
    finish_messages = _verb(webhooks.finish)
    tell_late = _verb(webhooks.tell_late)
    deliveries = _view(webhooks.deliveries)
    resend = _change(webhooks.resend)
    webhooks = _view(webhooks.listed)

    find_secrets = _verb(secrets.find)
    secrets_of_other_keys = _verb(secrets.of_other_keys)
    kept_secrets = _verb(secrets.kept)
    reseal = _verb(secrets.reseal)
    put_secret = _change(secrets.put)
    delete_secret = _change(secrets.delete)
    secrets = _view(secrets.listed)

    find_calendars = _view(calendars.find)
    put_calendar = _change(calendars.put)
    delete_calendar = _change(calendars.delete)
    stale_jobs = _verb(calendars.stale)
    calendars = _view(calendars.listed)

    cancel_run = _change(runs.cancel)
    retry_run = _change(runs.retry)
    replay = _change(runs.replay)
    discard = _change(runs.discard)
    count_letters = _view(replays.letters)
    replay_many = _change(replays.replay)
    discard_many = _change(replays.discard)

    backfill_facts = _view(backfill.facts)
    missing = _verb(backfill.missing)
    backfill = _change(backfill.backfill)

    create_key = _change(keys.create)
    rotate_key = _change(keys.rotate)
    revoke_key = _change(keys.revoke)
    # By somebody of another tenant, whose idempotency key lies there.
    create_tenant = _change(tenants.create, is_walled=False)
    change_tenant = _change(tenants.change, is_walled=False)
    change_queue = _change(tenants.change_queue)

    due_timers = _verb(plans.due)
    plan = _pair(plans.plan_postgres, plans.plan_sqlite)
    keep_timings = _verb(plans.keep_timings)

    waiting_lines = _verb(claims.waiting_lines)
    claim = _pair(claims.claim_postgres, claims.claim_sqlite)
    _claim_gated = _verb(gates.claim_gated)
    _gate = _verb(gates.gate)
    _ended_of = _verb(gates.ended_of)
    _let_go = _verb(gates.let_go)
    chores = _verb(upkeep.chores)
    coming = _verb(claims.coming)
    specs = _verb(claims.specs)
    results_of = _verb(claims.results_of)
    limits = _verb(claims.limits)

    async def make_ready(self, worker: str) -> None:
        """For a crowd: its connections are opened, and its statements are known to them."""
        if self.is_parallel:
            twice = range(2)
            await abreast(*(self.claim(worker, []) for _ in twice), *(self.settle(worker, []) for _ in twice))

    async def claim_gated(self, worker: str, shares: list[Share], room: int) -> Gated:
        gated = await self._claim_gated(worker, shares, room)
        await self._look_back(gated)
        return gated

    async def gate(self) -> int:
        """Decides overlaps that are due, without starting anything; says how many of them are skipped."""
        gated = await self._gate()
        await self._look_back(gated)
        return gated.skipped

    async def _look_back(self, gated: Gated) -> None:
        """A run that ended while the gate was at work did not know who waits for it. Should we not get to it, they are
        looked at again by themselves a little later.
        """
        if gated.blockers and self.is_parallel:
            with contextlib.suppress(Unavailable):
                if ended := await self._ended_of(gated.blockers):
                    await self._let_go(ended)

    settle = _pair(results.settle_postgres, results.settle_sqlite)
    requeue = _verb(results.requeue)
    reap = _pair(results.reap_postgres, results.reap_sqlite)
    add_logs = _verb(results.add_logs)
    sweep = _pair(upkeep.sweep_postgres, upkeep.sweep_sqlite)

    held = _view(remote.held)
    errors_of = _view(remote.errors_of)
    write_piece = _view(pieces.write_piece)
    end_pieces = _view(pieces.end_pieces)
    unfinished_logs = _verb(pieces.unfinished_logs)

    job = _view(views.job)
    jobs = _view(job_lists.jobs)
    runs = _view(run_lists.runs)
    run = _view(views.run)
    logs = _view(views.logs)
    versions = _view(views.versions)
    dead_letters = _view(run_lists.dead_letters)
    letter_groups = _view(letters.letter_groups)
    list_keys = _view(keys.listed)
    key = _view(keys.one)
    list_tenants = _verb(tenants.listed)
    tenant = _view(tenants.one)
    queues = _view(tenants.queues)
    audit_entries = _view(audit.entries)
    audit_page = _view(audit.page)
    workers = _verb(views.workers)
    ask_to_drain = _change(fleet.ask_to_drain)
    stats = _view(stats.stats)
    series = _view(series.series)
    schedules_version = _view(forecasts.version)
    schedules = _view(forecasts.schedules)
    staged = _view(forecasts.staged)
    happened = _verb(feed.happened)  # for the listeners of all tenants at once
    explain_facts = _verb(explain.facts)  # it also looks at who else waits in the same queue

    find_key = _verb(keys.find)
    touch_keys = _verb(keys.touch)
    first_key = _verb(keys.first)
    quota = _verb(quotas.quota)
    take_tokens = _verb(quotas.take_tokens)
    seal_audit = _verb(audit.seal)
    audit_chains = _verb(audit.chains)
    counted_tenants = _verb(quotas.counted)
    recount_jobs = _verb(quotas.recount)

    def recall(self, key: Once) -> Awaitable[Answer | None]:
        return self.database.run(replace(once.recall(key), tenant=key.tenant))

    def remember(self, key: Once, answer: Answer) -> Awaitable[None]:
        return self.database.run(replace(once.remember(key, answer), tenant=key.tenant))

    async def check_audit(self, tenant: str) -> JsonObject:
        """Whether every row of a tenant's chain is there and as it was written; where not, the places."""
        # The head first: rows sealed meanwhile are past it and are left for the next check.
        head, waiting = await self.database.run(audit.end(tenant))
        chain, last = Chain(), head["seq"] if head else 0
        while chain.seq < last:
            rows = await self.database.run(audit.sealed(tenant, chain.seq, AUDIT_PAGE))
            for row in rows:
                if row["seq"] <= last:
                    chain.feed(row)
            if not rows or rows[-1]["seq"] >= last:
                break
        chain.finish(head)
        breaks = [asdict(each) for each in chain.breaks]
        return {
            "tenant": tenant,
            "ok": not breaks,
            "rows": chain.seq,
            "unsealed": waiting,
            "head": chain.hash,
            "breaks": breaks,
        }

    def keep_leases(self, owner: str, ttl_us: int, trusted_us: int) -> Awaitable[Leases]:
        return self.control.run(leases.keep(owner, ttl_us, trusted_us))

    def judge_overdue(self, shards: list[int]) -> Awaitable[dict[str, int]]:
        return self.control.run(leases.judge_overdue(shards))

    def release_leases(self, owner: str) -> Awaitable[None]:
        return self.control.run(leases.release(owner))

    def beat(self, worker: WorkerState, ttl_us: int) -> Awaitable[Beat]:
        return self.control.run(fleet.beat(worker, ttl_us))

    def beat_known(self, worker: str, running: int, ttl_us: int, *, is_draining: bool = False) -> Awaitable[str | None]:
        return self.control.run(remote.beat_known(worker, running, ttl_us, is_draining=is_draining))

    def retire(self, worker: str) -> Awaitable[None]:
        return self.control.run(remote.retire(worker))

    def has_left(self, worker: str) -> Awaitable[bool]:
        return self.control.run(remote.has_left(worker))

    def cancelled(self, worker: str) -> Awaitable[dict[str, str]]:
        return self.control.run(fleet.cancelled(worker))

    def running_of(self, worker: str, older_than_us: int) -> Awaitable[dict[str, int]]:
        return self.control.run(fleet.running_of(worker, older_than_us))

    def leave(self, worker: str) -> Awaitable[None]:
        return self.control.run(fleet.leave(worker))

    make_runs = _verb(demo.finished)
    settle_runs = _verb(demo.settle)
    count_made_up = _verb(demo.count)
    clear_made_up = _verb(demo.clear)

    async def make_days(self, days: int) -> None:
        """Only PostgreSQL keeps days apart."""
        if self.database.dialect == "postgres":
            await self.database.run(upkeep.past_days(days))

    async def export(self, retention_us: int, tenant: str | None = None) -> AsyncIterator[bytes]:
        """The whole history as lines of JSON, some of them at a time. The last one says that it is the last."""
        lines = 0
        for line in await self.database.run(export.head(retention_us)):
            lines += 1
            yield line
        async for block in export.merged(lambda kind, key: self.database.run(export.page(kind, tenant, key))):
            lines += block.count(b"\n")
            yield block
        yield b'{"type":"end","lines":%d}\n' % lines

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

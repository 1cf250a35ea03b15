"""Repairs: runs of lost workers go back, due overlaps are decided, old rows leave. Any node may do it at any time."""

from __future__ import annotations

import asyncio
import contextlib

from horae.core.errors import Conflict, NotFound
from horae.core.job import Definition
from horae.core.timeguard import TimeGuard
from horae.failpoints import hit
from horae.ports import JanitorStore, LogCloser
from horae.scheduler.shards import Shards
from horae.telemetry import due_times_skipped, log, runs_reaped

AT_ONCE = 500
SEAL_AT_ONCE = 2000
TICK_SECONDS = 1.0
SWEEP_SECONDS = 300.0
LEADING_SHARD = 0  # whoever holds it does the repairs, so that a fleet does them once


class Janitor:
    def __init__(
        self, store: JanitorStore, shards: Shards, guard: TimeGuard, retention_seconds: float, close_logs: LogCloser
    ) -> None:
        self._store = store
        self._close_logs = close_logs
        self._shards = shards
        self._guard = guard
        self._retention_us = round(retention_seconds * 1e6)
        self._next_sweep = 0.0

    async def tick(self) -> float:
        if LEADING_SHARD not in self._shards.held or self._guard.held:
            return TICK_SECONDS
        chores = await self._store.chores()
        if chores.has_lost:
            unfinished = await self._store.unfinished_logs(AT_ONCE)
            logs = await self._close_logs(unfinished) if unfinished else None
            hit("reap.before_commit")
            lost = await self._store.reap(AT_ONCE, logs)
            hit("reap.after_commit")
            if lost:
                log("runs.reaped", count=lost)
                runs_reaped(lost)
        if chores.has_gated:
            due_times_skipped({"overlap_skipped": await self._store.gate()})
        if chores.has_stale:
            await self._refresh()
        is_behind = chores.has_unsealed and await self._store.seal_audit(SEAL_AT_ONCE) == SEAL_AT_ONCE
        now = asyncio.get_running_loop().time()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_SECONDS
            await self._store.sweep(self._retention_us)
            for tenant in await self._store.counted_tenants():
                await self._store.recount_jobs(tenant)
        return 0.0 if is_behind else TICK_SECONDS

    async def _refresh(self) -> None:
        """Jobs whose calendar changed get a version with its new days; one that is gone by now needs none."""
        for job in await self._store.stale_jobs(AT_ONCE):
            with contextlib.suppress(Conflict, NotFound):
                await self._store.change_job(None, job.tenant, job.job_id, f"calendar {job.calendar}", _as_is, None)


def _as_is(current: Definition, *_: object, **__: object) -> Definition:
    """The store fills in the days of a named calendar by itself."""
    return current

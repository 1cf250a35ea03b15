"""Repairs: runs of lost workers go back, due overlaps are decided, old rows leave. Any node may do it at any time."""

from __future__ import annotations

import asyncio

from horae.core.timeguard import TimeGuard
from horae.ports import JanitorStore
from horae.scheduler.shards import Shards
from horae.telemetry import log

AT_ONCE = 500
SEAL_AT_ONCE = 2000
TICK_SECONDS = 1.0
SWEEP_SECONDS = 300.0
LEADING_SHARD = 0  # whoever holds it does the repairs, so that a fleet does them once


class Janitor:
    def __init__(self, store: JanitorStore, shards: Shards, guard: TimeGuard, retention_seconds: float) -> None:
        self._store = store
        self._shards = shards
        self._guard = guard
        self._retention_us = round(retention_seconds * 1e6)
        self._next_sweep = 0.0

    async def tick(self) -> float:
        if LEADING_SHARD not in self._shards.held or self._guard.held:
            return TICK_SECONDS
        chores = await self._store.chores()
        if chores.has_lost:
            lost = await self._store.reap(AT_ONCE)
            if lost:
                log("runs.reaped", count=lost)
        if chores.has_gated:
            await self._store.gate()
        is_behind = chores.has_unsealed and await self._store.seal_audit(SEAL_AT_ONCE) == SEAL_AT_ONCE
        now = asyncio.get_running_loop().time()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_SECONDS
            await self._store.sweep(self._retention_us)
            for tenant in await self._store.counted_tenants():
                await self._store.recount_jobs(tenant)
        return 0.0 if is_behind else TICK_SECONDS

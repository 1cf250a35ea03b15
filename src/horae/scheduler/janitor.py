"""Repairs: runs of lost workers go back, due overlaps are decided, old rows leave. Any node may do it at any time."""

from __future__ import annotations

import asyncio

from horae.core.timeguard import TimeGuard
from horae.failpoints import hit
from horae.ports import JanitorStore
from horae.scheduler.shards import Shards
from horae.telemetry import log

AT_ONCE = 500
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
            hit("reap.before_commit")
            lost = await self._store.reap(AT_ONCE)
            hit("reap.after_commit")
            if lost:
                log("runs.reaped", count=lost)
        if chores.has_gated:
            await self._store.gate()
        now = asyncio.get_running_loop().time()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_SECONDS
            await self._store.sweep(self._retention_us)
        return TICK_SECONDS

"""Holds a fair part of the shards by leases, and knows until when it may believe so."""

from __future__ import annotations

import asyncio

from horae.core.timeguard import TimeGuard
from horae.ports import LeaseStore
from horae.telemetry import log, warn

MARGIN = 0.1


class Shards:
    def __init__(self, store: LeaseStore, owner: str, lease_seconds: float, guard: TimeGuard) -> None:
        self.owner = owner
        self._store = store
        self._lease_seconds = lease_seconds
        self._guard = guard
        self._held: dict[int, int] = {}
        self._good_until = 0.0

    @property
    def held(self) -> dict[int, int]:
        """Epochs by shard. Empty once the lease may have run out; the store checks again in any case."""
        return self._held if asyncio.get_running_loop().time() < self._good_until else {}

    async def tick(self) -> float:
        sent = asyncio.get_running_loop().time()
        leases = await self._store.keep_leases(self.owner, round(self._lease_seconds * 1e6))
        if leases.held.keys() != self._held.keys():
            log("shards.held", node=self.owner, count=len(leases.held))
        self._held = leases.held
        self._good_until = sent + self._lease_seconds * (1 - MARGIN)
        was_held = self._guard.held
        self._guard.observe(leases.now_us, asyncio.get_running_loop().time(), leases.high_us)
        if self._guard.held and not was_held:
            warn("clock.held", node=self.owner, why=self._guard.held)
        others = (leases.others_us - leases.now_us) / 1e6 + 0.02
        return max(0.05, min(self._lease_seconds / 3, others))

    async def stop(self) -> None:
        self._held = {}
        await self._store.release_leases(self.owner)

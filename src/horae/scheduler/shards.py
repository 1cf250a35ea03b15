"""Holds a fair part of the shards by leases, and knows until when it may believe so."""

from __future__ import annotations

import asyncio

from horae.core.timeguard import TimeGuard
from horae.failpoints import hit
from horae.ports import LeaseStore
from horae.telemetry import due_times_skipped, log, shards_held, watch

MARGIN = 0.1


class Shards:
    def __init__(self, store: LeaseStore, owner: str, lease_seconds: float, guard: TimeGuard) -> None:
        self.owner = owner
        self._store = store
        self._lease_seconds = lease_seconds
        self._guard = guard
        self._held: dict[int, int] = {}
        self._good_until = 0.0
        self._trusted_us = 0
        self._gaps: set[int] = set()
        self.has_spoken = False
        self._stopped = asyncio.Event()

    @property
    def held(self) -> dict[int, int]:
        """Epochs by shard. Empty once the lease may have run out; the store checks again in any case."""
        return self._held if asyncio.get_running_loop().time() < self._good_until else {}

    async def tick(self) -> float:
        if self._stopped.is_set():
            return self._lease_seconds
        sent = asyncio.get_running_loop().time()
        hit("lease.before_keep")
        leases = await self._store.keep_leases(self.owner, round(self._lease_seconds * 1e6), self._trusted_us)
        hit("lease.after_keep")
        if self._stopped.is_set():  # told to stop while the answer was on its way
            await self._store.release_leases(self.owner)
            return self._lease_seconds
        if leases.held.keys() != self._held.keys():
            log("shards.held", node=self.owner, count=len(leases.held))
        # What was staged for a time with nobody there is judged before anything is planned after it. Should that fail,
        # it is done the next time.
        gaps = {*self._gaps, *leases.gaps} & leases.held.keys()
        self._held = {shard: epoch for shard, epoch in leases.held.items() if shard not in gaps}
        self._good_until = sent + self._lease_seconds * (1 - MARGIN)
        shards_held(len(leases.held), self._good_until - asyncio.get_running_loop().time())
        watch(self._guard, leases.now_us, sent, leases.high_us)
        if not self._guard.held:
            self._trusted_us = leases.now_us
            # A clock that jumped makes leases look as if nobody had held them; then nothing is judged.
            self._gaps = gaps
            if gaps:
                due_times_skipped(await self._store.judge_overdue(sorted(gaps)))
                self._gaps = set()
        if not self._stopped.is_set():
            self._held = leases.held
        self.has_spoken = True
        others = (leases.others_us - leases.now_us) / 1e6 + 0.02
        return max(0.05, min(self._lease_seconds / 3, others))

    async def stop(self) -> None:
        self._stopped.set()
        self._held = {}
        shards_held(0, 0.0)
        hit("lease.handover")
        await self._store.release_leases(self.owner)

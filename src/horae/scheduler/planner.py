"""Due timers into runs, a batch at a time, for the shards held here and a little ahead of the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from horae.core.compiled import schedule_of
from horae.core.job import SHARDS, read_timing
from horae.core.plan import Cursor, plan
from horae.core.timeguard import TimeGuard
from horae.failpoints import hit
from horae.lanes import abreast
from horae.ports import Decision, DueTimer, PlanStore, Scan
from horae.scheduler.shards import Shards
from horae.telemetry import due_times_skipped, oops, runs_planned, timers_scanned, watch

AT_ONCE = 1000
# A backlog is planned in two lanes, each with half of the shards: the database works on one while we think about the
# other.
LANES = 2
POLL_SECONDS = 1.0
# Beside others: the shards of one that leaves must be taken over within a second.
BESIDE_SECONDS = 0.5
HELD_SECONDS = 0.5
# While a backlog is planned, what is due before its head is not looked for with each batch: dead entries lie there and
# stay while an old transaction is open. What comes in there waits so long to be seen, or as long as a look took; and as
# long what comes into a lane that was done before the other.
LOOK_SECONDS = 1.0
AGAIN_SECONDS = 0.05  # an edit or a new owner came between
# Most due times are whole seconds, and so is the moment at which they come into sight: by this part of the look-ahead
# later, what is due right then has started.
AFTER_THE_CROWD = 0.03


@dataclass(slots=True)
class _Lane:
    shards: frozenset[int]
    head_us: int = 0
    look_anew_at: float = 0.0
    broken: set[tuple[str, int]] = field(default_factory=set)
    """Jobs and versions that the last scan could not read. They come first in the next one too: it looks behind them,
    and tells of each once.
    """


class Planner:
    def __init__(
        self,
        store: PlanStore,
        shards: Shards,
        guard: TimeGuard,
        lookahead_seconds: float,
        wake_workers: Callable[[], None],
    ) -> None:
        self._store = store
        self._shards = shards
        self._guard = guard
        self._ahead_us = round(lookahead_seconds * 1e6)
        self._wake_workers = wake_workers
        self.on_free_shards: Callable[[], None] = lambda: None
        self._saw_free_shards = False
        self._whole = _Lane(frozenset(range(SHARDS)))
        self._lanes = [_Lane(frozenset(range(number, SHARDS, LANES))) for number in range(LANES)]
        self._ends_at = inf

    async def tick(self) -> float:
        delay = await self._plan(self._whole)
        if delay:
            return delay
        self._ends_at = inf
        await abreast(*(self._plan_all(lane) for lane in self._lanes))
        return 0.0

    async def _plan_all(self, lane: _Lane) -> None:
        """Until nothing is due in it, or a moment after the other one came to its end, in trouble too. An edit that
        comes between does not make it wait for the end of the other one.
        """
        clock = asyncio.get_running_loop().time
        try:
            while clock() < self._ends_at:
                delay = await self._plan(lane)
                if delay not in (0.0, AGAIN_SECONDS):
                    return
                await asyncio.sleep(delay)
        finally:
            self._ends_at = min(self._ends_at, clock() + LOOK_SECONDS)

    async def _plan(self, lane: _Lane) -> float:
        """One batch, and in how many seconds the next one may be due."""
        held = {shard: epoch for shard, epoch in self._shards.held.items() if shard in lane.shards}
        if not held:
            return HELD_SECONDS
        limit = AT_ONCE + len(lane.broken)
        scan = await self._look(lane, sorted(held), limit)
        if self._guard.held:
            return HELD_SECONDS
        decisions = self.decide(scan.timers, held, scan.now_us, lane)
        if decisions:
            hit("plan.before_commit")
            planned = await self._store.plan(self._shards.owner, decisions)
            hit("plan.after_commit")
            runs_planned(planned.opened)
            due_times_skipped(planned.skipped)
            if planned.opened:
                self._wake_workers()
            if unknown := [decision.timer for decision in decisions if not decision.timer.is_known]:
                await self._store.keep_timings(unknown)
            if planned.moved < len(decisions):
                return AGAIN_SECONDS
        if len(scan.timers) == limit:
            return 0.0
        poll_seconds = POLL_SECONDS if len(self._shards.held) == SHARDS else BESIDE_SECONDS
        next_us = min(filter(None, (scan.next_us, *(decision.plan.next_us for decision in decisions))), default=None)
        if next_us is None:
            return poll_seconds
        in_sight_us = next_us - round(self._ahead_us * (1 - AFTER_THE_CROWD))
        return min(poll_seconds, max(0.0, (in_sight_us - scan.now_us) / 1e6))

    async def _look(self, lane: _Lane, shards: list[int], most: int) -> Scan:
        clock = asyncio.get_running_loop().time
        sent = clock()
        from_us = lane.head_us if lane is not self._whole and sent < lane.look_anew_at else 0
        hit("scan.before")
        scan = await self._store.due_timers(shards, self._ahead_us, most, from_us)
        hit("scan.after")
        timers_scanned()
        watch(self._guard, scan.now_us, sent)
        if not from_us:
            looked = clock()
            lane.look_anew_at = looked + max(LOOK_SECONDS, looked - sent)
        lane.head_us = scan.head_us or 0
        if scan.has_free_shards and not self._saw_free_shards:
            self.on_free_shards()
        self._saw_free_shards = scan.has_free_shards
        return scan

    def decide(
        self, timers: list[DueTimer], held: dict[int, int], now_us: int, lane: _Lane | None = None
    ) -> list[Decision]:
        lane = lane or self._whole
        horizon_us = now_us + self._ahead_us
        decisions, broken = [], set()
        for timer in timers:
            try:
                timing = read_timing(timer.timing)
                schedule = schedule_of(timing, timer.job_id, timer.created_us, timer.called_off)
                cursor = Cursor(timer.job_id, timing, schedule, timer.due_us, timer.fired, timer.staged)
                decisions.append(Decision(timer, held[timer.shard], plan(cursor, now_us, horizon_us)))
            except Exception as error:  # noqa: BLE001 one broken job must not stop the others of its shard
                which = (timer.job_id, timer.version)
                broken.add(which)
                if all(which not in each.broken for each in (self._whole, *self._lanes)):
                    oops("plan.broken", error, job=timer.job_id, version=timer.version)
        lane.broken = broken
        return decisions

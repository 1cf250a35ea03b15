"""Workers that come over HTTP, in any language: a row of the fleet each, with the same claims, fences and endings.

Such a worker is told what every other one knows by itself: which runs it has, which of them it should stop, and that it
was given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from horae.core.access import worker_id
from horae.core.errors import Conflict, Unavailable
from horae.core.job import FREE, GATED, PRIORITY_NAME, Work
from horae.core.secrets import Redactor
from horae.core.timeguard import TimeGuard
from horae.failpoints import hit
from horae.ports import (
    Again,
    Ask,
    Claimed,
    Ending,
    Given,
    Held,
    Outcome,
    Pace,
    RemoteStore,
    Request,
    State,
    WorkerState,
)
from horae.telemetry import attempt_took, attempts_requeued, attempts_started, runs_ended
from horae.worker.attempt import LOG_CAP, Spec, clean, give_back, late_us, report
from horae.worker.lines import POLL_SECONDS, Lines
from horae.worker.opening import Opener
from horae.worker.pieces import Pieces, Redactors
from horae.worker.secrets import Secrets

# A run that its worker neither ends nor gives up is ended for it, so long after its timeout.
OVERTIME_US = 15_000_000
# Older than this: all of them, also those claimed at this very moment.
BRAND_NEW_US = -1
AGAIN_SECONDS = 0.2
LEFT = "left"
NOT_ENDED = "The worker did not end the attempt in time."


class _Ends:
    """One outcome on its way to the store."""

    def __init__(self) -> None:
        self.endings: list[Ending] = []
        self.agains: list[Again] = []

    def end(self, ending: Ending) -> None:
        self.endings.append(ending)

    def again(self, again: Again) -> None:
        self.agains.append(again)


class RemoteWorkers:
    """`may_claim` is asked before each claim: after an outage the misfire policy has the first word."""

    def __init__(
        self, store: RemoteStore, secrets: Secrets, pace: Pace, guard: TimeGuard, may_claim: Callable[[], bool]
    ) -> None:
        self._store = store
        self._secrets = secrets
        self.pace = pace
        self._opener = Opener(store, secrets)
        self._redactors = Redactors(self._opener, secrets)
        self._lines = Lines(store, guard)
        self._may_claim = may_claim
        self._news = asyncio.Event()
        self._waiting: dict[str, asyncio.Event] = {}

    def wake(self) -> None:
        """There is something new for those that wait."""
        self._news.set()
        self._news = asyncio.Event()

    # Taking runs

    async def claim(self, tenant: str, ask: Ask, is_over: Callable[[], Awaitable[bool]]) -> Given:
        """Waits for a run as long as asked for; `is_over` says that nobody waits for the answer any more."""
        worker = worker_id(tenant, ask.worker)
        state = await self._join(worker, ask)
        await self._give_back_strays(worker, ask.holds)
        drains = self._waiting[worker] = asyncio.Event()
        try:
            return await self._claim(tenant, worker, ask, state, drains, is_over)
        finally:
            if self._waiting.get(worker) is drains:
                del self._waiting[worker]

    async def _claim(
        self,
        tenant: str,
        worker: str,
        ask: Ask,
        state: str,
        drains: asyncio.Event,
        is_over: Callable[[], Awaitable[bool]],
    ) -> Given:
        clock = asyncio.get_running_loop().time
        end, beaten = clock() + ask.wait_seconds, clock()
        room = ask.slots - len(ask.holds)
        has_waited = False
        while state == "active":
            claimed, pause = await self._take(tenant, worker, ask, room, is_over)
            if claimed:
                state = await self._stay(worker, ask, claimed) if has_waited else state
                return Given(worker, [] if state == LEFT else await self._open(worker, claimed), state != "active")
            remaining = end - clock()
            if remaining <= 0 or await is_over():
                break
            await self._sleep(min(pause, remaining))
            has_waited = True
            if drains.is_set() or clock() - beaten >= self.pace.heartbeat_seconds:
                state, beaten = await self._stay(worker, ask), clock()
        return Given(worker, [], state != "active")

    async def _join(self, worker: str, ask: Ask) -> str:
        running = len(ask.holds)
        state = await self._store.beat_known(worker, running, self._ttl_us)
        if state is not None:
            return state
        needs = [need_of(name) for name in ask.handlers]
        row = WorkerState(worker, ask.node, "active", ask.slots, running, list(ask.queues), needs)
        if not (await self._store.beat(row, self._ttl_us)).is_known:
            raise _given_up()
        return "active"

    async def _stay(self, worker: str, ask: Ask, claimed: Sequence[Claimed] = ()) -> str:
        """While it waits it does not join anew: one that left meanwhile stays gone, and what was just taken for it
        goes back.
        """
        state = await self._store.beat_known(worker, len(ask.holds) + len(claimed), self._ttl_us)
        if state is not None:
            return state
        await self._give_back(worker, claimed)
        if await self._store.has_left(worker):
            return LEFT
        raise _given_up()

    async def _take(
        self, tenant: str, worker: str, ask: Ask, room: int, is_over: Callable[[], Awaitable[bool]]
    ) -> tuple[list[Claimed], float]:
        """What there is, or how long to wait before the next look."""
        if room <= 0 or not self._may_claim():
            return [], POLL_SECONDS
        needs = [need_of(name) for name in ask.handlers]
        seen = await self._lines.look(_prefixes(tenant, ask.queues, needs), needs, tenant)
        if seen is None:
            return [], POLL_SECONDS
        # A claim for somebody who has hung up would keep its runs waiting for nothing.
        if not seen.due or await is_over():
            return [], seen.seconds_to_next
        hit("claim.before_commit")
        plain, gated = self._lines.share_out(seen.due, room)
        claimed = await self._store.claim(worker, plain) if plain else []
        try:
            claimed += await self._lines.take_gated(worker, gated) if gated else []
        except Unavailable:
            if not claimed:
                raise
        hit("claim.after_commit")
        return claimed, AGAIN_SECONDS

    async def _sleep(self, seconds: float) -> None:
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    async def _give_back_strays(self, worker: str, holds: frozenset[str]) -> None:
        """Runs that the store says are this worker's but that it never heard of: the answer to their claim was lost.

        It asks for more only when no other claim of its own is under way, so none of them can still be on its way.
        """
        running = await self._store.running_of(worker, BRAND_NEW_US)
        strays = [Again(id_, token, 0, None, None, counts=False) for id_, token in running.items() if id_ not in holds]
        if strays:
            await self._requeue(worker, strays)

    async def _open(self, worker: str, claimed: list[Claimed]) -> list[tuple[Claimed, Request]]:
        """All that their handlers need to know; what cannot start ends here."""
        try:
            opened = await self._opener.open(claimed)
        except BaseException:
            await self._give_back(worker, claimed)
            raise
        known = {each.run.run_id for each in opened}
        await self._give_back(worker, [run for run in claimed if run.run_id not in known])
        attempts_started([(work.type, late_us(run)) for run, work, _, _ in opened])
        ready, ends = [], _Ends()
        for run, work, request, _ in opened:
            if isinstance(request, Outcome):
                report(ends, run, work, request)
            else:
                ready.append((run, request))
        await self._settle(worker, ends)
        return ready

    # While they run

    async def heartbeat(
        self, tenant: str, name: str, runs: dict[str, int], *, is_draining: bool = False
    ) -> tuple[list[State], bool]:
        """What became of each run, by its fence; and whether the worker should drain. One that says so itself has a
        claim of its own that waits answered at once.
        """
        worker = worker_id(tenant, name)
        state = await self._store.beat_known(worker, len(runs), self._ttl_us, is_draining=is_draining)
        if state is None:
            raise _given_up()
        if is_draining and worker in self._waiting:
            self._waiting[worker].set()
            self.wake()
        held = await self._store.held(tenant, list(runs))
        mine = {id_: run for id_, run in held.items() if run.worker == worker and run.token == runs[id_]}
        specs = await self._opener.specs((run.job_id, run.version) for run in mine.values())
        states, ends = [], _Ends()
        for run_id in runs:
            run = mine.get(run_id)
            if run is None:
                states.append(State(run_id, "lost"))
            else:
                spec = specs[run.job_id, run.version]
                states.append(_state(run, spec.work, ends))
                if states[-1].state == "lost":
                    await self._end_log(tenant, run, spec, is_cut=True)
        await self._settle(worker, ends)
        return states, state != "active"

    async def log(self, tenant: str, run_id: str, fence: int, seq: int, text: str) -> bool:
        """Whether it was kept; false when the log of the attempt is full."""
        run = await self._held(tenant, run_id, fence)
        if run is None:
            await self._store.run(tenant, run_id)  # raises NotFound for one of somebody else
            raise _stale(run_id)
        text, redactor = clean(text, LOG_CAP), await self._redactors.of(tenant, await self._spec(run))
        pieces = None if redactor is None else Pieces(redactor, self._secrets, tenant, run)
        return await self._store.write_piece(tenant, run, seq, text, LOG_CAP, pieces)

    # Their end

    async def complete(self, tenant: str, run_id: str, fence: int, outcome: Outcome) -> bool:
        """False for a result that was taken before. Raises Conflict for one that comes too late, which is recorded."""
        run = await self._held(tenant, run_id, fence)
        if run is not None:
            spec = await self._spec(run)
            ends = _Ends()
            redactor = await self._end_log(tenant, run, spec)
            report(ends, run, spec.work, outcome, redactor)
            if await self._settle(run.worker, ends):
                attempt_took(spec.work.type, (run.now_us - run.started_us) / 1e6)
                return True
        return await self._late(tenant, run_id, fence, "succeeded" if outcome.succeeded else "failed")

    async def stopped(self, tenant: str, run_id: str, fence: int, *, is_cancel: bool) -> bool:
        """The attempt was stopped: because somebody asked for it, or because the worker leaves."""
        run = await self._held(tenant, run_id, fence)
        if run is None:
            return await self._late(tenant, run_id, fence, "cancelled" if is_cancel else "worker_lost")
        if is_cancel and run.cancel is None:
            raise Conflict(f"Nobody asked for run {run_id} to be stopped.", "not_cancelled")
        spec, ends = await self._spec(run), _Ends()
        await self._end_log(tenant, run, spec)
        if is_cancel:
            ends.end(Ending(run_id, fence, "cancelled", run.cancel, None, None))
        else:
            give_back(ends, run, spec.work)
        return await self._settle(run.worker, ends) or await self._late(tenant, run_id, fence, "cancelled")

    async def leave(self, tenant: str, name: str) -> None:
        """What it still holds goes back when the janitor looks next."""
        await self._store.retire(worker_id(tenant, name))

    async def _late(self, tenant: str, run_id: str, fence: int, what: str) -> bool:
        await self._store.run(tenant, run_id)  # raises NotFound for one of somebody else
        errors = await self._store.errors_of(tenant, run_id, fence)
        if any(error != NOT_ENDED for error in errors):
            return False
        held = (await self._store.held(tenant, [run_id])).get(run_id)
        if held is None or held.token != fence:
            # Nothing changes by it; the store writes down that it came.
            await self._store.settle(worker_id(tenant, ""), [Ending(run_id, fence, "failed", what, None, None)])
        raise _stale(run_id)

    async def _held(self, tenant: str, run_id: str, fence: int) -> Held | None:
        run = (await self._store.held(tenant, [run_id])).get(run_id)
        if run is None or run.token != fence or not run.worker.startswith(worker_id(tenant, "")):
            return None
        return run

    async def _spec(self, run: Held) -> Spec:
        key = run.job_id, run.version
        return (await self._opener.specs([key]))[key]

    async def _end_log(self, tenant: str, run: Held, spec: Spec, *, is_cut: bool = False) -> Redactor | None:
        """Before the end itself: when a run is seen to be over, its output is complete."""
        redactor = await self._redactors.of(tenant, spec)
        if redactor is not None:
            pieces = Pieces(redactor, self._secrets, tenant, run)
            await self._store.end_pieces(tenant, run, pieces, is_cut=is_cut)
        return redactor

    async def _settle(self, worker: str, ends: _Ends) -> bool:
        moved: set[str] = set()
        if ends.endings:
            hit("settle.before_commit")
            moved, has_more = await self._store.settle(worker, ends.endings)
            if has_more:
                self.wake()
            runs_ended(ending.status for ending in ends.endings if ending.run_id in moved)
        if ends.agains:
            hit("requeue.before_commit")
            moved |= await self._requeue(worker, ends.agains)
        return bool(moved)

    async def _give_back(self, worker: str, claimed: Sequence[Claimed]) -> None:
        """Taken, and never begun: it does not count."""
        if claimed:
            backs = [Again(run.run_id, run.token, 0, None, None, counts=False) for run in claimed]
            await self._requeue(worker, backs)

    async def _requeue(self, worker: str, agains: list[Again]) -> set[str]:
        moved = await self._store.requeue(worker, agains)
        attempts_requeued(again.reason for again in agains if again.run_id in moved)
        self.wake()
        return moved

    @property
    def _ttl_us(self) -> int:
        return round(self.pace.visibility_seconds * 1e6)


def _state(run: Held, work: Work, ends: _Ends) -> State:
    if run.now_us > run.started_us + work.timeout_us + OVERTIME_US:
        report(ends, run, work, Outcome(succeeded=False, reason="timeout", error=NOT_ENDED))
        return State(run.run_id, "lost", "timeout")
    if run.cancel is not None:
        return State(run.run_id, "cancelled", run.cancel)
    return State(run.run_id, "running")


def need_of(handler: str) -> str:
    return f"handler:{handler}"


def _prefixes(tenant: str, queues: tuple[str, ...], needs: list[str]) -> list[str]:
    """Down to the tenant: what others have waiting is not even looked at."""
    return [
        f"{gate}{queue}|{need.replace('|', '%7C')}|{priority}|{tenant}"
        for gate in (FREE, GATED)
        for queue in queues
        for need in needs
        for priority in PRIORITY_NAME
    ]


def _given_up() -> Conflict:
    detail = "The fleet has given this worker up; its runs go to others. Stop them, and come back under a new id."
    return Conflict(detail, "worker_lost")


def _stale(run_id: str) -> Conflict:
    detail = f"This fence is not, or no longer, the one of run {run_id}: the attempt was given up or has ended."
    return Conflict(detail, "stale_fence")

"""A worker: takes what it has room for, runs it, keeps its heartbeat, and stops by itself when it loses the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from horae.core.errors import Unavailable
from horae.core.job import Work
from horae.core.secrets import Redactor
from horae.core.timeguard import TimeGuard
from horae.failpoints import hit
from horae.ports import (
    Again,
    Claimed,
    ClaimStore,
    Ending,
    Executor,
    FleetStore,
    Outcome,
    Request,
    ResultStore,
    WorkerState,
)
from horae.telemetry import attempt_took, attempts_started, log, oops, warn
from horae.worker.attempt import Output, give_back, late_us, report
from horae.worker.lines import POLL_SECONDS, Lines
from horae.worker.opening import Opener
from horae.worker.results import Results
from horae.worker.secrets import Secrets
from horae.worker.taking import BUSY_SECONDS, PART, Taker

# Slots that become free within this time are filled by one claim.
GATHER_SECONDS = 0.004
CANCEL_SECONDS = 1.0
# Definitions are read ahead for what the slots can start within a second, if a run takes fifty milliseconds.
STARTS_A_SLOT = 20
STRAY_US = 3_000_000
# A run whose definition cannot be read here is for another worker.
UNREAD_US = 5_000_000
# A run must have ended before another worker can be given it: stop when this part of the lease is used up.
SELF_STOP = 0.8
# An executor keeps the time limit of its run; one that has not come back so long after it is stopped.
OVERTIME_SECONDS = 15.0
STOP_SECONDS = 10.0
DRAINED = "drained"
OVERTIME = "overtime"


class WorkerStore(ClaimStore, ResultStore, FleetStore, Protocol):
    """All that a worker asks of the store."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    node: str
    slots: int
    queues: tuple[str, ...]
    heartbeat_seconds: float
    visibility_seconds: float
    grace_seconds: float = 30.0


class _Held(NamedTuple):
    """A run in our hands, and until when by the loop's clock."""

    run: Claimed
    task: asyncio.Task[None]
    until: float


class _Suspects(NamedTuple):
    """What the store says is running here, and the claims that were under way when it said so."""

    worker: str
    running: dict[str, int]
    awaited: set[object]


class Worker:
    """`executors` by job type; `needs` are what they meet beyond what every worker can run."""

    def __init__(
        self,
        store: WorkerStore,
        settings: WorkerSettings,
        executors: Mapping[str, Executor],
        needs: tuple[str, ...],
        guard: TimeGuard,
        new_id: Callable[[], str],
        secrets: Secrets,
    ) -> None:
        self._store = store
        self._settings = settings
        self._executors = executors
        self._needs = needs
        self._new_id = new_id
        self.id = new_id()
        self.results = Results(store, self.id)
        self._held: dict[str, _Held] = {}
        self._stops: dict[str, str] = {}
        self._opener = Opener(store, secrets)
        self._taker = Taker(store, Lines(store, guard), self, settings.slots, settings.queues, needs)
        self._suspects: _Suspects | None = None
        self.is_draining = False
        self._is_leaving = False
        self._is_registered = False
        self._self_stop: asyncio.TimerHandle | None = None
        self._room_timer: asyncio.TimerHandle | None = None
        self.on_room: Callable[[], None] = lambda: None

    @property
    def running(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        """Places without a run; none while the store is behind with results."""
        return 0 if self._is_behind else self._settings.slots - len(self._held)

    @property
    def is_short_of_specs(self) -> bool:
        return self._opener.is_short

    @property
    def _is_behind(self) -> bool:
        return self.results.waiting > 4 * self._settings.slots + 1000

    async def tick(self) -> float:
        if not self._is_registered or self.is_draining:
            return BUSY_SECONDS * 5
        if self._taker.room <= 0:
            return BUSY_SECONDS if self._is_behind else POLL_SECONDS  # the end of a run wakes us, that of a settle not
        return await self._taker.tick()

    async def read_ahead(self) -> float:
        """Gets ready for what comes soon, while nothing is due."""
        seen = self._taker.seen_to_come()
        if seen is not None:
            coming = await self._opener.read_ahead(seen, STARTS_A_SLOT * self._settings.slots)
            if coming > PART:
                await self._store.make_ready(self.id)
        return POLL_SECONDS

    def look_anew(self) -> None:
        """What is known of the lines, and of what holds them back, counts no longer."""
        self._taker.look_anew()

    # Running them

    async def start(self, claimed: list[Claimed]) -> None:
        worker = self.id
        try:
            opened = await self._opener.open(claimed)
        except BaseException:
            self._put_back(claimed)
            raise
        if worker != self.id:
            return
        if self._is_leaving:
            self._put_back(claimed)
            return
        if len(opened) < len(claimed):
            known = {each.run.run_id for each in opened}
            self._put_back((run for run in claimed if run.run_id not in known), UNREAD_US)
        attempts_started([(work.type, late_us(run)) for run, work, _, _ in opened])
        loop = asyncio.get_running_loop()
        now = loop.time()
        for run, work, request, secrets in opened:
            if type(request) is Outcome:  # isinstance asks a Struct's metaclass, in Python
                report(self.results, run, work, request)
                continue
            redactor = Redactor(secrets) if secrets else None
            task = loop.create_task(self._attempt(run, work, request, redactor), name=run.run_id)
            self._stops.pop(run.run_id, None)  # of an attempt before, which a lost lease has left behind
            self._held[run.run_id] = _Held(run, task, now + request.timeout_seconds + OVERTIME_SECONDS)
            task.add_done_callback(self._finished)

    def _put_back(self, runs: Iterable[Claimed], delay_us: int = 0) -> None:
        """They were not begun."""
        for run in runs:
            self.results.again(Again(run.run_id, run.token, delay_us, None, None, counts=False))

    async def _attempt(self, run: Claimed, work: Work, request: Request, redactor: Redactor | None) -> None:
        executor = self._executors[work.type]
        output = Output(self.results, run, redactor)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            hit("attempt.before_start")
            outcome = await executor.run(request, output.write)
            hit("attempt.after_effect")
        except asyncio.CancelledError:
            self._stopped(run, work)
            return
        except Exception as error:  # noqa: BLE001 our bug, but the run must not be lost for it
            oops("executor.broken", error, run=run.run_id, type=work.type)
            outcome = Outcome(succeeded=False, reason="exception", error=f"horae: {type(error).__name__}: {error}")
        finally:
            attempt_took(work.type, clock() - began)
            output.close()
        report(self.results, run, work, outcome, redactor)

    def _stopped(self, run: Claimed, work: Work | None) -> None:
        """The attempt was stopped from outside: cancelled, drained, or because the lease is about to end. Without
        `work`, before its first step.
        """
        reason = self._stops.get(run.run_id)
        if reason is None:
            return
        if reason not in (DRAINED, OVERTIME):
            self.results.end(Ending(run.run_id, run.token, "cancelled", reason, None, None, run.job_id))
        elif work is None:
            self._put_back([run])
        elif reason == DRAINED:
            give_back(self.results, run, work)
        else:
            late = Outcome(succeeded=False, reason="timeout", error="The attempt did not end in time.")
            report(self.results, run, work, late)

    def _finished(self, task: asyncio.Task[None]) -> None:
        run_id = task.get_name()
        held = self._held.get(run_id)
        # After a lost lease the same run may be here again while its first attempt is still being stopped.
        if held is not None and held.task is task:
            if task.cancelled():
                self._stopped(held.run, None)
            del self._held[run_id]
            self._stops.pop(run_id, None)
        if not self._held:
            self.on_room()
        elif self._room_timer is None:
            self._room_timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._tell_room)

    def _tell_room(self) -> None:
        self._room_timer = None
        self.on_room()

    # Staying alive

    async def beat(self) -> float:
        """Heartbeat; re-arms the alarm that stops all work if the store stays silent."""
        sent = asyncio.get_running_loop().time()
        state = WorkerState(
            id=self.id,
            node=self._settings.node,
            state="draining" if self.is_draining else "active",
            slots=self._settings.slots,
            running=len(self._held),
            queues=list(self._settings.queues),
            needs=list(self._needs),
        )
        async with asyncio.timeout(self._settings.visibility_seconds / 2):
            hit("heartbeat.before")
            beat = await self._store.beat(state, round(self._settings.visibility_seconds * 1e6))
        hit("heartbeat.after")
        if state.id != self.id:
            return 0.0  # given up while the answer was on its way: it speaks of somebody who is gone
        if not beat.is_known:
            self._give_up("the fleet has given this worker up")
            return 0.0
        self._is_registered = True
        if beat.should_drain:
            self.is_draining = True
        self._arm(sent + self._settings.visibility_seconds * SELF_STOP)
        return self._settings.heartbeat_seconds

    async def find_strays(self) -> float:
        """Runs that the store says are ours but that we never heard of: the answer to their claim was lost.

        Judged when every claim has ended that was under way when they were seen: its answer may be slow, and then it
        starts them.
        """
        if self._suspects is None:
            worker = self.id  # which may have been given up when the answer comes
            running = await self._store.running_of(worker, STRAY_US)
            self._suspects = _Suspects(worker, running, set(self._taker.under_way))
        worker, running, awaited = self._suspects
        if awaited & self._taker.under_way:
            return BUSY_SECONDS
        self._suspects, held = None, self.results.held
        for run_id, token in running.items():
            known = self._held.get(run_id)
            if worker == self.id and (known is None or known.run.token != token) and run_id not in held:
                warn("run.stray", run=run_id, worker=worker)
                self.results.again(Again(run_id, token, 0, None, None, counts=False))
        return self._settings.heartbeat_seconds

    async def watch_cancels(self) -> float:
        now = asyncio.get_running_loop().time()
        for run_id in [run_id for run_id, held in self._held.items() if held.until < now]:
            self._stop_run(run_id, OVERTIME)
        if self._held:
            for run_id, reason in (await self._store.cancelled(self.id)).items():
                self._stop_run(run_id, reason)
        return CANCEL_SECONDS

    def _stop_run(self, run_id: str, reason: str) -> None:
        held = self._held.get(run_id)
        if held is not None and run_id not in self._stops:
            self._stops[run_id] = reason
            held.task.cancel()

    def _arm(self, when: float) -> None:
        if self._self_stop is not None:
            self._self_stop.cancel()
        loop = asyncio.get_running_loop()
        self._self_stop = loop.call_at(when, self._give_up, "the store did not answer in time")

    def _give_up(self, why: str) -> None:
        """Our runs are, or soon will be, somebody else's: end them now, report nothing, come back as somebody new."""
        warn("worker.gave_up", worker=self.id, running=len(self._held), why=why)
        self._is_registered = False
        self._taker.forget()
        if self._self_stop is not None:
            self._self_stop.cancel()
        for held in list(self._held.values()):
            held.task.cancel()
        self.results.forget()
        self.id = self._new_id()
        self.results.worker = self.id

    async def drain(self) -> None:
        """No new runs; running ones finish within the grace or go back."""
        self.is_draining = True
        deadline = asyncio.get_running_loop().time() + self._settings.grace_seconds
        await self._until_idle(deadline)
        await self.stop_now(deadline)

    async def _until_idle(self, deadline: float) -> None:
        """Or the deadline. A claim whose answer is on its way may bring more runs: leaving before it does would cost
        those an attempt.
        """
        clock = asyncio.get_running_loop().time
        while (self._held or self._taker.under_way) and (remaining := deadline - clock()) > 0:
            if self._held:
                await asyncio.wait([held.task for held in self._held.values()], timeout=min(remaining, 1.0))
            else:
                await asyncio.sleep(BUSY_SECONDS)

    def abandon(self) -> None:
        """Stops everything without reporting: what a crash looks like, and what is left after a drain."""
        for held in self._held.values():
            held.task.cancel()
        if self._self_stop is not None:
            self._self_stop.cancel()
        if self._room_timer is not None:
            self._room_timer.cancel()

    async def stop_now(self, deadline: float = 0.0) -> None:
        """Outcomes that the store does not take are sent again until the deadline: who has left has lost them."""
        self.is_draining = self._is_leaving = True
        for run_id in list(self._held):
            self._stop_run(run_id, DRAINED)
        await self._until_idle(asyncio.get_running_loop().time() + STOP_SECONDS)
        with contextlib.suppress(Unavailable):
            await self.results.flush(deadline)
        with contextlib.suppress(Unavailable):
            hit("drain.before_leave")
            await self._store.leave(self.id)
        log("worker.stopped", worker=self.id)

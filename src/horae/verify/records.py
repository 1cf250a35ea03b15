"""A history as read from its export: one line a fact, all facts of a job together. The export is written by the store.

Runs are many, so they carry no more than the predicates ask for, and equal texts are kept once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import msgspec
from msgspec import Struct

from horae.core.errors import Fault, Invalid


class Attempt(Struct, frozen=True, tag_field="type", tag="attempt", gc=False):
    """One try. The last one of a run stands in the run's own line."""

    run_id: str
    number: int
    token: int
    started_us: int
    ended_us: int | None
    reason: str | None
    worker: str | None
    is_reaped: bool


class Run(Struct, tag_field="type", tag="run", gc=False):
    id: str
    job_id: str
    tenant: str
    queue: str
    version: int
    cause: str
    status: str
    due_us: int
    run_at_us: int
    queued_us: int
    started_us: int | None
    ended_us: int | None
    attempt: int
    max_attempts: int
    token: int
    epoch: int | None
    reason: str | None
    parent_id: str | None
    skip_until_us: int | None
    skip_count: int
    worker: str | None = None
    # From the lines that follow: earlier attempts, its dead letters, and how often it ended.
    attempts: tuple[Attempt, ...] = ()
    burials: int = 0
    replayed_as: str | None = None
    endings: int = 1

    @property
    def is_live(self) -> bool:
        return self.ended_us is None

    @property
    def is_called_off(self) -> bool:
        """Cancelled before its time: it was staged, but never triggered."""
        return self.started_us is None and self.ended_us is not None and self.ended_us < self.due_us

    @property
    def is_fire(self) -> bool:
        """A run of the schedule, also one that was skipped after it had been staged; other skips are spans."""
        return self.cause == "schedule" and (self.status != "skipped" or self.skip_until_us is None)

    @property
    def first_start_us(self) -> int | None:
        return min(attempt.started_us for attempt in self.attempts) if self.attempts else self.started_us

    def tries(self) -> list[Attempt]:
        """Earlier ones, then the one in the run's own line."""
        tries = [*self.attempts]
        if self.started_us is not None:
            last = (self.attempt, self.token, self.started_us, self.ended_us, self.reason, None)
            tries.append(Attempt(self.id, *last, is_reaped=False))
        return tries


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    since_us: int
    actor: str
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """A time without due times: after `from_us`, up to `until_us` (itself included unless it ended by the clock)."""

    from_us: int
    until_us: int | None
    is_timed: bool

    def covers(self, at_us: int) -> bool:
        if at_us <= self.from_us:
            return False
        return self.until_us is None or at_us < self.until_us or (at_us == self.until_us and not self.is_timed)


class Job(Struct, tag_field="type", tag="job"):
    """A job with all that it did. Its row was read at `read_us`, the rest of it a little later."""

    id: str
    tenant: str
    state: str
    version: int
    created_us: int
    read_us: int
    due_us: int | None
    fired: int
    versions: list[Version] = []
    pauses: list[Span] = []
    told_state: str = "active"
    touched_us: int = 0
    deleted_us: int | None = None
    retried: dict[str, int] = {}
    late_results: int = 0
    runs: list[Run] = []

    def spec(self, version: int) -> dict[str, Any]:
        return next((each.spec for each in self.versions if each.number == version), {})


@dataclass(slots=True)
class History:
    """What is about no single job. `now_us` is the moment of the export; what is older than `kept_since_us` may have
    left by retention. `reigns`: for each shard, until when at the latest each epoch may have decided.
    """

    now_us: int = 0
    kept_since_us: int = 0
    decided_until_us: int = 0
    workers: dict[str, int] = field(default_factory=dict)
    reigns: dict[int, dict[int, int | None]] = field(default_factory=dict)
    epochs_back: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    clock_high_us: int = 0


class _Store(Struct, tag_field="type", tag="store"):
    now_us: int
    kept_since_us: int
    held_until_us: int | None = None


class _Worker(Struct, tag_field="type", tag="worker"):
    id: str
    expires_us: int


class _Version(Struct, tag_field="type", tag="version"):
    job_id: str
    version: int
    spec: str
    created_us: int
    actor: str


class _Event(Struct, tag_field="type", tag="event"):
    at_us: int
    kind: str
    job_id: str | None
    run_id: str | None
    detail: str | None


class _Letter(Struct, tag_field="type", tag="dead_letter"):
    run_id: str
    replayed_as: str | None


class _End(Struct, tag_field="type", tag="end"):
    lines: int


_decode = msgspec.json.Decoder(_Store | _Worker | _Event | Job | _Version | Run | Attempt | _Letter | _End).decode


class Reader:
    """Takes a history line by line, and gives each job when all of it is there."""

    def __init__(self) -> None:
        self.history = History()
        self._job: Job | None = None
        self._live: dict[str, Run] = {}
        self._ended: list[Run] = []
        self._last: Run | None = None
        self._lines = 0
        self._end: _End | None = None
        self._takers: dict[type, Callable[[Any], None]] = {
            _Store: self._store,
            _Worker: self._worker,
            _Event: self._event,
            _Version: self._version,
            Run: self._run,
            Attempt: self._attempt,
            _Letter: self._letter,
        }

    def take(self, line: str | bytes) -> Job | None:
        """The job that is complete, now that another begins."""
        try:
            return self._take(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            detail = f"This is not a line of an export: {error}."
            raise Invalid([Fault(f"line {self._lines + 1}", detail, "Write one with `horae export`.")]) from error

    def _take(self, fact: Any) -> Job | None:
        if type(fact) is _End:
            self._end = fact
            return None
        self._lines += 1
        if type(fact) is Job:
            done = self._done()
            self._job = fact
            return done
        self._takers[type(fact)](fact)
        return None

    def end(self) -> Job | None:
        """The last job. A history without its last line broke off, and what is missing cannot be judged."""
        if self._end is None or self._end.lines != self._lines:
            detail = "The history is not whole: it breaks off, or lines were taken out."
            raise Invalid([Fault(f"line {self._lines + 1}", detail, "Export it again.")])
        return self._done()

    def _done(self) -> Job | None:
        job, self._job = self._job, None
        if job is not None:
            job.runs = self._ended
            job.runs += self._live.values()
            job.runs.sort(key=lambda run: run.due_us)
            job.versions.sort(key=lambda version: version.number)
        self._live, self._ended, self._last = {}, [], None
        return job

    def _store(self, fact: _Store) -> None:
        self.history.now_us, self.history.kept_since_us = fact.now_us, fact.kept_since_us
        held_us = fact.now_us if fact.held_until_us is None else fact.held_until_us
        self.history.decided_until_us = min(fact.now_us, held_us)

    def _worker(self, fact: _Worker) -> None:
        self.history.workers[fact.id] = fact.expires_us

    def _version(self, fact: _Version) -> None:
        if self._job is None or self._job.id != fact.job_id:
            self.history.orphans.append(f"version {fact.version} of job {fact.job_id}")
            return
        version = Version(fact.version, fact.created_us, fact.actor, msgspec.json.decode(fact.spec))
        self._job.versions.append(version)
        self._job.touched_us = max(self._job.touched_us, fact.created_us)

    def _event(self, fact: _Event) -> None:
        if fact.kind == "lease":
            self._lease(fact)
        elif fact.job_id is not None and (self._job is None or self._job.id != fact.job_id):
            self.history.orphans.append(f"event {fact.kind} of job {fact.job_id}")
        elif self._job is not None:
            _happened(self._job, fact)

    def _lease(self, fact: _Event) -> None:
        """Lines come in the order of what happened, their times may not: a clock that jumped ahead in error went back.

        So all that is known of the end of a reign is that it was no later than the highest time told until then.
        """
        history = self.history
        history.clock_high_us = max(history.clock_high_us, fact.at_us)
        for shard, epoch in msgspec.json.decode(fact.detail or "{}", type=dict[int, int]).items():
            reigns = history.reigns.setdefault(shard, {})
            earlier = next(reversed(reigns), None)
            if earlier is not None:
                reigns[earlier] = history.clock_high_us
                if earlier >= epoch:
                    history.epochs_back.append(f"shard {shard} went from epoch {earlier} to {epoch}")
            reigns[epoch] = None

    def _run(self, run: Run) -> None:
        job = self._job
        self._last = run
        if job is None or job.id != run.job_id:
            self.history.orphans.append(f"run {run.id}")
            return
        run.job_id, run.tenant = job.id, job.tenant if run.tenant == job.tenant else run.tenant
        run.cause, run.status, run.queue = intern(run.cause), intern(run.status), intern(run.queue)
        run.run_at_us = run.due_us if run.run_at_us == run.due_us else run.run_at_us
        if run.is_live:
            self._live[run.id] = run
            return
        # A run that ended while the export went on stands in both tables; that it ended twice would be a violation.
        self._live.pop(run.id, None)
        before = self._ended.pop() if self._ended and self._ended[-1].id == run.id else None
        run.endings = before.endings + 1 if before else 1
        if self._ended and self._ended[-1].id > run.id:
            detail = f"Run {run.id} comes after {self._ended[-1].id}: the lines are not in the order of the export."
            raise Invalid([Fault(f"line {self._lines}", detail, "Export it again, and leave it as it is.")])
        self._ended.append(run)

    def _attempt(self, attempt: Attempt) -> None:
        run = self._last
        if run is None or run.id != attempt.run_id:
            self.history.orphans.append(f"attempt {attempt.number} of run {attempt.run_id}")
        elif attempt.token != run.token or attempt.number != run.attempt:
            # Else somebody asked for one more attempt between two looks: the last of the run was filed meanwhile.
            run.attempts += (attempt,)

    def _letter(self, letter: _Letter) -> None:
        run = self._last
        if run is None or run.id != letter.run_id:
            self.history.orphans.append(f"dead letter of run {letter.run_id}")
        else:
            run.burials += 1
            run.replayed_as = letter.replayed_as


def _happened(job: Job, fact: _Event) -> None:
    match fact.kind:
        case "late_result":
            job.late_results += 1
        case "retried":
            job.retried[fact.run_id or ""] = job.retried.get(fact.run_id or "", 0) + 1
        case "paused" | "resumed" | "deleted":
            _end_pause(job, fact.at_us)
            job.touched_us = max(job.touched_us, fact.at_us)
            job.told_state = {"resumed": "active"}.get(fact.kind, fact.kind)
            if fact.kind == "paused":
                until_us = msgspec.json.decode(fact.detail or "{}").get("until_us")
                job.pauses.append(Span(fact.at_us, until_us, is_timed=until_us is not None))
            elif fact.kind == "deleted":
                job.deleted_us = fact.at_us


def _end_pause(job: Job, at_us: int) -> None:
    if job.pauses and (job.pauses[-1].until_us is None or job.pauses[-1].until_us > at_us):
        job.pauses[-1] = Span(job.pauses[-1].from_us, at_us, is_timed=False)

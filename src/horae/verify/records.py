"""A history as read from its export: one line a fact, gathered by job. The export is NDJSON, written by the store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try. The last one of a run stands in the run's own line."""

    number: int
    token: int
    started_us: int
    ended_us: int | None
    reason: str | None
    worker: str | None
    is_reaped: bool


@dataclass(slots=True)
class Run:
    id: str
    job_id: str
    tenant: str
    queue: str
    version: int
    cause: str
    status: str
    due_us: int
    run_at_us: int
    available_us: int
    started_us: int | None
    ended_us: int | None
    attempt: int
    max_attempts: int
    token: int
    is_once: bool
    epoch: int | None
    queued_us: int
    reason: str | None
    parent_id: str | None
    skip_until_us: int | None
    skip_count: int
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        return self.ended_us is None


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    since_us: int
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


@dataclass(slots=True)
class Job:
    id: str
    tenant: str
    name: str
    state: str
    created_us: int
    due_us: int | None
    fired: int
    versions: list[Version] = field(default_factory=list)
    pauses: list[Span] = field(default_factory=list)
    deleted_us: int | None = None
    runs: list[Run] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """`now_us` is the moment of the export; what is older than `kept_since_us` may have left by retention."""

    now_us: int = 0
    kept_since_us: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    dead_letters: dict[str, str | None] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)
    leases: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    late_results: int = 0
    retried: set[str] = field(default_factory=set)
    orphans: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)


def read_history(lines: Iterable[str | bytes]) -> History:
    """Lines in the order of the export: jobs before what they did, live runs before ended ones."""
    history = History()
    runs: dict[str, Run] = {}
    for line in lines:
        fact = json.loads(line)
        _READERS[fact.pop("type")](history, runs, fact)
    for run in runs.values():
        job = history.jobs.get(run.job_id)
        if job is None:
            history.orphans.append(run.id)
        else:
            job.runs.append(run)
    for job in history.jobs.values():
        job.runs.sort(key=lambda run: (run.due_us, run.id))
        job.versions.sort(key=lambda version: version.number)
    return history


def _store(history: History, _: dict[str, Run], fact: dict[str, Any]) -> None:
    history.now_us, history.kept_since_us = fact["now_us"], fact["kept_since_us"]


def _job(history: History, _: dict[str, Run], fact: dict[str, Any]) -> None:
    history.jobs[fact["id"]] = Job(**fact)


def _version(history: History, _: dict[str, Run], fact: dict[str, Any]) -> None:
    spec = json.loads(fact["spec"]) if isinstance(fact["spec"], str) else fact["spec"]
    history.jobs[fact["job_id"]].versions.append(Version(fact["version"], fact["created_us"], spec))


def _event(history: History, _: dict[str, Run], fact: dict[str, Any]) -> None:
    if fact["kind"] == "late_result":
        history.late_results += 1
        return
    if fact["kind"] == "lease":
        for shard, epoch in json.loads(fact["detail"]).items():
            history.leases.setdefault(int(shard), []).append((fact["at_us"], epoch))
        return
    if fact["kind"] == "retried":
        history.retried.add(fact["run_id"])
    job = history.jobs[fact["job_id"]]
    if fact["kind"] in ("paused", "resumed", "deleted"):
        _end_pause(job, fact["at_us"])
    if fact["kind"] == "paused":
        until_us = json.loads(fact["detail"])["until_us"]
        job.pauses.append(Span(fact["at_us"], until_us, is_timed=until_us is not None))
    elif fact["kind"] == "deleted":
        job.deleted_us = fact["at_us"]


def _end_pause(job: Job, at_us: int) -> None:
    if job.pauses and (job.pauses[-1].until_us is None or job.pauses[-1].until_us > at_us):
        job.pauses[-1] = Span(job.pauses[-1].from_us, at_us, is_timed=False)


def _run(history: History, runs: dict[str, Run], fact: dict[str, Any]) -> None:
    run = Run(**fact)
    known = runs.get(run.id)
    # A run that ended while the export went on stands in both tables; that it ended twice would be a violation.
    if known is not None and not known.is_live:
        history.repeated.append(run.id)
    runs[run.id] = run


def _attempt(_: History, runs: dict[str, Run], fact: dict[str, Any]) -> None:
    run = runs.get(fact.pop("run_id"))
    if run is not None:
        run.attempts.append(Attempt(**fact))


def _worker(history: History, _: dict[str, Run], fact: dict[str, Any]) -> None:
    history.workers[fact["id"]] = fact["expires_us"]


def _letter(history: History, _: dict[str, Run], fact: dict[str, Any]) -> None:
    history.dead_letters[fact["run_id"]] = fact["replayed_as"]


_READERS = {
    "store": _store,
    "job": _job,
    "version": _version,
    "event": _event,
    "run": _run,
    "attempt": _attempt,
    "dead_letter": _letter,
    "worker": _worker,
}

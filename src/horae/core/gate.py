"""The gate before a run may start: overlap with its siblings, caps of its job, queue and tenant.

Only runs that have such a rule come here. The store brings the facts under one lock and carries out the answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Candidate:
    run_id: str
    job_id: str
    tenant: str
    queue: str
    group: str | None
    overlap: str
    max_concurrency: int | None


@dataclass(frozen=True, slots=True)
class Running:
    run_id: str
    job_id: str
    tenant: str
    queue: str
    group: str | None
    is_cancelled: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """`oldest` is the first unfinished waiting run of each job, `unstarted` the first that had no attempt yet; `caps`
    are by (tenant, queue), queue '' for all.
    """

    candidates: list[Candidate]
    running: list[Running]
    oldest: dict[str, str]
    unstarted: dict[str, str]
    caps: dict[tuple[str, str], int]
    paused: frozenset[tuple[str, str]]
    room: int


@dataclass(slots=True)
class Verdicts:
    """What becomes of the candidates, in their order: start, skip, stop an earlier run first, or wait for a reason."""

    start: dict[str, None] = field(default_factory=dict)
    skip: dict[str, None] = field(default_factory=dict)
    stop: list[str] = field(default_factory=list)
    supersede: dict[str, str] = field(default_factory=dict)
    wait: dict[str, str] = field(default_factory=dict)


def admit(facts: Facts) -> Verdicts:
    """Candidates come in the order in which they should start."""
    verdicts = Verdicts()
    counts = _Counts(facts.running)
    newest: dict[str, str] = {}
    for candidate in facts.candidates:
        newest[candidate.job_id] = max(candidate.run_id, newest.get(candidate.job_id, ""))
    for candidate in facts.candidates:
        if candidate.overlap == "replace" and candidate.run_id != newest[candidate.job_id]:
            continue  # the newest one replaces it, below or in this same round
        reason = _blocked(candidate, facts, counts, verdicts)
        if reason == "overlap_skipped":
            verdicts.skip[candidate.run_id] = None
        elif reason is not None:
            verdicts.wait[candidate.run_id] = reason
        elif len(verdicts.start) < facts.room:
            verdicts.start[candidate.run_id] = None
            counts.add(candidate)
    return verdicts


class _Counts:
    def __init__(self, running: list[Running]) -> None:
        self.by_job = Counter(run.job_id for run in running)
        self.by_group = Counter(run.group for run in running)
        self.by_queue = Counter((run.tenant, run.queue) for run in running)
        self.by_tenant = Counter(run.tenant for run in running)

    def add(self, candidate: Candidate) -> None:
        self.by_job[candidate.job_id] += 1
        self.by_group[candidate.group] += 1
        self.by_queue[candidate.tenant, candidate.queue] += 1
        self.by_tenant[candidate.tenant] += 1


def _blocked(candidate: Candidate, facts: Facts, counts: _Counts, verdicts: Verdicts) -> str | None:
    return (
        _paused(candidate, facts)
        or _overlaps(candidate, facts, counts, verdicts)
        or _job_is_full(candidate, facts, counts, verdicts)
        or _caps_are_full(candidate, facts, counts)
    )


def _paused(candidate: Candidate, facts: Facts) -> str | None:
    if (candidate.tenant, "") in facts.paused:
        return "tenant_paused"
    if (candidate.tenant, candidate.queue) in facts.paused:
        return "queue_paused"
    return None


def _overlaps(candidate: Candidate, facts: Facts, counts: _Counts, verdicts: Verdicts) -> str | None:
    is_busy = counts.by_job[candidate.job_id] > 0
    oldest = facts.oldest.get(candidate.job_id, candidate.run_id)
    has_earlier = oldest < candidate.run_id and oldest not in verdicts.start and oldest not in verdicts.skip
    match candidate.overlap:
        case "skip":
            return "overlap_skipped" if is_busy or has_earlier else None
        case "queue":
            return "job_concurrency" if is_busy or has_earlier else None
        case "replace":
            verdicts.supersede[candidate.job_id] = candidate.run_id
            for run in facts.running:
                if run.job_id == candidate.job_id and not run.is_cancelled:
                    verdicts.stop.append(run.run_id)
            return "job_concurrency" if is_busy else None
        case _:
            return None


def _job_is_full(candidate: Candidate, facts: Facts, counts: _Counts, verdicts: Verdicts) -> str | None:
    most = candidate.max_concurrency
    if most is None or candidate.group is None:  # its job had such a rule when it was planned, and has none any more
        return None
    first = facts.unstarted.get(candidate.job_id, candidate.run_id)
    is_out_of_order = most == 1 and first < candidate.run_id and first not in verdicts.start
    return "job_concurrency" if is_out_of_order or counts.by_group[candidate.group] >= most else None


def _caps_are_full(candidate: Candidate, facts: Facts, counts: _Counts) -> str | None:
    most = facts.caps.get((candidate.tenant, ""))
    if most is not None and counts.by_tenant[candidate.tenant] >= most:
        return "tenant_concurrency"
    most = facts.caps.get((candidate.tenant, candidate.queue))
    if most is not None and counts.by_queue[candidate.tenant, candidate.queue] >= most:
        return "slots_full"
    return None

"""Predicates about a job as a whole, and between jobs: overlap, caps, order, tenants, records, conservation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from horae.verify.predicates import READ_US, STUCK_US, Violation
from horae.verify.records import History, Job

Edges = list[tuple[int, int]]


def overlaps(history: History, job: Job) -> Iterator[Violation]:
    """I16: siblings do not overlap where the policy forbids it. I18: and start in the order of their due times."""
    policies = {version.number: version.spec.get("overlap", "allow") for version in job.versions}
    if all(policy == "allow" for policy in policies.values()):
        return
    spans = sorted(
        (attempt.started_us, attempt.ended_us or history.now_us, run.id, run)
        for run in job.runs
        if policies.get(run.version, "allow") != "allow"
        for attempt in run.tries()
    )
    for (one_us, one_end_us, _, one), (two_us, _, _, two) in pairwise(spans):
        if two_us < one_end_us and one.id != two.id:
            yield Violation("I16", job.id, f"runs {one.id} and {two.id} overlap")
        is_in_turn = policies.get(two.version) == "queue" and two.attempt == one.attempt == 1
        # It was there to be taken first, and nobody brought it back later.
        if is_in_turn and two.id < one.id and two.queued_us < one_us and two.id not in job.retried:
            yield Violation("I18", job.id, f"run {two.id} started after the later {one.id}")


def no_starvation(history: History, job: Job) -> Iterator[Violation]:
    """I19: of the runs of one version, none waits ten minutes longer than one that came after it."""
    gated = {version.number for version in job.versions if _is_gated(version.spec)}
    first_later: dict[int, int] = {}
    for run in reversed(job.runs):
        start_us = run.first_start_us
        if run.cause != "schedule" or run.version in gated or (start_us is None and not run.is_live):
            continue
        began_us = history.now_us if start_us is None else start_us
        later_us = first_later.get(run.version, began_us)
        if began_us - later_us > STUCK_US and later_us > run.run_at_us:
            waited = (began_us - run.run_at_us) // 1_000_000
            yield Violation("I19", job.id, f"run {run.id} waited {waited} s, passed by others that came after it")
        first_later[run.version] = min(later_us, began_us)


def _is_gated(spec: dict[str, object]) -> bool:
    return (
        spec.get("overlap", "allow") != "allow"
        or spec.get("max_concurrency") is not None
        or bool(spec.get("jitter_us"))
    )


def moves_on(history: History, job: Job) -> Iterator[Violation]:
    """I23: no cursor is left behind."""
    if job.due_us is not None and job.due_us < history.decided_until_us - STUCK_US:
        yield Violation("I23", job.id, f"the cursor stands at {job.due_us}, long past")


def own_tenant(_: History, job: Job) -> Iterator[Violation]:
    """I25: what a job did belongs to its tenant. That chains stay within a tenant: see `Between`."""
    for run in job.runs:
        if run.tenant != job.tenant:
            yield Violation("I25", job.id, f"run {run.id} is of tenant {run.tenant}, its job of {job.tenant}")


def on_record(_: History, job: Job) -> Iterator[Violation]:
    """I26: every change of a job left one record, with who made it, and the job is as they say."""
    numbers = [version.number for version in job.versions]
    if numbers != list(range(1, len(numbers) + 1)) or not numbers:
        yield Violation("I26", job.id, f"the versions on record are {numbers}")
    for version in job.versions:
        if not version.actor:
            yield Violation("I26", job.id, f"nobody made version {version.number}")
    if job.touched_us > job.read_us - READ_US:
        return
    if numbers and job.version != numbers[-1]:
        yield Violation("I26", job.id, f"the job is at version {job.version}, on record are {numbers[-1]}")
    if job.state != job.told_state:
        yield Violation("I26", job.id, f"the job is {job.state}, its records say {job.told_state}")


def conservation(history: History, job: Job) -> Iterator[Violation]:
    """I27: the cursor's count of fires is the number of runs. That each has its job: see `Between`."""
    if job.created_us < history.kept_since_us or job.touched_us > job.read_us - READ_US:
        return
    surely = sum(1 for run in job.runs if run.is_fire and run.queued_us < job.read_us - READ_US)
    most = sum(1 for run in job.runs if run.is_fire)
    if not surely <= job.fired <= most:
        yield Violation("I27", job.id, f"{job.fired} fires were counted, {most} runs are there")


class Between:
    """What only shows when more than one job is looked at. `acked` are ids of jobs and runs that somebody was given."""

    def __init__(self, acked: Iterable[str] = ()) -> None:
        self._missing = set(acked)
        self._edges: dict[str, Edges] = defaultdict(list)
        self._most: dict[str, int] = {}
        self._tenants: dict[str, str] = {}
        self._upstreams: list[tuple[str, str, str]] = []

    def take(self, history: History, job: Job) -> Iterator[Violation]:
        self._tenants[job.id] = job.tenant
        for version in job.versions:
            for after in version.spec.get("after") or ():
                self._upstreams.append((job.id, job.tenant, after.get("job_id", "")))
        if self._missing:
            self._missing.discard(job.id)
            self._missing.difference_update(run.id for run in job.runs)
        yield from self._take_cap(history, job)

    def _take_cap(self, history: History, job: Job) -> Iterator[Violation]:
        """I17: never more at once than `max_concurrency`. A changed limit holds from its change on, so only steady ones
        are checked.
        """
        limits = {(each.spec.get("max_concurrency"), each.spec.get("concurrency_key")) for each in job.versions}
        most, key = limits.pop() if len(limits) == 1 else (None, None)
        if most is None:
            return
        edges: Edges = []
        for run in job.runs:
            for attempt in run.tries():
                edges += [(attempt.started_us, 1), (attempt.ended_us or history.now_us, -1)]
        if not key:
            yield from _over(job.id, edges, most)
            return
        group = f"{job.tenant}|{key}"
        self._edges[group] += edges
        self._most[group] = max(self._most.get(group, 0), most)

    def end(self, history: History) -> Iterator[Violation]:
        """I5: what was acknowledged is there. I6: epochs only grow. I17, I25, I27: between jobs."""
        for id_ in sorted(self._missing):
            yield Violation("I5", "", f"{id_} was acknowledged, but is not in the history")
        for told in history.epochs_back:
            yield Violation("I6", "", told)
        for group, edges in self._edges.items():
            yield from _over(group, edges, self._most[group])
        for job_id, tenant, upstream in self._upstreams:
            other = self._tenants.get(upstream, tenant)
            if other != tenant:
                yield Violation("I25", job_id, f"a job of tenant {tenant} follows job {upstream} of {other}")
        for told in history.orphans:
            yield Violation("I27", "", f"{told} belongs to no job")


def _over(group: str, edges: Edges, most: int) -> Iterator[Violation]:
    running = 0
    for at_us, step in sorted(edges):
        running += step
        if running > most:
            yield Violation("I17", group, f"{running} at once at {at_us}, allowed are {most}")
            return

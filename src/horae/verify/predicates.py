"""The promise as predicates over a history. Each yields what breaks it, with a witness; silence is the good answer."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any
from zlib import crc32

from horae.verify.oracle import due_times
from horae.verify.records import Attempt, History, Job, Run

# Later than five seconds the misfire policy decides; a slow store may carry that out ten seconds after.
SURELY_LATE_US = 15_000_000
COUNTED = 100_000  # a skip record stops counting here
SETTLE_US = 60_000_000  # what is younger than this may still be on its way
STUCK_US = 600_000_000
LATE_ONCE_US = 300_000_000  # an instant this late is still taken when a job is created


@dataclass(frozen=True, slots=True)
class Violation:
    id: str
    job_id: str
    witness: str


Predicate = Callable[[History], Iterator[Violation]]


def unique_trigger(history: History) -> Iterator[Violation]:
    """I1: one decision for a due time, and one backfill at most."""
    for job in history.jobs.values():
        counts = Counter(
            (run.cause, run.due_us)
            for run in job.runs
            if run.cause in ("schedule", "backfill") and (run.cause == "backfill" or run.status != "skipped")
        )
        for (cause, due_us), count in counts.items():
            if count > 1:
                yield Violation("I1", job.id, f"{count} runs by {cause} for the due time {due_us}")


def accounting(history: History) -> Iterator[Violation]:
    """I2: every due time in force is one run or one recorded skip. I4: and nothing else was decided."""
    for job in history.jobs.values():
        since_us = max(job.created_us - LATE_ONCE_US, history.kept_since_us)
        expected = expected_due_times(job, since_us, history.now_us - SETTLE_US)
        yield from _compare(job, expected, since_us, history.now_us - SETTLE_US)


def _compare(job: Job, expected: list[int], since_us: int, until_us: int) -> Iterator[Violation]:
    decided = Counter(run.due_us for run in job.runs if run.cause == "schedule" and run.status != "skipped")
    for skip in (run for run in job.runs if run.status == "skipped" and run.cause == "schedule"):
        last_us = skip.due_us if skip.skip_until_us is None else skip.skip_until_us
        covered = expected[bisect_right(expected, skip.due_us - 1) : bisect_right(expected, last_us)]
        decided.update(covered or [skip.due_us])
        is_whole = since_us <= skip.due_us and last_us <= until_us
        if is_whole and skip.skip_count and skip.skip_count < COUNTED and skip.skip_count != len(covered):
            yield Violation(
                "I2", job.id, f"skip {skip.id} counts {skip.skip_count} due times, there are {len(covered)}"
            )
    known = set(expected) | {run.due_us for run in job.runs if _is_called_off(run)}
    for due_us in expected:
        if decided[due_us] != 1:
            told = "silent" if decided[due_us] == 0 else f"decided {decided[due_us]} times"
            yield Violation("I2", job.id, f"the due time {due_us} is {told}")
    for due_us in decided:
        if since_us <= due_us <= until_us and due_us not in known:
            yield Violation("I4", job.id, f"{due_us} was decided but is no due time of the version in force")


def expected_due_times(job: Job, since_us: int, until_us: int) -> list[int]:
    """What the schedule says, version by version, without pauses and what came after the last allowed run."""
    if not job.versions:
        return []
    expected: list[int] = []
    until_us = min(until_us, job.deleted_us or until_us)
    for number, version in enumerate(job.versions):
        is_first = number == 0
        from_us = job.created_us if is_first else version.since_us + 1
        if is_first and all(text[:4].isdigit() and "T" in text.upper() for text in version.spec.get("schedule", ())):
            from_us -= LATE_ONCE_US
        is_last = number == len(job.versions) - 1
        to_us = until_us if is_last else min(until_us, job.versions[number + 1].since_us)
        times = due_times(version.spec, job.id, job.created_us, max(from_us, since_us), to_us)
        if is_first and "@now" not in version.spec.get("schedule", ()):
            times = [at for at in times if at != job.created_us]
        expected += [at for at in times if not any(pause.covers(at) for pause in job.pauses)]
    most = job.versions[-1].spec.get("max_runs")
    if most is not None and job.fired >= most:
        last_us = max((run.due_us for run in job.runs if _is_fire(run)), default=0)
        expected = [at for at in expected if at <= last_us]
    return expected


def misfire_limits(history: History) -> Iterator[Violation]:
    """I2: no more late due times are caught up at once than the policy says."""
    for job in history.jobs.values():
        specs = {version.number: version.spec.get("misfire", {}) for version in job.versions}
        late = [
            run
            for run in job.runs
            if _is_fire(run) and run.status != "skipped" and run.queued_us - run.due_us > SURELY_LATE_US
        ]
        late.sort(key=lambda run: run.queued_us)
        for run, *others in _together(late):
            misfire = specs.get(run.version, {})
            policy = misfire.get("policy", "run_once")
            most = {"skip": 0, "run_once": 1}.get(policy, misfire.get("max", 10))
            if 1 + len(others) > most:
                told = f"{1 + len(others)} late runs at once from {run.id} on; {policy} allows {most}"
                yield Violation("I2", job.id, told)


def _together(runs: list[Run]) -> list[list[Run]]:
    """Runs that were decided by one plan, within a tenth of a second."""
    groups: list[list[Run]] = []
    for run in runs:
        if groups and run.queued_us - groups[-1][-1].queued_us < 100_000:
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def never_early(history: History) -> Iterator[Violation]:
    """I3: nothing starts before its time."""
    for job, run in _runs(history):
        if run.run_at_us < run.due_us:
            yield Violation(
                "I3", job.id, f"run {run.id} was to start {run.due_us - run.run_at_us} us before its due time"
            )
        starts = [attempt.started_us for attempt in _attempts(run)]
        if starts and min(starts) < run.run_at_us:
            yield Violation("I3", job.id, f"run {run.id} started {run.run_at_us - min(starts)} us early")


def epochs(history: History) -> Iterator[Violation]:
    """I6: epochs of a shard only grow, and a due time is decided under the one in force."""
    for shard, taken in history.leases.items():
        for one, two in pairwise(taken):
            if two[1] <= one[1]:
                yield Violation("I6", "", f"shard {shard} went from epoch {one[1]} to {two[1]}")
    for job, run in _runs(history):
        if run.epoch is None or run.cause != "schedule":
            continue
        taken = history.leases.get(crc32(job.id.encode()) % 64, [])
        in_force = [epoch for at_us, epoch in taken if at_us <= run.queued_us]
        if in_force and in_force[-1] != run.epoch:
            yield Violation("I6", job.id, f"run {run.id} was decided in epoch {run.epoch}, not in {in_force[-1]}")


def claims_exclusive(history: History) -> Iterator[Violation]:
    """I7: attempts are 1..n without gaps, one after another. I8: each under a newer token."""
    for job, run in _runs(history):
        attempts = _attempts(run)
        numbers = [attempt.number for attempt in attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            yield Violation("I7", job.id, f"run {run.id} has the attempts {numbers}")
        for one, two in pairwise(attempts):
            if one.ended_us is None or two.started_us < one.ended_us:
                yield Violation("I7", job.id, f"attempt {two.number} of run {run.id} started before {one.number} ended")
            if two.token <= one.token:
                yield Violation(
                    "I8", job.id, f"attempt {two.number} of run {run.id} has an older token than {one.number}"
                )


def one_end(history: History) -> Iterator[Violation]:
    """I9: a run ends once."""
    for run_id in history.repeated:
        yield Violation("I9", "", f"run {run_id} ended more than once")


def kept_to_the_end(history: History) -> Iterator[Violation]:
    """I10: at least once means until the attempts are used. I23: and nothing is left lying."""
    for job, run in _runs(history):
        if run.status == "failed" and run.attempt < run.max_attempts and run.reason not in _FINAL:
            yield Violation("I10", job.id, f"run {run.id} failed after {run.attempt} of {run.max_attempts} attempts")
        if run.is_live and run.status == "running" and run.started_us is None:
            yield Violation("I10", job.id, f"run {run.id} is running but never started")
    for job in history.jobs.values():
        if job.due_us is not None and job.due_us < history.now_us - STUCK_US:
            yield Violation("I23", job.id, f"the cursor stands at {job.due_us}, long past")


# Ends of a single attempt: the work said that another try is useless, or the policy allows none.
_FINAL = frozenset({"payload_rejected", "exception", "http_status", "exit_code"})


def no_spurious_reap(history: History) -> Iterator[Violation]:
    """I22: a run is only taken back from a worker whose time was up."""
    for job, run in _runs(history):
        for attempt in run.attempts:
            alive_until_us = history.workers.get(attempt.worker or "", 0)
            if attempt.is_reaped and attempt.ended_us is not None and alive_until_us > attempt.ended_us:
                yield Violation("I22", job.id, f"attempt {attempt.number} of run {run.id} was taken from a live worker")


def at_most_once(history: History) -> Iterator[Violation]:
    """I11: a run that must not repeat has one attempt, and an unknown outcome is called so."""
    for job, run in _runs(history):
        spec = _spec(job, run)
        if spec.get("delivery") != "at_most_once":
            continue
        if len(_attempts(run)) > 1:
            yield Violation("I11", job.id, f"run {run.id} has {len(_attempts(run))} attempts")
        if run.reason == "worker_lost" and run.status not in ("unknown", "cancelled"):
            yield Violation("I11", job.id, f"run {run.id} lost its worker and ended {run.status}")


def stable_key(history: History) -> Iterator[Violation]:
    """I12: the id, which is the idempotency key, follows from job and due time."""
    for job, run in _runs(history):
        if run.cause in ("schedule", "backfill") and run.id != _derived(job.id, run.cause, run.due_us):
            yield Violation("I12", job.id, f"run {run.id} does not follow from its due time {run.due_us}")


def _derived(job_id: str, cause: str, due_us: int) -> str:
    digest = sha256(f"{job_id}|{cause}:{due_us}".encode()).hexdigest()
    head = f"{due_us // 1000:012x}"[-12:]
    return f"{head[:8]}-{head[8:]}-8{digest[:3]}-a{digest[3:6]}-{digest[6:18]}"


def retry_budget(history: History) -> Iterator[Violation]:
    """I14: no more attempts than allowed, and none before its backoff is over."""
    for job, run in _runs(history):
        attempts = _attempts(run)
        if len(attempts) > run.max_attempts:
            yield Violation("I14", job.id, f"run {run.id} has {len(attempts)} of {run.max_attempts} attempts")
        if run.id in history.retried:
            continue  # somebody asked for another attempt at once
        retry = _spec(job, run).get("retry", {})
        for one, two in pairwise(attempts):
            least = _backoff_us(retry, one.number)
            if one.reason in _WAITED and one.ended_us is not None and two.started_us - one.ended_us < least:
                wait = two.started_us - one.ended_us
                yield Violation(
                    "I14", job.id, f"attempt {two.number} of run {run.id} came {wait} us after, not {least}"
                )


_WAITED = frozenset({"exception", "timeout", "http_status", "exit_code"})


def _backoff_us(retry: dict[str, Any], attempt: int) -> int:
    delay = float(retry.get("delay_us", 2_000_000))
    match retry.get("backoff", "exponential"):
        case "linear":
            delay *= attempt
        case "exponential":
            delay *= float(retry.get("factor", 2)) ** min(attempt - 1, 100)
    return int(min(delay, float(retry.get("max_delay_us", 3_600_000_000))))


def dead_letters(history: History) -> Iterator[Violation]:
    """I15: every failed run is in the dead letters, and a replay belongs to one of them."""
    replays = Counter(new for new in history.dead_letters.values() if new)
    for run_id, count in replays.items():
        if count > 1:
            yield Violation("I15", "", f"run {run_id} replays {count} dead letters")
    for job, run in _runs(history):
        if (
            run.status == "failed"
            and run.id not in history.dead_letters
            and (run.ended_us or 0) > history.kept_since_us
        ):
            yield Violation("I15", job.id, f"failed run {run.id} is not in the dead letters")
        if run.cause == "replay" and run.parent_id in history.dead_letters:
            known = history.dead_letters[run.parent_id]
            if known != run.id:
                yield Violation("I15", job.id, f"run {run.id} replays {run.parent_id}, which says {known}")


def overlaps(history: History) -> Iterator[Violation]:
    """I16: siblings do not overlap where the policy forbids it. I18: and start in the order of their due times."""
    for job in history.jobs.values():
        policies = {version.number: version.spec.get("overlap", "allow") for version in job.versions}
        spans = (
            sorted(
                (attempt.started_us, attempt.ended_us or history.now_us, run)
                for run in job.runs
                for attempt in _attempts(run)
                if policies.get(run.version, "allow") != "allow"
            )
            if any(policy != "allow" for policy in policies.values())
            else []
        )
        for one, two in pairwise(spans):
            if two[0] < one[1] and one[2].id != two[2].id:
                yield Violation("I16", job.id, f"runs {one[2].id} and {two[2].id} overlap")
            if (
                policies.get(two[2].version) == "queue"
                and two[2].id < one[2].id
                and two[2].attempt == one[2].attempt == 1
                and two[2].queued_us < one[0]  # it was there to be taken first
            ):
                yield Violation("I18", job.id, f"run {two[2].id} started after the later {one[2].id}")


def caps(history: History) -> Iterator[Violation]:
    """I17: never more at once than `max_concurrency`."""
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    most: dict[str, int] = {}
    for job in history.jobs.values():
        specs = {version.number: version.spec for version in job.versions}
        limits = {spec.get("max_concurrency") for spec in specs.values()}
        if len(limits) != 1 or None in limits:
            continue  # a changed limit holds from its change on; only steady ones are checked
        key = job.versions[-1].spec.get("concurrency_key")
        group = f"{job.tenant}|{key}" if key else job.id
        most[group] = max(most.get(group, 0), next(iter(limits)) or 0)
        for run in job.runs:
            for attempt in _attempts(run):
                groups[group] += [(attempt.started_us, 1), (attempt.ended_us or history.now_us, -1)]
    for group, edges in groups.items():
        running = 0
        for at_us, step in sorted(edges):
            running += step
            if running > most[group]:
                yield Violation("I17", group, f"{running} at once at {at_us}, allowed are {most[group]}")
                break


def pauses_hold(history: History) -> Iterator[Violation]:
    """I20: no due time of a pause, or after the deletion, makes a run."""
    for job in history.jobs.values():
        for run in job.runs:
            if run.cause != "schedule" or run.status == "skipped" or _is_called_off(run):
                continue
            if any(pause.covers(run.due_us) for pause in job.pauses):
                yield Violation("I20", job.id, f"run {run.id} is due at {run.due_us}, in a pause")
            if job.deleted_us is not None and run.due_us > job.deleted_us:
                yield Violation("I20", job.id, f"run {run.id} is due at {run.due_us}, after the deletion")


def conservation(history: History) -> Iterator[Violation]:
    """I27: every run belongs to a job, and the cursor's count of fires is the number of runs."""
    for run_id in history.orphans:
        yield Violation("I27", "", f"run {run_id} belongs to no job")
    for job in history.jobs.values():
        if job.created_us < history.kept_since_us:
            continue
        runs = sum(1 for run in job.runs if _is_fire(run))
        if runs != job.fired:
            yield Violation("I27", job.id, f"{job.fired} fires were counted, {runs} runs are there")


def _is_called_off(run: Run) -> bool:
    """Cancelled before its time: it was staged, but never triggered."""
    return run.started_us is None and run.ended_us is not None and run.ended_us < run.due_us


def _is_fire(run: Run) -> bool:
    """A run of the schedule, also one that was skipped after it had been staged; other skips are spans."""
    return run.cause == "schedule" and (run.status != "skipped" or run.skip_until_us is None)


def _runs(history: History) -> Iterator[tuple[Job, Run]]:
    for job in history.jobs.values():
        for run in job.runs:
            if run.status != "skipped":
                yield job, run


def _attempts(run: Run) -> list[Attempt]:
    """Earlier ones, then the one in the run's own line."""
    attempts = sorted(run.attempts, key=lambda attempt: attempt.number)
    if run.started_us is not None:
        attempts.append(
            Attempt(run.attempt, run.token, run.started_us, run.ended_us, run.reason, None, is_reaped=False)
        )
    return attempts


def _spec(job: Job, run: Run) -> dict[str, Any]:
    return next((version.spec for version in job.versions if version.number == run.version), {})


PREDICATES: tuple[Predicate, ...] = (
    unique_trigger,
    accounting,
    misfire_limits,
    never_early,
    epochs,
    claims_exclusive,
    one_end,
    kept_to_the_end,
    no_spurious_reap,
    at_most_once,
    stable_key,
    retry_budget,
    dead_letters,
    overlaps,
    caps,
    pauses_hold,
    conservation,
)

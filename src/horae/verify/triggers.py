"""Predicates about what was decided: every due time once, none early, none made up."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from zlib import crc32

from horae.verify.oracle import due_times
from horae.verify.predicates import SETTLE_US, Violation
from horae.verify.records import History, Job, Run

# Later than five seconds the misfire policy decides; a slow store may carry that out ten seconds after.
SURELY_LATE_US = 15_000_000
COUNTED = 100_000  # a skip record stops counting here
LATE_ONCE_US = 300_000_000  # an instant this late is still taken when a job is created
SHARDS = 64
DELETING_US = 60_000_000  # until a deletion is committed, a worker may still take a run, which is then told to stop


def unique_trigger(_: History, job: Job) -> Iterator[Violation]:
    """I1: one decision for a due time, and one backfill at most."""
    for cause in ("schedule", "backfill"):
        dues = [run.due_us for run in job.runs if run.cause == cause and run.status != "skipped"]
        if len(dues) == len(set(dues)):
            continue
        for due_us, count in Counter(dues).items():
            if count > 1:
                yield Violation("I1", job.id, f"{count} runs by {cause} for the due time {due_us}")


def accounting(history: History, job: Job) -> Iterator[Violation]:
    """I2: every due time in force is one run or one recorded skip. I4: and nothing else was decided."""
    since_us = max(job.created_us - LATE_ONCE_US, history.kept_since_us)
    # While no scheduler is there, due times wait for one: the misfire policy will decide them.
    until_us = history.decided_until_us - SETTLE_US
    expected = expected_due_times(job, since_us, until_us)
    runs = [run for run in job.runs if run.cause == "schedule"]
    if [run.due_us for run in runs if since_us <= run.due_us <= until_us] == expected and not any(
        run.status == "skipped" for run in runs
    ):
        return  # as it nearly always is
    yield from _compare(job, runs, expected, since_us, until_us)


def _compare(job: Job, runs: list[Run], expected: list[int], since_us: int, until_us: int) -> Iterator[Violation]:
    decided = Counter(run.due_us for run in runs if run.status != "skipped")
    for skip in (run for run in runs if run.status == "skipped" and run.cause == "schedule"):
        last_us = skip.due_us if skip.skip_until_us is None else skip.skip_until_us
        covered = expected[bisect_right(expected, skip.due_us - 1) : bisect_right(expected, last_us)]
        decided.update(covered or [skip.due_us])
        is_whole = since_us <= skip.due_us and last_us <= until_us
        if is_whole and skip.skip_count and skip.skip_count < COUNTED and skip.skip_count != len(covered):
            yield Violation(
                "I2", job.id, f"skip {skip.id} counts {skip.skip_count} due times, there are {len(covered)}"
            )
    known = set(expected) | {run.due_us for run in runs if run.is_called_off or run.id in job.retried}
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
    most = job.versions[-1].spec.get("max_runs")
    if most is not None and job.fired >= most:
        until_us = min(until_us, max((run.due_us for run in job.runs if run.is_fire), default=0))
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
        expected += [at for at in times if not any(pause.covers(at) for pause in job.pauses)] if job.pauses else times
    return expected


def misfire_limits(_: History, job: Job) -> Iterator[Violation]:
    """I2: no more late due times are caught up at once than the policy says."""
    late = [
        run
        for run in job.runs
        if run.queued_us - run.due_us > SURELY_LATE_US and run.is_fire and run.status != "skipped"
    ]
    late.sort(key=lambda run: run.queued_us)
    for run, *others in _together(late):
        misfire = job.spec(run.version).get("misfire", {})
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


def never_early(_: History, job: Job) -> Iterator[Violation]:
    """I3: nothing starts before its time."""
    for run in job.runs:
        if run.run_at_us < run.due_us:
            told = f"run {run.id} was to start {run.due_us - run.run_at_us} us before its due time"
            yield Violation("I3", job.id, told)
        start_us = run.first_start_us
        if start_us is not None and start_us < run.run_at_us:
            yield Violation("I3", job.id, f"run {run.id} started {run.run_at_us - start_us} us early")


def epochs(history: History, job: Job) -> Iterator[Violation]:
    """I6: a due time is decided under an epoch of its shard that is in force. That they only grow: see `standing`."""
    reigns = history.reigns.get(crc32(job.id.encode()) % SHARDS)
    if not reigns:
        return
    first = next(iter(reigns))
    for run in job.runs:
        epoch = run.epoch
        if epoch is None or run.cause != "schedule" or epoch < first or run.queued_us > history.now_us:
            continue  # nothing is known of what was before the first lease on record, or came after they were read
        if epoch not in reigns:
            yield Violation("I6", job.id, f"run {run.id} was decided in epoch {epoch}, which nobody had")
            continue
        until_us = reigns[epoch]
        if until_us is not None and run.queued_us > until_us:
            told = f"run {run.id} was decided in epoch {epoch}, {run.queued_us - until_us} us after that had ended"
            yield Violation("I6", job.id, told)


def stable_key(_: History, job: Job) -> Iterator[Violation]:
    """I12: the id, which is the idempotency key, follows from job and due time."""
    stems = {cause: sha256(f"{job.id}|{cause}:".encode()) for cause in ("schedule", "backfill")}
    for run in job.runs:
        if run.cause not in stems or run.status == "skipped":
            continue
        hashed = stems[run.cause].copy()
        hashed.update(str(run.due_us).encode())
        tail = hashed.hexdigest()
        head = f"{run.due_us // 1000:012x}"[-12:]
        if run.id != f"{head[:8]}-{head[8:]}-8{tail[:3]}-a{tail[3:6]}-{tail[6:18]}":
            yield Violation("I12", job.id, f"run {run.id} does not follow from its due time {run.due_us}")


def pauses_hold(_: History, job: Job) -> Iterator[Violation]:
    """I20: no due time of a pause, or after the deletion, makes a run; and whatever made a run, none starts then."""
    if not job.pauses and job.deleted_us is None:
        return
    for run in job.runs:
        if job.deleted_us is not None and (run.started_us or 0) > job.deleted_us + DELETING_US:
            yield Violation("I20", job.id, f"run {run.id} was started at {run.started_us}, after the deletion")
        if run.cause != "schedule" or run.status == "skipped" or run.is_called_off or run.id in job.retried:
            continue  # the last: somebody wanted it all the same
        if any(pause.covers(run.due_us) for pause in job.pauses):
            yield Violation("I20", job.id, f"run {run.id} is due at {run.due_us}, in a pause")
        if job.deleted_us is not None and run.due_us > job.deleted_us:
            yield Violation("I20", job.id, f"run {run.id} is due at {run.due_us}, after the deletion")

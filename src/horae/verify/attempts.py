"""Predicates about how runs were carried out: one attempt at a time, as often as allowed, to an honest end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from horae.core.run import ENDED, LIVE, REASONS
from horae.verify.predicates import READ_US, STUCK_US, Violation
from horae.verify.records import History, Job

STATES = LIVE | ENDED


def claims_exclusive(history: History, job: Job) -> Iterator[Violation]:
    """I7: attempts are 1..n without gaps, one after another. I8: each under a newer token."""
    for run in job.runs:
        if (not run.attempts and run.attempt <= 1) or run.status == "skipped":
            continue
        tries = run.tries()
        numbers = [each.number for each in tries]
        # An attempt may leave by retention a day before its run does.
        if numbers != list(range(1, len(numbers) + 1)) and run.queued_us > history.kept_since_us:
            yield Violation("I7", job.id, f"run {run.id} has the attempts {numbers}")
        for one, two in pairwise(tries):
            if one.ended_us is None or two.started_us < one.ended_us:
                yield Violation("I7", job.id, f"attempt {two.number} of run {run.id} started before {one.number} ended")
            if two.token <= one.token:
                told = f"attempt {two.number} of run {run.id} has an older token than {one.number}"
                yield Violation("I8", job.id, told)


def one_end(_: History, job: Job) -> Iterator[Violation]:
    """I9: a run ends once."""
    for run in job.runs:
        if run.endings > 1:
            yield Violation("I9", job.id, f"run {run.id} ended {run.endings} times")


def known_states(_: History, job: Job) -> Iterator[Violation]:
    """I8: what succeeded had a token. I27: a run is in a state that there is, of a version that there is and in its
    queue, did not end before it began, and a skip has a reason of the list.
    """
    queues = {version.number: version.spec.get("queue", "default") for version in job.versions}
    for run in job.runs:
        if run.version not in queues:
            yield Violation("I27", job.id, f"run {run.id} is of version {run.version}, which there is not")
        elif run.queue != queues[run.version]:
            told = f"run {run.id} is in queue {run.queue}, its version in {queues[run.version]}"
            yield Violation("I27", job.id, told)
        if run.started_us is not None and run.ended_us is not None and run.ended_us < run.started_us:
            yield Violation("I27", job.id, f"run {run.id} ended {run.started_us - run.ended_us} us before it started")
        if run.status not in STATES:
            yield Violation("I27", job.id, f"run {run.id} is {run.status}, which is no state of a run")
        if run.status == "skipped" and run.reason not in REASONS:
            yield Violation("I27", job.id, f"run {run.id} was skipped for {run.reason}, which is no reason of the list")
        if run.status == "succeeded" and run.token <= 0:
            yield Violation("I8", job.id, f"run {run.id} succeeded without a token")


# Ends of a single attempt: the work said that another try is useless, or the policy allows none.
_FINAL = frozenset({"payload_rejected", "exception", "http_status", "exit_code"})


def kept_to_the_end(history: History, job: Job) -> Iterator[Violation]:
    """I10: at least once means until the attempts are used. I23: and nothing lies with a worker that is long gone."""
    for run in job.runs:
        if run.status == "failed" and run.attempt < run.max_attempts and run.reason not in _FINAL:
            yield Violation("I10", job.id, f"run {run.id} failed after {run.attempt} of {run.max_attempts} attempts")
        if run.status == "running" and run.is_live and run.started_us is None:
            yield Violation("I10", job.id, f"run {run.id} is running but never started")
        if run.status == "running" and history.workers.get(run.worker or "", run.started_us or 0) < _long_ago(history):
            yield Violation("I23", job.id, f"run {run.id} is running on {run.worker}, which is long gone")
        if run.status == "succeeded" and run.started_us is None:
            yield Violation("I10", job.id, f"run {run.id} succeeded but never started")


def _long_ago(history: History) -> int:
    """While no scheduler is there, nobody takes runs back."""
    return history.decided_until_us - STUCK_US


def at_most_once(history: History, job: Job) -> Iterator[Violation]:
    """I11: a run that must not repeat has one attempt, and one more each time that somebody asked for it; an outcome
    that cannot be known is called so.
    """
    once = {version.number for version in job.versions if version.spec.get("delivery") == "at_most_once"}
    if not once:
        return
    for run in job.runs:
        if run.version not in once or run.status == "skipped":
            continue
        count = len(run.tries())
        if count > 1 + job.retried.get(run.id, 0) and run.queued_us > history.kept_since_us:
            yield Violation("I11", job.id, f"run {run.id} has {count} attempts")
        if run.reason == "worker_lost" and not run.is_live and run.status not in ("unknown", "cancelled"):
            yield Violation("I11", job.id, f"run {run.id} lost its worker and ended {run.status}")


def retry_budget(_: History, job: Job) -> Iterator[Violation]:
    """I14: no more attempts than allowed, and none before its backoff is over."""
    for run in job.runs:
        if not run.attempts:
            continue
        tries = run.tries()
        if len(tries) > run.max_attempts:
            yield Violation("I14", job.id, f"run {run.id} has {len(tries)} of {run.max_attempts} attempts")
        if run.id in job.retried:
            continue  # somebody asked for another attempt at once
        retry = job.spec(run.version).get("retry", {})
        for one, two in pairwise(tries):
            least = _backoff_us(retry, one.number)
            if one.reason in _WAITED and one.ended_us is not None and two.started_us - one.ended_us < least:
                wait = two.started_us - one.ended_us
                told = f"attempt {two.number} of run {run.id} came {wait} us after, not {least}"
                yield Violation("I14", job.id, told)


_WAITED = frozenset({"exception", "timeout", "http_status", "exit_code"})


def _backoff_us(retry: dict[str, Any], attempt: int) -> int:
    delay = float(retry.get("delay_us", 2_000_000))
    match retry.get("backoff", "exponential"):
        case "linear":
            delay *= attempt
        case "exponential":
            delay *= float(retry.get("factor", 2)) ** min(attempt - 1, 100)
    return int(min(delay, float(retry.get("max_delay_us", 3_600_000_000))))


def dead_letters(history: History, job: Job) -> Iterator[Violation]:
    """I15: the failed runs are the dead letters, each once."""
    for run in job.runs:
        if run.burials > 1:
            yield Violation("I15", job.id, f"run {run.id} is {run.burials} times in the dead letters")
        if run.burials and run.status != "failed":
            yield Violation("I15", job.id, f"run {run.id} is in the dead letters, but is {run.status}")
        elif not run.burials and run.status == "failed" and (run.ended_us or 0) > history.kept_since_us:
            yield Violation("I15", job.id, f"failed run {run.id} is not in the dead letters")


def replays(_: History, job: Job) -> Iterator[Violation]:
    """I15: a dead letter is replayed once at most, as a run that there is, and a replay belongs to one of them."""
    letters = {run.id: run for run in job.runs if run.burials}
    ids = {run.id for run in job.runs} if letters else set()
    replayed: dict[str, str] = {}
    for letter in letters.values():
        replay = letter.replayed_as
        if replay is None:
            continue
        if replay in replayed:
            told = f"run {replay} replays two dead letters: {replayed[replay]} and {letter.id}"
            yield Violation("I15", job.id, told)
        elif replay not in ids and _is_surely_read(replay, job):
            yield Violation("I15", job.id, f"dead letter {letter.id} was replayed as {replay}, which there is not")
        replayed[replay] = letter.id
    for run in job.runs:
        origin = letters.get(run.parent_id or "") if run.cause == "replay" else None
        # A retry takes the letter away, and another failure makes a new one.
        if origin is not None and origin.replayed_as != run.id and origin.id not in job.retried:
            yield Violation("I15", job.id, f"run {run.id} replays {origin.id}, which says {origin.replayed_as}")


def _is_surely_read(run_id: str, job: Job) -> bool:
    """Ids begin with the milliseconds of the due time; a replay is due when it is asked for."""
    digits = run_id[:13].replace("-", "")
    try:
        return int(digits, 16) * 1000 < job.read_us - READ_US
    except ValueError:
        return True


def no_spurious_reap(history: History, job: Job) -> Iterator[Violation]:
    """I22: a run is only taken back from a worker whose time was up."""
    for run in job.runs:
        for attempt in run.attempts:
            alive_until_us = history.workers.get(attempt.worker or "", 0)
            if attempt.is_reaped and attempt.ended_us is not None and alive_until_us > attempt.ended_us:
                yield Violation("I22", job.id, f"attempt {attempt.number} of run {run.id} was taken from a live worker")

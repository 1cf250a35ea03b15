"""What a run is: its states, every arrow between them, and how one attempt's outcome moves it on."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from horae.core.job import Retry

QUEUED, RUNNING = "queued", "running"
SUCCEEDED, FAILED, CANCELLED, SKIPPED, UNKNOWN = "succeeded", "failed", "cancelled", "skipped", "unknown"

LIVE = frozenset({QUEUED, RUNNING})
ENDED = frozenset({SUCCEEDED, FAILED, CANCELLED, SKIPPED, UNKNOWN})

# Every state change, in Python or SQL, is an arrow here. A decision to skip is born ended.
ARROWS: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, CANCELLED, SKIPPED}),
    RUNNING: frozenset({QUEUED, SUCCEEDED, FAILED, CANCELLED, UNKNOWN}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset({QUEUED}),  # one more attempt, on request
    CANCELLED: frozenset({QUEUED}),
    SKIPPED: frozenset(),
    UNKNOWN: frozenset({QUEUED}),
}

# The closed list: why a due time did not start, why a run waits, why an attempt ended badly.
NOT_STARTED = (
    "overlap_skipped",
    "catch_up_expired",
    "job_paused",
    "queue_paused",
    "tenant_paused",
    "tenant_quota",
    "outside_window",
    "calendar_excluded",
    "dst_gap",
    "scheduler_down",
    "schedule_changed",
    "superseded",
    "dependency_failed",
)
WAITING = (
    "no_worker",
    "no_worker_for_type",
    "slots_full",
    "job_concurrency",
    "tenant_concurrency",
    "rate_limited",
    "behind_higher_priority",
    "jitter",
    "retry_backoff",
    "waiting_for_upstream",
)
ENDED_BADLY = (
    "exit_code",
    "exception",
    "http_status",
    "timeout",
    "worker_lost",
    "cancelled_by_user",
    "cancelled_by_policy",
    "payload_rejected",
)
REASONS = frozenset(NOT_STARTED + WAITING + ENDED_BADLY)


def run_id(job_id: str, key: str, at_us: int) -> str:
    """The same for the same job and trigger, on every node and after any failover; sorts by its time.

    A UUID (version 8): 48 bits of milliseconds, then a hash of job and trigger key. The store computes the
    same value in SQL (`horae_run_id`) for runs that a finished run starts.
    """
    tail = sha256(f"{job_id}|{key}".encode()).hexdigest()
    return f"{first_id_at(at_us)}-8{tail[:3]}-a{tail[3:6]}-{tail[6:18]}"


def first_id_at(at_us: int) -> str:
    """Below every id of a run that is due in this millisecond or later."""
    head = f"{at_us // 1000:012x}"[-12:]
    return f"{head[:8]}-{head[8:]}"


def due_of(run_id: str) -> int:
    """When the run of this id is due, to the millisecond."""
    return int(run_id[:8] + run_id[9:13], 16) * 1000


def scheduled_key(due_us: int) -> str:
    return f"schedule:{due_us}"


def backfill_key(due_us: int) -> str:
    return f"backfill:{due_us}"


class Attempt(NamedTuple):
    """What a worker knows of the attempt it just made."""

    run_id: str
    number: int
    max_attempts: int


class Verdict(NamedTuple):
    """Where a run goes after an attempt: to its end (`status`), or back to the queue after `delay_us`."""

    status: str | None
    delay_us: int = 0


def judge(
    retry: Retry,
    attempt: Attempt,
    *,
    succeeded: bool,
    is_retryable: bool,
    retry_after_us: int | None,
) -> Verdict:
    if succeeded:
        return Verdict(SUCCEEDED)
    if not is_retryable or attempt.number >= attempt.max_attempts:
        return Verdict(FAILED)
    delay_us = backoff_us(retry, attempt.run_id, attempt.number)
    return Verdict(None, max(delay_us, min(retry_after_us or 0, retry.max_delay_us)))


def backoff_us(retry: Retry, run: str, attempt: int) -> int:
    """The wait after failed attempt number `attempt`: 2 s, 4 s, 8 s by default."""
    match retry.backoff:
        case "fixed":
            delay = float(retry.delay_us)
        case "linear":
            delay = float(retry.delay_us) * attempt
        case _:
            # The exponent is bounded so that a large retry count cannot overflow a float.
            delay = float(retry.delay_us) * min(retry.factor, 1000.0) ** min(attempt - 1, 100)
    delay = min(delay, float(retry.max_delay_us))
    spread = delay * retry.jitter * fraction(run, f"backoff:{attempt}")
    return int(min(delay + spread, float(retry.max_delay_us)))


def fraction(*parts: str) -> float:
    """A number in [0, 1) that is always the same for the same words: jitter without a dice."""
    return int.from_bytes(sha256("|".join(parts).encode()).digest()[:6], "big") / 2**48

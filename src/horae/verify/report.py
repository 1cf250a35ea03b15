"""What the check of a history found: counts, lateness, and each violation with its witness."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from horae.core.duration import format_instant
from horae.verify import attempts, standing, triggers
from horae.verify.predicates import SETTLE_US, Predicate, Violation
from horae.verify.records import Job, Reader

SHOWN = 100

PREDICATES: tuple[Predicate, ...] = (
    triggers.unique_trigger,
    triggers.accounting,
    triggers.misfire_limits,
    triggers.never_early,
    triggers.epochs,
    triggers.stable_key,
    triggers.pauses_hold,
    attempts.claims_exclusive,
    attempts.one_end,
    attempts.known_states,
    attempts.kept_to_the_end,
    attempts.at_most_once,
    attempts.retry_budget,
    attempts.dead_letters,
    attempts.replays,
    attempts.no_spurious_reap,
    standing.overlaps,
    standing.no_starvation,
    standing.moves_on,
    standing.own_tenant,
    standing.on_record,
    standing.conservation,
)


@dataclass(frozen=True, slots=True)
class Report:
    counts: dict[str, int]
    lateness_ms: dict[str, float]
    violations: list[Violation] = field(default_factory=list)
    away_since_us: int | None = None

    @property
    def is_clean(self) -> bool:
        return not self.violations


class Check:
    """Takes a history line by line and lets go of each job when it has been judged.

    `acked`: ids of jobs and runs that somebody was given (I5). `most_late_us`: how late a run may start (I21).
    """

    def __init__(self, acked: Iterable[str] = (), most_late_us: int | None = None) -> None:
        self._reader = Reader()
        self._between = standing.Between(acked)
        self._most_late_us = most_late_us
        self._counts = Counter({"jobs": 0, "runs": 0, "attempts": 0, "skipped": 0, "late_results": 0})
        self._late_us = array("q")
        self._violations: list[Violation] = []

    def take(self, line: str | bytes) -> None:
        job = self._reader.take(line)
        if job is not None:
            self._judge(job)

    def take_lines(self, lines: bytes) -> None:
        for line in lines.splitlines():
            self.take(line)

    def report(self) -> Report:
        job = self._reader.end()
        if job is not None:
            self._judge(job)
        self._violations += self._between.end(self._reader.history)
        history = self._reader.history
        is_away = history.decided_until_us < history.now_us - SETTLE_US
        away_us = history.decided_until_us if is_away else None
        return Report(dict(self._counts), self._lateness(), self._violations, away_us)

    def _judge(self, job: Job) -> None:
        history = self._reader.history
        for predicate in PREDICATES:
            self._violations += predicate(history, job)
        self._violations += self._between.take(history, job)
        self._count(job)

    def _count(self, job: Job) -> None:
        counts = self._counts
        counts["jobs"] += 1
        counts["late_results"] += job.late_results
        for run in job.runs:
            if run.status == "skipped":
                counts["skipped"] += max(1, run.skip_count)
                continue
            counts["runs"] += 1
            counts[run.status] += 1
            counts["attempts"] += len(run.attempts) + (run.started_us is not None)
            if run.cause == "schedule" and (start_us := run.first_start_us) is not None:
                self._measure(job, run.id, start_us - run.run_at_us)

    def _measure(self, job: Job, run_id: str, late_us: int) -> None:
        """I21: how late first attempts are, against the time after jitter."""
        self._late_us.append(late_us)
        if self._most_late_us is not None and late_us > self._most_late_us:
            self._violations.append(Violation("I21", job.id, f"run {run_id} started {late_us} us late"))

    def _lateness(self) -> dict[str, float]:
        late = sorted(self._late_us)
        if not late:
            return {}
        return {name: round(late[min(len(late) - 1, int(len(late) * part))] / 1000, 1) for name, part in _PARTS}


_PARTS = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


def check(lines: Iterable[str | bytes], acked: Iterable[str] = (), most_late_us: int | None = None) -> Report:
    whole = Check(acked, most_late_us)
    for line in lines:
        whole.take(line)
    return whole.report()


def as_json(report: Report) -> dict[str, Any]:
    return {
        "clean": report.is_clean,
        "counts": report.counts,
        "lateness_ms": report.lateness_ms,
        "no_scheduler_since": None if report.away_since_us is None else format_instant(report.away_since_us),
        "violations": [{"id": v.id, "job_id": v.job_id, "witness": v.witness} for v in report.violations],
    }


def as_text(report: Report) -> str:
    lines = [f"{name:>14}  {count}" for name, count in report.counts.items()]
    lines += [f"{'late ' + name:>14}  {value} ms" for name, value in report.lateness_ms.items()]
    if report.away_since_us is not None:
        lines.append(
            f"no scheduler since {format_instant(report.away_since_us)}: later due times are still to be decided"
        )
    for violation in report.violations[:SHOWN]:
        lines.append(
            f"{violation.id}: {violation.witness}" + (f" (job {violation.job_id})" if violation.job_id else "")
        )
    if len(report.violations) > SHOWN:
        lines.append(f"and {len(report.violations) - SHOWN} more")
    lines.append("clean: the history keeps the promise" if report.is_clean else f"{len(report.violations)} violations")
    return "\n".join(lines)

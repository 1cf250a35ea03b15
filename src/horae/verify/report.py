"""What the check of a history found: counts, lateness, and each violation with its witness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from horae.verify.predicates import PREDICATES, Violation
from horae.verify.records import History

SHOWN = 100


@dataclass(frozen=True, slots=True)
class Report:
    counts: dict[str, int]
    lateness_ms: dict[str, float]
    violations: list[Violation] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.violations


def check(history: History) -> Report:
    violations = [violation for predicate in PREDICATES for violation in predicate(history)]
    return Report(_counts(history), _lateness(history), violations)


def _counts(history: History) -> dict[str, int]:
    counts = {"jobs": len(history.jobs), "runs": 0, "attempts": 0, "skipped": 0, "late_results": history.late_results}
    for job in history.jobs.values():
        for run in job.runs:
            if run.status == "skipped":
                counts["skipped"] += max(1, run.skip_count)
            else:
                counts["runs"] += 1
                counts[run.status] = counts.get(run.status, 0) + 1
                counts["attempts"] += len(run.attempts) + (run.started_us is not None)
    return counts


def _lateness(history: History) -> dict[str, float]:
    """Of first attempts, against the time after jitter."""
    late = sorted(
        (run.started_us - run.run_at_us) / 1000
        for job in history.jobs.values()
        for run in job.runs
        if run.started_us is not None and run.attempt == 1 and run.cause == "schedule"
    )
    if not late:
        return {}
    return {name: round(late[min(len(late) - 1, int(len(late) * part))], 1) for name, part in _PARTS}


_PARTS = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


def as_json(report: Report) -> dict[str, Any]:
    return {
        "clean": report.is_clean,
        "counts": report.counts,
        "lateness_ms": report.lateness_ms,
        "violations": [{"id": v.id, "job_id": v.job_id, "witness": v.witness} for v in report.violations],
    }


def as_text(report: Report) -> str:
    lines = [f"{name:>14}  {count}" for name, count in report.counts.items()]
    lines += [f"{'late ' + name:>14}  {value} ms" for name, value in report.lateness_ms.items()]
    for violation in report.violations[:SHOWN]:
        lines.append(
            f"{violation.id}: {violation.witness}" + (f" (job {violation.job_id})" if violation.job_id else "")
        )
    if len(report.violations) > SHOWN:
        lines.append(f"and {len(report.violations) - SHOWN} more")
    lines.append("clean: the history keeps the promise" if report.is_clean else f"{len(report.violations)} violations")
    return "\n".join(lines)

"""How things stand and how they went, in the shape of answers and in the words of JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horae.api.schema_words import COUNT, COUNT_OR_NULL, FLAG, NUMBER, TEXT, TEXT_OR_NULL, TIME, Schema, array, record
from horae.core.duration import format_instant
from horae.core.job import PRIORITY_NAME, read_bucket
from horae.core.run import due_of
from horae.ports import Series, Standing, StoredRow

_LINE: Schema = {
    "queue": TEXT,
    "priority": TEXT,
    "needs": TEXT_OR_NULL,
    "queued": COUNT,
    "pending": COUNT,
    "oldest_seconds": COUNT_OR_NULL,
}
_RECENT: Schema = {
    "window_seconds": NUMBER,
    "succeeded": COUNT,
    "failed": COUNT,
    "per_second": NUMBER,
    "lateness_ms": record(dict.fromkeys(("p50", "p95", "p99", "max"), COUNT_OR_NULL)),
}
_STATS: Schema = {
    "at": TIME,
    "jobs": COUNT,
    "runs": record({"running": COUNT, "queued": COUNT, "pending": COUNT}),
    "dead_letters": COUNT,
    "counted_up_to": COUNT,
    "waiting": array(record(_LINE)),
    "workers": record({"alive": COUNT, "slots": COUNT, "running": COUNT}),
    "recent": record(_RECENT),
}
_LATE = record(dict.fromkeys(("p50", "p95", "p99"), COUNT_OR_NULL))
_POINT: Schema = {"at": TIME, "due": COUNT, "started": COUNT, "finished": COUNT, "lateness_ms": _LATE}
_SERIES: Schema = {
    "from": TIME,
    "to": TIME,
    "step_seconds": COUNT,
    "is_whole": FLAG,
    "lateness_ms": _LATE,
    "points": array(record(_POINT)),
}
_GROUP: Schema = {
    "job_id": TEXT,
    "job_name": TEXT,
    "error": TEXT,
    "runs": COUNT,
    "first_due": TIME,
    "last_due": TIME,
    "newest_run_id": TEXT,
    "by_age": record(dict.fromkeys(("hour", "day", "week", "older"), COUNT)),
}
_DUE_JOB: Schema = {"job_id": TEXT, "job_name": TEXT, "due": TIME, "runs": COUNT, "queue": TEXT, "priority": TEXT}
STANDING_SCHEMAS: dict[str, Schema] = {
    "DueJobs": record({"from": TIME, "to": TIME, "is_complete": FLAG, "jobs": array(record(_DUE_JOB))}),
    "Stats": record(_STATS),
    "Series": record(_SERIES),
    "DeadGroups": record({"groups": array(record(_GROUP)), "group_count": COUNT, "run_count": COUNT}),
}
STANDING_EXAMPLES: dict[str, Any] = {
    "DeadGroups": {
        "groups": [
            {
                "job_id": "0193f2a8-7c1e-7d3a-9f51-3b0c5a2d8e11",
                "job_name": "daily-report",
                "error": "HTTP 503 from api.partner.example",
                "runs": 14,
                "first_due": "2030-01-01T09:00:00Z",
                "last_due": "2030-01-01T12:15:00Z",
                "newest_run_id": "01a1e16d-4ce0-8c0f-a8a6-daac74c05915",
                "by_age": {"hour": 4, "day": 10, "week": 0, "older": 0},
            }
        ],
        "group_count": 1,
        "run_count": 14,
    },
}


def stats_answer(standing: Standing, workers: Sequence[StoredRow]) -> dict[str, Any]:
    alive = [row for row in workers if row["expires_us"] > row["now_us"]]
    lines = [(read_bucket(row["bucket"]), row) for row in standing.lines]
    waiting = [
        {
            "queue": bucket.queue,
            "priority": PRIORITY_NAME[bucket.priority],
            "needs": bucket.need or None,
            "queued": row["due"],
            "pending": row["later"],
            "oldest_seconds": max(0, standing.now_us - row["first_us"]) // 1_000_000 if row["due"] else None,
        }
        for bucket, row in lines
    ]
    return {
        "at": format_instant(standing.now_us),
        "jobs": standing.counts["jobs"],
        "runs": {
            "running": standing.counts["running"],
            "queued": sum(line["queued"] for line in waiting),
            "pending": sum(line["pending"] for line in waiting),
        },
        "dead_letters": standing.counts["dead"],
        "counted_up_to": standing.most_counted,
        "waiting": waiting,
        "workers": {
            "alive": len(alive),
            "slots": sum(row["slots"] for row in alive),
            "running": sum(row["running"] for row in alive),
        },
        "recent": _recent(standing),
    }


def series_answer(series: Series) -> dict[str, Any]:
    points = range((series.now_us - series.from_us) // series.step_us + 1)
    return {
        "from": format_instant(series.from_us),
        "to": format_instant(series.now_us),
        "step_seconds": series.step_us // 1_000_000,
        "is_whole": series.is_whole,
        "lateness_ms": _late(series.overall),
        "points": [
            {
                "at": format_instant(series.from_us + point * series.step_us),
                **{name: counts.get(point, 0) for name, counts in series.counts.items()},
                "lateness_ms": _late(series.late.get(point)),
            }
            for point in points
        ],
    }


def _late(row: StoredRow | None) -> dict[str, int | None]:
    return {name: None if row is None else row[name] // 1000 for name in ("p50", "p95", "p99")}


def letter_group(row: StoredRow) -> dict[str, Any]:
    day, week = row["day"] - row["hour"], row["week"] - row["day"]
    return {
        "job_id": row["job_id"],
        "job_name": row["job_name"],
        "error": row["fingerprint"],
        "runs": row["runs"],
        "first_due": format_instant(due_of(row["first_id"])),
        "last_due": format_instant(due_of(row["last_id"])),
        "newest_run_id": row["last_id"],
        "by_age": {"hour": row["hour"], "day": day, "week": week, "older": row["runs"] - row["week"]},
    }


def _recent(standing: Standing) -> dict[str, Any]:
    """Of the runs that were due within the window and are over; of the newest, when there are more than the sample."""
    succeeded, failed = standing.recent["succeeded"], standing.recent["failed"]
    is_whole = max(len(succeeded), len(failed)) < standing.sample
    since_us = standing.now_us - standing.window_us
    if not is_whole:
        since_us = max(
            row["due_us"] for rows in (succeeded, failed) for row in rows[-1:] if len(rows) == standing.sample
        )
    rows = [row for row in (*succeeded, *failed) if row["due_us"] >= since_us]
    seconds = max(0.001, (standing.now_us - since_us) / 1e6)
    late = sorted(
        (row["started_us"] - row["run_at_us"]) // 1000 for row in rows if row["attempt"] == 1 and row["started_us"]
    )
    return {
        "window_seconds": round(seconds, 3),
        "succeeded": sum(row["due_us"] >= since_us for row in succeeded),
        "failed": sum(row["due_us"] >= since_us for row in failed),
        "per_second": round(len(rows) / seconds, 3),
        "lateness_ms": {name: _percentile(late, part) for name, part in (("p50", 50), ("p95", 95), ("p99", 99))}
        | {"max": late[-1] if late else None},
    }


def _percentile(values: list[int], part: int) -> int | None:
    """The value that so many in a hundred do not exceed."""
    return values[max(0, -(-len(values) * part // 100) - 1)] if values else None

"""The shapes of requests and answers in the words of JSON Schema, and an example of each.

Fields of a job are told loosely, because the accepted spellings are many; core/document.py has the last word.
"""

from __future__ import annotations

from typing import Any

from horae.api.query import JOB_STATUSES, RUN_STATUSES
from horae.api.schema_words import (
    ANY,
    COUNT,
    COUNT_OR_NULL,
    DURATION,
    FLAG,
    NAME,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    TRUE,
    Schema,
    array,
    one_of,
    page,
    record,
    ref,
    sent,
)
from horae.core.job import PRIORITY_NUMBER, TYPES

_PRIORITY: Schema = {"type": ["string", "integer"], "examples": list(PRIORITY_NUMBER)}
_SCHEDULE: Schema = {
    "description": "A cron line, @every 30s, an RFC 3339 time, @now or @manual; or a list of these.",
    "oneOf": [TEXT, array(TEXT), {"type": "null"}],
    "examples": ["0 9 * * 1-5", "@every 30s"],
}


_JOB: Schema = {
    "name": NAME,
    "schedule": _SCHEDULE,
    "timezone": TEXT,
    "type": {"type": "string", "examples": list(TYPES)},
    "target": {"oneOf": [OBJECT, TEXT, {"type": "null"}]},
    "payload": ANY,
    "priority": _PRIORITY,
    "queue": TEXT,
    "timeout": DURATION,
    "retry": {"type": ["object", "integer", "null"]},
    "misfire": {"type": ["object", "string", "null"]},
    "overlap": one_of(["allow", "skip", "queue", "replace"]),
    "max_concurrency": COUNT_OR_NULL,
    "concurrency_key": TEXT_OR_NULL,
    "jitter": DURATION,
    "dst": {"type": ["object", "null"]},
    "calendar": {"type": ["object", "string", "null"], "examples": ["company-days", {"exclude": ["2026-12-25"]}]},
    "start_at": TIME_OR_NULL,
    "end_at": TIME_OR_NULL,
    "max_runs": COUNT_OR_NULL,
    "delivery": one_of(["at_least_once", "at_most_once"]),
    "after": ANY,
    "notify": array(OBJECT),
    "labels": {"type": "object", "additionalProperties": TEXT},
    "description": TEXT,
}
_JOB_MORE: Schema = {
    "job_id": TEXT,
    "tenant": TEXT,
    "status": one_of(JOB_STATUSES),
    "schedule_type": TEXT,
    "cron_expression": TEXT_OR_NULL,
    "max_retries": COUNT,
    "next_fire_time": TIME_OR_NULL,
    "last_run_status": TEXT_OR_NULL,
    "version": COUNT,
    "created_at": TIME,
    "updated_at": TIME,
    "paused_until": TIME_OR_NULL,
    "pause_reason": TEXT_OR_NULL,
}
_RUN: Schema = {
    "run_id": TEXT,
    "job_id": TEXT,
    "job_name": TEXT,
    "tenant": TEXT,
    "status": one_of(RUN_STATUSES),
    "trigger": one_of(["schedule", "manual", "backfill", "after", "replay"]),
    "scheduled_for": TIME,
    "run_at": TIME,
    "queued_at": TIME,
    "start_time": TIME_OR_NULL,
    "end_time": TIME_OR_NULL,
    "modified_time": TIME,
    "duration_ms": COUNT_OR_NULL,
    "attempt_number": COUNT,
    "retry_count": COUNT,
    "max_attempts": COUNT,
    "priority": one_of(PRIORITY_NUMBER),
    "queue": TEXT,
    "executor_id": TEXT_OR_NULL,
    "result": ANY,
    "error_message": TEXT_OR_NULL,
    "reason": TEXT_OR_NULL,
    "log_url": TEXT,
    "job_version": COUNT,
    "replay_of": TEXT_OR_NULL,
    "lateness_ms": COUNT_OR_NULL,
    "skipped_until": TIME,
    "skipped_count": COUNT,
}
_SKIPPED = ("skipped_until", "skipped_count")
_ATTEMPT: Schema = {
    "attempt_number": COUNT,
    "status": TEXT,
    "executor_id": TEXT_OR_NULL,
    "start_time": TIME,
    "end_time": TIME_OR_NULL,
    "duration_ms": COUNT_OR_NULL,
    "reason": TEXT_OR_NULL,
    "error_message": TEXT_OR_NULL,
}
_FAULT = record({"pointer": TEXT, "detail": TEXT, "hint": TEXT})
_PROBLEM: Schema = {
    "type": TEXT,
    "title": TEXT,
    "status": COUNT,
    "detail": TEXT,
    "code": TEXT,
    "errors": array(_FAULT),
    "request_id": TEXT,
}
_CHANGE = record({"field": TEXT, "before": ANY, "after": ANY})
_VERSION = record({"version": COUNT, "created_at": TIME, "actor": TEXT, "diff": array(_CHANGE)})
_WORKER: Schema = {
    "worker_id": TEXT,
    "node": TEXT,
    "state": TEXT,
    "slots": COUNT,
    "running": COUNT,
    "queues": array(TEXT),
    "needs": array(TEXT),
    "started_at": TIME,
    "seen_at": TIME,
}
_STATUS: Schema = {
    "job_id": TEXT,
    "status": TEXT,
    "last_run": TIME_OR_NULL,
    "next_run": TIME_OR_NULL,
    "retry_count": COUNT,
    "latest_run": {"oneOf": [ref("Run"), {"type": "null"}]},
}
_BUCKET: Schema = {
    "at": TIME,
    "runs": COUNT,
    "by": array(record({"priority": TEXT, "queue": TEXT, "runs": COUNT})),
}
_FORECAST: Schema = {
    "from": TIME,
    "to": TIME,
    "bucket": TEXT,
    "runs": COUNT,
    "jobs": COUNT,
    "is_complete": FLAG,
    "buckets": array(record(_BUCKET)),
}
_RESULT = record({"index": COUNT, "job_id": TEXT, "error": ref("Problem")}, optional=("job_id", "error"))
_RUN_REQUEST: Schema = {"payload": ANY, "priority": _PRIORITY, "run_at": TIME_OR_NULL}
_BACKFILL: Schema = {
    "from": TIME,
    "to": TIME,
    "max": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
    "dry_run": FLAG,
    "priority": _PRIORITY,
}
_LETTER_FILTER: Schema = {
    "job": TEXT,
    "queue": TEXT,
    "priority": _PRIORITY,
    "reason": TEXT,
    "error": TEXT,
    "due_after": TIME,
    "due_before": TIME,
}
_REPLAY: Schema = {
    "filter": {"type": ["object", "null"], "properties": _LETTER_FILTER, "additionalProperties": False},
    "dry_run": FLAG,
    "expected_count": {"type": "integer", "minimum": 0, "maximum": 10_000},
    "rate": {"type": "number", "exclusiveMinimum": 0, "maximum": 10_000},
}
_PREVIEW: Schema = {
    "schedule": _SCHEDULE,
    "timezone": TEXT,
    "dst": {"type": ["object", "null"]},
    "count": {"type": "integer", "minimum": 1, "maximum": 100},
    "from": TIME,
}

SCHEMAS: dict[str, Schema] = {
    "Job": {"type": "object", "properties": _JOB},
    "JobAnswer": record(_JOB | _JOB_MORE, optional=("paused_until", "pause_reason")),
    "JobList": page("jobs", "JobAnswer"),
    "JobBatch": sent({"jobs": array(ref("Job"))}, "jobs"),
    "BatchAnswer": record({"created": COUNT, "failed": COUNT, "results": array(_RESULT)}),
    "JobStatus": record(_STATUS),
    "Deleted": record({"deleted": TRUE, "job_id": TEXT}),
    "Pause": sent({"until": TIME_OR_NULL, "reason": TEXT_OR_NULL}),
    "Nothing": {"type": "object", "additionalProperties": False},
    "VersionList": record({"versions": array(_VERSION)}),
    "Explanation": record({"verdict": TEXT, "reason": ANY, "text": TEXT, "facts": {"type": "array"}}),
    "Run": record(_RUN, optional=_SKIPPED),
    "RunWithAttempts": record(_RUN | {"attempts": array(record(_ATTEMPT))}, optional=_SKIPPED),
    "Runs": array(ref("Run")),
    "RunList": record({"runs": array(ref("Run")), "next_cursor": TEXT_OR_NULL, "searched_back_to": TIME_OR_NULL}),
    "RunRequest": sent(_RUN_REQUEST),
    "RunBatch": sent({"job": NAME, "runs": array(ref("RunRequest"))}, "job", "runs"),
    "RunId": record({"run_id": TEXT}),
    "RunIds": record({"created": COUNT, "run_ids": array(TEXT)}),
    "DeadList": page("dead_letters", "Run"),
    "Backfill": sent(_BACKFILL, "from", "to"),
    "Backfilled": record({"runs": COUNT, "next_from": TIME_OR_NULL}),
    "BackfillPlan": record({"runs": COUNT, "next_from": TIME_OR_NULL, "times": array(TIME), "dry_run": TRUE}),
    "Replay": sent(_REPLAY),
    "Replayed": record({"count": COUNT, "run_ids": array(TEXT)}),
    "ReplayPlan": record({"count": COUNT, "replay_of": array(TEXT), "dry_run": TRUE}),
    "Discard": sent({name: _REPLAY[name] for name in ("filter", "dry_run", "expected_count")}),
    "DiscardedRuns": record({"count": COUNT, "run_ids": array(TEXT), "dry_run": FLAG}),
    "Discarded": record({"deleted": TRUE, "run_id": TEXT}),
    "WorkerList": record({"workers": array(record(_WORKER))}),
    "Preview": sent(_PREVIEW, "schedule"),
    "PreviewAnswer": record(
        {
            "description": TEXT,
            "next": array(record({"at": TIME, "local": TIME})),
            "warnings": array(TEXT),
        }
    ),
    "Drained": record({"worker_id": TEXT, "state": {"const": "draining"}}),
    "Forecast": record(_FORECAST),
    "Problem": record(_PROBLEM),
}

_RUN_EXAMPLE = {
    "run_id": "01a1e16d-4ce0-8c0f-a8a6-daac74c05915",
    "job_id": "0193f2a8-7c1e-7d3a-9f51-3b0c5a2d8e11",
    "job_name": "daily-report",
    "tenant": "default",
    "status": "SUCCEEDED",
    "trigger": "schedule",
    "scheduled_for": "2030-01-01T09:00:00Z",
    "run_at": "2030-01-01T09:00:00Z",
    "queued_at": "2030-01-01T08:59:45Z",
    "start_time": "2030-01-01T09:00:00.012Z",
    "end_time": "2030-01-01T09:00:01.250Z",
    "modified_time": "2030-01-01T09:00:01.250Z",
    "duration_ms": 1238,
    "attempt_number": 1,
    "retry_count": 0,
    "max_attempts": 4,
    "priority": "HIGH",
    "queue": "default",
    "executor_id": "0193f2a8-0000-7000-8000-000000000001",
    "result": {"status": 200},
    "error_message": None,
    "reason": None,
    "log_url": "/api/v1/runs/01a1e16d-4ce0-8c0f-a8a6-daac74c05915/logs",
    "job_version": 1,
    "replay_of": None,
    "lateness_ms": 12,
}
EXAMPLES: dict[str, Any] = {
    "Job": {
        "name": "daily-report",
        "schedule": "0 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "type": "http",
        "target": {"url": "https://example.com/report", "method": "POST"},
        "priority": "HIGH",
        "labels": {"team": "billing"},
    },
    "JobBatch": {"jobs": [{"name": "one", "type": "noop"}, {"name": "two", "type": "noop"}]},
    "BatchAnswer": {
        "created": 1,
        "failed": 0,
        "results": [{"index": 0, "job_id": "0193f2a8-7c1e-7d3a-9f51-3b0c5a2d8e11"}],
    },
    "Deleted": {"deleted": True, "job_id": "0193f2a8-7c1e-7d3a-9f51-3b0c5a2d8e11"},
    "Pause": {"until": "2030-01-01T09:00:00Z", "reason": "maintenance"},
    "Nothing": {},
    "RunRequest": {"payload": {"day": "2030-01-01"}, "priority": "LOW"},
    "RunBatch": {"job": "daily-report", "runs": [{"payload": {"n": 1}}, {"payload": {"n": 2}}]},
    "RunId": {"run_id": "01a1e16d-4ce0-8c0f-a8a6-daac74c05915"},
    "RunIds": {"created": 1, "run_ids": ["01a1e16d-4ce0-8c0f-a8a6-daac74c05915"]},
    "Run": _RUN_EXAMPLE,
    "Runs": [_RUN_EXAMPLE],
    "RunList": {"runs": [_RUN_EXAMPLE], "next_cursor": None, "searched_back_to": None},
    "DeadList": {"dead_letters": [_RUN_EXAMPLE | {"status": "FAILED", "reason": "timeout"}], "next_cursor": None},
    "Discarded": {"deleted": True, "run_id": "01a1e16d-4ce0-8c0f-a8a6-daac74c05915"},
    "Backfill": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "max": 100},
    "Backfilled": {"runs": 24, "next_from": None},
    "BackfillPlan": {"runs": 1, "next_from": None, "times": ["2026-01-01T09:00:00Z"], "dry_run": True},
    "Replay": {"filter": {"job": "daily-report", "reason": "timeout"}, "expected_count": 12, "rate": 5},
    "Replayed": {"count": 1, "run_ids": ["01a1e16d-4ce0-8c0f-a8a6-daac74c05915"]},
    "Discard": {"filter": {"job": "daily-report", "reason": "timeout"}, "expected_count": 12},
    "DiscardedRuns": {"count": 1, "run_ids": ["01a1e16d-4ce0-8c0f-a8a6-daac74c05915"], "dry_run": False},
    "ReplayPlan": {"count": 1, "replay_of": ["01a1e16d-4ce0-8c0f-a8a6-daac74c05915"], "dry_run": True},
    "Drained": {"worker_id": "0193f2a8-0000-7000-8000-000000000001", "state": "draining"},
    "Preview": {"schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "count": 2},
    "PreviewAnswer": {
        "description": "At 09:00 on Monday to Friday, Europe/Berlin time",
        "next": [{"at": "2030-01-01T08:00:00Z", "local": "2030-01-01T09:00:00+01:00"}],
        "warnings": [],
    },
    "Forecast": {
        "from": "2030-01-01T08:59:30Z",
        "to": "2030-01-01T10:00:00Z",
        "bucket": "1m",
        "runs": 1,
        "jobs": 1,
        "is_complete": True,
        "buckets": [
            {
                "at": "2030-01-01T09:00:00Z",
                "runs": 1,
                "by": [{"priority": "HIGH", "queue": "default", "runs": 1}],
            }
        ],
    },
    "Problem": {
        "type": "urn:horae:problem:invalid",
        "title": "The input breaks a rule",
        "status": 422,
        "detail": '"limit" must be a whole number from 1 to 1000; got "0".',
        "code": "invalid",
        "errors": [
            {"pointer": "/query/limit", "detail": '"limit" must be a whole number.', "hint": "Write limit=100."}
        ],
        "request_id": "req_5e30c2c870177974",
    },
}

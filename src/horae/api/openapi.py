"""The OpenAPI 3.1 file: paths from the operations, schemas by hand. Fields of a job are told loosely, because the
accepted spellings are many; core/document.py has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from horae.api.access import TENANT_HEADER
from horae.api.admin_schemas import ADMIN_SCHEMAS
from horae.api.history import NDJSON
from horae.api.operation import Operation
from horae.api.query import DELIVERY_STATES, JOB_STATUSES, RUN_STATUSES, Parameter
from horae.api.remote_schemas import REMOTE_SCHEMAS
from horae.core.job import PRIORITY_NUMBER, TYPES
from horae.core.webhooks import EVENTS

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TIME_OR_NULL: Schema = {"type": ["string", "null"], "format": "date-time"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"]}
_DURATION: Schema = {"type": ["string", "number"], "examples": ["30s", "1h30m"]}
_ANY: Schema = {}
_TRUE: Schema = {"const": True}
_OBJECT: Schema = {"type": "object"}
_PRIORITY: Schema = {"type": ["string", "integer"], "examples": list(PRIORITY_NUMBER)}
_SCHEDULE: Schema = {
    "description": "A cron line, @every 30s, an RFC 3339 time, @now or @manual; or a list of these.",
    "oneOf": [_TEXT, {"type": "array", "items": _TEXT}, {"type": "null"}],
    "examples": ["0 9 * * 1-5", "@every 30s"],
}

_ERRORS = {
    "400": "Not JSON",
    "401": "No key, or not a known one",
    "403": "Not allowed: the role or scope that is missing is named",
    "404": "Not there",
    "409": "A taken name, or a wrong state",
    "412": "Changed since the version of If-Match",
    "413": "Too large",
    "415": "Not JSON by its Content-Type",
    "422": "Breaks a rule; each fault is named",
    "429": "Too much at this moment; Retry-After says how long to wait",
    "503": "The store is away",
}
_BODY_ERRORS = frozenset({"400", "413", "415"})
_WRITE_ERRORS = frozenset({"409"})
_WORD = re.compile(r"\{(\w+)\}")


def describe_api(operations: Iterable[Operation], bases: Sequence[str]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "horae", "version": _version(), "summary": "A distributed job scheduler."},
        "servers": [{"url": base} for base in bases],
        "security": [{"bearer": []}, {"key": []}, {}],
        "paths": paths | _open_paths(),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
            "schemas": _SCHEMAS | ADMIN_SCHEMAS | REMOTE_SCHEMAS,
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Least role: {operation.role}.{_KEEPER if operation.is_global else ''}",
        "x-horae-role": operation.role,
        "x-horae-scope": operation.scope,
        "parameters": [*_path_parameters(operation), *map(_parameter, operation.query), *_headers(operation)],
        "responses": _responses(operation),
    }
    if (takes := operation.takes) is not None:
        content = {
            media: {"schema": _ref(takes.schema) if media.endswith("/json") else _TEXT} for media in takes.media_types
        }
        told["requestBody"] = {"required": not takes.is_optional, "content": content}
    return told


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _TEXT, "description": _WORDS[name]}
        for name in _WORD.findall(operation.path)
    ]


_WORDS = {
    "job": "The id or the name of a job",
    "run": "The id of a run",
    "worker": "The id of a worker",
    "calendar": "The name of a calendar",
    "secret": "The name of a secret",
    "webhook": "The id or the name of a webhook",
    "delivery": "The id of a delivery",
    "key": "The id of a key",
    "tenant": "The name of a tenant",
    "queue": "The name of a queue",
}
_KEEPER = " For admins of the tenant default alone."


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {"name": parameter.name, "in": "query", "schema": parameter.schema, "description": parameter.about}


def _headers(operation: Operation) -> list[dict[str, Any]]:
    told = [_header(TENANT_HEADER, "An admin acts for this tenant", "[A-Za-z0-9._-]{1,64}")]
    if operation.method == "POST":
        told.append(_header("Idempotency-Key", "The same key and request: done once, answered alike", "[!-~]{1,255}"))
    if operation.gives in ("Text", "Stream"):
        told.append(_header("Last-Event-ID", "Go on after this event of an earlier stream", "[0-9]{1,16}"))
    if _has_versions(operation):
        told.append(_header("If-Match", "The ETag of the version that was seen; 412 if there is a newer", '"v[0-9]+"'))
    return told


def _has_versions(operation: Operation) -> bool:
    return operation.method in ("PUT", "PATCH") and operation.scope == "jobs"


def _header(name: str, about: str, pattern: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return {"name": name, "in": "header", "schema": schema, "description": about}


def _responses(operation: Operation) -> dict[str, Any]:
    is_write = operation.method != "GET"
    left_out = (
        (frozenset() if operation.takes else _BODY_ERRORS)
        | (frozenset() if is_write else _WRITE_ERRORS)
        | (frozenset() if _has_versions(operation) else frozenset({"412"}))
    )
    good = {str(operation.status): _response(operation.gives)}
    good |= {str(status): _response(gives) for status, gives in operation.also.items()}
    problem = {"application/problem+json": {"schema": _ref("Problem")}}
    bad = {
        status: {"description": about, "content": problem}
        for status, about in _ERRORS.items()
        if status not in left_out
    }
    return good | bad


def _response(name: str) -> dict[str, Any]:
    if name in ("Text", "Stream"):
        media = ("text/plain", "text/event-stream") if name == "Text" else ("text/event-stream",)
        content = {each: {"schema": _TEXT} for each in media}
    elif name == "Lines":
        content = {NDJSON: {"schema": _TEXT}}
    else:
        content = {"application/json": {"schema": _ref(name)}}
    return {"description": "Done", "content": content}


def _open_paths() -> dict[str, Any]:
    """Beside the API, at the root, and for everybody."""
    problem = {"description": "Not now", "content": {"application/problem+json": {"schema": _ref("Problem")}}}
    told = {
        "/healthz": ("getHealth", "Whether the process is alive", "application/json", {}),
        "/readyz": ("getReadiness", "Whether it can serve", "application/json", {"503": problem}),
        "/metrics": ("getMetrics", "Figures for Prometheus", "text/plain", {}),
        "/openapi.json": ("getDescription", "This file", "application/json", {}),
    }
    return {
        path: {
            "servers": [{"url": "/"}],
            "get": {
                "operationId": name,
                "summary": summary,
                "security": [],
                "responses": {"200": {"description": "Done", "content": {media: {"schema": _ANY}}}, **bad},
            },
        }
        for path, (name, summary, media, bad) in told.items()
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _version() -> str:
    try:
        return version("horae")
    except PackageNotFoundError:
        return "0"


def _record(properties: Schema, *, optional: Iterable[str] = (), **more: Any) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, **more}


def _sent(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(name: str, item: str) -> Schema:
    return _record({name: {"type": "array", "items": _ref(item)}, "next_cursor": _TEXT_OR_NULL})


_JOB: Schema = {
    "name": _TEXT,
    "schedule": _SCHEDULE,
    "timezone": _TEXT,
    "type": {"type": "string", "examples": list(TYPES)},
    "target": {"oneOf": [_OBJECT, _TEXT, {"type": "null"}]},
    "payload": _ANY,
    "priority": _PRIORITY,
    "queue": _TEXT,
    "timeout": _DURATION,
    "retry": {"type": ["object", "integer", "null"]},
    "misfire": {"type": ["object", "string", "null"]},
    "overlap": {"type": "string", "enum": ["allow", "skip", "queue", "replace"]},
    "max_concurrency": _COUNT_OR_NULL,
    "concurrency_key": _TEXT_OR_NULL,
    "jitter": _DURATION,
    "dst": {"type": ["object", "null"]},
    "calendar": {"type": ["object", "string", "null"], "examples": ["company-days", {"exclude": ["2026-12-25"]}]},
    "start_at": _TIME_OR_NULL,
    "end_at": _TIME_OR_NULL,
    "max_runs": _COUNT_OR_NULL,
    "delivery": {"type": "string", "enum": ["at_least_once", "at_most_once"]},
    "after": _ANY,
    "notify": {"type": "array", "items": _OBJECT},
    "labels": {"type": "object", "additionalProperties": _TEXT},
    "description": _TEXT,
}
_JOB_MORE: Schema = {
    "job_id": _TEXT,
    "tenant": _TEXT,
    "status": {"type": "string", "enum": list(JOB_STATUSES)},
    "schedule_type": _TEXT,
    "cron_expression": _TEXT_OR_NULL,
    "max_retries": _COUNT,
    "next_fire_time": _TIME_OR_NULL,
    "last_run_status": _TEXT_OR_NULL,
    "version": _COUNT,
    "created_at": _TIME,
    "updated_at": _TIME,
    "paused_until": _TIME_OR_NULL,
    "pause_reason": _TEXT_OR_NULL,
}
_RUN: Schema = {
    "run_id": _TEXT,
    "job_id": _TEXT,
    "job_name": _TEXT,
    "tenant": _TEXT,
    "status": {"type": "string", "enum": list(RUN_STATUSES)},
    "trigger": {"type": "string", "enum": ["schedule", "manual", "backfill", "after", "replay"]},
    "scheduled_for": _TIME,
    "run_at": _TIME,
    "queued_at": _TIME,
    "start_time": _TIME_OR_NULL,
    "end_time": _TIME_OR_NULL,
    "modified_time": _TIME,
    "duration_ms": _COUNT_OR_NULL,
    "attempt_number": _COUNT,
    "retry_count": _COUNT,
    "max_attempts": _COUNT,
    "priority": {"type": "string", "enum": list(PRIORITY_NUMBER)},
    "queue": _TEXT,
    "executor_id": _TEXT_OR_NULL,
    "result": _ANY,
    "error_message": _TEXT_OR_NULL,
    "reason": _TEXT_OR_NULL,
    "log_url": _TEXT,
    "job_version": _COUNT,
    "replay_of": _TEXT_OR_NULL,
    "lateness_ms": _COUNT_OR_NULL,
    "skipped_until": _TIME,
    "skipped_count": _COUNT,
}
_SKIPPED = ("skipped_until", "skipped_count")
_WEBHOOK: Schema = {
    "name": _TEXT,
    "url": _TEXT,
    "events": {"type": "array", "items": {"type": "string", "enum": list(EVENTS)}},
    "late_after": _DURATION,
    "is_active": {"type": "boolean"},
}
_WEBHOOK_ANSWER = {"id": _TEXT} | _WEBHOOK | {"created_at": _TIME, "updated_at": _TIME}
_DELIVERY: Schema = {
    "delivery_id": _TEXT,
    "event": _TEXT,
    "state": {"type": "string", "enum": list(DELIVERY_STATES)},
    "webhook_id": _TEXT_OR_NULL,
    "url": _TEXT_OR_NULL,
    "job_id": _TEXT_OR_NULL,
    "run_id": _TEXT_OR_NULL,
    "attempts": _COUNT,
    "status": _COUNT_OR_NULL,
    "error": _TEXT_OR_NULL,
    "took_ms": _COUNT_OR_NULL,
    "created_at": _TIME,
    "next_attempt_at": _TIME_OR_NULL,
    "ended_at": _TIME_OR_NULL,
}
_DATES: Schema = {"type": "array", "items": {"type": "string", "format": "date"}}
_DAYS: Schema = {"exclude": _DATES, "include": _DATES, "holidays": _TEXT, "subdivision": _TEXT}

_ATTEMPT: Schema = {
    "attempt_number": _COUNT,
    "status": _TEXT,
    "executor_id": _TEXT_OR_NULL,
    "start_time": _TIME,
    "end_time": _TIME_OR_NULL,
    "duration_ms": _COUNT_OR_NULL,
    "reason": _TEXT_OR_NULL,
    "error_message": _TEXT_OR_NULL,
}
_FAULT = _record({"pointer": _TEXT, "detail": _TEXT, "hint": _TEXT})
_PROBLEM: Schema = {
    "type": _TEXT,
    "title": _TEXT,
    "status": _COUNT,
    "detail": _TEXT,
    "code": _TEXT,
    "errors": {"type": "array", "items": _FAULT},
    "request_id": _TEXT,
}
_CHANGE = _record({"field": _TEXT, "before": _ANY, "after": _ANY})
_VERSION = _record(
    {"version": _COUNT, "created_at": _TIME, "actor": _TEXT, "diff": {"type": "array", "items": _CHANGE}}
)
_WORKER: Schema = {
    "worker_id": _TEXT,
    "node": _TEXT,
    "state": _TEXT,
    "slots": _COUNT,
    "running": _COUNT,
    "queues": {"type": "array", "items": _TEXT},
    "needs": {"type": "array", "items": _TEXT},
    "started_at": _TIME,
    "seen_at": _TIME,
}
_STATUS: Schema = {
    "job_id": _TEXT,
    "status": _TEXT,
    "last_run": _TIME_OR_NULL,
    "next_run": _TIME_OR_NULL,
    "retry_count": _COUNT,
    "latest_run": {"oneOf": [_ref("Run"), {"type": "null"}]},
}
_LINE: Schema = {
    "queue": _TEXT,
    "priority": _TEXT,
    "needs": _TEXT_OR_NULL,
    "queued": _COUNT,
    "pending": _COUNT,
    "oldest_seconds": _COUNT_OR_NULL,
}
_RECENT: Schema = {
    "window_seconds": {"type": "number"},
    "succeeded": _COUNT,
    "failed": _COUNT,
    "per_second": {"type": "number"},
    "lateness_ms": _record(dict.fromkeys(("p50", "p95", "p99", "max"), _COUNT_OR_NULL)),
}
_STATS: Schema = {
    "at": _TIME,
    "jobs": _COUNT,
    "runs": _record({"running": _COUNT, "queued": _COUNT, "pending": _COUNT}),
    "dead_letters": _COUNT,
    "counted_up_to": _COUNT,
    "waiting": {"type": "array", "items": _record(_LINE)},
    "workers": _record({"alive": _COUNT, "slots": _COUNT, "running": _COUNT}),
    "recent": _record(_RECENT),
}
_BUCKET: Schema = {
    "at": _TIME,
    "runs": _COUNT,
    "by": {"type": "array", "items": _record({"priority": _TEXT, "queue": _TEXT, "runs": _COUNT})},
}
_FORECAST: Schema = {
    "from": _TIME,
    "to": _TIME,
    "bucket": _TEXT,
    "runs": _COUNT,
    "jobs": _COUNT,
    "is_complete": {"type": "boolean"},
    "buckets": {"type": "array", "items": _record(_BUCKET)},
}
_RESULT = _record({"index": _COUNT, "job_id": _TEXT, "error": _ref("Problem")}, optional=("job_id", "error"))
_RUN_REQUEST: Schema = {"payload": _ANY, "priority": _PRIORITY, "run_at": _TIME_OR_NULL}
_BACKFILL: Schema = {
    "from": _TIME,
    "to": _TIME,
    "max": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
    "dry_run": {"type": "boolean"},
    "priority": _PRIORITY,
}
_LETTER_FILTER: Schema = {
    "job": _TEXT,
    "queue": _TEXT,
    "priority": _PRIORITY,
    "reason": _TEXT,
    "due_after": _TIME,
    "due_before": _TIME,
}
_REPLAY: Schema = {
    "filter": {"type": ["object", "null"], "properties": _LETTER_FILTER, "additionalProperties": False},
    "dry_run": {"type": "boolean"},
    "expected_count": {"type": "integer", "minimum": 0, "maximum": 10_000},
    "rate": {"type": "number", "exclusiveMinimum": 0, "maximum": 10_000},
}
_PREVIEW: Schema = {
    "schedule": _SCHEDULE,
    "timezone": _TEXT,
    "count": {"type": "integer", "minimum": 1, "maximum": 100},
    "from": _TIME,
}

_SCHEMAS: dict[str, Schema] = {
    "Job": {"type": "object", "properties": _JOB},
    "JobAnswer": _record(_JOB | _JOB_MORE, optional=("paused_until", "pause_reason")),
    "JobList": _list("jobs", "JobAnswer"),
    "JobBatch": _sent({"jobs": {"type": "array", "items": _ref("Job")}}, "jobs"),
    "BatchAnswer": _record({"created": _COUNT, "failed": _COUNT, "results": {"type": "array", "items": _RESULT}}),
    "JobStatus": _record(_STATUS),
    "Deleted": _record({"deleted": {"const": True}, "job_id": _TEXT}),
    "Pause": _sent({"until": _TIME_OR_NULL, "reason": _TEXT_OR_NULL}),
    "Calendar": _sent(_DAYS),
    "CalendarAnswer": _record({"name": _TEXT, "version": _COUNT, "updated_at": _TIME} | _DAYS, optional=_DAYS),
    "CalendarList": _record({"calendars": {"type": "array", "items": _ref("CalendarAnswer")}}),
    "DeletedCalendar": _record({"deleted": {"const": True}, "name": _TEXT}),
    "Secret": _sent({"value": _TEXT}, "value"),
    "SecretAnswer": _record({"name": _TEXT, "version": _COUNT, "created_at": _TIME, "updated_at": _TIME}),
    "SecretList": _record({"secrets": {"type": "array", "items": _ref("SecretAnswer")}}),
    "DeletedSecret": _record({"deleted": {"const": True}, "name": _TEXT}),
    "Webhook": _sent(_WEBHOOK, "name", "url", "events"),
    "WebhookChange": _sent(_WEBHOOK),
    "WebhookAnswer": _record(_WEBHOOK_ANSWER),
    "WebhookSecret": _record(_WEBHOOK_ANSWER | {"secret": _TEXT}),
    "WebhookList": _record({"webhooks": {"type": "array", "items": _ref("WebhookAnswer")}}),
    "DeletedWebhook": _record({"deleted": {"const": True}, "id": _TEXT}),
    "Signing": _record({"secret": _TEXT}),
    "DeliveryId": _record({"delivery_id": _TEXT}),
    "Delivery": _record(_DELIVERY),
    "DeliveryList": _list("deliveries", "Delivery"),
    "Nothing": {"type": "object", "additionalProperties": False},
    "VersionList": _record({"versions": {"type": "array", "items": _VERSION}}),
    "Explanation": _record({"verdict": _TEXT, "reason": _ANY, "text": _TEXT, "facts": {"type": "array"}}),
    "Run": _record(_RUN, optional=_SKIPPED),
    "RunWithAttempts": _record(_RUN | {"attempts": {"type": "array", "items": _record(_ATTEMPT)}}, optional=_SKIPPED),
    "Runs": {"type": "array", "items": _ref("Run")},
    "RunList": _list("runs", "Run"),
    "RunRequest": _sent(_RUN_REQUEST),
    "RunBatch": _sent({"job": _TEXT, "runs": {"type": "array", "items": _ref("RunRequest")}}, "job", "runs"),
    "RunId": _record({"run_id": _TEXT}),
    "RunIds": _record({"created": _COUNT, "run_ids": {"type": "array", "items": _TEXT}}),
    "DeadList": _list("dead_letters", "Run"),
    "Backfill": _sent(_BACKFILL, "from", "to"),
    "Backfilled": _record({"runs": _COUNT, "next_from": _TIME_OR_NULL}),
    "BackfillPlan": _record(
        {"runs": _COUNT, "next_from": _TIME_OR_NULL, "times": {"type": "array", "items": _TIME}, "dry_run": _TRUE}
    ),
    "Replay": _sent(_REPLAY),
    "Replayed": _record({"count": _COUNT, "run_ids": {"type": "array", "items": _TEXT}}),
    "ReplayPlan": _record({"count": _COUNT, "replay_of": {"type": "array", "items": _TEXT}, "dry_run": _TRUE}),
    "Discarded": _record({"deleted": {"const": True}, "run_id": _TEXT}),
    "WorkerList": _record({"workers": {"type": "array", "items": _record(_WORKER)}}),
    "Preview": _sent(_PREVIEW, "schedule"),
    "PreviewAnswer": _record(
        {
            "description": _TEXT,
            "next": {"type": "array", "items": _record({"at": _TIME, "local": _TIME})},
            "warnings": {"type": "array", "items": _TEXT},
        }
    ),
    "Drained": _record({"worker_id": _TEXT, "state": {"const": "draining"}}),
    "Stats": _record(_STATS),
    "Forecast": _record(_FORECAST),
    "Problem": _record(_PROBLEM),
}

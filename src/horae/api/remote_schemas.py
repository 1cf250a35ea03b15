"""Schemas of what workers that come over HTTP send and get, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from horae.api.remote import REASONS
from horae.api.schemas import DURATION, TEXT, Schema, record, sent

_TEXTS: Schema = {"type": "array", "items": TEXT}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_FENCE: Schema = {"type": "integer", "minimum": 1}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}


_RUN: Schema = {
    "run_id": TEXT,
    "job_id": TEXT,
    "job": TEXT,
    "tenant": TEXT,
    "handler": TEXT,
    "args": {"type": "object"},
    "secrets": {"type": "object"},
    "payload": {},
    "upstream": {"type": ["object", "null"]},
    "attempt": {"type": "integer", "minimum": 1},
    "max_attempts": {"type": "integer", "minimum": 1},
    "fence": _FENCE,
    "scheduled_for": {"type": "string", "format": "date-time"},
    "timeout_seconds": _NUMBER,
    "idempotency_key": TEXT,
}
_HELD: Schema = {"run_id": TEXT, "fence": _FENCE}
_STATE: Schema = {
    "run_id": TEXT,
    "state": {"type": "string", "enum": ["running", "cancelled", "lost"]},
    "reason": {"type": ["string", "null"]},
}

REMOTE_EXAMPLES: dict[str, Any] = {
    "Claim": {"worker": "build-7-4711", "handlers": ["send_report"], "holds": [], "slots": 2, "wait": "20s"},
    "Heartbeat": {"runs": [{"run_id": "01a1e16d-4ce0-8c0f-a8a6-daac74c05915", "fence": 7}]},
    "LogPiece": {"fence": 7, "seq": 1, "text": "half of it is done\n"},
    "Completion": {"fence": 7, "status": "succeeded", "result": {"rows": 12}},
}

REMOTE_SCHEMAS: dict[str, Schema] = {
    "Claim": sent(
        {
            "worker": _NAME,
            "node": TEXT,
            "queues": {"type": "array", "items": _NAME, "default": ["default"]},
            "handlers": {"type": "array", "items": TEXT, "minItems": 1},
            "slots": {"type": "integer", "minimum": 1, "default": 1},
            "holds": _TEXTS,
            "wait": DURATION,
        },
        "worker",
        "handlers",
        "holds",
    ),
    "Claimed": record(
        {
            "worker_id": TEXT,
            "runs": {"type": "array", "items": record(_RUN)},
            "is_draining": _FLAG,
            "heartbeat_seconds": _NUMBER,
            "visibility_seconds": _NUMBER,
        }
    ),
    "Heartbeat": sent({"runs": {"type": "array", "items": sent(_HELD, *_HELD)}}, "runs"),
    "Beaten": record({"runs": {"type": "array", "items": record(_STATE)}, "is_draining": _FLAG}),
    "LogPiece": sent({"fence": _FENCE, "seq": _FENCE, "text": TEXT}, "fence", "seq", "text"),
    "LogKept": record({"run_id": TEXT, "kept": _FLAG}),
    "Completion": sent(
        {
            "fence": _FENCE,
            "status": {"type": "string", "enum": ["succeeded", "failed", "cancelled", "released"]},
            "result": {},
            "error": TEXT,
            "reason": {"type": "string", "enum": list(REASONS)},
            "retry_after": DURATION,
            "retryable": _FLAG,
        },
        "fence",
        "status",
    ),
    "Completed": record({"run_id": TEXT, "repeated": _FLAG}),
    "Left": record({"worker": TEXT, "left": {"const": True}}),
}

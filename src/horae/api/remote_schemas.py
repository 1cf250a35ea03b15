"""Schemas of what workers that come over HTTP send and get, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from horae.api.remote import REASONS

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_FENCE: Schema = {"type": "integer", "minimum": 1}
_DURATION: Schema = {"type": ["string", "number"], "examples": ["20s"]}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}


def _record(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _sent(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


_RUN: Schema = {
    "run_id": _TEXT,
    "job_id": _TEXT,
    "job": _TEXT,
    "tenant": _TEXT,
    "handler": _TEXT,
    "args": {"type": "object"},
    "secrets": {"type": "object"},
    "payload": {},
    "upstream": {"type": ["object", "null"]},
    "attempt": {"type": "integer", "minimum": 1},
    "max_attempts": {"type": "integer", "minimum": 1},
    "fence": _FENCE,
    "scheduled_for": {"type": "string", "format": "date-time"},
    "timeout_seconds": _NUMBER,
    "idempotency_key": _TEXT,
}
_HELD: Schema = {"run_id": _TEXT, "fence": _FENCE}
_STATE: Schema = {
    "run_id": _TEXT,
    "state": {"type": "string", "enum": ["running", "cancelled", "lost"]},
    "reason": {"type": ["string", "null"]},
}

REMOTE_SCHEMAS: dict[str, Schema] = {
    "Claim": _sent(
        {
            "worker": _NAME,
            "node": _TEXT,
            "queues": {"type": "array", "items": _NAME, "default": ["default"]},
            "handlers": {"type": "array", "items": _TEXT, "minItems": 1},
            "slots": {"type": "integer", "minimum": 1, "default": 1},
            "holds": _TEXTS,
            "wait": _DURATION,
        },
        "worker",
        "handlers",
        "holds",
    ),
    "Claimed": _record(
        {
            "worker_id": _TEXT,
            "runs": {"type": "array", "items": _record(_RUN)},
            "is_draining": _FLAG,
            "heartbeat_seconds": _NUMBER,
            "visibility_seconds": _NUMBER,
        }
    ),
    "Heartbeat": _sent({"runs": {"type": "array", "items": _sent(_HELD, *_HELD)}}, "runs"),
    "Beaten": _record({"runs": {"type": "array", "items": _record(_STATE)}, "is_draining": _FLAG}),
    "LogPiece": _sent({"fence": _FENCE, "seq": _FENCE, "text": _TEXT}, "fence", "seq", "text"),
    "LogKept": _record({"run_id": _TEXT, "kept": _FLAG}),
    "Completion": _sent(
        {
            "fence": _FENCE,
            "status": {"type": "string", "enum": ["succeeded", "failed", "cancelled", "released"]},
            "result": {},
            "error": _TEXT,
            "reason": {"type": "string", "enum": list(REASONS)},
            "retry_after": _DURATION,
            "retryable": _FLAG,
        },
        "fence",
        "status",
    ),
    "Completed": _record({"run_id": _TEXT, "repeated": _FLAG}),
    "Left": _record({"worker": _TEXT, "left": {"const": True}}),
}

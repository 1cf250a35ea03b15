"""Schemas of what workers that come over HTTP send and get, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from horae.api.remote import REASONS
from horae.api.schema_words import (
    ANY,
    DURATION,
    FLAG,
    NAME,
    NUMBER,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TOKEN,
    TRUE,
    Schema,
    array,
    one_of,
    record,
    sent,
)

_FENCE: Schema = {"type": "integer", "minimum": 1}
_RUN: Schema = {
    "run_id": TEXT,
    "fence": _FENCE,
    "job_id": TEXT,
    "job": TEXT,
    "tenant": TEXT,
    "handler": TEXT,
    "args": OBJECT,
    "secrets": OBJECT,
    "payload": ANY,
    "upstream": {"type": ["object", "null"]},
    "attempt": {"type": "integer", "minimum": 1},
    "max_attempts": {"type": "integer", "minimum": 1},
    "scheduled_for": TIME,
    "timeout_seconds": NUMBER,
    "idempotency_key": TEXT,
}
_HELD: Schema = {"run_id": TEXT, "fence": _FENCE}
_STATE: Schema = {
    "run_id": TEXT,
    "state": one_of(["running", "cancelled", "lost"]),
    "reason": TEXT_OR_NULL,
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
            "worker": TOKEN,
            "node": NAME,
            "queues": array(TOKEN, default=["default"]),
            "handlers": array(TEXT, minItems=1),
            "slots": {"type": "integer", "minimum": 1, "default": 1},
            "holds": array(TEXT),
            "wait": DURATION,
        },
        "worker",
        "handlers",
        "holds",
    ),
    "Claimed": record(
        {
            "worker_id": TEXT,
            "runs": array(record(_RUN)),
            "is_draining": FLAG,
            "heartbeat_seconds": NUMBER,
            "visibility_seconds": NUMBER,
        }
    ),
    "Heartbeat": sent({"runs": array(sent(_HELD, *_HELD)), "is_draining": FLAG}, "runs"),
    "Beaten": record({"runs": array(record(_STATE)), "is_draining": FLAG}),
    "LogPiece": sent({"fence": _FENCE, "seq": _FENCE, "text": TEXT}, "fence", "seq", "text"),
    "LogKept": record({"run_id": TEXT, "kept": FLAG}),
    "Completion": sent(
        {
            "fence": _FENCE,
            "status": one_of(["succeeded", "failed", "cancelled", "released"]),
            "result": ANY,
            "error": TEXT,
            "reason": one_of(REASONS),
            "retry_after": DURATION,
            "retryable": FLAG,
        },
        "fence",
        "status",
    ),
    "Completed": record({"run_id": TEXT, "repeated": FLAG}),
    "Left": record({"worker": TEXT, "left": TRUE}),
}

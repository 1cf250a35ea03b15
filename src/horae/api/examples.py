"""Examples of answers, made from their schemas: those that nobody has written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from horae.api.schema_words import TEXT, Schema

_ID = "01990000-0000-7000-8000-00000000002a"
# What a text of this name may say; another one is its own name.
_TEXTS = {
    "name": "daily-report", "job_name": "daily-report", "job": "daily-report", "timezone": "Europe/Berlin",
    "queue": "default", "tenant": "default", "actor": "deploy", "created_by": "admin", "url": "https://example.com/hook",
    "key": "horae_Zm9yIGRvY3VtZW50cyBvbmx5", "prefix": "horae_Zm9yIGRv", "secret": "whsec_Zm9yIGRvY3VtZW50cyBvbmx5",
    "cron_expression": "0 9 * * *", "address": "192.0.2.1", "worker": "mail-1", "handler": "send-report",
    "description": "", "schedule_type": "CRON", "priority": "HIGH", "verdict": "ran", "last_run_status": "SUCCEEDED",
    "status": "SUCCEEDED", "field": "priority", "bucket": "1m", "idempotency_key": _ID, "hash": "9f86d081884c7d65",
    "log_url": f"/api/v1/runs/{_ID}/logs", "head": "9f86d081884c7d65", "action": "job.created", "request_id": "req_1",
}  # fmt: skip
_OBJECTS: dict[str, Any] = {
    "target": {"url": "https://example.com/hook", "method": "POST", "headers": {}, "expect": "2xx"},
    "retry": {
        "max_retries": 3, "backoff": "exponential", "delay": "2s", "factor": 2, "max_delay": "1h", "jitter": 0.0
    },
    "misfire": {"policy": "run_once", "window": "1h", "max": 10},
    "dst": {"gap": "shift", "fold": "first"},
    "labels": {"team": "billing"},
}  # fmt: skip
# Null is the more telling value of these: there is no next page, no end yet, nothing wrong.
_NULLS = frozenset({
    "next_cursor", "old_secret", "error", "error_message", "pause_reason", "replay_of", "reason", "concurrency_key",
    "max_concurrency", "max_runs", "skipped_until", "skipped_count",
})  # fmt: skip
_NUMBERS = {"boolean": False, "integer": 1, "number": 1.5, "null": None}


def example_of(schema: Schema, schemas: Mapping[str, Schema], written: Mapping[str, Any], name: str = "") -> Any:
    """`schemas` are all by name, `written` the examples that somebody wrote; `name` is that of the field."""
    if "$ref" in schema:
        word = schema["$ref"].rpartition("/")[2]
        return written[word] if word in written else example_of(schemas[word], schemas, written, name)
    for key in ("examples", "enum", "oneOf", "anyOf"):
        if key in schema:
            first = schema[key][0]
            return example_of(first, schemas, written, name) if key.endswith("Of") else first
    if "const" in schema:
        return schema["const"]
    kinds = schema.get("type", "null")
    if "null" in kinds and (name in _NULLS or schema.get("format") == "date-time"):
        return None
    kind = kinds if isinstance(kinds, str) else kinds[0]
    match kind:
        case "object":
            told = schema.get("properties")
            if told is None:
                return _OBJECTS.get(name, {})
            return {field: example_of(each, schemas, written, field) for field, each in told.items()}
        case "array":
            item = schema.get("items", {})
            return [example_of(item, schemas, written, name)] if item.keys() - {"type"} or item == TEXT else []
        case "string":
            return "2026-11-15T09:00:00Z" if schema.get("format") == "date-time" else _text(name)
        case _:
            return _NUMBERS[kind]


def _text(name: str) -> str:
    return _TEXTS.get(name, _ID if name == "id" or name.endswith("_id") else name or "text")

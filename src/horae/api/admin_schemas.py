"""Schemas of keys, tenants, queues and the audit log, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from horae.api.keys import SCOPES
from horae.core.access import ROLES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TIME_OR_NULL: Schema = {"type": ["string", "null"], "format": "date-time"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_DURATION: Schema = {"type": ["string", "number"], "examples": ["1h", "90d"]}
_ROLE: Schema = {"type": "string", "enum": list(ROLES)}
_SCOPES: Schema = {"type": "array", "items": {"type": "string", "enum": list(SCOPES)}}


def _record(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _sent(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(name: str, item: str, **more: Schema) -> Schema:
    return _record({name: {"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}}, **more})


_KEY: Schema = {
    "key_id": _TEXT,
    "name": _TEXT,
    "tenant": _TEXT,
    "role": _ROLE,
    "scopes": _SCOPES,
    "prefix": _TEXT,
    "requests_per_second": _COUNT_OR_NULL,
    "status": {"type": "string", "enum": ["active", "expired", "revoked"]},
    "created_at": _TIME,
    "created_by": _TEXT,
    "expires_at": _TIME_OR_NULL,
    "last_used_at": _TIME_OR_NULL,
    "revoked_at": _TIME_OR_NULL,
}
_QUOTAS: Schema = {
    "max_jobs": _COUNT_OR_NULL,
    "max_queued_runs": _COUNT_OR_NULL,
    "max_running_runs": _COUNT_OR_NULL,
    "requests_per_second": {"type": ["integer", "null"], "minimum": 1},
    "max_payload_bytes": _COUNT_OR_NULL,
    "weight": {"type": "integer", "minimum": 1, "maximum": 100},
    "paused": _FLAG,
    "description": _TEXT,
}
_PART = _record({"queued": _COUNT, "oldest_age_ms": _COUNT_OR_NULL})
_QUEUE: Schema = {
    "queue": _TEXT,
    "queued": _COUNT,
    "queued_is_exact": _FLAG,
    "running": _COUNT,
    "oldest_age_ms": _COUNT_OR_NULL,
    "by_priority": _record({"HIGH": _PART, "MEDIUM": _PART, "LOW": _PART}),
    "paused": _FLAG,
    "max_running": _COUNT_OR_NULL,
}
_ENTRY: Schema = {
    "id": _COUNT,
    "tenant": _TEXT,
    "at": _TIME,
    "actor": _TEXT,
    "key_id": _TEXT_OR_NULL,
    "address": _TEXT_OR_NULL,
    "request_id": _TEXT_OR_NULL,
    "action": _TEXT,
    "target": _TEXT,
    "before": {},
    "after": {},
    "seq": _COUNT_OR_NULL,
    "hash": _TEXT_OR_NULL,
}
_BREAK = _record({"seq": _COUNT, "id": _COUNT_OR_NULL, "what": _TEXT})
_CHECK: Schema = {
    "tenant": _TEXT,
    "ok": _FLAG,
    "rows": _COUNT,
    "unsealed": _COUNT,
    "head": _TEXT,
    "breaks": {"type": "array", "items": _BREAK},
}

ADMIN_SCHEMAS: dict[str, Schema] = {
    "Key": _record(_KEY),
    "KeyShown": _record(_KEY | {"key": _TEXT_OR_NULL}),
    "KeyList": _list("keys", "Key", next_cursor=_TEXT_OR_NULL),
    "NewKey": _sent(
        {
            "name": _TEXT,
            "role": _ROLE,
            "scopes": _SCOPES,
            "expires_at": _TIME_OR_NULL,
            "expires_in": _DURATION,
            "requests_per_second": {"type": ["integer", "null"], "minimum": 1},
        },
        "name",
        "role",
    ),
    "RotateKey": _sent({"overlap": _DURATION}),
    "WhoAmI": _record(
        {
            "actor": _TEXT,
            "role": _ROLE,
            "tenant": _TEXT,
            "scopes": {"type": "array", "items": _TEXT},
            "may_switch_tenant": {"type": "boolean"},
        }
    ),
    "Revoked": _record({"revoked": {"const": True}, "key_id": _TEXT}),
    "Tenant": _record(
        {
            "tenant": _TEXT,
            **_QUOTAS,
            "usage": _record({"jobs": _COUNT_OR_NULL}),
            "created_at": _TIME,
            "updated_at": _TIME,
        }
    ),
    "TenantList": _list("tenants", "Tenant", next_cursor=_TEXT_OR_NULL),
    "NewTenant": _sent({"tenant": _TEXT, **_QUOTAS}, "tenant"),
    "ChangeTenant": _sent(_QUOTAS),
    "Queue": _record(_QUEUE),
    "QueueList": _list("queues", "Queue"),
    "ChangeQueue": _sent({"max_running": _COUNT_OR_NULL}),
    "AuditEntry": _record(_ENTRY),
    "AuditList": _list("entries", "AuditEntry", next_cursor=_TEXT_OR_NULL),
    "AuditCheck": _record(_CHECK),
}

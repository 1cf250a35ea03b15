"""Schemas of keys, tenants, queues and the audit log, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from horae.api.keys import SCOPES
from horae.api.schemas import (
    COUNT,
    COUNT_OR_NULL,
    DURATION,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    Schema,
    record,
    ref,
    sent,
)
from horae.core.access import KEY_ROLES

_FLAG: Schema = {"type": "boolean"}
_ROLE: Schema = {"type": "string", "enum": list(KEY_ROLES)}
_SCOPES: Schema = {"type": "array", "items": {"type": "string", "enum": list(SCOPES)}}


def _list(name: str, item: str, **more: Schema) -> Schema:
    return record({name: {"type": "array", "items": ref(item)}, **more})


_KEY: Schema = {
    "key_id": TEXT,
    "name": TEXT,
    "tenant": TEXT,
    "role": _ROLE,
    "scopes": _SCOPES,
    "prefix": TEXT,
    "requests_per_second": COUNT_OR_NULL,
    "status": {"type": "string", "enum": ["active", "expired", "revoked"]},
    "created_at": TIME,
    "created_by": TEXT,
    "expires_at": TIME_OR_NULL,
    "last_used_at": TIME_OR_NULL,
    "revoked_at": TIME_OR_NULL,
}
_QUOTAS: Schema = {
    "max_jobs": COUNT_OR_NULL,
    "max_queued_runs": COUNT_OR_NULL,
    "max_running_runs": COUNT_OR_NULL,
    "requests_per_second": {"type": ["integer", "null"], "minimum": 1},
    "max_payload_bytes": COUNT_OR_NULL,
    "weight": {"type": "integer", "minimum": 1, "maximum": 100},
    "paused": _FLAG,
    "description": TEXT,
}
_PART = record({"queued": COUNT, "oldest_age_ms": COUNT_OR_NULL})
_QUEUE: Schema = {
    "queue": TEXT,
    "queued": COUNT,
    "queued_is_exact": _FLAG,
    "running": COUNT,
    "oldest_age_ms": COUNT_OR_NULL,
    "by_priority": record({"HIGH": _PART, "MEDIUM": _PART, "LOW": _PART}),
    "paused": _FLAG,
    "max_running": COUNT_OR_NULL,
}
_ENTRY: Schema = {
    "id": COUNT,
    "tenant": TEXT,
    "at": TIME,
    "actor": TEXT,
    "key_id": TEXT_OR_NULL,
    "address": TEXT_OR_NULL,
    "request_id": TEXT_OR_NULL,
    "action": TEXT,
    "target": TEXT,
    "before": {},
    "after": {},
    "seq": COUNT_OR_NULL,
    "hash": TEXT_OR_NULL,
}
_BREAK = record({"seq": COUNT, "id": COUNT_OR_NULL, "what": TEXT})
_CHECK: Schema = {
    "tenant": TEXT,
    "ok": _FLAG,
    "rows": COUNT,
    "unsealed": COUNT,
    "head": TEXT,
    "breaks": {"type": "array", "items": _BREAK},
}

ADMIN_EXAMPLES: dict[str, Any] = {
    "NewKey": {"name": "ci", "role": "editor", "expires_in": "90d"},
    "RotateKey": {"overlap": "1h"},
    "NewTenant": {"tenant": "team-a", "max_jobs": 1000, "weight": 2},
    "ChangeTenant": {"requests_per_second": 100},
    "ChangeQueue": {"max_running": 50},
}

ADMIN_SCHEMAS: dict[str, Schema] = {
    "Key": record(_KEY),
    "KeyShown": record(_KEY | {"key": TEXT_OR_NULL}),
    "KeyList": _list("keys", "Key", next_cursor=TEXT_OR_NULL),
    "NewKey": sent(
        {
            "name": TEXT,
            "role": _ROLE,
            "scopes": _SCOPES,
            "expires_at": TIME_OR_NULL,
            "expires_in": DURATION,
            "requests_per_second": {"type": ["integer", "null"], "minimum": 1},
        },
        "name",
        "role",
    ),
    "RotateKey": sent({"overlap": DURATION}),
    "WhoAmI": record(
        {
            "actor": TEXT,
            "role": _ROLE,
            "tenant": TEXT,
            "scopes": {"type": "array", "items": TEXT},
            "may_switch_tenant": {"type": "boolean"},
        }
    ),
    "Revoked": record({"revoked": {"const": True}, "key_id": TEXT}),
    "Tenant": record(
        {
            "tenant": TEXT,
            **_QUOTAS,
            "usage": record({"jobs": COUNT_OR_NULL}),
            "created_at": TIME,
            "updated_at": TIME,
        }
    ),
    "TenantList": _list("tenants", "Tenant", next_cursor=TEXT_OR_NULL),
    "NewTenant": sent({"tenant": TEXT, **_QUOTAS}, "tenant"),
    "ChangeTenant": sent(_QUOTAS),
    "Queue": record(_QUEUE),
    "QueueList": _list("queues", "Queue"),
    "ChangeQueue": sent({"max_running": COUNT_OR_NULL}),
    "AuditEntry": record(_ENTRY),
    "AuditList": _list("entries", "AuditEntry", next_cursor=TEXT_OR_NULL),
    "AuditCheck": record(_CHECK),
}

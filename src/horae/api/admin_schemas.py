"""Schemas of keys, tenants, queues and the audit log, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from horae.api.keys import SCOPES
from horae.api.schema_words import (
    ANY,
    COUNT,
    COUNT_OR_NULL,
    DURATION,
    FLAG,
    NAME,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    TOKEN,
    TRUE,
    Schema,
    array,
    listing,
    one_of,
    page,
    record,
    sent,
)
from horae.core.access import KEY_ROLES

_ROLE: Schema = one_of(KEY_ROLES)
_SCOPES: Schema = array(one_of(SCOPES))


_KEY: Schema = {
    "key_id": TEXT,
    "name": TEXT,
    "tenant": TEXT,
    "role": _ROLE,
    "scopes": _SCOPES,
    "prefix": TEXT,
    "requests_per_second": COUNT_OR_NULL,
    "status": one_of(["active", "expired", "revoked"]),
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
    "paused": FLAG,
    "description": TEXT,
}
_PART = record({"queued": COUNT, "oldest_age_ms": COUNT_OR_NULL})
_QUEUE: Schema = {
    "queue": TEXT,
    "queued": COUNT,
    "queued_is_exact": FLAG,
    "running": COUNT,
    "oldest_age_ms": COUNT_OR_NULL,
    "by_priority": record({"HIGH": _PART, "MEDIUM": _PART, "LOW": _PART}),
    "paused": FLAG,
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
    "before": ANY,
    "after": ANY,
    "seq": COUNT_OR_NULL,
    "hash": TEXT_OR_NULL,
}
_BREAK = record({"seq": COUNT, "id": COUNT_OR_NULL, "what": TEXT})
_CHECK: Schema = {
    "tenant": TEXT,
    "ok": FLAG,
    "rows": COUNT,
    "unsealed": COUNT,
    "head": TEXT,
    "breaks": array(_BREAK),
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
    "KeyShown": record(_KEY | {"key": TEXT}),
    "KeyList": page("keys", "Key"),
    "NewKey": sent(
        {
            "name": NAME,
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
            "scopes": array(TEXT),
            "may_switch_tenant": FLAG,
        }
    ),
    "Revoked": record({"revoked": TRUE, "key_id": TEXT}),
    "Tenant": record(
        {
            "tenant": TEXT,
            **_QUOTAS,
            "usage": record({"jobs": COUNT_OR_NULL}),
            "created_at": TIME_OR_NULL,
            "updated_at": TIME_OR_NULL,
        }
    ),
    "TenantList": page("tenants", "Tenant"),
    "NewTenant": sent({"tenant": TOKEN, **_QUOTAS}, "tenant"),
    "ChangeTenant": sent(_QUOTAS),
    "Queue": record(_QUEUE),
    "QueueList": listing("queues", "Queue"),
    "ChangeQueue": sent({"max_running": COUNT_OR_NULL}),
    "AuditEntry": record(_ENTRY),
    "AuditList": page("entries", "AuditEntry"),
    "AuditCheck": record(_CHECK),
}

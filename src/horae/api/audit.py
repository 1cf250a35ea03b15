"""Routes of the audit log: look at it, take it all away, and check that nobody touched it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from horae.api.body import check_instant
from horae.api.operation import Call, Operation, Reply, get
from horae.api.query import CURSOR, DEFAULT_LIMIT, LIMIT, Cursor, Parameter, bad_cursor, before_of
from horae.api.schema_words import TIME
from horae.api.shapes import audit_answer
from horae.core.checks import short_text
from horae.ports import ViewStore

EXPORT_PAGE = 500

FILTERS = (
    Parameter("actor", short_text, "By this name"),
    Parameter("key", short_text, "By the key of this id"),
    Parameter("action", short_text, "This action, such as job.changed, or a family of them, such as job"),
    Parameter("target", short_text, "To this: the id of a job, run or key, the name of a tenant or queue"),
    Parameter("since", check_instant, "From this time on", TIME),
    Parameter("until", check_instant, "Before this time", TIME),
)


class Audit:
    def __init__(self, views: ViewStore) -> None:
        self._views = views

    def operations(self) -> list[Operation]:
        page = (*FILTERS, LIMIT, CURSOR)
        whole = "Every change, oldest first, a line each"
        return [
            get("/audit", "listAudit", "Who changed what, newest first", self.list, page, gives="AuditList"),
            get("/audit/export", "exportAudit", whole, self.export, gives="Lines"),
            get("/audit/verify", "checkAudit", "Whether the chain holds", self.check, gives="AuditCheck"),
        ]

    async def list(self, call: Call) -> Reply:
        limit, before = call.query.get("limit", DEFAULT_LIMIT), before_of(call.query, "audit")
        if before is not None and not (before.isascii() and before.isdecimal() and len(before) <= 18):
            raise bad_cursor("/query/cursor")
        before_id = None if before is None else int(before)
        page = await self._views.audit_entries(call.caller.tenant, _filters(call.query), before_id, limit)
        cursor = None if page.before_id is None else Cursor("audit", None, page.before_id).text()
        return Reply({"entries": [audit_answer(row) for row in page.rows], "next_cursor": cursor})

    async def export(self, call: Call) -> Response:
        return StreamingResponse(self._lines(call.caller.tenant), media_type="application/x-ndjson")

    async def _lines(self, tenant: str) -> AsyncIterator[bytes]:
        last = 0
        while True:
            rows = await self._views.audit_page(tenant, last, EXPORT_PAGE)
            if rows:
                yield b"".join(msgspec.json.encode(audit_answer(row)) + b"\n" for row in rows)
            if len(rows) < EXPORT_PAGE:
                return
            last = rows[-1]["id"]

    async def check(self, call: Call) -> Reply:
        return Reply(await self._views.check_audit(call.caller.tenant))


def _filters(query: Any) -> dict[str, Any]:
    action = query.get("action")
    family = None if action is None else action.replace("\\", "").replace("%", "").replace("_", "") + ".%"
    return {
        **{name: query.get(name) for name in ("actor", "key", "target")},
        "action": action,
        "actions": family,
        "since_us": query.get("since"),
        "until_us": query.get("until"),
    }

"""Routes of webhooks: who is told of what, what was sent, and sending it again."""

from __future__ import annotations

import json
from typing import Any

from horae.api.body import check_flag, read_fields, require
from horae.api.hints import or_near
from horae.api.operation import NOTHING, Call, Operation, Reply, Takes, delete, get, patch, post
from horae.api.query import CURSOR, DEFAULT_LIMIT, DELIVERY_STATE, LIMIT, before_of, cut
from horae.commands import Commands
from horae.core.checks import Check, check_token, choice, duration, each, refuse
from horae.core.duration import format_duration, format_instant
from horae.core.egress import Allow, check_url
from horae.core.errors import Fault, Invalid, NotFound
from horae.core.webhooks import DEFAULT_LATE_US, EVENTS
from horae.ports import JsonObject, StoredRow, ViewStore

DAY_US = 86_400_000_000
MOST_EVENTS = 20


_each_event = each(choice(*EVENTS), most=MOST_EVENTS, what="events", example=["run.failed"])


def _events(value: Any, pointer: str) -> Any:
    if value == []:
        raise refuse(pointer, "a list of at least one event", value, ["run.failed"])
    return _each_event(value, pointer)


def _fields(allow: Allow) -> dict[str, Check]:
    def url(value: Any, pointer: str) -> str:
        if not isinstance(value, str):
            raise Invalid([Fault(pointer, "Must be a URL.", 'Write "https://example.com/hook".')])
        if faults := check_url(value, pointer, allow):
            raise Invalid(faults)
        return value

    return {
        "name": check_token,
        "url": url,
        "events": _events,
        "late_after": duration(1_000_000, DAY_US, "1m"),
        "is_active": check_flag,
    }


class Webhooks:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views
        self._fields = _fields(commands.allow)

    def operations(self) -> list[Operation]:
        one, page = "/webhooks/{webhook}", (DELIVERY_STATE, LIMIT, CURSOR)
        new, changes, gives = Takes("Webhook"), Takes("WebhookChange"), "WebhookAnswer"
        sent, tell, shown = "/deliveries/{delivery}/resend", "Tell somebody of events", "WebhookSecret"
        return [
            get("/webhooks", "listWebhooks", "Who is told of what", self.list, gives="WebhookList"),
            post("/webhooks", "createWebhook", tell, self.create, (), new, shown, 201, is_secret=True),
            get("/signing-secret", "getSigningSecret", "What signs calls of `notify`", self.secret, gives="Signing"),
            get(one, "getWebhook", "One webhook, by id or name", self.get, gives=gives),
            patch(one, "changeWebhook", "Change the given fields", self.change, (), changes, gives),
            delete(one, "deleteWebhook", "Tell them no more", self.delete, gives="DeletedWebhook"),
            post(one + "/rotate", "rotateWebhook", "A new secret", self.rotate, (), NOTHING, shown, is_secret=True),
            post(one + "/test", "testWebhook", "Send a message now", self.test, (), NOTHING, "DeliveryId", 202),
            get(one + "/deliveries", "listDeliveriesOf", "Messages to it", self.of_one, page, gives="DeliveryList"),
            get("/deliveries", "listDeliveries", "All messages", self.of_all, page, gives="DeliveryList"),
            post(sent, "resendDelivery", "Send it once more", self.resend, (), NOTHING, "Delivery", 202),
        ]

    async def list(self, call: Call) -> Reply:
        return Reply({"webhooks": [_answer(row) for row in await self._views.webhooks(call.caller.tenant)]})

    async def get(self, call: Call) -> Reply:
        name = call.word("webhook")
        rows = await self._views.webhooks(call.caller.tenant)
        for row in rows:
            if name in (row["id"], row["name"]):
                return Reply(_answer(row))
        raise NotFound(f'There is no webhook "{name}".', hint=or_near(name, [row["name"] for row in rows], "webhook"))

    async def create(self, call: Call) -> Reply:
        fields = _read(await call.document(), self._fields)
        hint = 'Write {"name": "ops", "url": "https://example.com/hook", "events": ["run.failed"]}.'
        require(fields, dict.fromkeys(("name", "url", "events"), hint))
        row, secret = await self._commands.webhooks.create(
            call.caller, {"late_us": DEFAULT_LATE_US, **fields}, call.once
        )
        return Reply(_answer(row) | {"secret": secret}, 201)

    async def change(self, call: Call) -> Reply:
        fields = _read(await call.document(), self._fields)
        return Reply(_answer(await self._commands.webhooks.change(call.caller, call.word("webhook"), fields)))

    async def rotate(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        row, secret = await self._commands.webhooks.rotate(call.caller, call.word("webhook"), call.once)
        return Reply(_answer(row) | {"secret": secret})

    async def secret(self, call: Call) -> Reply:
        secret, *old = self._commands.webhooks.signing_secrets(call.caller)
        return Reply({"secret": secret, "old_secret": old[0] if old else None})

    async def delete(self, call: Call) -> Reply:
        return Reply({"deleted": True, "id": await self._commands.webhooks.delete(call.caller, call.word("webhook"))})

    async def test(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        delivery_id = await self._commands.webhooks.send_trial(call.caller, call.word("webhook"), call.once)
        return Reply({"delivery_id": delivery_id}, 202)

    async def of_one(self, call: Call) -> Reply:
        return await self._deliveries(call, call.word("webhook"))

    async def of_all(self, call: Call) -> Reply:
        return await self._deliveries(call, None)

    async def _deliveries(self, call: Call, webhook: str | None) -> Reply:
        limit = call.query.get("limit", DEFAULT_LIMIT)
        before_id, state = before_of(call.query, "deliveries"), call.query.get("state")
        rows = await self._views.deliveries(call.caller.tenant, webhook, state, before_id, limit + 1)
        page, cursor = cut(rows, limit, "deliveries")
        return Reply({"deliveries": [_delivery(row) for row in page], "next_cursor": cursor})

    async def resend(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        row = await self._commands.webhooks.resend(call.caller, call.word("delivery"), call.once)
        return Reply(_delivery(row), 202)


def _read(document: Any, known: dict[str, Check]) -> dict[str, Any]:
    fields = read_fields(document, known)
    if "late_after" in fields:
        fields["late_us"] = fields.pop("late_after")
    return {name: value for name, value in fields.items() if value is not None}


def _answer(row: StoredRow) -> JsonObject:
    return {
        "id": row["id"],
        "name": row["name"],
        "url": row["url"],
        "events": json.loads(row["events"]),
        "late_after": format_duration(row["late_us"]),
        "is_active": bool(row["is_active"]),
        "created_at": format_instant(row["created_us"]),
        "updated_at": format_instant(row["updated_us"]),
    }


def _delivery(row: StoredRow) -> JsonObject:
    ended_us = row["ended_us"]
    return {
        "delivery_id": row["id"],
        "event": row["event"],
        "state": row["state"],
        "webhook_id": row["webhook_id"] or None,
        "url": row["url"] or None,
        "job_id": row["job_id"] or None,
        "run_id": row["run_id"] or None,
        "attempts": row["attempt"],
        "status": row["status"],
        "error": row["error"],
        "took_ms": row["took_ms"],
        "created_at": format_instant(row["created_us"]),
        "next_attempt_at": format_instant(row["next_us"]) if row["state"] == "waiting" else None,
        "ended_at": None if ended_us is None else format_instant(ended_us),
    }

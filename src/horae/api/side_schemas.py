"""The shapes of calendars, secrets and webhooks."""

from __future__ import annotations

from typing import Any

from horae.api.query import DELIVERY_STATES
from horae.api.schema_words import (
    COUNT,
    COUNT_OR_NULL,
    DURATION,
    FLAG,
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
from horae.core.secrets import LONGEST, SHORTEST
from horae.core.webhooks import EVENTS

_DATES: Schema = array({"type": "string", "format": "date"})
_DAYS: Schema = {"exclude": _DATES, "include": _DATES, "holidays": TEXT, "subdivision": TEXT}
_WEBHOOK: Schema = {
    "name": TOKEN,
    "url": TEXT,
    "events": array(one_of(EVENTS), minItems=1),
    "late_after": DURATION,
    "is_active": FLAG,
}
_WEBHOOK_ANSWER = {"id": TEXT} | _WEBHOOK | {"created_at": TIME, "updated_at": TIME}
_DELIVERY: Schema = {
    "delivery_id": TEXT,
    "event": TEXT,
    "state": one_of(DELIVERY_STATES),
    "webhook_id": TEXT_OR_NULL,
    "url": TEXT_OR_NULL,
    "job_id": TEXT_OR_NULL,
    "run_id": TEXT_OR_NULL,
    "attempts": COUNT,
    "status": COUNT_OR_NULL,
    "error": TEXT_OR_NULL,
    "took_ms": COUNT_OR_NULL,
    "created_at": TIME,
    "next_attempt_at": TIME_OR_NULL,
    "ended_at": TIME_OR_NULL,
}
_GONE: Schema = {"deleted": TRUE}

SIDE_EXAMPLES: dict[str, Any] = {
    "Calendar": {"exclude": ["2030-12-24"], "holidays": "DE"},
    "Secret": {"value": "correct horse battery staple"},
    "Webhook": {"name": "ops", "url": "https://example.com/hook", "events": ["run.failed", "run.recovered"]},
    "WebhookChange": {"events": ["run.failed"], "late_after": "5m"},
}

SIDE_SCHEMAS: dict[str, Schema] = {
    "Calendar": sent(_DAYS),
    "CalendarAnswer": record({"name": TEXT, "version": COUNT, "updated_at": TIME} | _DAYS, optional=_DAYS),
    "CalendarList": listing("calendars", "CalendarAnswer"),
    "DeletedCalendar": record(_GONE | {"name": TEXT}),
    "Secret": sent({"value": TEXT | {"minLength": SHORTEST, "maxLength": LONGEST}}, "value"),
    "SecretAnswer": record({"name": TEXT, "version": COUNT, "created_at": TIME, "updated_at": TIME}),
    "SecretList": listing("secrets", "SecretAnswer"),
    "DeletedSecret": record(_GONE | {"name": TEXT}),
    "Webhook": sent(_WEBHOOK, "name", "url", "events"),
    "WebhookChange": sent(_WEBHOOK),
    "WebhookAnswer": record(_WEBHOOK_ANSWER),
    "WebhookSecret": record(_WEBHOOK_ANSWER | {"secret": TEXT}),
    "WebhookList": listing("webhooks", "WebhookAnswer"),
    "DeletedWebhook": record(_GONE | {"id": TEXT}),
    "Signing": record({"secret": TEXT, "old_secret": TEXT_OR_NULL}),
    "DeliveryId": record({"delivery_id": TEXT}),
    "Delivery": record(_DELIVERY),
    "DeliveryList": page("deliveries", "Delivery"),
}

"""Webhooks of a tenant, and the messages to them: waiting, delivered, or given up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from horae.core.duration import format_duration
from horae.core.errors import Conflict, NotFound
from horae.core.run import first_id_at
from horae.core.webhooks import TEST
from horae.ports import Delivered, Message, NewWebhook, Outlook
from horae.store.database import Row, Rows, Statement, Steps, note, reading, transaction, viewing
from horae.store.notices import LATE_LIMITS, TELL_LATE, WATCH

_COLUMNS = "b.id, b.tenant, b.name, b.url, b.events, b.late_us, b.is_active, b.created_us, b.updated_us"

LIST = Statement(f"SELECT {_COLUMNS} FROM webhooks b WHERE b.tenant = :tenant ORDER BY b.name")

LOCK = Statement(f"""
SELECT {_COLUMNS}, b.sealed
FROM webhooks b
WHERE b.tenant = :tenant AND (b.id = :word OR b.name = :word)
ORDER BY CASE WHEN b.id = :word THEN 0 ELSE 1 END
FOR UPDATE OF b
""")

TAKEN = Statement("SELECT 1 AS n FROM webhooks WHERE tenant = :tenant AND (name = :name OR id = :name) AND id <> :id")

INSERT = Statement("""
INSERT INTO webhooks (id, tenant, name, url, events, late_us, is_active, sealed, created_us, updated_us)
VALUES (:id, :tenant, :name, :url, :events, :late_us, :is_active, :sealed, horae_now(), horae_now())
""")

UPDATE = Statement("""
UPDATE webhooks
SET name = :name, url = :url, events = :events, late_us = :late_us, is_active = :is_active, updated_us = horae_now()
WHERE id = :id
""")

# The secret before stays good for a while: whoever checks signatures may change over in their own time.
ROTATE = Statement("""
UPDATE webhooks
SET old_sealed = sealed, old_until_us = horae_now() + :overlap_us, sealed = :sealed, updated_us = horae_now()
WHERE id = :id
""")

DELETE = Statement("DELETE FROM webhooks WHERE id = :id")

DROP_WAITING = Statement("DELETE FROM deliveries WHERE webhook_id = :id AND state = 'waiting'")

UNWATCH = Statement("DELETE FROM watches WHERE tenant = :tenant AND webhook_id = :id AND job_id = ''")

USERS = Statement("""
SELECT j.name
FROM watches w
JOIN jobs j ON j.id = w.job_id
WHERE w.tenant = :tenant AND w.webhook_id = :id
LIMIT 3
""")

TRY = Statement("""
INSERT INTO deliveries (id, tenant, webhook_id, url, event, job_id, run_id, created_us, next_us, attempt, state)
VALUES (:id, :tenant, :webhook_id, '', :event, '', '', horae_now(), horae_now(), 0, 'waiting')
""")

# Waiting messages whose time has come, taken for a minute: a sender that dies leaves them to another.
TAKE = Statement("""
UPDATE deliveries
SET attempt = attempt + 1, next_us = horae_now() + :lease_us
WHERE id IN (
    SELECT id FROM deliveries
    WHERE state = 'waiting' AND next_us <= (SELECT horae_now())
      AND tenant NOT IN (SELECT busy.tenant FROM {rows:busy(tenant text)})
    ORDER BY next_us
    LIMIT :most
    {skip_locked}
)
RETURNING id
""")

MESSAGES = Statement("""
SELECT d.id AS delivery_id, d.attempt AS number, d.event, d.created_us, d.url AS plain_url, d.tenant AS for_tenant,
       b.id AS webhook_id, b.url, b.is_active, b.sealed, b.old_sealed, b.old_until_us, horae_now() AS now_us,
       j.name AS job_name, coalesce(h.id, r.id) AS id, coalesce(h.job_id, r.job_id) AS job_id,
       coalesce(h.tenant, r.tenant) AS tenant, coalesce(h.status, r.state) AS status,
       coalesce(h.reason, r.reason) AS reason, coalesce(h.error, r.error) AS error, coalesce(h.cause, r.cause) AS cause,
       coalesce(h.due_us, r.due_us) AS due_us, coalesce(h.started_us, r.started_us) AS started_us, h.ended_us,
       coalesce(h.attempt, r.attempt) AS attempt, h.skip_until_us, coalesce(h.skip_count, 0) AS skip_count
FROM {rows:wanted(id text)}
JOIN deliveries d ON d.id = wanted.id
LEFT JOIN webhooks b ON b.id = d.webhook_id
LEFT JOIN jobs j ON j.id = d.job_id
LEFT JOIN history h ON h.id = d.run_id
LEFT JOIN runs r ON r.id = d.run_id
""")

NEXT = Statement("""
SELECT min(next_us) AS next_us, horae_now() AS now_us,
       EXISTS (SELECT 1 FROM watches WHERE event = 'run.late') AS has_late
FROM deliveries
WHERE state = 'waiting'
""")

FINISH = Statement("""
UPDATE deliveries
SET state = CASE WHEN done.is_delivered THEN 'delivered' WHEN done.gap_us IS NULL THEN 'dead' ELSE 'waiting' END,
    next_us = horae_now() + coalesce(done.gap_us, 0), status = done.status, error = done.error, took_ms = done.took_ms,
    ended_us = CASE WHEN done.is_delivered OR done.gap_us IS NULL THEN horae_now() END
FROM {rows:done(id text, attempt integer, is_delivered boolean, gap_us bigint, status integer, error text,
                took_ms integer)}
WHERE deliveries.id = done.id AND deliveries.attempt = done.attempt AND deliveries.state = 'waiting'
""")

_DELIVERY = """id, event, webhook_id, url, job_id, run_id, state, attempt, status, error, took_ms, created_us, next_us,
       ended_us"""

DELIVERIES = Statement(f"""
SELECT {_DELIVERY}
FROM deliveries
WHERE tenant = :tenant AND (CAST(:webhook_id AS TEXT) IS NULL OR webhook_id = :webhook_id)
  AND (CAST(:state AS TEXT) IS NULL OR state = :state) AND (CAST(:before_id AS TEXT) IS NULL OR id < :before_id)
ORDER BY id DESC
LIMIT :most
""")

RESEND = Statement(f"""
UPDATE deliveries
SET state = 'waiting', next_us = horae_now(), attempt = 0, ended_us = NULL
WHERE id = :id AND tenant = :tenant
RETURNING {_DELIVERY}
""")


@viewing
def listed(tenant: str) -> Steps[Rows]:
    return (yield LIST(tenant=tenant))


def _hold(tenant: str, word: str) -> Steps[Row]:
    rows = yield LOCK(tenant=tenant, word=word)
    if not rows:
        raise NotFound(f'There is no webhook "{word}".')
    return rows[0]


@transaction
def create(tenant: str, webhook: NewWebhook, sealed: str) -> Steps[Row]:
    yield from _check_name(tenant, webhook)
    yield INSERT(tenant=tenant, sealed=sealed, **_values(webhook))
    yield from _watch(tenant, webhook)
    yield note("webhook.created", webhook.id, None, _said(_values(webhook)))
    return dict((yield from _hold(tenant, webhook.id)))


@transaction
def change(tenant: str, word: str, changes: dict[str, Any]) -> Steps[Row]:
    row = yield from _hold(tenant, word)
    kept = {**row, "events": json.loads(row["events"]), "is_active": bool(row["is_active"]), **changes}
    webhook = NewWebhook(
        kept["id"], kept["name"], kept["url"], kept["events"], kept["late_us"], is_active=kept["is_active"]
    )
    yield from _check_name(tenant, webhook)
    yield UPDATE(**_values(webhook))
    yield UNWATCH(tenant=tenant, id=webhook.id)
    yield from _watch(tenant, webhook)
    before = {name: row[name] for name in _values(webhook)}
    yield note("webhook.changed", webhook.id, _said(before), _said(_values(webhook)))
    return (yield from _hold(tenant, webhook.id))


def _check_name(tenant: str, webhook: NewWebhook) -> Steps[None]:
    if (yield TAKEN(tenant=tenant, name=webhook.name, id=webhook.id)):
        raise Conflict(f'A webhook named "{webhook.name}" exists.', "name_taken")


def _values(webhook: NewWebhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "name": webhook.name,
        "url": webhook.url,
        "events": json.dumps(webhook.events),
        "late_us": webhook.late_us,
        "is_active": webhook.is_active,
    }


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    """As the API has them."""
    told = {name: value for name, value in values.items() if name != "late_us"}
    return told | {"events": json.loads(values["events"]), "late_after": format_duration(values["late_us"])}


def _watch(tenant: str, webhook: NewWebhook) -> Steps[None]:
    if webhook.is_active and webhook.events:
        yield WATCH(n=[(tenant, "", event, webhook.id, "", webhook.late_us) for event in webhook.events])


@transaction
def rotate(tenant: str, word: str, seal: Callable[[str], str], overlap_us: int) -> Steps[Row]:
    """`seal` makes the new secret as it is kept for the webhook of this id."""
    id_ = (yield from _hold(tenant, word))["id"]
    yield ROTATE(id=id_, sealed=seal(id_), overlap_us=overlap_us)
    yield note("webhook.rotated", id_)
    return dict((yield from _hold(tenant, id_)))


@transaction
def delete(tenant: str, word: str) -> Steps[str]:
    row = yield from _hold(tenant, word)
    users = dict.fromkeys(user["name"] for user in (yield USERS(tenant=tenant, id=row["id"])))
    if users:
        hint = f'Change these jobs first: PATCH /jobs/{next(iter(users))} {{"notify": []}}.'
        raise Conflict(f'Webhook "{row["name"]}" is named by {", ".join(users)}.', "webhook_used", hint=hint)
    yield UNWATCH(tenant=tenant, id=row["id"])
    yield DROP_WAITING(id=row["id"])
    yield DELETE(id=row["id"])
    yield note("webhook.deleted", row["id"], {"name": row["name"]})
    return str(row["id"])


@transaction
def try_out(tenant: str, word: str, delivery_id: str) -> Steps[str]:
    """A message that tells of nothing, to see whether messages arrive."""
    row = yield from _hold(tenant, word)
    yield TRY(id=delivery_id, tenant=tenant, webhook_id=row["id"], event=TEST)
    yield note("webhook.tested", row["id"])
    return delivery_id


@transaction
def take(most: int, lease_us: int, busy: list[str]) -> Steps[list[Message]]:
    """Messages to send now, each counted as an attempt; none of tenants that have enough of them under way."""
    rows = yield TAKE(most=most, lease_us=lease_us, busy=[(tenant,) for tenant in busy])
    taken = [(row["id"],) for row in rows]
    rows = (yield MESSAGES(wanted=taken)) if taken else []
    return [_message(row) for row in rows]


def _message(row: Row) -> Message:
    is_old_good = row["old_sealed"] is not None and row["old_until_us"] > row["now_us"]
    return Message(
        id=row["delivery_id"],
        attempt=row["number"],
        tenant=row["for_tenant"],
        event=row["event"],
        at_us=row["created_us"],
        now_us=row["now_us"],
        webhook_id=row["webhook_id"],
        url=row["url"] or row["plain_url"],
        is_wanted=row["webhook_id"] is None or bool(row["is_active"]),
        sealed=[sealed for sealed in (row["sealed"], row["old_sealed"] if is_old_good else None) if sealed],
        run=dict(row) if row["id"] is not None else None,
    )


@reading
def outlook() -> Steps[Outlook]:
    row = (yield NEXT())[0]
    wait_us = None if row["next_us"] is None else max(0, row["next_us"] - row["now_us"])
    return Outlook(wait_us, bool(row["has_late"]))


@transaction
def finish(done: list[Delivered]) -> Steps[None]:
    rows = [(d.id, d.attempt, d.is_delivered, d.gap_us, d.status, d.error, d.took_ms) for d in done]
    yield FINISH(done=rows)


@transaction
def tell_late(window_us: int) -> Steps[None]:
    """Messages about runs that still wait although they should have started. Each becomes late once, so those of the
    last `window_us` are looked at; if nobody looked then, the end of the run tells.
    """
    limits = (yield LATE_LIMITS())[0]
    if limits["least_us"] is not None:
        yield TELL_LATE(
            from_id=first_id_at(limits["now_us"] - limits["most_us"] - window_us),
            to_id=first_id_at(limits["now_us"] - limits["least_us"]),
        )


@viewing
def deliveries(tenant: str, word: str | None, state: str | None, before_id: str | None, most: int) -> Steps[Rows]:
    webhook_id = None if word is None else (yield from _hold(tenant, word))["id"]
    return (yield DELIVERIES(tenant=tenant, webhook_id=webhook_id, state=state, before_id=before_id, most=most))


@transaction
def resend(tenant: str, delivery_id: str) -> Steps[Row]:
    rows = yield RESEND(tenant=tenant, id=delivery_id)
    if not rows:
        raise NotFound(f"There is no delivery {delivery_id}.")
    yield note("delivery.resent", delivery_id)
    return dict(rows[0])

"""Tenants with their quotas and weights, and their queues: what they may do, and how full they are."""

from __future__ import annotations

from typing import Any

from horae.core.access import DEFAULT_TENANT
from horae.core.audit import difference
from horae.core.errors import Conflict, NotFound
from horae.core.job import PRIORITY_NAME, read_bucket
from horae.store.database import Row, Rows, Statement, Steps, note, transaction, viewing
from horae.store.quotas import FORGET_JOBS, lines_of

# The tenant `default` is there without anybody having made it.
_COLUMNS = """
SELECT n.tenant, coalesce(t.description, '') AS description, t.max_jobs, t.max_queued, t.requests_per_second,
       t.max_payload_bytes, t.created_us, t.updated_us, l.max_running, coalesce(l.is_paused, false) AS is_paused,
       coalesce(l.weight, 1) AS weight, u.jobs, u.queued
FROM %s AS n
LEFT JOIN tenants t ON t.tenant = n.tenant
LEFT JOIN limits l ON l.tenant = n.tenant AND l.queue = ''
LEFT JOIN usage u ON u.tenant = n.tenant
"""

_PAGE = """(
    SELECT page.tenant
    FROM (SELECT tenant FROM tenants WHERE tenant > :after ORDER BY tenant LIMIT :most) AS page
    UNION
    SELECT 'default' WHERE 'default' > :after
)"""

LIST = Statement(f"{_COLUMNS % _PAGE} ORDER BY n.tenant LIMIT :most")

READ = Statement(f"""
{_COLUMNS % "(SELECT CAST(:tenant AS TEXT) AS tenant)"}
WHERE t.tenant IS NOT NULL OR n.tenant = 'default'
""")

INSERT = Statement("""
INSERT INTO tenants (tenant, description, created_us, updated_us)
VALUES (:tenant, '', horae_now(), horae_now())
ON CONFLICT (tenant) DO NOTHING
RETURNING tenant
""")

LOCK = Statement("SELECT tenant FROM tenants WHERE tenant = :tenant FOR UPDATE")

UPDATE = Statement("""
UPDATE tenants
SET description = :description, max_jobs = :max_jobs, max_queued = :max_queued,
    requests_per_second = :requests_per_second, max_payload_bytes = :max_payload_bytes, updated_us = horae_now()
WHERE tenant = :tenant
""")

LIMIT = Statement("""
INSERT INTO limits (tenant, queue, max_running, is_paused, weight)
VALUES (:tenant, :queue, :max_running, :is_paused, :weight)
ON CONFLICT (tenant, queue) DO UPDATE
SET max_running = excluded.max_running, is_paused = excluded.is_paused, weight = excluded.weight
""")

LIMITS = Statement("SELECT queue, max_running, is_paused, weight FROM limits WHERE tenant = :tenant AND queue <> ''")

LIMIT_OF_QUEUE = Statement("""
SELECT max_running, is_paused, weight
FROM limits
WHERE tenant = :tenant AND queue = :queue
FOR UPDATE
""")

# Runs that are due, line by line, counted up to a bound: nobody needs a longer line told more exactly.
WAITING = Statement("""
SELECT line.bucket, horae_now() AS now_us,
       (SELECT count(*)
        FROM (SELECT 1 AS one
              FROM runs r
              WHERE r.state = 'queued' AND r.bucket = line.bucket AND r.available_us <= horae_now()
              LIMIT :most) AS found) AS queued,
       (SELECT min(r.available_us) FROM runs r WHERE r.state = 'queued' AND r.bucket = line.bucket) AS head_us
FROM {rows:line(bucket text)}
""")

RUNNING = Statement("""
SELECT r.queue, count(*) AS n
FROM runs r
WHERE r.state = 'running' AND r.tenant = :tenant
GROUP BY r.queue
""")

FIELDS = ("description", "max_jobs", "max_queued", "requests_per_second", "max_payload_bytes")
LIMIT_FIELDS = ("max_running", "is_paused", "weight")
MOST_COUNTED = 10_000


@transaction
def create(tenant: str, fields: dict[str, Any]) -> Steps[str]:
    if not (yield INSERT(tenant=tenant)):
        detail = f'A tenant named "{tenant}" exists. Change it with PATCH /tenants/{tenant}.'
        raise Conflict(detail, "name_taken", pointer="/tenant")
    _, after = yield from _write(tenant, fields)
    yield note("tenant.created", tenant, None, after)
    return tenant


@transaction
def change(tenant: str, fields: dict[str, Any]) -> Steps[str]:
    """Only the fields given change."""
    if tenant == DEFAULT_TENANT:
        yield INSERT(tenant=tenant)
    if not (yield LOCK(tenant=tenant)):
        raise _unknown(tenant)
    before, after = yield from _write(tenant, fields)
    if before != after:
        yield note("tenant.changed", tenant, *difference(before, after))
    return tenant


def _write(tenant: str, fields: dict[str, Any]) -> Steps[tuple[dict[str, Any], dict[str, Any]]]:
    row = (yield READ(tenant=tenant))[0]
    before = {name: _plain(name, row[name]) for name in (*FIELDS, *LIMIT_FIELDS)}
    after = before | fields
    yield UPDATE(tenant=tenant, **{name: after[name] for name in FIELDS})
    if any(after[name] != before[name] for name in LIMIT_FIELDS):
        yield LIMIT(tenant=tenant, queue="", **{name: after[name] for name in LIMIT_FIELDS})
    if after["max_jobs"] != before["max_jobs"]:
        # The jobs made without a quota were nobody's to count.
        yield FORGET_JOBS(tenant=tenant)
    return before, after


def _plain(name: str, value: Any) -> Any:
    return bool(value) if name == "is_paused" else value


@viewing
def listed(after: str | None, most: int) -> Steps[Rows]:
    return (yield LIST(after=after or "", most=most))


@viewing
def one(tenant: str) -> Steps[Row]:
    rows = yield READ(tenant=tenant)
    if not rows:
        raise _unknown(tenant)
    return rows[0]


def _unknown(tenant: str) -> NotFound:
    return NotFound(f'There is no tenant "{tenant}".')


@transaction
def change_queue(tenant: str, queue: str, fields: dict[str, Any]) -> Steps[None]:
    """Pauses, resumes or caps one queue of a tenant."""
    rows = yield LIMIT_OF_QUEUE(tenant=tenant, queue=queue)
    row = rows[0] if rows else {"max_running": None, "is_paused": False, "weight": 1}
    before = {name: _plain(name, row[name]) for name in LIMIT_FIELDS}
    after = before | fields
    if after != before:
        yield LIMIT(tenant=tenant, queue=queue, **after)
        yield note("queue.changed", queue, *difference(before, after))


@viewing
def queues(tenant: str) -> Steps[list[dict[str, Any]]]:
    """Every queue that a job of the tenant uses or that has a limit, with what waits and what runs."""
    lines = yield from lines_of(tenant)
    waiting = (yield WAITING(line=lines, most=MOST_COUNTED)) if lines else []
    running = {row["queue"]: row["n"] for row in (yield RUNNING(tenant=tenant))}
    limits = {row["queue"]: row for row in (yield LIMITS(tenant=tenant))}
    names = {read_bucket(row["bucket"]).queue for row in waiting} | running.keys() | limits.keys()
    return [_queue(name, waiting, running.get(name, 0), limits.get(name)) for name in sorted(names)]


def _queue(name: str, waiting: Rows, running: int, limit: Row | None) -> dict[str, Any]:
    by_priority = {word: {"queued": 0, "oldest_us": None} for word in PRIORITY_NAME.values()}
    is_exact = True
    for row in waiting:
        bucket = read_bucket(row["bucket"])
        if bucket.queue != name or not row["queued"]:
            continue
        part: dict[str, Any] = by_priority[PRIORITY_NAME[bucket.priority]]
        part["queued"] += row["queued"]
        part["oldest_us"] = max(part["oldest_us"] or 0, row["now_us"] - row["head_us"])
        is_exact = is_exact and row["queued"] < MOST_COUNTED
    return {
        "queue": name,
        "by_priority": by_priority,
        "is_exact": is_exact,
        "running": running,
        "max_running": limit["max_running"] if limit else None,
        "is_paused": bool(limit and limit["is_paused"]),
    }

"""Waiting runs with the reason why they wait: one statement for all of them, none if nothing waits."""

from __future__ import annotations

import json
from collections.abc import Sequence

from horae.core.access import is_shared, serves
from horae.core.job import read_bucket
from horae.core.run import QUEUED
from horae.core.waiting import HELD_BACK, OWN, Around, Server, why_waits
from horae.store.database import Row, Statement, Steps
from horae.store.quotas import lines_of

# Everything that can hold back the runs of a tenant. Running runs are few; they are counted if a limit asks for it.
AROUND = Statement("""
SELECT 'worker' AS kind, w.id AS name, w.queues, w.needs, w.slots - w.running AS n, false AS is_paused
FROM workers w
WHERE w.state = 'active' AND w.expires_us > horae_now()
UNION ALL
SELECT 'limit', l.queue, NULL, NULL, l.max_running, l.is_paused
FROM limits l
WHERE l.tenant = :tenant
UNION ALL
SELECT 'running', r.queue, NULL, NULL, CAST(count(*) AS INTEGER), false
FROM runs r
WHERE r.state = 'running' AND r.tenant = :tenant
  AND EXISTS (SELECT 1 FROM limits l WHERE l.tenant = :tenant AND l.max_running IS NOT NULL)
GROUP BY r.queue
""")

# The filter to what `with_reasons` shows: by the line that a waiting run stands in, and what only the run knows.
WAITS_FOR = """CASE WHEN r.state = 'queued' AND r.attempt = 0 AND r.run_at_us <= horae_now()
     THEN (r.bucket, CASE WHEN r.reason IN ('job_concurrency', 'rate_limited') THEN r.reason ELSE '' END)
          IN (SELECT held.bucket, held.said FROM {rows:held(bucket text, said text)})
     ELSE r.reason = :reason END"""


def around(tenant: str) -> Steps[Around]:
    rows = yield AROUND(tenant=tenant)
    limits = [row for row in rows if row["kind"] == "limit"]
    running = {row["name"]: row["n"] for row in rows if row["kind"] == "running"}
    return Around(
        workers=[_server(row) for row in rows if row["kind"] == "worker" and serves(row["name"], tenant)],
        paused=frozenset(row["name"] for row in limits if row["is_paused"]),
        caps={row["name"]: row["n"] for row in limits if row["n"] is not None},
        running=running | {"": sum(running.values())},
    )


def with_reasons(tenant: str, rows: Sequence[Row]) -> Steps[list[Row]]:
    """Runs as `LIVE_RUN` in views.py has them."""
    if not any(_waits(row) for row in rows):
        return list(rows)
    now = yield from around(tenant)
    return [{**row, "reason": _reason(now, row)} if _waits(row) else row for row in rows]


def lines_held(tenant: str, reason: str) -> Steps[list[tuple[str, str]]]:
    """The waiting lines of a tenant that are held back for this reason, with what their runs say themselves."""
    if reason not in HELD_BACK:
        return []
    now = yield from around(tenant)
    lines = [(bucket, read_bucket(bucket)) for (bucket,) in (yield from lines_of(tenant))]
    return [
        (bucket, said)
        for bucket, line in lines
        for said in ("", *sorted(OWN))
        if why_waits(now, line.queue, line.need, said or None) == reason
    ]


def _waits(row: Row) -> bool:
    return bool(row["status"] == QUEUED and row["attempt"] == 0 and row["run_at_us"] <= row["now_us"])


def _reason(now: Around, row: Row) -> str | None:
    return why_waits(now, row["queue"], read_bucket(row["bucket"]).need, row["reason"])


def _server(row: Row) -> Server:
    queues, needs = (frozenset(json.loads(row[field])) for field in ("queues", "needs"))
    return Server(queues, needs, row["n"], is_shared(row["name"]))

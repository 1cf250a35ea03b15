"""The whole record, for those who want to check it: one fact a line, in the order that `horae verify` reads.

Live runs are read before ended ones, so that a run which ends meanwhile is seen twice rather than never.
"""

from __future__ import annotations

import json
from typing import Any

from horae.store.database import Rows, Statement, Steps, viewing
from horae.store.results import WORKER_LOST

HEAD = Statement("SELECT horae_now() AS now_us")

_RUN = """tenant, queue, version, cause, due_us, run_at_us, started_us, attempt, max_attempts, token, epoch, reason,
       parent_id, queued_us"""

PAGES = {
    "job": Statement("""
SELECT j.id, j.tenant, j.name, j.state, j.created_us, t.due_us, t.fired
FROM jobs j
JOIN timers t ON t.job_id = j.id
WHERE j.id > :after AND (CAST(:tenant AS TEXT) IS NULL OR j.tenant = :tenant) AND CAST(:number AS BIGINT) = :number
ORDER BY j.id
LIMIT :most
"""),
    "version": Statement("""
SELECT v.job_id, v.version, v.spec, v.created_us
FROM job_versions v
JOIN jobs j ON j.id = v.job_id
WHERE (v.job_id, v.version) > (:after, :number) AND (CAST(:tenant AS TEXT) IS NULL OR j.tenant = :tenant)
ORDER BY v.job_id, v.version
LIMIT :most
"""),
    "event": Statement("""
SELECT seq, at_us, kind, job_id, run_id, detail
FROM events
WHERE seq > :number AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) AND CAST(:after AS TEXT) = :after
ORDER BY seq
LIMIT :most
"""),
    "live": Statement(f"""
SELECT id, job_id, {_RUN}, state AS status, available_us, CAST(NULL AS BIGINT) AS ended_us, is_once,
       CAST(NULL AS BIGINT) AS skip_until_us, 0 AS skip_count
FROM runs
WHERE id > :after AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) AND CAST(:number AS BIGINT) = :number
ORDER BY id
LIMIT :most
"""),
    "ended": Statement(f"""
SELECT id, job_id, {_RUN}, status, run_at_us AS available_us, ended_us, false AS is_once, skip_until_us, skip_count
FROM history
WHERE (id, ended_us) > (:after, :number) AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
ORDER BY id, ended_us
LIMIT :most
"""),
    "attempt": Statement("""
SELECT run_id, attempt AS number, token, started_us, ended_us, reason, worker, error LIKE :reaped AS is_reaped
FROM attempts
WHERE (run_id, attempt) > (:after, :number) AND CAST(:tenant AS TEXT) IS NOT DISTINCT FROM :tenant
ORDER BY run_id, attempt
LIMIT :most
"""),
    "worker": Statement("""
SELECT id, expires_us
FROM workers
WHERE id > :after AND CAST(:number AS BIGINT) = :number AND CAST(:tenant AS TEXT) IS NOT DISTINCT FROM :tenant
ORDER BY id
LIMIT :most
"""),
    "dead_letter": Statement("""
SELECT run_id, replayed_as
FROM dead_letters
WHERE run_id > :after AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) AND CAST(:number AS BIGINT) = :number
ORDER BY run_id
LIMIT :most
"""),
}

# The columns that a page ends with, from which the next one goes on.
_KEYS = {
    "job": ("id", None),
    "version": ("job_id", "version"),
    "event": (None, "seq"),
    "live": ("id", None),
    "ended": ("id", "ended_us"),
    "attempt": ("run_id", "number"),
    "worker": ("id", None),
    "dead_letter": ("run_id", None),
}
_TYPES = {"live": "run", "ended": "run"}
KINDS = tuple(PAGES)
PAGE = 2000

Key = tuple[str, int]
START: Key = ("", -1)


@viewing
def head(retention_us: int) -> Steps[str]:
    now_us = (yield HEAD())[0]["now_us"]
    return json.dumps({"type": "store", "now_us": now_us, "kept_since_us": now_us - retention_us})


@viewing
def page(kind: str, tenant: str | None, key: Key) -> Steps[tuple[list[str], Key | None]]:
    """Lines, and where the next page of this kind begins (None: there is none)."""
    reaped = {"reaped": f"{WORKER_LOST}%"} if kind == "attempt" else {}
    rows = yield PAGES[kind](after=key[0], number=key[1], tenant=tenant, most=PAGE, **reaped)
    return [_line(kind, row) for row in rows], _next(kind, rows)


def _line(kind: str, row: Any) -> str:
    fact = {**row, "type": _TYPES.get(kind, kind)}
    fact |= {name: bool(fact[name]) for name in ("is_once", "is_reaped") if name in fact}
    return json.dumps(fact)


def _next(kind: str, rows: Rows) -> Key | None:
    if len(rows) < PAGE:
        return None
    text, number = _KEYS[kind]
    return (rows[-1][text] if text else "", rows[-1][number] if number else -1)

"""What people look at: jobs with their next and last run, runs live and over, dead letters, the fleet. Reads only.

Jobs in lists are job_lists.py. Lists page by key; nothing is counted exactly.
"""

from __future__ import annotations

from typing import Any

from horae.core.errors import NotFound
from horae.store.database import Row, Rows, Statement, Steps, reading, viewing
from horae.store.jobs import FIND

# A job's status is read off its rows: a schedule with nothing left and nothing live is completed.
STATUS = """
CASE WHEN j.state = 'deleted' THEN 'CANCELLED'
     WHEN j.state = 'paused' AND (j.pause_until_us IS NULL OR j.pause_until_us > horae_now()) THEN 'PAUSED'
     WHEN j.kind NOT IN ('MANUAL', 'AFTER') AND t.due_us IS NULL
          AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = j.id AND r.cause = 'schedule') THEN 'COMPLETED'
     ELSE 'SCHEDULED' END
"""

JOB_COLUMNS = f"""
SELECT j.id, j.tenant, j.name, j.version, j.kind, j.created_us, j.updated_us, j.pause_until_us, j.pause_reason,
       j.state, v.spec, t.due_us, horae_now() AS now_us, {STATUS} AS status,
       (SELECT min(r.due_us) FROM runs r
        WHERE r.job_id = j.id AND r.state = 'queued' AND r.due_us > horae_now()) AS staged_us,
       (SELECT max(r.id) FROM runs r WHERE r.job_id = j.id AND r.due_us <= horae_now()) AS live_id,
       (SELECT max(h.id) FROM history h WHERE h.job_id = j.id) AS ended_id
FROM jobs j
JOIN job_versions v ON v.job_id = j.id AND v.version = j.version
JOIN timers t ON t.job_id = j.id
"""

JOB = Statement(f"{JOB_COLUMNS} WHERE j.id = :id")

_LIVE_RUN = """
SELECT r.id, r.job_id, j.name AS job_name, r.tenant, r.version, r.cause, r.queue, r.priority, r.state AS status,
       r.due_us, r.run_at_us, r.queued_us, r.available_us, r.started_us, CAST(NULL AS BIGINT) AS ended_us, r.attempt,
       r.max_attempts, r.worker, r.reason, r.error, CAST(NULL AS TEXT) AS result, r.payload, r.parent_id,
       CAST(NULL AS BIGINT) AS skip_until_us, 0 AS skip_count, r.token, r.cancel, horae_now() AS now_us
FROM runs r
JOIN jobs j ON j.id = r.job_id
"""
_ENDED_RUN = """
SELECT h.id, h.job_id, j.name AS job_name, h.tenant, h.version, h.cause, h.queue, h.priority, h.status,
       h.due_us, h.run_at_us, h.queued_us, h.run_at_us AS available_us, h.started_us, h.ended_us, h.attempt,
       h.max_attempts, h.worker, h.reason, h.error, h.result, h.payload, h.parent_id,
       h.skip_until_us, h.skip_count, h.token, CAST(NULL AS TEXT) AS cancel, horae_now() AS now_us
FROM history h
JOIN jobs j ON j.id = h.job_id
"""

RUNS_BY_ID = Statement(f"""
{_LIVE_RUN} WHERE r.id IN (SELECT id FROM {{rows:wanted(id text)}}) AND r.tenant = :tenant
UNION ALL
{_ENDED_RUN} WHERE h.id IN (SELECT id FROM {{rows:wanted(id text)}}) AND h.tenant = :tenant
""")


def _run_filter(table: str, status: str) -> str:
    return f"""
WHERE {table}.tenant = :tenant
  AND (CAST(:job_id AS TEXT) IS NULL OR {table}.job_id = :job_id)
  AND (CAST(:before_id AS TEXT) IS NULL OR {table}.id < :before_id)
  AND (CAST(:status AS TEXT) IS NULL OR {status} = :status)
  AND (CAST(:queue AS TEXT) IS NULL OR {table}.queue = :queue)
  AND (CAST(:priority AS INTEGER) IS NULL OR {table}.priority = :priority)
  AND (CAST(:worker AS TEXT) IS NULL OR {table}.worker = :worker)
  AND (CAST(:reason AS TEXT) IS NULL OR {table}.reason = :reason)
  AND (CAST(:due_after_us AS BIGINT) IS NULL OR {table}.due_us >= :due_after_us)
  AND (CAST(:due_before_us AS BIGINT) IS NULL OR {table}.due_us < :due_before_us)
ORDER BY {table}.id DESC
LIMIT :most
"""


_LIVE_STATUS = """CASE WHEN r.state = 'running' THEN 'running'
     WHEN r.attempt > 0 THEN 'retrying'
     WHEN r.run_at_us > horae_now() THEN 'pending'
     ELSE 'queued' END"""

# Newest first: an id begins with its due time.
RUNS = Statement(f"""
SELECT * FROM (SELECT * FROM ({_LIVE_RUN} {_run_filter("r", _LIVE_STATUS)}) AS live
               UNION ALL
               SELECT * FROM ({_ENDED_RUN} {_run_filter("h", "h.status")}) AS ended) AS both_kinds
ORDER BY id DESC
LIMIT :most
""")

ATTEMPTS = Statement("""
SELECT attempt, token, worker, started_us, ended_us, reason, error
FROM attempts
WHERE run_id = :run_id
ORDER BY attempt
""")

LOGS = Statement("""
SELECT attempt, seq, text
FROM logs
WHERE run_id = :run_id AND (attempt, seq) > (:attempt, :seq)
ORDER BY attempt, seq
LIMIT :most
""")

VERSIONS = Statement("""
SELECT version, spec, created_us, actor
FROM job_versions
WHERE job_id = :id
ORDER BY version DESC
""")

DEAD_LETTERS = Statement(f"""
{_ENDED_RUN}
JOIN dead_letters d ON d.run_id = h.id
WHERE d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL
  AND (CAST(:job_id AS TEXT) IS NULL OR d.job_id = :job_id)
  AND (CAST(:before_id AS TEXT) IS NULL OR d.run_id < :before_id)
ORDER BY d.run_id DESC
LIMIT :most
""")

WORKERS = Statement("""
SELECT id, node, state, slots, running, queues, needs, started_us, seen_us, expires_us, horae_now() AS now_us
FROM workers
ORDER BY started_us, id
""")

EVENTS_OF_JOB = Statement("""
SELECT seq, at_us, kind, run_id, actor, reason, detail
FROM events
WHERE job_id = :id AND kind IN ('paused', 'resumed', 'deleted')
ORDER BY seq
""")

SKIP_AT = Statement("""
SELECT h.id, h.reason, h.due_us, h.skip_until_us, h.skip_count
FROM history h
WHERE h.job_id = :id AND h.status = 'skipped' AND h.due_us <= :at_us AND h.skip_until_us >= :at_us
LIMIT 1
""")

NOW = Statement("SELECT horae_now() AS now_us")


@reading
def now() -> Steps[int]:
    return int((yield NOW())[0]["now_us"])


def _find(tenant: str, word: str) -> Steps[str]:
    found = yield FIND(tenant=tenant, word=word)
    if not found:
        raise NotFound(f'There is no job "{word}".')
    return str(found[0]["id"])


@viewing
def job(tenant: str, word: str) -> Steps[Row]:
    """One job, with its latest run as `latest` (or None)."""
    id_ = yield from _find(tenant, word)
    row = (yield JOB(id=id_))[0]
    return (yield from with_latest(tenant, [row]))[0]


def with_latest(tenant: str, rows: Rows) -> Steps[list[Row]]:
    wanted = [max(filter(None, (row["live_id"], row["ended_id"])), default=None) for row in rows]
    ids = [(id_,) for id_ in wanted if id_]
    runs = (yield RUNS_BY_ID(wanted=ids, tenant=tenant)) if ids else []
    by_id = {run["id"]: run for run in runs}
    return [{**row, "latest": by_id.get(id_) if id_ else None} for row, id_ in zip(rows, wanted, strict=True)]


@viewing
def runs(tenant: str, job_word: str | None, filters: dict[str, Any], before_id: str | None, most: int) -> Steps[Rows]:
    job_id = (yield from _find(tenant, job_word)) if job_word is not None else None
    return (yield RUNS(tenant=tenant, job_id=job_id, before_id=before_id, most=most, **filters))


@viewing
def run(tenant: str, run_id: str) -> Steps[tuple[Row, Rows]]:
    """One run, and its attempts before the current or last one."""
    rows = yield RUNS_BY_ID(wanted=[(run_id,)], tenant=tenant)
    if not rows:
        raise NotFound(f"There is no run {run_id}.")
    attempts = yield ATTEMPTS(run_id=run_id)
    return rows[0], attempts


@viewing
def logs(run_id: str, attempt: int, seq: int, most: int) -> Steps[Rows]:
    """Chunks after (attempt, seq), in order."""
    return (yield LOGS(run_id=run_id, attempt=attempt, seq=seq, most=most))


@viewing
def versions(tenant: str, word: str) -> Steps[Rows]:
    id_ = yield from _find(tenant, word)
    return (yield VERSIONS(id=id_))


@viewing
def dead_letters(tenant: str, job_word: str | None, before_id: str | None, most: int) -> Steps[Rows]:
    job_id = (yield from _find(tenant, job_word)) if job_word is not None else None
    return (yield DEAD_LETTERS(tenant=tenant, job_id=job_id, before_id=before_id, most=most))


@viewing
def workers() -> Steps[Rows]:
    return (yield WORKERS())

"""What people look at: jobs with their next and last run, runs live and over, dead letters, the fleet. Reads only.

Lists are job_lists.py and run_lists.py.
"""

from __future__ import annotations

from horae.core.errors import NotFound
from horae.core.run import first_id_at
from horae.store.database import NOW, Row, Rows, Statement, Steps, reading, viewing
from horae.store.jobs import FIND, no_job
from horae.store.waiting import with_reasons

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
       (SELECT max(r.id) FROM runs r WHERE r.job_id = j.id AND r.due_us <= horae_now()) AS live_id
FROM jobs j
JOIN job_versions v ON v.job_id = j.id AND v.version = j.version
JOIN timers t ON t.job_id = j.id
"""

JOB = Statement(f"{JOB_COLUMNS} WHERE j.id = :id")

# The newest finished run of each job. Recent ones are looked for first, where PostgreSQL need not open every day.
LATEST = Statement("""
SELECT wanted.id, (SELECT max(h.id) FROM history h
                   WHERE h.job_id = wanted.id AND h.id >= :from_id AND h.ended_us >= :from_us) AS run_id
FROM {rows:wanted(id text)}
""")
_DAY_US = 86_400_000_000
LOOKS_BACK_US = (_DAY_US, 8 * _DAY_US, 10**18)

LIVE_RUN = """
SELECT r.id, r.job_id, j.name AS job_name, r.tenant, r.version, r.cause, r.queue, r.priority, r.state AS status,
       r.due_us, r.run_at_us, r.queued_us, r.available_us, r.started_us, CAST(NULL AS BIGINT) AS ended_us, r.attempt,
       r.max_attempts, r.worker, r.reason, r.error, CAST(NULL AS TEXT) AS result, r.payload, r.parent_id,
       CAST(NULL AS BIGINT) AS skip_until_us, 0 AS skip_count, r.token, r.cancel, r.bucket, horae_now() AS now_us
FROM runs r
JOIN jobs j ON j.id = r.job_id
"""
ENDED_RUN = """
SELECT h.id, h.job_id, j.name AS job_name, h.tenant, h.version, h.cause, h.queue, h.priority, h.status,
       h.due_us, h.run_at_us, h.queued_us, h.run_at_us AS available_us, h.started_us, h.ended_us, h.attempt,
       h.max_attempts, h.worker, h.reason, h.error, h.result, h.payload, h.parent_id,
       h.skip_until_us, h.skip_count, h.token, CAST(NULL AS TEXT) AS cancel, NULL AS bucket, horae_now() AS now_us
FROM history h
JOIN jobs j ON j.id = h.job_id
"""

RUNS_BY_ID = Statement(f"""
{LIVE_RUN} WHERE r.id IN (SELECT id FROM {{rows:wanted(id text)}}) AND r.tenant = :tenant
UNION ALL
{ENDED_RUN} WHERE h.id IN (SELECT id FROM {{rows:wanted(id text)}}) AND h.tenant = :tenant
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
WHERE run_id = :run_id AND (attempt, seq) > (:attempt, :seq) AND (tenant IS NULL OR tenant = :tenant)
ORDER BY attempt, seq
LIMIT :most
""")

VERSIONS = Statement("""
SELECT version, spec, created_us, actor
FROM job_versions
WHERE job_id = :id
ORDER BY version DESC
""")

# What a lost worker said last is not true for long: its runs go to others.
WORKERS = Statement("""
SELECT w.id, w.node, w.state, w.slots, w.queues, w.needs, w.started_us, w.seen_us, w.expires_us, horae_now() AS now_us,
       CASE WHEN w.expires_us > horae_now() THEN w.running
            ELSE (SELECT CAST(count(*) AS INTEGER) FROM runs r WHERE r.worker = w.id AND r.state = 'running')
       END AS running
FROM workers w
WHERE w.state <> 'left'
ORDER BY w.started_us, w.id
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


@reading
def now() -> Steps[int]:
    return int((yield NOW())[0]["now_us"])


DELETED = Statement("SELECT id FROM jobs WHERE tenant = :tenant AND name = :name ORDER BY id DESC LIMIT 1")


def find(tenant: str, word: str) -> Steps[str]:
    """A deleted job has a past that can be read, by its id: whoever has its name alone is told."""
    found = yield FIND(tenant=tenant, word=word)
    if not found:
        gone = yield DELETED(tenant=tenant, name=word)
        more = f" One of this name was deleted: ask for {gone[0]['id']}." if gone else ""
        raise (yield from no_job(tenant, word, more))
    return str(found[0]["id"])


@viewing
def job(tenant: str, word: str) -> Steps[Row]:
    """One job, with its latest run as `latest` (or None). Lists do not tell what a run waits for."""
    id_ = yield from find(tenant, word)
    (row,) = yield from with_latest(tenant, (yield JOB(id=id_)))
    latest = [row["latest"]] if row["latest"] else []
    return {**row, "latest": next(iter((yield from with_reasons(tenant, latest))), None)}


def with_latest(tenant: str, rows: Rows) -> Steps[list[Row]]:
    """Each row with the latest run of its job, if there is one, as `latest`."""
    if not rows:
        return []
    latest = {row["id"]: row["live_id"] for row in rows if row["live_id"]}
    wanted = [(row["id"],) for row in rows]
    for back_us in LOOKS_BACK_US:
        from_us = max(0, rows[0]["now_us"] - back_us)
        ended = (yield LATEST(wanted=wanted, from_us=from_us, from_id=first_id_at(from_us))) if wanted else []
        for row in ended:
            if row["run_id"]:
                latest[row["id"]] = max(row["run_id"], latest.get(row["id"], ""))
        wanted = [(row["id"],) for row in rows if row["id"] not in latest and row["created_us"] < from_us]
    ids = [(id_,) for id_ in latest.values() if id_]
    by_id = {run["id"]: run for run in ((yield RUNS_BY_ID(wanted=ids, tenant=tenant)) if ids else [])}
    return [{**row, "latest": by_id.get(latest.get(row["id"], ""))} for row in rows]


@viewing
def run(tenant: str, run_id: str) -> Steps[tuple[Row, Rows]]:
    """One run, and its attempts before the current or last one."""
    rows = yield RUNS_BY_ID(wanted=[(run_id,)], tenant=tenant)
    if not rows:
        raise NotFound(f"There is no run {run_id}.")
    attempts = yield ATTEMPTS(run_id=run_id)
    return (yield from with_reasons(tenant, rows))[0], attempts


@viewing
def logs(tenant: str, run_id: str, attempt: int, seq: int, most: int) -> Steps[Rows]:
    """Chunks after (attempt, seq), in order."""
    return (yield LOGS(tenant=tenant, run_id=run_id, attempt=attempt, seq=seq, most=most))


@viewing
def versions(tenant: str, word: str) -> Steps[Rows]:
    id_ = yield from find(tenant, word)
    return (yield VERSIONS(id=id_))


@viewing
def workers() -> Steps[Rows]:
    return (yield WORKERS())

"""Made-up history in bulk, for trials at size: rows are computed inside the database, a slice at a time."""

from __future__ import annotations

from horae.store.database import Statement, Steps, reading, transaction
from horae.store.quotas import ADD_JOBS

FIRST_JOB = 10_000_000  # so that numbers have the same length, and ids sort as they do

# Of a hundred runs 94 succeed and two each fail, are cancelled or are skipped. They were asked for, not scheduled: the
# schedule of a job begins with its creation, and nothing was due before.
_MADE = """
WITH RECURSIVE numbers(n) AS (
    SELECT CAST(:first AS BIGINT)
    UNION ALL
    SELECT n + 1 FROM numbers WHERE n + 1 < :until
), chosen AS (
    SELECT n, 'demo-' || CAST(:first_job + (n * 7919) % :jobs AS TEXT) AS job_id, :from_us + n * :step_us AS due_us,
           (n * 104729) % 100 AS chance
    FROM numbers
), made AS MATERIALIZED (
    SELECT n, chosen.job_id, j.tenant, j.queue, j.priority, due_us, chance, due_us + (n * 31) % 400000 AS started_us,
           due_us + (n * 31) % 400000 + CASE WHEN chance < 96 THEN (n * 1299709) % 20000000 ELSE 0 END AS ended_us,
           horae_run_id(chosen.job_id, 'demo:' || CAST(n AS TEXT), due_us) AS id
    FROM chosen
    JOIN jobs j ON j.id = chosen.job_id AND j.tenant = :tenant
)
"""

FINISHED = Statement(f"""
INSERT INTO history (id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us,
                     started_us, ended_us, attempt, max_attempts, token, worker, reason, error, result)
{_MADE}
SELECT id, job_id, tenant, 1, 'manual', queue, priority,
       CASE WHEN chance < 94 THEN 'succeeded' WHEN chance < 96 THEN 'failed' WHEN chance < 98 THEN 'cancelled'
            ELSE 'skipped' END,
       due_us, due_us, due_us, CASE WHEN chance < 96 THEN started_us END, ended_us,
       CASE WHEN chance < 96 THEN 1 ELSE 0 END, 1, n + 1,
       CASE WHEN chance < 96 THEN 'demo-worker-' || CAST(n % 8 AS TEXT) END,
       CASE WHEN chance < 94 THEN NULL WHEN chance < 96 THEN 'exception' WHEN chance < 98 THEN 'cancelled_by_user'
            ELSE 'overlap_skipped' END,
       CASE WHEN chance BETWEEN 94 AND 95 THEN 'Made up: this run failed.' END,
       CASE WHEN chance < 94 THEN '{{"made_up": true}}' END
FROM made
ORDER BY n
""")

BURIED = Statement(f"""
INSERT INTO dead_letters (run_id, job_id, tenant, at_us, fingerprint, queue, priority, reason)
{_MADE}
SELECT id, job_id, tenant, ended_us, 'Made up: this run failed.', queue, priority, 'exception'
FROM made
WHERE chance BETWEEN 94 AND 95
""")

# By their ids, which no other job has.
MADE_UP = Statement("""
SELECT id, state
FROM jobs
WHERE tenant = :tenant AND id >= 'demo-' AND id < 'demo.'
ORDER BY id
LIMIT :most
""")

COUNT = Statement("SELECT count(*) AS n FROM jobs WHERE tenant = :tenant AND id >= 'demo-' AND id < 'demo.'")

_RUNS = "SELECT h.id FROM history h JOIN {rows:gone(id text)} ON h.job_id = gone.id"

# What hangs on finished runs before these, and jobs last: a clearing that broke off finds them again.
CLEAR = (
    *(Statement(f"DELETE FROM {table} WHERE run_id IN ({_RUNS})") for table in ("attempts", "logs", "dead_letters")),
    *(
        Statement(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM {{rows:gone(id text)}})")
        for table, column in (
            ("history", "job_id"), ("runs", "job_id"), ("timers", "job_id"), ("called_off", "job_id"),
            ("chains", "job_id"), ("job_labels", "job_id"), ("job_versions", "job_id"), ("events", "job_id"),
            ("jobs", "id"),
        )
    ),
)  # fmt: skip

# Plans that were made for empty tables are not for full ones; by itself PostgreSQL would look a minute later.
LOOK_AT_JOBS, LOOK_AT_RUNS = Statement("ANALYZE jobs"), Statement("ANALYZE history")


@transaction
def settle() -> Steps[None]:
    yield LOOK_AT_JOBS()
    yield LOOK_AT_RUNS()


@reading
def count(tenant: str) -> Steps[int]:
    return int((yield COUNT(tenant=tenant))[0]["n"])


@transaction
def clear(tenant: str, most: int) -> Steps[int]:
    """Some of the made-up jobs and all that became of them. The answer is how many jobs; 0 when none is left."""
    jobs = yield MADE_UP(tenant=tenant, most=most)
    if jobs:
        for statement in CLEAR:
            yield statement(gone=[(job["id"],) for job in jobs])
        yield ADD_JOBS(tenant=tenant, n=-sum(job["state"] != "deleted" for job in jobs))
    return len(jobs)


@transaction
def finished(tenant: str, jobs: int, first: int, until: int, from_us: int, step_us: int) -> Steps[None]:
    """Runs number `first` to `until` (not included), one every `step_us`, over the first `jobs` demo jobs."""
    slice_ = {
        "tenant": tenant,
        "first_job": FIRST_JOB,
        "jobs": jobs,
        "first": first,
        "until": until,
        "from_us": from_us,
        "step_us": step_us,
    }
    yield FINISHED(**slice_)
    yield BURIED(**slice_)

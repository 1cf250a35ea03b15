"""Made-up history in bulk, for trials at size: rows are computed inside the database, a slice at a time."""

from __future__ import annotations

from horae.store.database import Statement, Steps, transaction

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

# Plans that were made for empty tables are not for full ones; by itself PostgreSQL would look a minute later.
LOOK_AT_JOBS, LOOK_AT_RUNS = Statement("ANALYZE jobs"), Statement("ANALYZE history")


@transaction
def settle() -> Steps[None]:
    yield LOOK_AT_JOBS()
    yield LOOK_AT_RUNS()


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

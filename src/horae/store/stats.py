"""How things stand, cheaply: counts stop at a cap, the recent past is a sample of the newest runs."""

from __future__ import annotations

from horae.core.run import first_id_at
from horae.ports import Standing
from horae.store.database import NOW, Row, Rows, Statement, Steps, viewing

MOST_COUNTED = 10_000
SAMPLE = 5_000
WINDOW_US = 300_000_000

# A tenant's waiting lines, found by hopping from line to line, with what is due and what is not yet. A line's name ends
# with its tenant.
LINES = Statement("""
WITH RECURSIVE line(bucket) AS (
    SELECT min(bucket) FROM runs WHERE state = 'queued'
    UNION ALL
    SELECT (SELECT min(r.bucket) FROM runs r WHERE r.state = 'queued' AND r.bucket > line.bucket)
    FROM line
    WHERE line.bucket IS NOT NULL
)
SELECT line.bucket,
       (SELECT count(*) FROM (SELECT 1 FROM runs r
                              WHERE r.state = 'queued' AND r.bucket = line.bucket AND r.available_us <= :now_us
                              LIMIT :most) AS due) AS due,
       (SELECT count(*) FROM (SELECT 1 FROM runs r
                              WHERE r.state = 'queued' AND r.bucket = line.bucket AND r.available_us > :now_us
                              LIMIT :most) AS later) AS later,
       (SELECT min(r.available_us) FROM runs r WHERE r.state = 'queued' AND r.bucket = line.bucket) AS first_us
FROM line
WHERE substr(line.bucket, length(line.bucket) - length(:tail) + 1) = :tail
""")

COUNTS = Statement("""
SELECT (SELECT count(*) FROM (SELECT 1 FROM runs WHERE state = 'running' AND tenant = :tenant LIMIT :most) AS n)
           AS running,
       (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE tenant = :tenant AND state <> 'deleted' LIMIT :most) AS n)
           AS jobs,
       (SELECT count(*) FROM (SELECT 1 FROM dead_letters
                              WHERE tenant = :tenant AND replayed_as IS NULL AND discarded_us IS NULL
                              LIMIT :most) AS n) AS dead
""")

RECENT = Statement("""
SELECT due_us, run_at_us, started_us, ended_us, attempt
FROM history
WHERE tenant = :tenant AND status = :status AND id >= :from_id
ORDER BY id DESC
LIMIT :most
""")


@viewing
def stats(tenant: str) -> Steps[Standing]:
    """Counts that reach MOST_COUNTED mean that or more."""
    now_us = (yield NOW())[0]["now_us"]
    lines = yield LINES(tail=f"|{tenant}", now_us=now_us, most=MOST_COUNTED)
    counts: Row = (yield COUNTS(tenant=tenant, most=MOST_COUNTED))[0]
    recent: dict[str, Rows] = {}
    for status in ("succeeded", "failed"):
        recent[status] = yield RECENT(
            tenant=tenant, status=status, from_id=first_id_at(now_us - WINDOW_US), most=SAMPLE
        )
    return Standing(now_us, MOST_COUNTED, WINDOW_US, SAMPLE, lines, counts, recent)

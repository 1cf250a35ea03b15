"""Who is told of what: messages are written in the same transaction as that which they tell of."""

from __future__ import annotations

from typing import Any

from horae.core.errors import Fault, Invalid
from horae.core.job import Definition
from horae.core.webhooks import Watch, watches_of_job
from horae.store.database import Statement, Steps

IS_WATCHED = """(SELECT EXISTS (SELECT 1 FROM watches))
       AND EXISTS (SELECT 1 FROM watches w
               WHERE w.tenant = r.tenant AND w.job_id IN (r.job_id, '')) AS is_watched"""

_MESSAGE = "(id, tenant, webhook_id, url, event, job_id, run_id, created_us, next_us, attempt, state)"
_WHO = "w.tenant, w.webhook_id, w.url, w.event"
_TO = "w.webhook_id || ':' || w.url"

# The last run before this one that was not merely skipped.
_BEFORE = """(SELECT p.status FROM history p
       WHERE p.job_id = h.job_id AND p.id < h.id AND p.status <> 'skipped'
       ORDER BY p.id DESC LIMIT 1)"""

# The id comes from the run and its end: a repeat is the same message, another end of a retried run is another one.
TELL = Statement(f"""
INSERT INTO deliveries {_MESSAGE}
SELECT CASE WHEN w.event = 'run.late' THEN horae_run_id(h.id, 'tell:run.late:' || {_TO}, h.run_at_us)
            ELSE horae_run_id(h.id, 'tell:' || w.event || ':' || {_TO} || ':' || CAST(h.ended_us AS TEXT), h.ended_us)
       END,
       {_WHO}, h.job_id, h.id, horae_now(), horae_now(), 0, 'waiting'
FROM history h
JOIN watches w ON w.tenant = h.tenant AND w.job_id IN (h.job_id, '')
WHERE h.id IN (SELECT id FROM {{rows:ended(id text)}})
  AND (w.event = 'run.' || h.status
       OR w.event = 'dead_letter.added' AND h.status = 'failed'
       OR w.event = 'run.missed' AND h.status = 'skipped' AND h.reason IN ('scheduler_down', 'catch_up_expired')
       OR w.event = 'run.late' AND h.started_us - h.run_at_us > w.late_us
       OR w.event = 'run.recovered' AND h.status = 'succeeded' AND {_BEFORE} IN ('failed', 'unknown'))
ON CONFLICT (id) DO NOTHING
""")

# The same for due times that a plan skips; PostgreSQL does it inside the plan.
TELL_SKIPPED = f"""
INSERT INTO deliveries {_MESSAGE}
SELECT horae_run_id(skips.id, 'tell:' || w.event || ':' || {_TO}, skips.due_us), {_WHO}, j.id, skips.id, horae_now(),
       horae_now(), 0, 'waiting'
FROM {{skips}}
JOIN jobs j ON j.id = skips.job_id
JOIN watches w ON w.tenant = j.tenant AND w.job_id IN (j.id, '')
WHERE (w.event = 'run.skipped' OR w.event = 'run.missed' AND skips.reason IN ('scheduler_down', 'catch_up_expired'))
  AND {{of_moved}}
ON CONFLICT (id) DO NOTHING
"""

# Runs that should have started and still wait. An id begins with its due time, hence the range.
TELL_LATE = Statement(f"""
INSERT INTO deliveries {_MESSAGE}
SELECT horae_run_id(r.id, 'tell:run.late:' || {_TO}, r.run_at_us), {_WHO}, r.job_id, r.id, horae_now(), horae_now(), 0,
       'waiting'
FROM watches w
JOIN runs r ON r.tenant = w.tenant AND (w.job_id = r.job_id OR w.job_id = '')
WHERE w.event = 'run.late' AND r.id > :from_id AND r.id < :to_id AND r.state = 'queued' AND r.attempt = 0
  AND r.run_at_us + w.late_us < horae_now()
ON CONFLICT (id) DO NOTHING
""")

LATE_LIMITS = Statement("""
SELECT min(late_us) AS least_us, max(late_us) AS most_us, horae_now() AS now_us
FROM watches
WHERE event = 'run.late'
""")

WATCH = Statement("""
INSERT INTO watches (tenant, job_id, event, webhook_id, url, late_us)
SELECT n.tenant, n.job_id, n.event, n.webhook_id, n.url, n.late_us
FROM {rows:n(tenant text, job_id text, event text, webhook_id text, url text, late_us bigint)}
""")

UNWATCH_JOB = Statement("DELETE FROM watches WHERE tenant = :tenant AND job_id = :job_id")

CHANNELS = Statement("""
SELECT b.id, b.name
FROM webhooks b
WHERE b.tenant = :tenant AND b.name IN (SELECT name FROM {rows:wanted(name text)})
FOR SHARE
""")

_NO_CHANNEL = "Make it with POST /webhooks, or give a url; GET /webhooks shows them all."


def tell(ended: list[str]) -> Steps[None]:
    if ended:
        yield TELL(ended=[(id_,) for id_ in ended])


def watches(tenant: str, jobs: list[tuple[str, Definition]]) -> Steps[dict[str, list[Watch] | Invalid]]:
    """Who watches these jobs by their own rules, by job id; or that a channel is not known."""
    named = {rule["channel"] for _, job in jobs for rule in job.notify if "channel" in rule}
    rows: Any = (yield CHANNELS(tenant=tenant, wanted=[(name,) for name in sorted(named)])) if named else []
    ids = {row["name"]: row["id"] for row in rows}
    found: dict[str, list[Watch] | Invalid] = {}
    for job_id, job in jobs:
        unknown = [
            Fault(f"/notify/{at}/channel", f'There is no webhook "{rule["channel"]}".', _NO_CHANNEL)
            for at, rule in enumerate(job.notify)
            if "channel" in rule and rule["channel"] not in ids
        ]
        if unknown:
            found[job_id] = Invalid(unknown)
        else:
            found[job_id] = watches_of_job(tenant, job_id, job.notify, ids)
    return found

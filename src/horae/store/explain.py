"""Gathers the facts about one due time of one job; what they mean is decided in core/explain.py."""

from __future__ import annotations

import json

from horae.core.compiled import schedule_of
from horae.core.explain import Facts, Fleet, Pause, RunFact, Version
from horae.core.job import Definition, bucket_of, need_of, read_bucket
from horae.core.run import run_id, scheduled_key
from horae.core.schedule import next_after
from horae.store.database import Row, Rows, Statement, Steps, viewing
from horae.store.jobs import decode
from horae.store.views import EVENTS_OF_JOB, RUNS_BY_ID, SKIP_AT, VERSIONS, find
from horae.store.waiting import around

JOB = Statement("""
SELECT j.id, j.tenant, j.name, j.created_us, j.state, t.due_us, t.fired, horae_now() AS now_us,
       (SELECT min(r.due_us) FROM runs r
        WHERE r.job_id = j.id AND r.state = 'queued' AND r.cause = 'schedule' AND r.due_us > horae_now()) AS staged_us,
       (SELECT count(*) FROM schedulers s WHERE s.expires_us > horae_now()) AS schedulers
FROM jobs j
JOIN timers t ON t.job_id = j.id
WHERE j.id = :id
""")

RUNS_AT = Statement("""
SELECT id FROM runs WHERE job_id = :id AND due_us = :at_us
UNION ALL
SELECT id FROM history WHERE job_id = :id AND due_us = :at_us AND (status <> 'skipped' OR cause = 'after')
""")

# Ids begin with the due time.
LATEST_DUE = Statement("""
SELECT due_us
FROM (SELECT r.id, r.due_us FROM runs r WHERE r.job_id = :id
      UNION ALL
      SELECT h.id, h.due_us FROM history h WHERE h.job_id = :id) AS every_one
ORDER BY id DESC
LIMIT 1
""")

# Waiting runs that come first; counted up to a hundred, since nobody needs it more exactly.
AHEAD = Statement("""
SELECT count(*) AS n
FROM (SELECT 1 FROM runs r
      WHERE r.tenant = :tenant AND r.state = 'queued' AND r.queue = :queue AND r.priority < :priority
        AND r.available_us <= (SELECT horae_now())
      LIMIT 100) AS first
""")


@viewing
def facts(tenant: str, word: str, at_us: int | None) -> Steps[Facts]:
    """`at_us` None is the job's next due time; without one, that of its latest run; else now."""
    job = (yield JOB(id=(yield from find(tenant, word))))[0]
    versions = [
        Version(v["version"], decode(v["spec"]), v["created_us"]) for v in reversed((yield VERSIONS(id=job["id"])))
    ]
    events = yield EVENTS_OF_JOB(id=job["id"])
    if at_us is None:
        at_us = _next(job, versions[-1].definition)
    if at_us is None:
        latest = yield LATEST_DUE(id=job["id"])
        at_us = int(latest[0]["due_us"] if latest else job["now_us"])
    run = yield from _run(tenant, job, at_us)
    fleet = yield from _fleet(job, versions[-1].definition)
    deleted = [event["at_us"] for event in events if event["kind"] == "deleted"]
    return Facts(
        job_id=job["id"],
        name=job["name"],
        created_us=job["created_us"],
        deleted_us=deleted[-1] if deleted else None,
        now_us=job["now_us"],
        at_us=at_us,
        due_us=job["due_us"],
        fired=job["fired"],
        versions=versions,
        pauses=_pauses(events),
        run=run,
        fleet=fleet,
    )


def _next(job: Row, definition: Definition) -> int | None:
    """What people mean without an instant: the next start, also of a paused job."""
    staged = [us for us in (job["staged_us"], job["due_us"]) if us is not None]
    if staged:
        return int(min(staged))
    return next_after(schedule_of(definition, job["id"], job["created_us"]), job["now_us"])


def _run(tenant: str, job: Row, at_us: int) -> Steps[RunFact | None]:
    """The run of this due time; else one on request that was to start then; else the skip that covers it."""
    wanted = run_id(job["id"], scheduled_key(at_us), at_us)
    asked = [row["id"] for row in (yield RUNS_AT(id=job["id"], at_us=at_us))]
    rows = yield RUNS_BY_ID(wanted=[(wanted,), *((id_,) for id_ in asked)], tenant=tenant)
    # A backfill says more than the skip that it makes good.
    rows = sorted(rows, key=lambda row: (row["status"] == "skipped", row["id"] != wanted))
    if not rows:
        skips = yield SKIP_AT(id=job["id"], at_us=at_us)
        if not skips:
            return None
        rows = yield RUNS_BY_ID(wanted=[(skips[0]["id"],)], tenant=tenant)
    row = rows[0]
    return RunFact(
        id=row["id"],
        status=row["status"],
        reason=row["reason"],
        error=row["error"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        run_at_us=row["run_at_us"],
        available_us=row["available_us"],
        started_us=row["started_us"],
        ended_us=row["ended_us"],
        worker=row["worker"],
        skip_count=row["skip_count"],
        skip_until_us=row["skip_until_us"],
    )


def _pauses(events: Rows) -> list[Pause]:
    """Intervals, from the records of pausing and resuming; a new pause ends the one before it."""
    pauses: list[Pause] = []
    for event in events:
        if pauses and (pauses[-1].until_us is None or pauses[-1].until_us > event["at_us"]):
            last = pauses.pop()
            pauses.append(Pause(last.from_us, event["at_us"], last.actor, last.reason))
        if event["kind"] == "paused":
            until_us = json.loads(event["detail"])["until_us"]
            pauses.append(Pause(event["at_us"], until_us, event["actor"], event["reason"]))
    return pauses


def _fleet(job: Row, definition: Definition) -> Steps[Fleet]:
    now = yield from around(job["tenant"])
    queue = definition.queue
    able = now.able(queue, need_of(definition))
    priority = read_bucket(bucket_of(definition, job["tenant"])).priority
    ahead = (yield AHEAD(tenant=job["tenant"], queue=queue, priority=priority))[0]["n"]
    return Fleet(
        schedulers=job["schedulers"],
        workers=len(now.workers),
        of_queue=len(now.of_queue(queue)),
        able=len(able),
        free_slots=sum(worker.free for worker in able),
        ahead=ahead,
        is_queue_paused=queue in now.paused,
        is_tenant_paused="" in now.paused,
        is_queue_full=now.is_full(queue),
        is_tenant_full=now.is_full(""),
    )

"""What is to come, as far as the rows say: schedules with their cursors, and runs that wait for their time."""

from __future__ import annotations

from horae.core.run import first_id_at
from horae.ports import Schedules
from horae.store.database import NOW, Rows, Statement, Steps, viewing

AT_ONCE = 2000
JOBS_AT_ONCE = 5000

VERSION = Statement("SELECT max(updated_us) AS updated_us FROM jobs WHERE tenant = :tenant")

# By name, because that is the order of an index of the tenant's own. What is not due has no need of a definition.
SCHEDULES = Statement("""
SELECT j.id, j.name, j.queue, j.priority, j.created_us, v.spec, t.due_us, t.fired
FROM jobs j
JOIN timers t ON t.job_id = j.id
LEFT JOIN job_versions v ON v.job_id = j.id AND v.version = j.version AND t.due_us < :until_us
WHERE j.tenant = :tenant AND (j.name, j.id) > (:after_name, :after_id) AND j.state <> 'deleted'
ORDER BY j.name, j.id
LIMIT :most
""")

STAGED = Statement("""
SELECT r.id, r.due_us, r.priority, r.queue, r.job_id, j.name
FROM runs r
JOIN jobs j ON j.id = r.job_id
WHERE r.id > :after_id AND r.id < :until_id AND r.tenant = :tenant AND r.state = 'queued' AND r.due_us >= :from_us
ORDER BY r.id
LIMIT :most
""")


@viewing
def version(tenant: str) -> Steps[tuple[int, int]]:
    """Changes with every change of a job; and the store's time."""
    updated_us = (yield VERSION(tenant=tenant))[0]["updated_us"]
    return updated_us or 0, (yield NOW())[0]["now_us"]


@viewing
def schedules(tenant: str, until_us: int, after: tuple[str, str] | None) -> Steps[Schedules]:
    """Those of the next jobs that have something due before `until_us`."""
    name, id_ = after or ("", "")
    rows = yield SCHEDULES(tenant=tenant, until_us=until_us, after_name=name, after_id=id_, most=JOBS_AT_ONCE)
    due = [row for row in rows if row["spec"] is not None]
    return Schedules(due, (rows[-1]["name"], rows[-1]["id"]) if len(rows) == JOBS_AT_ONCE else None)


@viewing
def staged(tenant: str, from_us: int, until_us: int, after_id: str) -> Steps[Rows]:
    """Runs that wait for a time in this range, in order; fewer than AT_ONCE means that was all."""
    start = max(after_id, first_id_at(from_us))
    return (yield STAGED(tenant=tenant, after_id=start, until_id=first_id_at(until_us), from_us=from_us, most=AT_ONCE))

"""Runs for due times that are past and have none: the schedule is asked again, the record says what is missing.

A backfill decides nothing anew. A due time that was skipped stays skipped; its backfill is another run, whose id
follows from job and due time, so that it is made once however often it is asked for.
"""

from __future__ import annotations

from horae.core.duration import format_instant
from horae.core.errors import Conflict, Stale
from horae.core.job import PRIORITY_NUMBER, Priority, bucket_of
from horae.core.run import backfill_key, first_id_at, run_id
from horae.ports import Backfill
from horae.store.database import NOW, Statement, Steps, note, transaction, viewing
from horae.store.jobs import OPEN_RUNS, READ, decode, hold_alive
from horae.store.quotas import reserve
from horae.store.views import find

CURSOR = Statement("SELECT due_us FROM timers WHERE job_id = :id")

# An id begins with its due time: one stretch of the index, whatever else the job did then.
PRESENT = Statement("""
SELECT r.due_us FROM runs r
WHERE r.job_id = :id AND r.id >= :from_id AND r.id < :until_id AND r.cause IN ('schedule', 'backfill')
UNION ALL
SELECT h.due_us FROM history h
WHERE h.job_id = :id AND h.id >= :from_id AND h.id < :until_id AND h.cause IN ('schedule', 'backfill')
  AND h.status <> 'skipped'
""")


@viewing
def facts(tenant: str, word: str) -> Steps[Backfill]:
    id_ = yield from find(tenant, word)
    row = (yield READ(id=id_))[0]
    if row["state"] == "deleted":
        raise Conflict(f'Job "{row["name"]}" was deleted.', "job_deleted")
    return Backfill(id_, decode(row["spec"]), row["version"], row["created_us"], (yield NOW())[0]["now_us"])


@viewing
def missing(job_id: str, dues: list[int]) -> Steps[list[int]]:
    """Those of the due times, which come in order, that are decided and have no run."""
    timer = (yield CURSOR(id=job_id))[0]
    return (yield from _missing(job_id, dues, timer["due_us"]))


@transaction
def backfill(
    tenant: str, job_id: str, version: int, dues: list[int], priority: Priority, most: int
) -> Steps[list[int]]:
    """Makes up to `most` of the missing runs, oldest first. Under the job's lock, so that no due time becomes a run by
    the schedule meanwhile.
    """
    held = yield from hold_alive(tenant, job_id)
    if held.row["version"] != version:
        raise Stale(f'Job "{held.row["name"]}" was changed meanwhile. Ask again.')
    wanted = (yield from _missing(job_id, dues, held.due_us))[:most]
    bucket = bucket_of(held.definition, tenant, priority)
    rows = [
        (
            run_id(job_id, backfill_key(due_us), due_us),
            job_id,
            "backfill",
            PRIORITY_NUMBER[priority],
            bucket,
            due_us,
            held.now_us,
            None,
            None,
        )
        for due_us in wanted
    ]
    if rows:
        yield from reserve(tenant, len(rows))
        yield OPEN_RUNS(n=rows)
        told = {
            "name": held.row["name"],
            "count": len(wanted),
            "from": format_instant(wanted[0]),
            "to": format_instant(wanted[-1]),
        }
        yield note("job.backfilled", job_id, None, told)
    return wanted


def _missing(job_id: str, dues: list[int], cursor_us: int | None) -> Steps[list[int]]:
    # What the cursor has not passed is still the scheduler's to decide.
    decided = [due_us for due_us in dues if cursor_us is None or due_us < cursor_us]
    if not decided:
        return []
    from_id, until_id = first_id_at(decided[0]), first_id_at(decided[-1] + 1000)
    present = {row["due_us"] for row in (yield PRESENT(id=job_id, from_id=from_id, until_id=until_id))}
    return [due_us for due_us in decided if due_us not in present]

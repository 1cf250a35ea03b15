"""What people ask of runs: a new one, cancel, one more attempt, replay, discard."""

from __future__ import annotations

from urllib.parse import quote

from horae.core.errors import Conflict, NotFound
from horae.ports import NewRun
from horae.store.database import Row, Statement, Steps, note, transaction
from horae.store.jobs import KEEP, open_runs
from horae.store.quotas import reserve
from horae.store.results import end_waiting

RETRYABLE = ("failed", "cancelled", "unknown")

LIVE = Statement("SELECT id, state, cancel FROM runs WHERE id = :run_id AND tenant = :tenant FOR UPDATE")

CALL_OFF = Statement("""
INSERT INTO called_off (job_id, due_us)
SELECT r.job_id, r.due_us
FROM runs r
WHERE r.id = :run_id AND r.cause = 'schedule' AND r.due_us > horae_now()
ON CONFLICT (job_id, due_us) DO NOTHING
""")

CALL_ON_AGAIN = Statement("""
DELETE FROM called_off
WHERE (job_id, due_us) IN (SELECT job_id, due_us FROM runs WHERE id = :run_id AND cause = 'schedule')
""")

ENDED = Statement("""
SELECT h.id, h.job_id, h.status, h.payload, h.cause, h.attempt, j.state AS job_state, j.name AS job_name
FROM history h
JOIN jobs j ON j.id = h.job_id
WHERE h.id = :run_id AND h.tenant = :tenant
""")

ASK_TO_STOP = Statement("UPDATE runs SET cancel = :reason WHERE id = :run_id AND cancel IS NULL")

# Back from the history into the queue, with room for one more attempt. The attempts made so far stay on record. A run
# that was cancelled before its time still waits for it.
REVIVE = Statement("""
INSERT INTO runs (id, job_id, tenant, version, cause, queue, priority, bucket, group_key, state, due_us, run_at_us,
                  queued_us, available_us, attempt, max_attempts, is_once, token, epoch, payload, parent_id)
SELECT h.id, h.job_id, h.tenant, h.version, h.cause, j.queue, j.priority, j.bucket, j.group_key, 'queued', h.due_us,
       h.run_at_us, h.queued_us, CASE WHEN h.run_at_us > horae_now() THEN h.run_at_us ELSE horae_now() END, h.attempt,
       h.attempt + 1, j.is_once, 0, h.epoch, h.payload, h.parent_id
FROM history h
JOIN jobs j ON j.id = h.job_id
WHERE h.id = :run_id
ON CONFLICT (id) DO NOTHING
RETURNING id
""")

KEEP_LAST_ATTEMPT = Statement("""
INSERT INTO attempts (run_id, attempt, token, worker, started_us, ended_us, reason, error)
SELECT h.id, h.attempt, h.token, h.worker, h.started_us, h.ended_us, h.reason, h.error
FROM history h
WHERE h.id = :run_id AND h.started_us IS NOT NULL
""")

FORGET_END = Statement("DELETE FROM history WHERE id = :run_id")

UNBURY = Statement("DELETE FROM dead_letters WHERE run_id = :run_id")

RETRIED = Statement("""
INSERT INTO events (at_us, tenant, kind, job_id, run_id)
VALUES (horae_now(), :tenant, 'retried', :job_id, :run_id)
""")

LOCK_LETTER = Statement("""
SELECT run_id, job_id, replayed_as, discarded_us
FROM dead_letters
WHERE run_id = :run_id AND tenant = :tenant
FOR UPDATE
""")

MARK_REPLAYED = Statement("UPDATE dead_letters SET replayed_as = :new_id WHERE run_id = :run_id")

MARK_DISCARDED = Statement("UPDATE dead_letters SET discarded_us = horae_now() WHERE run_id = :run_id")


@transaction
def trigger(tenant: str, word: str, runs: list[NewRun], base_version: int | None = None) -> Steps[list[str]]:
    """Runs on request; a paused job runs on request too."""
    job, opened = yield from open_runs(tenant, word, runs, base_version)
    if opened:
        told = {"run_id": opened[0]} if len(opened) == 1 else {"runs": len(opened)}
        yield note("job.run", job["id"], None, {"name": job["name"], **told})
    return opened


@transaction
def cancel(tenant: str, run_id: str) -> Steps[None]:
    """A waiting run ends at once; a running one is told to stop."""
    live = yield LIVE(run_id=run_id, tenant=tenant)
    if live:
        if live[0]["state"] == "queued":
            yield CALL_OFF(run_id=run_id)
            yield from end_waiting([run_id], "cancelled", "cancelled_by_user")
        else:
            yield ASK_TO_STOP(run_id=run_id, reason="cancelled_by_user")
        yield note("run.cancelled", run_id, {"state": live[0]["state"]})
        return
    row = yield from _ended(tenant, run_id)
    is_retryable = row["status"] in RETRYABLE and row["job_state"] != "deleted"
    again = f"POST /runs/{run_id}/retry runs it again." if is_retryable else _once_more(row)
    hint = f"There is nothing left to cancel. {again}"
    raise Conflict(f"Run {run_id} is over: {row['status'].upper()}.", "run_is_over", hint=hint)


@transaction
def retry(tenant: str, run_id: str) -> Steps[None]:
    """One more attempt of the same run, under the same id."""
    known = yield ENDED(run_id=run_id, tenant=tenant)
    yield KEEP(job=[(row["job_id"],) for row in known])
    if (yield LIVE(run_id=run_id, tenant=tenant)):
        raise Conflict(f"Run {run_id} is not over yet: there is nothing to retry.", "run_is_live")
    row = yield from _ended(tenant, run_id)
    if row["status"] not in RETRYABLE:
        detail = f"Run {run_id} {row['status']}: only a failed, cancelled or unknown run can be retried."
        raise Conflict(detail, "wrong_state", hint=_once_more(row))
    if row["job_state"] == "deleted":
        raise Conflict("The job of this run was deleted.", "job_deleted")
    letters = yield LOCK_LETTER(run_id=run_id, tenant=tenant)
    if letters and letters[0]["replayed_as"]:
        new_id = letters[0]["replayed_as"]
        hint = f"Look at the new run: GET /runs/{new_id}."
        raise Conflict(f"Run {run_id} was replayed as {new_id}: retry that one.", "replayed", hint=hint)
    yield from reserve(tenant, 1)
    if (yield REVIVE(run_id=run_id)):
        yield KEEP_LAST_ATTEMPT(run_id=run_id)
        yield FORGET_END(run_id=run_id)
        yield UNBURY(run_id=run_id)
        yield CALL_ON_AGAIN(run_id=run_id)
        yield RETRIED(tenant=tenant, job_id=row["job_id"], run_id=run_id)
        yield note("run.retried", run_id, {"status": row["status"]})


@transaction
def replay(tenant: str, run_id: str) -> Steps[str]:
    """A new run from a dead one, by today's definition. Two at the same moment make one."""
    letters = yield LOCK_LETTER(run_id=run_id, tenant=tenant)
    if not letters:
        raise _no_letter(run_id)
    letter = letters[0]
    if letter["replayed_as"]:
        return str(letter["replayed_as"])
    if letter["discarded_us"] is not None:
        hint = f"To run the job once more: POST /jobs/{letter['job_id']}/run."
        raise Conflict(f"Run {run_id} was discarded from the dead letters.", "discarded", hint=hint)
    ended = yield ENDED(run_id=run_id, tenant=tenant)
    payload = ended[0]["payload"] if ended else None
    new = NewRun("replay", f"replay:{run_id}", payload=payload, parent_id=run_id)
    _, opened = yield from open_runs(tenant, letter["job_id"], [new])
    yield MARK_REPLAYED(run_id=run_id, new_id=opened[0])
    yield note("run.replayed", run_id, None, {"run_id": opened[0]})
    return opened[0]


@transaction
def discard(tenant: str, run_id: str) -> Steps[None]:
    letters = yield LOCK_LETTER(run_id=run_id, tenant=tenant)
    if not letters:
        raise _no_letter(run_id)
    if letters[0]["replayed_as"]:
        hint = f"Look at the new run: GET /runs/{letters[0]['replayed_as']}."
        raise Conflict(f"Run {run_id} was replayed already.", "replayed", hint=hint)
    yield MARK_DISCARDED(run_id=run_id)
    yield note("run.discarded", run_id)


def _ended(tenant: str, run_id: str) -> Steps[Row]:
    rows = yield ENDED(run_id=run_id, tenant=tenant)
    if not rows:
        raise NotFound(f"There is no run {run_id}.")
    return rows[0]


def _once_more(row: Row) -> str:
    if row["job_state"] == "deleted":
        return "Its job was deleted; make a new one with POST /jobs."
    return f"To run the job once more: POST /jobs/{quote(row['job_name'], safe='')}/run."


def _no_letter(run_id: str) -> NotFound:
    return NotFound(f"Run {run_id} is not in the dead letters.", hint="GET /dead-letters shows them all.")

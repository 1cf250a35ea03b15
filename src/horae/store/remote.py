"""What workers that come over HTTP ask beyond the verbs of every worker: which runs they hold, and what they left."""

from __future__ import annotations

from horae.ports import Held
from horae.store.database import Statement, Steps, reading, statement
from horae.store.pieces import held_of

# As the heartbeat of other workers, but one that was asked to drain, or said once that it does, goes on draining.
KEEP_ALIVE = Statement("""
UPDATE workers
SET seen_us = horae_now(), expires_us = horae_now() + :ttl_us, running = :running,
    state = CASE WHEN :is_draining OR state = 'drain' THEN 'draining' ELSE state END
WHERE id = :id AND expires_us > horae_now() AND state <> 'left'
RETURNING state
""")

# The row stays until it is forgotten like that of a lost worker: a claim of this name that was still on its way must
# not bring it back.
RETIRE = Statement("UPDATE workers SET state = 'left', running = 0, expires_us = horae_now() WHERE id = :worker")

LEFT = Statement("SELECT id FROM workers WHERE id = :worker AND state = 'left'")

HELD = Statement("""
SELECT r.id, r.job_id, r.tenant, r.version, r.worker, r.token, r.attempt, r.max_attempts, r.started_us, r.cancel,
       horae_now() AS now_us
FROM runs r
WHERE r.tenant = :tenant AND r.state = 'running' AND r.id IN (SELECT id FROM {rows:wanted(id text)})
""")

# How an attempt with this token ended by a word of its worker, not by its silence.
ERRORS = Statement("""
SELECT h.error
FROM history h
WHERE h.id = :run_id AND h.tenant = :tenant AND h.token = :token AND coalesce(h.reason, '') <> 'worker_lost'
UNION ALL
SELECT a.error
FROM attempts a
WHERE a.run_id = :run_id AND a.token = :token AND coalesce(a.reason, '') <> 'worker_lost'
""")


@statement
def beat_known(worker: str, running: int, ttl_us: int, *, is_draining: bool = False) -> Steps[str | None]:
    """As `beat`, of a worker that must have joined before: its state, or None when the fleet does not know it."""
    rows = yield KEEP_ALIVE(id=worker, ttl_us=ttl_us, running=running, is_draining=is_draining)
    return rows[0]["state"] if rows else None


@statement
def retire(worker: str) -> Steps[None]:
    """It leaves, and its name with it."""
    yield RETIRE(worker=worker)


@statement
def has_left(worker: str) -> Steps[bool]:
    return bool((yield LEFT(worker=worker)))


@reading
def held(tenant: str, run_ids: list[str]) -> Steps[dict[str, Held]]:
    rows = yield HELD(tenant=tenant, wanted=[(id_,) for id_ in run_ids])
    return {row["id"]: held_of(row) for row in rows}


@reading
def errors_of(tenant: str, run_id: str, token: int) -> Steps[list[str | None]]:
    """Empty when no result with this token was ever taken. The run must be the tenant's."""
    rows = yield ERRORS(tenant=tenant, run_id=run_id, token=token)
    return [row["error"] for row in rows]

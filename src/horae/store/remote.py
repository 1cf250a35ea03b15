"""What workers that come over HTTP ask beyond the verbs of every worker: which runs they hold, and what they left."""

from __future__ import annotations

from horae.ports import Held, LogPieces
from horae.store.database import Row, Statement, Steps, reading, statement, transaction
from horae.store.results import LOG

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

LOGGED = Statement("""
SELECT coalesce(sum(length(l.text)), 0) AS n FROM logs l WHERE l.run_id = :run_id AND l.attempt = :attempt
""")

# Two pieces of one attempt may come at once, by two nodes: each must see what is held back of the other.
LOCK = Statement("""
SELECT r.token FROM runs r WHERE r.id = :run_id AND r.tenant = :tenant AND r.state = 'running' FOR UPDATE
""")

NEIGHBOURS = Statement("""
SELECT l.seq, l.held FROM logs l WHERE l.run_id = :run_id AND l.attempt = :attempt AND l.seq BETWEEN :first AND :last
""")

LAST = Statement("""
SELECT l.seq, l.held FROM logs l WHERE l.run_id = :run_id AND l.attempt = :attempt ORDER BY l.seq DESC LIMIT 1
""")

KEEP = Statement("""
INSERT INTO logs (run_id, attempt, seq, at_us, text, held)
VALUES (:run_id, :attempt, :seq, horae_now(), :text, :held)
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
    return {row["id"]: _held(row) for row in rows}


@reading
def errors_of(tenant: str, run_id: str, token: int) -> Steps[list[str | None]]:
    """Empty when no result with this token was ever taken. The run must be the tenant's."""
    rows = yield ERRORS(tenant=tenant, run_id=run_id, token=token)
    return [row["error"] for row in rows]


@transaction
def write_log(tenant: str, run: Held, seq: int, text: str, cap: int) -> Steps[bool]:
    """False when the log of this attempt is full, and for an attempt that is no longer the current one."""
    current = yield HELD(tenant=tenant, wanted=[(run.run_id,)])
    if not current or current[0]["token"] != run.token:
        return False
    size = (yield LOGGED(run_id=run.run_id, attempt=run.attempt))[0]["n"]
    if size + len(text) > cap:
        return False
    yield LOG(chunk=[(run.run_id, run.attempt, seq, text)])
    return True


@transaction
def write_piece(tenant: str, run: Held, seq: int, text: str, cap: int, pieces: LogPieces) -> Steps[bool]:
    """As `write_log`, of an attempt that knows secrets: one may begin in one piece and end in the next."""
    locked = yield LOCK(tenant=tenant, run_id=run.run_id)
    if not locked or locked[0]["token"] != run.token:
        return False
    rows = yield NEIGHBOURS(run_id=run.run_id, attempt=run.attempt, first=seq - 1, last=seq + 1)
    held = {row["seq"]: row["held"] for row in rows}
    if seq in held:
        return True
    size = (yield LOGGED(run_id=run.run_id, attempt=run.attempt))[0]["n"]
    if size + len(text) > cap:
        return False
    is_next, is_followed = seq == 1 or seq - 1 in held, seq + 1 in held
    shown, rest = pieces.add(seq, text, held.get(seq - 1), is_next=is_next, is_followed=is_followed)
    yield KEEP(run_id=run.run_id, attempt=run.attempt, seq=seq, text=shown, held=rest)
    return True


@transaction
def end_pieces(tenant: str, run: Held, pieces: LogPieces) -> Steps[None]:
    """What is held back of the last piece, as one more."""
    locked = yield LOCK(tenant=tenant, run_id=run.run_id)
    last = yield LAST(run_id=run.run_id, attempt=run.attempt)
    if locked and locked[0]["token"] == run.token and last and last[0]["held"] is not None:
        seq, text = last[0]["seq"] + 1, pieces.end(last[0]["seq"], last[0]["held"])
        yield KEEP(run_id=run.run_id, attempt=run.attempt, seq=seq, text=text, held=None)


def _held(row: Row) -> Held:
    return Held(
        row["id"],
        row["job_id"],
        row["version"],
        row["worker"],
        row["token"],
        row["attempt"],
        row["max_attempts"],
        row["started_us"],
        row["cancel"],
        row["now_us"],
    )

"""Logs that come piece by piece from workers over HTTP. The last piece of an attempt knows how long all of them are."""

from __future__ import annotations

from horae.ports import Held, LogPieces
from horae.store.database import Row, Rows, Statement, Steps, reading, transaction

# Two pieces of one attempt may come at once, by two nodes: each must see what is held back of the other.
LOCK = Statement("""
SELECT r.token FROM runs r WHERE r.id = :run_id AND r.tenant = :tenant AND r.state = 'running' FOR UPDATE
""")

_OF_ATTEMPT = "SELECT l.seq, l.held, l.total, l.tenant FROM logs l WHERE l.run_id = :run_id AND l.attempt = :attempt"

LAST = Statement(f"{_OF_ATTEMPT} ORDER BY l.seq DESC LIMIT 1")

# The pieces before and after this one, and the last of all.
AROUND = Statement(f"""
{_OF_ATTEMPT} AND l.seq BETWEEN :first AND :last
UNION ALL
SELECT latest.seq, latest.held, latest.total, latest.tenant
FROM ({_OF_ATTEMPT} ORDER BY l.seq DESC LIMIT 1) AS latest
""")

# For an attempt whose pieces an earlier release took.
ADD_UP = Statement("""
SELECT coalesce(sum(length(l.text)), 0) AS n FROM logs l WHERE l.run_id = :run_id AND l.attempt = :attempt
""")

KEEP = Statement("""
INSERT INTO logs (run_id, attempt, seq, at_us, text, held, total, tenant)
VALUES (:run_id, :attempt, :seq, horae_now(), :text, :held, :total, :tenant)
""")

COUNT = Statement("UPDATE logs SET total = :total WHERE run_id = :run_id AND attempt = :attempt AND seq = :seq")

# Runs of workers that went silent (as LOST in results.py) in the middle of what may be a secret.
UNFINISHED = Statement("""
SELECT r.id, r.job_id, r.tenant, r.version, r.worker, r.token, r.attempt, r.max_attempts, r.started_us, r.cancel,
       horae_now() AS now_us
FROM runs r
LEFT JOIN workers w ON w.id = r.worker
WHERE r.state = 'running' AND (w.id IS NULL OR w.expires_us <= horae_now())
  AND EXISTS (SELECT 1 FROM logs l WHERE l.run_id = r.id AND l.attempt = r.attempt AND l.held IS NOT NULL)
ORDER BY r.id
LIMIT :most
""")


@transaction
def write_piece(tenant: str, run: Held, seq: int, text: str, cap: int, pieces: LogPieces | None) -> Steps[bool]:
    """False when the log of this attempt is full, and for an attempt that is no longer the current one. With `pieces`,
    of an attempt that knows secrets: one may begin in one piece and end in the next.
    """
    locked = yield LOCK(tenant=tenant, run_id=run.run_id)
    if not locked or locked[0]["token"] != run.token:
        return False
    rows = yield AROUND(run_id=run.run_id, attempt=run.attempt, first=seq - 1, last=seq + 1)
    held = {row["seq"]: row["held"] for row in rows}
    if seq in held:
        return True
    total = (yield from _total(run, rows)) + len(text)
    if total > cap:
        return False
    rest = None
    if pieces is not None:
        is_next, is_followed = seq == 1 or seq - 1 in held, seq + 1 in held
        text, rest = pieces.add(seq, text, held.get(seq - 1), is_next=is_next, is_followed=is_followed)
    last = max(held, default=0)
    is_last = seq > last
    total_here = total if is_last else None
    yield KEEP(run_id=run.run_id, attempt=run.attempt, seq=seq, text=text, held=rest, total=total_here, tenant=tenant)
    if not is_last:
        yield COUNT(run_id=run.run_id, attempt=run.attempt, seq=last, total=total)
    return True


def _total(run: Held, rows: Rows) -> Steps[int]:
    if not rows:
        return 0
    total = max(rows, key=lambda row: row["seq"])["total"]
    if total is None:
        total = (yield ADD_UP(run_id=run.run_id, attempt=run.attempt))[0]["n"]
    return int(total)


@transaction
def end_pieces(tenant: str, run: Held, pieces: LogPieces, *, is_cut: bool = False) -> Steps[None]:
    """What is held back of the last piece, as one more. `is_cut`: the worker had more to say."""
    locked = yield LOCK(tenant=tenant, run_id=run.run_id)
    if locked and locked[0]["token"] == run.token:
        yield from end_log(run.run_id, run.attempt, pieces, is_cut=is_cut)


def end_log(run_id: str, attempt: int, pieces: LogPieces, *, is_cut: bool) -> Steps[None]:
    """The same, under a lock that the caller has."""
    last = yield LAST(run_id=run_id, attempt=attempt)
    if last and last[0]["held"] is not None:
        seq, total, tenant = last[0]["seq"], last[0]["total"], last[0]["tenant"]
        text = pieces.end(seq, last[0]["held"], is_cut=is_cut)
        yield KEEP(run_id=run_id, attempt=attempt, seq=seq + 1, text=text, held=None, total=total, tenant=tenant)


@reading
def unfinished_logs(most: int) -> Steps[list[tuple[str, Held]]]:
    """Of attempts that are about to be taken back: the tenant and the run of each."""
    return [(row["tenant"], held_of(row)) for row in (yield UNFINISHED(most=most))]


def held_of(row: Row) -> Held:
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

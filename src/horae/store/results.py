"""Running runs to their end, or back to the queue. Every statement is fenced: an old token changes nothing."""

from __future__ import annotations

from collections import Counter

from horae.core.fingerprint import fingerprint
from horae.ports import Again, Closing, Ending, LogChunk, Settled
from horae.store.database import Row, Rows, Statement, Steps, transaction
from horae.store.notices import IS_WATCHED, tell
from horae.store.pieces import end_log

_HISTORY = """(id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us, started_us,
               ended_us, attempt, max_attempts, token, epoch, worker, reason, error, result, payload, parent_id)"""
# In the order of Ending, of whose job no statement asks.
_ENDINGS = "{rows:e(id text, token bigint, status text, reason text, error text, result text)}"
# Whether there is any is asked once, not for each run.
_CHAINED = """(SELECT EXISTS (SELECT 1 FROM chains))
       AND EXISTS (SELECT 1 FROM chains c WHERE c.upstream_id = r.job_id) AS has_chain"""

# PostgreSQL: out of the queue and into the history in one statement. By key alone: a condition on the state made the
# planner walk every running row (438 rows a second against 2,226). Most endings are of runs that nobody waits for: the
# answer is how many there were, and a row for each of the others; for each of all when some were not taken.
SETTLE = Statement(f"""
WITH r AS (
    DELETE FROM runs
    USING {_ENDINGS}
    WHERE runs.id = e.id AND runs.token = e.token
    RETURNING runs.id, job_id, tenant, version, cause, queue, priority, e.status, due_us, run_at_us, queued_us,
              started_us, attempt, max_attempts, runs.token, epoch, worker, e.reason, e.error, e.result, payload,
              parent_id, group_key
), kept AS (
    INSERT INTO history {_HISTORY}
    SELECT id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us, started_us,
           (SELECT horae_now()), attempt, max_attempts, token, epoch, worker, reason, error, result, payload, parent_id
    FROM r
    RETURNING 1
)
SELECT total.n, ended.*
FROM (SELECT count(*) AS n FROM r) AS total
LEFT JOIN (SELECT r.id, r.job_id, r.group_key, {_CHAINED}, {IS_WATCHED} FROM r) AS ended
  ON ended.group_key IS NOT NULL OR ended.has_chain OR ended.is_watched OR total.n < :wanted
""")

KEEP = Statement(f"""
INSERT INTO history {_HISTORY}
SELECT r.id, r.job_id, r.tenant, r.version, r.cause, r.queue, r.priority, e.status, r.due_us, r.run_at_us, r.queued_us,
       r.started_us, horae_now(), r.attempt, r.max_attempts, r.token, r.epoch, r.worker, e.reason, e.error, e.result,
       r.payload, r.parent_id
FROM runs r
JOIN {_ENDINGS} ON r.id = e.id AND r.token = e.token
""")

# How many were kept, and whether anybody may wait for one of them. A row for each would cost a thread of SQLite a wait
# for the interpreter, which is busy with the next runs meanwhile.
KEPT = Statement(
    "SELECT 0 AS n, false AS is_odd",
    sqlite="""
    SELECT changes() AS n,
           EXISTS (SELECT 1 FROM chains) OR EXISTS (SELECT 1 FROM watches)
           OR EXISTS (SELECT 1 FROM runs WHERE group_key IS NOT NULL) AS is_odd
    """,
)

# Those that somebody waits for, or each of all when some were not kept.
ENDED = Statement(f"""
SELECT *
FROM (
    SELECT r.id, r.job_id, r.group_key, {_CHAINED}, {IS_WATCHED}
    FROM runs r
    JOIN {_ENDINGS} ON r.id = e.id AND r.token = e.token
) AS ended
WHERE ended.group_key IS NOT NULL OR ended.has_chain OR ended.is_watched OR CAST(:is_each AS BOOLEAN)
""")

_DROP = "DELETE FROM runs WHERE id IN (SELECT id FROM {rows:chosen(id text)})"
DROP = Statement(_DROP)
DROP_WAITING = Statement(f"{_DROP} RETURNING group_key, job_id")

KEEP_WAITING = Statement(f"""
INSERT INTO history {_HISTORY}
SELECT r.id, r.job_id, r.tenant, r.version, r.cause, r.queue, r.priority, :status, r.due_us, r.run_at_us, r.queued_us,
       r.started_us, horae_now(), r.attempt, r.max_attempts, r.token, r.epoch, r.worker, :reason, r.error, NULL,
       r.payload, r.parent_id
FROM runs r
WHERE r.id IN (SELECT id FROM {{rows:chosen(id text)}})
""")

# A result that nobody waits for any more, unless it is the repeat of one that was taken.
LATE = Statement("""
INSERT INTO events (at_us, tenant, kind, job_id, run_id, actor, reason)
SELECT horae_now(), coalesce(r.tenant, h.tenant), 'late_result', coalesce(r.job_id, h.job_id), late.id, :worker,
       late.reason
FROM {rows:late(id text, token bigint, reason text)}
LEFT JOIN runs r ON r.id = late.id
LEFT JOIN history h ON h.id = late.id
WHERE coalesce(r.tenant, h.tenant) IS NOT NULL AND coalesce(h.token, 0) <> late.token
""")

BURY = Statement("""
INSERT INTO dead_letters (run_id, job_id, tenant, at_us, fingerprint, queue, priority, reason)
SELECT h.id, h.job_id, h.tenant, h.ended_us, dead.fingerprint, h.queue, h.priority, h.reason
FROM history h
JOIN {rows:dead(id text, fingerprint text)} ON h.id = dead.id
WHERE h.status = 'failed'
ON CONFLICT (run_id) DO UPDATE SET at_us = excluded.at_us, replayed_as = NULL, discarded_us = NULL,
    fingerprint = excluded.fingerprint, queue = excluded.queue, priority = excluded.priority, reason = excluded.reason
""")

_IS_PAUSED = """(j.state = 'paused' AND (j.pause_until_us IS NULL OR j.pause_until_us > h.ended_us))"""
_FOLLOWS = """(c.ending = 'always' OR c.ending = 'success' AND h.status = 'succeeded'
       OR c.ending = 'failure' AND h.status IN ('failed', 'unknown'))"""
_CHAINED_JOBS = """
FROM history h
JOIN chains c ON c.upstream_id = h.job_id
JOIN jobs j ON j.id = c.job_id AND j.state <> 'deleted'
WHERE h.id IN (SELECT id FROM {rows:ended(id text)})
  AND h.status IN ('succeeded', 'failed', 'cancelled', 'unknown')
"""

# What jobs.KEEP is for runs on request: nobody deletes these jobs before we are done.
KEEP_FOLLOWERS = Statement("""
SELECT t.job_id
FROM timers t
WHERE t.job_id IN (
    SELECT c.job_id
    FROM history h
    JOIN chains c ON c.upstream_id = h.job_id
    WHERE h.id IN (SELECT id FROM {rows:ended(id text)})
)
ORDER BY t.job_id
FOR KEY SHARE OF t
""")

# The runs that these endings start, in the same transaction. Their id comes from the upstream run: made once.
FOLLOW = Statement(f"""
INSERT INTO runs (id, job_id, tenant, version, cause, queue, priority, bucket, group_key, state, due_us, run_at_us,
                  queued_us, available_us, attempt, max_attempts, is_once, token, parent_id)
SELECT horae_run_id(j.id, 'after:' || h.id, h.ended_us), j.id, j.tenant, j.version, 'after', j.queue, j.priority,
       j.bucket, j.group_key, 'queued', h.ended_us, h.ended_us, h.ended_us, h.ended_us, 0, j.max_attempts, j.is_once, 0,
       h.id
{_CHAINED_JOBS} AND {_FOLLOWS} AND NOT {_IS_PAUSED}
ON CONFLICT (id) DO NOTHING
""")

# And those that they do not start, with the reason.
DO_NOT_FOLLOW = Statement(f"""
INSERT INTO history (id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us,
                     ended_us, attempt, max_attempts, token, reason, parent_id)
SELECT horae_run_id(j.id, 'after:' || h.id, h.ended_us), j.id, j.tenant, j.version, 'after', j.queue, j.priority,
       'skipped', h.ended_us, h.ended_us, h.ended_us, h.ended_us, 0, j.max_attempts, 0,
       CASE WHEN {_FOLLOWS} THEN 'job_paused' ELSE 'dependency_failed' END, h.id
{_CHAINED_JOBS} AND NOT ({_FOLLOWS} AND NOT {_IS_PAUSED})
  AND NOT EXISTS (SELECT 1 FROM history old WHERE old.id = horae_run_id(j.id, 'after:' || h.id, h.ended_us))
""")

# As many who were put aside may try again: the oldest of each priority, since the gate lets urgent ones go first, but
# not out of turn where one runs at a time. Those who may try already do not count, and those that another holds are
# passed over: two ends bring two runs, and neither waits for the other.
_ENDED_KEYS = "{rows:ended(key text, n integer)}"
_EACH_PRIORITY = "CROSS JOIN (SELECT 1 AS number UNION ALL SELECT 2 UNION ALL SELECT 3) AS priorities"
_PUT_ASIDE = """SELECT id FROM runs
            WHERE %s AND state = 'queued' AND reason = 'job_concurrency' AND available_us > (SELECT horae_now())
            ORDER BY id"""
_NUDGE = """
WITH next AS MATERIALIZED (
    SELECT first.id
    FROM %s
    CROSS JOIN LATERAL (%s LIMIT ended.n FOR UPDATE SKIP LOCKED) AS first
)
UPDATE runs
SET available_us = run_at_us
WHERE id = ANY (ARRAY(SELECT next.id FROM next))
"""
_NUDGE_SQLITE = """
UPDATE runs
SET available_us = run_at_us
WHERE id IN (
    SELECT first.value
    FROM %s
    CROSS JOIN json_each((SELECT json_group_array(id) FROM (%s LIMIT :most))) AS first
    WHERE first.key < ended.n
)
"""
_OF_GROUPS = (f"{_ENDED_KEYS} {_EACH_PRIORITY}", _PUT_ASIDE % "group_key = ended.key AND priority = priorities.number")
_OF_JOBS = (_ENDED_KEYS, _PUT_ASIDE % "job_id = ended.key")
NUDGE_GROUPS = Statement(_NUDGE % _OF_GROUPS, sqlite=_NUDGE_SQLITE % _OF_GROUPS)
NUDGE_JOBS = Statement(_NUDGE % _OF_JOBS, sqlite=_NUDGE_SQLITE % _OF_JOBS)

_ATTEMPT = """
INSERT INTO attempts (run_id, attempt, token, worker, started_us, ended_us, reason, error)
"""

# What is left of an attempt that was not the last.
RECORD = Statement(f"""
{_ATTEMPT}
SELECT r.id, r.attempt, r.token, r.worker, r.started_us, horae_now(), again.reason, again.error
FROM runs r
JOIN {{rows:again(id text, token bigint, delay_us bigint, reason text, error text, back integer, grace integer)}}
  ON r.id = again.id AND r.token = again.token
WHERE again.back = 0
""")

REQUEUE = Statement("""
UPDATE runs
SET state = 'queued', token = 0, worker = NULL, started_us = NULL, available_us = horae_now() + again.delay_us,
    attempt = runs.attempt - again.back, max_attempts = runs.max_attempts + again.grace,
    reason = again.reason, error = again.error
FROM {rows:again(id text, token bigint, delay_us bigint, reason text, error text, back integer, grace integer)}
WHERE runs.id = again.id AND runs.token = again.token
RETURNING runs.id, runs.cancel, runs.group_key, runs.job_id
""")

# A run that a worker took a moment ago waits no more: it is not ours to end.
LOCK_WAITING = Statement("""
SELECT r.id
FROM runs r
WHERE r.id IN (SELECT id FROM {rows:chosen(id text)}) AND r.state = 'queued'
ORDER BY r.id
FOR UPDATE OF r
""")

# Keeps runs still until they are moved; a reaper may want the same ones.
LOCK = Statement("""
SELECT r.id FROM runs r WHERE r.id IN (SELECT id FROM {rows:chosen(id text)}) ORDER BY r.id FOR UPDATE OF r
""")

# Runs of workers that went silent, on the store's clock; a worker row that is gone counts as silent.
LOST = Statement("""
SELECT r.id, r.token, r.attempt, r.max_attempts, r.is_once, r.cancel
FROM runs r
LEFT JOIN workers w ON w.id = r.worker
WHERE r.state = 'running' AND (w.id IS NULL OR w.expires_us <= horae_now())
ORDER BY r.id
LIMIT :most
""")

# A chunk that is sent again, because its answer was lost, is kept once.
LOG = Statement("""
INSERT INTO logs (run_id, attempt, seq, at_us, text, tenant)
SELECT chunk.run_id, chunk.attempt, chunk.seq, horae_now(), chunk.text, chunk.tenant
FROM {rows:chunk(run_id text, attempt integer, seq integer, tenant text, text text)}
WHERE NOT EXISTS (
    SELECT 1 FROM logs l WHERE l.run_id = chunk.run_id AND l.attempt = chunk.attempt AND l.seq = chunk.seq
)
""")

WORKER_LOST = "The worker stopped answering before it reported a result."


@transaction
def settle_postgres(worker: str, endings: list[Ending]) -> Steps[Settled]:
    rows = yield SETTLE(e=endings, wanted=len(endings))
    is_whole = rows[0]["n"] == len(endings)
    rows = [row for row in rows if row["id"] is not None]
    ended = {ending.run_id for ending in endings} if is_whole else {row["id"] for row in rows}
    return (yield from _after(worker, endings, rows, ended))


@transaction
def settle_sqlite(worker: str, endings: list[Ending]) -> Steps[Settled]:
    given = [ending[:-1] for ending in endings]  # not the job: its text would be read six times
    yield KEEP(e=given)
    (kept,) = yield KEPT()
    is_whole = kept["n"] == len(endings)
    rows = (yield ENDED(e=given, is_each=not is_whole)) if kept["is_odd"] or not is_whole else []
    ended = {ending.run_id for ending in endings} if is_whole else {row["id"] for row in rows}
    yield DROP(chosen=[(id_,) for id_ in ended])
    return (yield from _after(worker, endings, rows, ended))


def _after(worker: str, endings: list[Ending], rows: Rows, ended: set[str]) -> Steps[Settled]:
    """What an ending brings with it; a plain success brings nothing and costs nothing."""
    if len(ended) < len(endings):
        late = [(e.run_id, e.token, e.reason or e.status) for e in endings if e.run_id not in ended]
        yield LATE(worker=worker, late=late)
    dead = [(e.run_id, fingerprint(e.error, e.reason)) for e in endings if e.status == "failed" and e.run_id in ended]
    if dead:
        yield BURY(dead=dead)
    yield from follow([row["id"] for row in rows if row["has_chain"]])
    yield from tell([row["id"] for row in rows if row["is_watched"]])
    yield from nudge(rows)
    return Settled(ended, any(row["has_chain"] or row["group_key"] for row in rows))


def follow(ended: list[str]) -> Steps[None]:
    if ended:
        batch = [(id_,) for id_ in ended]
        yield KEEP_FOLLOWERS(ended=batch)
        yield FOLLOW(ended=batch)
        yield DO_NOT_FOLLOW(ended=batch)


def nudge(ended: Rows) -> Steps[None]:
    """The end of gated runs lets as many of their waiting siblings try again."""
    if groups := Counter(row["group_key"] for row in ended if row["group_key"]):
        yield NUDGE_GROUPS(ended=list(groups.items()), most=max(groups.values()))
    # Where several jobs share a key, the oldest may be held back by a rule of its own job.
    if jobs := Counter(row["job_id"] for row in ended if row["group_key"] not in (None, row["job_id"])):
        yield NUDGE_JOBS(ended=list(jobs.items()), most=max(jobs.values()))


@transaction
def requeue(worker: str, again: list[Again]) -> Steps[set[str]]:
    batch = [(a.run_id, a.token, a.delay_us, a.reason, a.error, 0 if a.counts else 1, a.grace) for a in again]
    yield LOCK(chosen=[(a.run_id,) for a in again])
    yield RECORD(again=batch)
    rows = yield REQUEUE(again=batch)
    moved = {row["id"] for row in rows}
    if len(moved) < len(again):
        yield LATE(worker=worker, late=[(a.run_id, a.token, a.reason) for a in again if a.run_id not in moved])
    for reason in sorted({row["cancel"] for row in rows if row["cancel"]}):
        yield from end_waiting([row["id"] for row in rows if row["cancel"] == reason], "cancelled", reason)
    # One that may start again at once keeps its place before its siblings.
    later = {each.run_id for each in again if each.delay_us}
    yield from nudge([row for row in rows if row["id"] in later and not row["cancel"]])
    return moved


def end_waiting(ids: list[str], status: str, reason: str) -> Steps[int]:
    """Ends runs that wait, and says how many did: they were skipped, replaced or cancelled."""
    if not ids:
        return 0
    chosen = [(row["id"],) for row in (yield LOCK_WAITING(chosen=[(id_,) for id_ in ids]))]
    yield KEEP_WAITING(chosen=chosen, status=status, reason=reason)
    rows = yield DROP_WAITING(chosen=chosen)
    if status == "cancelled":
        yield from follow([id_ for (id_,) in chosen])
    yield from tell([id_ for (id_,) in chosen])
    yield from nudge(rows)
    return len(chosen)


@transaction
def reap_postgres(most: int, logs: Closing | None = None) -> Steps[int]:
    return (yield from _reap(most, logs or {}, is_postgres=True))


@transaction
def reap_sqlite(most: int, logs: Closing | None = None) -> Steps[int]:
    return (yield from _reap(most, logs or {}, is_postgres=False))


def _reap(most: int, logs: Closing, *, is_postgres: bool) -> Steps[int]:
    """Takes runs back from silent workers: again if allowed, else to an honest end. Judged under the lock. `logs` are
    those that break off where a secret may begin: they are brought to their end with their attempt.
    """
    first = yield LOST(most=most)
    if not first:
        return 0
    yield LOCK(chosen=[(row["id"],) for row in first])
    lost = yield LOST(most=most)
    endings, batch = [], []
    for row in lost:
        if pieces := logs.get((row["id"], row["token"])):
            yield from end_log(row["id"], row["attempt"], pieces, is_cut=True)
        status = _lost_status(row)
        if status is None:
            batch.append((row["id"], row["token"], 0, "worker_lost", WORKER_LOST, 0, 0))
        else:
            reason = row["cancel"] if status == "cancelled" else "worker_lost"
            endings.append(Ending(row["id"], row["token"], status, reason, WORKER_LOST, None))
    if batch:
        yield RECORD(again=batch)
        yield REQUEUE(again=batch)
    if endings:
        settle = settle_postgres if is_postgres else settle_sqlite
        yield from settle("janitor", endings).steps()
    return len(lost)


def _lost_status(row: Row) -> str | None:
    if row["cancel"] is not None:
        return "cancelled"
    if row["is_once"]:
        return "unknown"
    return None if row["attempt"] < row["max_attempts"] else "failed"


@transaction
def add_logs(chunks: list[LogChunk]) -> Steps[None]:
    yield LOG(chunk=[(chunk.run_id, chunk.attempt, chunk.seq, chunk.tenant, chunk.text) for chunk in chunks])

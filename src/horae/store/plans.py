"""Due timers into runs. The plan of a batch is one decision: epoch checked, cursor moved, run inserted, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from horae.core.job import read_bucket, read_timing
from horae.core.plan import GRACE_US
from horae.core.run import run_id, scheduled_key
from horae.ports import Decision, DueTimer, Line, Planned, Scan
from horae.store.database import Query, Row, Statement, Steps, reading, statement, transaction
from horae.store.jobs import timing_text
from horae.store.notices import TELL_SKIPPED

# The due timers of the held shards, oldest first. The index is by time, so a long backlog is never sorted. `IS TRUE`
# keeps PostgreSQL from turning an IN into a join that it then plans as a loop in a loop. A definition or its job is
# only looked up where the timer does not say all: it was long, or an earlier release wrote it.
_OF_JOB = ", ".join(
    f"CASE WHEN t.is_known THEN t.{name} ELSE (SELECT j.{name} FROM jobs j WHERE j.id = t.job_id) END AS {name}"
    for name in Line._fields
)
DUE = Statement(f"""
WITH t AS MATERIALIZED (
    SELECT job_id, shard, due_us, version, fired, created_us, timing, bucket, group_key, max_attempts, is_once,
           coalesce(timing_version = version AND line_version = version, false) AS is_known
    FROM timers
    WHERE due_us >= :from_us AND due_us <= (SELECT horae_now()) + :ahead_us
      AND (shard IN (SELECT shard FROM {{rows:held(shard integer)}})) IS TRUE
    ORDER BY due_us
    LIMIT :most
)
SELECT t.job_id, t.shard, t.due_us, t.version, t.fired, t.is_known, (SELECT horae_now()) AS now_us,
       COALESCE(t.created_us, (SELECT v.created_us FROM job_versions v WHERE v.job_id = t.job_id AND v.version = 1)
               ) AS created_us,
       COALESCE(CASE WHEN t.is_known THEN t.timing END,
                (SELECT v.spec FROM job_versions v WHERE v.job_id = t.job_id AND v.version = t.version)) AS timing,
       {_OF_JOB},
       EXISTS (SELECT 1 FROM called_off c WHERE c.job_id = t.job_id) AS has_called_off
FROM t
""")

CALLED_OFF = Statement("""
SELECT c.job_id, c.due_us
FROM {rows:wanted(job_id text)}
JOIN called_off c ON c.job_id = wanted.job_id
""")

# Staged for due times that were missed, and still waiting.
STAGED = Statement("""
SELECT r.job_id, count(*) AS n
FROM {rows:late(job_id text)}
JOIN runs r ON r.job_id = late.job_id
WHERE r.state = 'queued' AND r.attempt = 0 AND r.cause = 'schedule' AND r.due_us <= (SELECT horae_now()) - :grace_us
GROUP BY r.job_id
""")

# When the first of all timers is due: most of the time, all that is to be known. While an old transaction is open, what
# was planned since then lies before it, and is walked past unless one begins behind it. And whether a scheduler has
# left its shards to the others, who else would find out by their next sign of life.
NEXT = Statement("""
SELECT horae_now() AS now_us, (SELECT min(due_us) FROM timers WHERE due_us >= :from_us) AS next_us,
       EXISTS (SELECT 1 FROM leases WHERE expires_us <= (SELECT horae_now())) AS has_free_shards
""")

# When the first of the others comes into sight.
LATER = Statement("""
SELECT min(due_us) AS next_us
FROM timers
WHERE due_us > (SELECT horae_now()) + :ahead_us
""")

_RUN_COLUMNS = """(id, job_id, tenant, version, cause, queue, priority, bucket, group_key, state, due_us, run_at_us,
                   queued_us, available_us, attempt, max_attempts, is_once, token, epoch)"""
_RUN_VALUES = """slots.id, slots.job_id, slots.tenant, slots.version, 'schedule', slots.queue, slots.priority,
       slots.bucket, slots.group_key, 'queued', slots.due_us, slots.run_at_us, horae_now(), slots.run_at_us, 0,
       slots.max_attempts, slots.is_once, 0, slots.epoch"""
_SKIP_COLUMNS = """(id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us, ended_us,
                    attempt, max_attempts, token, reason, skip_until_us, skip_count)"""
_SKIP_VALUES = """skips.id, j.id, j.tenant, skips.version, 'schedule', j.queue, j.priority, 'skipped', skips.due_us,
       skips.due_us, horae_now(), horae_now(), 0, j.max_attempts, 0, skips.reason, skips.until_us, skips.count"""
_SLOTS = """{rows:slots(id text, job_id text, version integer, epoch bigint, due_us bigint, run_at_us bigint,
                    tenant text, queue text, priority integer, bucket text, group_key text, max_attempts integer,
                    is_once boolean)}"""
_SKIPS = """{rows:skips(id text, job_id text, version integer, due_us bigint, until_us bigint, count integer,
                    reason text)}"""
_CURSORS = """{rows:due(job_id text, shard integer, epoch bigint, due_us bigint, next_us bigint, version integer,
                    fires integer)}"""

# PostgreSQL: one statement, one round trip, so that no scheduler can freeze while it holds a lock. The share lock on
# the lease makes a takeover wait for us, and us for a takeover. Timers by their key and by nothing else: the index by
# time holds a whole crowd under one value. Jobs are not looked at: each is one or two pages of a table that is large.
PLAN = Statement(f"""
WITH lease AS MATERIALIZED (
    SELECT l.shard, l.epoch
    FROM leases l
    WHERE l.owner = :owner AND l.expires_us > horae_now()
    FOR SHARE
), m AS (
    UPDATE timers t
    SET due_us = due.next_us, fired = t.fired + due.fires
    FROM {_CURSORS}
    JOIN lease ON lease.shard = due.shard AND lease.epoch = due.epoch
    WHERE t.job_id = due.job_id AND (t.due_us = due.due_us) IS TRUE AND t.version = due.version
    RETURNING t.job_id
), opened AS (
    INSERT INTO runs {_RUN_COLUMNS}
    SELECT {_RUN_VALUES}
    FROM {_SLOTS}
    WHERE (slots.job_id IN (SELECT m.job_id FROM m)) IS TRUE
    ON CONFLICT (id) DO NOTHING
    RETURNING 1
), skipped AS (
    INSERT INTO history {_SKIP_COLUMNS}
    SELECT {_SKIP_VALUES}
    FROM {_SKIPS}
    JOIN jobs j ON j.id = skips.job_id
    WHERE (skips.job_id IN (SELECT m.job_id FROM m)) IS TRUE
    RETURNING history.reason, history.skip_count
), told AS (
    {TELL_SKIPPED.format(skips=_SKIPS, of_moved="(skips.job_id IN (SELECT m.job_id FROM m)) IS TRUE")}
    RETURNING 1
)
SELECT (SELECT count(*) FROM m) AS moved, (SELECT count(*) FROM opened) AS opened,
       (SELECT CAST(json_agg(json_build_array(s.reason, s.skip_count)) AS TEXT) FROM skipped s) AS skipped
""")

# SQLite has no writes inside WITH: the same steps, one after another, under its single writer.
MOVE = Statement(f"""
UPDATE timers
SET due_us = due.next_us, fired = fired + due.fires
FROM {_CURSORS}
JOIN leases lease ON lease.shard = due.shard AND lease.epoch = due.epoch
WHERE timers.job_id = due.job_id AND timers.due_us = due.due_us AND timers.version = due.version
  AND lease.owner = :owner AND lease.expires_us > horae_now()
RETURNING timers.job_id
""")

OPEN = Statement(f"""
INSERT INTO runs {_RUN_COLUMNS}
SELECT {_RUN_VALUES}
FROM {_SLOTS}
WHERE true
ON CONFLICT (id) DO NOTHING
RETURNING 1
""")

SKIP = Statement(f"""
INSERT INTO history {_SKIP_COLUMNS}
SELECT {_SKIP_VALUES}
FROM {_SKIPS}
JOIN jobs j ON j.id = skips.job_id
RETURNING reason, skip_count
""")


KEEP_TIMINGS = Statement("""
UPDATE timers
SET created_us = looked_up.created_us, timing_version = looked_up.version, timing = looked_up.timing,
    line_version = looked_up.version, bucket = looked_up.bucket, group_key = looked_up.group_key,
    max_attempts = looked_up.max_attempts, is_once = looked_up.is_once
FROM {rows:looked_up(job_id text, version integer, created_us bigint, timing text, bucket text, group_key text,
                     max_attempts integer, is_once boolean)}
WHERE timers.job_id = looked_up.job_id AND timers.version = looked_up.version
""")

TELL = Statement(TELL_SKIPPED.format(skips=_SKIPS, of_moved="true"))


@reading
def due(shards: list[int], ahead_us: int, most: int, from_us: int = 0) -> Steps[Scan]:
    clock = (yield NEXT(from_us=from_us))[0]
    head_us = clock["next_us"]
    if head_us is None or head_us > clock["now_us"] + ahead_us:
        return Scan([], clock["now_us"], head_us, head_us, bool(clock["has_free_shards"]))
    rows = yield DUE(held=[(shard,) for shard in shards], from_us=head_us, ahead_us=ahead_us, most=most)
    called_off: dict[str, set[int]] = {row["job_id"]: set() for row in rows if row["has_called_off"]}
    if called_off:
        for row in (yield CALLED_OFF(wanted=[(job_id,) for job_id in called_off])):
            called_off[row["job_id"]].add(row["due_us"])
    late = [(row["job_id"],) for row in rows if row["due_us"] <= row["now_us"] - GRACE_US]
    staged = {row["job_id"]: row["n"] for row in (yield STAGED(late=late, grace_us=GRACE_US))} if late else {}
    timers = [_timer(row, frozenset(called_off.get(row["job_id"], ())), staged.get(row["job_id"], 0)) for row in rows]
    now_us = rows[0]["now_us"] if rows else clock["now_us"]
    next_us = None if len(rows) == most else (yield LATER(ahead_us=ahead_us))[0]["next_us"]
    return Scan(timers, now_us, next_us, head_us, bool(clock["has_free_shards"]))


@statement
def plan_postgres(owner: str, decisions: list[Decision]) -> Steps[Planned]:
    row = (yield _query(PLAN, owner, decisions))[0]
    return Planned(row["moved"], row["opened"], _by_reason(json.loads(row["skipped"] or "[]")))


@transaction
def plan_sqlite(owner: str, decisions: list[Decision]) -> Steps[Planned]:
    query = _query(PLAN, owner, decisions)
    moved = yield MOVE(owner=owner, due=query.params["due"])
    jobs = {row["job_id"] for row in moved}
    opened = yield OPEN(slots=[slot for slot in query.params["slots"] if slot[1] in jobs])
    skips = [skip for skip in query.params["skips"] if skip[1] in jobs]
    skipped = (yield SKIP(skips=skips)) if skips else []
    if skips:
        yield TELL(skips=skips)
    return Planned(len(jobs), len(opened), _by_reason((row["reason"], row["skip_count"]) for row in skipped))


@transaction
def keep_timings(timers: list[DueTimer]) -> Steps[None]:
    """Those that an earlier release wrote need not be looked up the next time."""
    yield KEEP_TIMINGS(
        looked_up=[
            (timer.job_id, timer.version, timer.created_us, timing_text(read_timing(timer.timing)), *timer.line)
            for timer in timers
        ]
    )


def _by_reason(skips: Iterable[tuple[str, int]]) -> dict[str, int]:
    """How many due times: one row may stand for a whole stretch of them."""
    counts: dict[str, int] = {}
    for reason, count in skips:
        counts[reason] = counts.get(reason, 0) + count
    return counts


def _query(plan: Statement, owner: str, decisions: list[Decision]) -> Query:
    slots, skips, cursors = [], [], []
    for decision in decisions:
        timer, plan_ = decision.timer, decision.plan
        job = timer.job_id
        cursors.append((job, timer.shard, decision.epoch, timer.due_us, plan_.next_us, timer.version, len(plan_.slots)))
        place = _place(timer.line.bucket)
        for slot in plan_.slots:
            id_ = run_id(job, scheduled_key(slot.due_us), slot.due_us)
            slots.append((id_, job, timer.version, decision.epoch, slot.due_us, slot.run_at_us, *place, *timer.line))
        for skip in plan_.skips:
            id_ = run_id(job, scheduled_key(skip.from_us), skip.from_us)
            skips.append((id_, job, timer.version, skip.from_us, skip.until_us, skip.count, skip.reason))
    return plan(owner=owner, due=cursors, slots=slots, skips=skips)


@lru_cache(10_000)
def _place(bucket: str) -> tuple[str, str, int]:
    """Tenant, queue and priority of those who wait there."""
    line = read_bucket(bucket)
    return line.tenant, line.queue, line.priority


def _timer(row: Row, called_off: frozenset[int], staged: int) -> DueTimer:
    return DueTimer(
        row["job_id"],
        row["shard"],
        row["due_us"],
        row["version"],
        row["fired"],
        row["created_us"],
        row["timing"],
        Line(row["bucket"], row["group_key"], row["max_attempts"], bool(row["is_once"])),
        called_off,
        staged,
        bool(row["is_known"]),
    )

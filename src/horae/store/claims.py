"""Waiting runs into running ones. Free lines are taken by position alone; gated ones are checked under one lock."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from horae.core.gate import Candidate, Facts, Running, admit
from horae.core.job import Rules
from horae.ports import Claimed, Gated, Limit, Lines, Waiting
from horae.store.database import Row, Rows, Statement, Steps, reading, statement, transaction
from horae.store.results import end_waiting

# The waiting lines that start with a prefix, each with the time of its first run: a loose scan that touches two index
# entries a line, however many runs wait in it.
WAITING = Statement("""
WITH RECURSIVE line(prefix, bucket) AS (
    SELECT wanted.prefix,
           (SELECT min(r.bucket) FROM runs r
            WHERE r.state = 'queued' AND r.bucket >= wanted.prefix AND r.bucket < wanted.prefix || '~')
    FROM {rows:wanted(prefix text)}
    UNION ALL
    SELECT line.prefix,
           (SELECT min(r.bucket) FROM runs r
            WHERE r.state = 'queued' AND r.bucket > line.bucket AND r.bucket < line.prefix || '~')
    FROM line
    WHERE line.bucket IS NOT NULL
)
SELECT line.bucket, horae_now() AS now_us,
       (SELECT min(r.available_us) FROM runs r WHERE r.state = 'queued' AND r.bucket = line.bucket) AS head_us
FROM line
""")

_CLAIM = """
UPDATE runs
SET state = 'running', attempt = runs.attempt + 1, worker = :worker, started_us = (SELECT horae_now()), reason = NULL,
    token = """
# In the order of Claimed.
_CLAIMED = """
RETURNING runs.id, runs.job_id, runs.tenant, runs.version, runs.cause, runs.due_us, runs.run_at_us, runs.attempt,
          runs.max_attempts, runs.token, runs.payload, runs.parent_id, runs.started_us - runs.queued_us AS waited_us,
          runs.started_us
"""

# PostgreSQL: so many rows of each line, in one statement. Materialized, because an IN with a LIMIT can be planned to
# run its subselect again for each row and then takes more than it was asked for. An array, because a join was planned
# with a hash of the whole backlog (208 ms for 500 of 100,000, against 8).
CLAIM = Statement(f"""
WITH taken AS MATERIALIZED (
    SELECT first.id
    FROM {{rows:share(bucket text, n integer)}}
    CROSS JOIN LATERAL (
        SELECT id
        FROM runs
        WHERE state = 'queued' AND bucket = share.bucket AND available_us <= (SELECT horae_now())
        ORDER BY available_us
        LIMIT share.n
        FOR UPDATE SKIP LOCKED
    ) AS first
)
{_CLAIM} horae_fence()
WHERE runs.id = ANY (ARRAY(SELECT taken.id FROM taken))
{_CLAIMED}
""")

# SQLite: no LATERAL, but a statement a line costs no round trip there. What is taken comes as one row of JSON, in the
# order of Claimed: each row of an answer costs a thread of SQLite a wait for the interpreter, which is busy with the
# runs before.
LINE = Statement(
    "SELECT 0 AS started_us, '[]' AS taken, '[]' AS claimed",
    sqlite="""
    SELECT horae_now() AS started_us,
           json_group_array(place) AS taken,
           json_group_array(json_array(id, job_id, tenant, version, cause, due_us, run_at_us, attempt + 1, max_attempts,
                                       new_token, payload, parent_id, horae_now() - queued_us, horae_now())) AS claimed
    FROM (
        SELECT first.*, :fence + row_number() OVER () AS new_token,
               sum(characters) OVER (ROWS UNBOUNDED PRECEDING) - characters AS characters_before
        FROM (
            SELECT rowid AS place, coalesce(length(payload), 0) AS characters, *
            FROM runs
            WHERE state = 'queued' AND bucket = :bucket AND available_us <= horae_now()
            ORDER BY available_us
            LIMIT :n
        ) AS first
    ) AS line
    WHERE characters_before < :most_characters
    """,
)
TAKE = Statement(
    "SELECT 0 AS n",
    sqlite="""
    UPDATE runs
    SET state = 'running', attempt = runs.attempt + 1, worker = :worker, started_us = :started_us, reason = NULL,
        token = taken.new_token
    FROM (SELECT value AS place, :fence + key + 1 AS new_token FROM json_each(:taken)) AS taken
    WHERE runs.rowid = taken.place
    """,
)

# SQLite has no sequence: so many tokens above all that were ever given.
FENCE = Statement(
    "SELECT 0 AS fence",
    sqlite="""
    UPDATE meta
    SET value = CAST(value AS INTEGER) + :n
    WHERE key = 'fence'
    RETURNING CAST(value AS INTEGER) - :n AS fence
    """,
)

# One gate at a time: two of them could each see the last free place.
GATE_LOCK = Statement("SELECT pg_advisory_xact_lock(7449)", sqlite="SELECT 1")

# The first of each line, so many of them.
_FIRST = """
FROM runs
WHERE state = 'queued' AND bucket = line.bucket AND available_us <= (SELECT horae_now())
ORDER BY available_us
LIMIT :most"""
_CANDIDATES = """
SELECT r.id, r.job_id, r.version, r.tenant, r.queue, r.group_key, r.priority, r.bucket
FROM {rows:line(bucket text)}
CROSS JOIN %s
ORDER BY r.available_us
"""
CANDIDATES = Statement(
    _CANDIDATES % f"LATERAL (SELECT * {_FIRST}) AS r",
    sqlite=_CANDIDATES % f"runs r WHERE r.rowid IN (SELECT rowid {_FIRST})",
)

# The waiting lines whose runs the gate must decide even when no worker has room: overlap is judged when due.
GATED_LINES = Statement("""
WITH RECURSIVE line(bucket) AS (
    SELECT (SELECT min(bucket) FROM runs WHERE state = 'queued' AND bucket >= '+' AND bucket < ',')
    UNION ALL
    SELECT (SELECT min(r.bucket) FROM runs r WHERE r.state = 'queued' AND r.bucket > line.bucket AND r.bucket < ',')
    FROM line
    WHERE line.bucket IS NOT NULL
)
SELECT line.bucket, horae_now() AS now_us
FROM line
WHERE line.bucket IS NOT NULL
  AND EXISTS (SELECT 1 FROM runs r
              WHERE r.state = 'queued' AND r.bucket = line.bucket AND r.available_us <= (SELECT horae_now()))
""")

OLDEST = Statement("""
SELECT job.id AS job_id,
       (SELECT min(r.id) FROM runs r WHERE r.job_id = job.id AND r.state = 'queued') AS oldest,
       (SELECT min(r.id) FROM runs r WHERE r.job_id = job.id AND r.state = 'queued' AND r.attempt = 0) AS unstarted
FROM {rows:job(id text)}
""")

RUNNING = Statement("""
SELECT r.id, r.job_id, r.tenant, r.queue, r.group_key, r.cancel
FROM runs r
WHERE r.state = 'running'
  AND (r.job_id IN (SELECT id FROM {rows:job(id text)}) OR r.group_key IN (SELECT id FROM {rows:grp(id text)})
       OR r.tenant IN (SELECT id FROM {rows:capped(id text)}))
""")

_COMING = """
SELECT r.job_id, r.version
FROM runs r
WHERE r.state = 'queued' AND r.bucket %s AND r.available_us > :after_us AND r.available_us <= :until_us
LIMIT :most
"""
COMING = Statement(
    _COMING % "= ANY (ARRAY(SELECT line.bucket FROM {rows:line(bucket text)}))",
    sqlite=_COMING % "IN (SELECT line.bucket FROM {rows:line(bucket text)})",
)

SPECS = Statement("""
SELECT v.job_id, v.version, v.spec
FROM job_versions v
JOIN {rows:wanted(job_id text, version integer)} ON v.job_id = wanted.job_id AND v.version = wanted.version
""")

LIMITS = Statement("SELECT tenant, queue, max_running, is_paused, weight FROM limits")

_START = f"""
{_CLAIM} %s
FROM {{rows:chosen(id text, place integer)}}
WHERE runs.id = chosen.id AND runs.state = 'queued'
{_CLAIMED}
"""
START = Statement(_START % "horae_fence()", sqlite=_START % ":fence + chosen.place")

# Waiting runs of a job that are older than the one that replaces them.
OLDER = Statement("""
SELECT r.id
FROM runs r
JOIN {rows:newer(job_id text, run_id text)} ON r.job_id = newer.job_id AND r.id < newer.run_id
WHERE r.state = 'queued'
""")

STOP = Statement("""
UPDATE runs SET cancel = 'superseded'
WHERE id IN (SELECT id FROM {rows:chosen(id text)}) AND state = 'running' AND cancel IS NULL
""")

# A blocked run is put aside for a while, so that it does not stand in the way of others; the end of a sibling brings it
# back at once (results.py), the time only in the rare case that nothing does.
PUT_ASIDE = Statement("""
UPDATE runs
SET available_us = horae_now() + waits.delay_us, reason = waits.reason
FROM {rows:waits(id text, reason text, delay_us bigint)}
WHERE runs.id = waits.id AND runs.state = 'queued'
""")

RESULTS = Statement("""
SELECT h.id, h.job_id, h.status, h.result, h.error
FROM history h
WHERE h.id IN (SELECT id FROM {rows:wanted(id text)})
""")

# Of payloads in one answer of SQLite, whose strings end at a billion bytes.
CHARACTERS_AT_ONCE = 50_000_000
GATE_AT_ONCE = 500
LINES_AT_ONCE = 50
MOST_LINES = 500
# The end of a sibling brings a run back that waits for it, the oldest first: should that ever be missed, the oldest is
# looked at again soon, and those behind it, of which there may be many, late. Caps and pauses are looked at again soon.
ASIDE_US = 2_000_000
BEHIND_US = 60_000_000
RETRY_US = 200_000


@reading
def waiting_lines(prefixes: list[str]) -> Steps[Lines]:
    rows = yield WAITING(wanted=[(prefix,) for prefix in prefixes])
    waiting = [Waiting(row["bucket"], row["head_us"]) for row in rows if row["head_us"] is not None]
    return Lines(waiting, rows[0]["now_us"])


@statement
def claim_postgres(worker: str, shares: list[tuple[str, int]]) -> Steps[list[Claimed]]:
    rows = yield CLAIM(worker=worker, share=shares)
    return [Claimed._make(row.values()) for row in rows]


@transaction
def claim_sqlite(worker: str, shares: list[tuple[str, int]]) -> Steps[list[Claimed]]:
    fence = yield from _fence(sum(n for _, n in shares))
    claimed: list[Claimed] = []
    for bucket, n in shares:
        given = fence + len(claimed)
        (line,) = yield LINE(bucket=bucket, n=n, fence=given, most_characters=CHARACTERS_AT_ONCE)
        yield TAKE(worker=worker, started_us=line["started_us"], fence=given, taken=line["taken"])
        claimed += _claimed(line["claimed"])
    return claimed


def _fence(n: int) -> Steps[int]:
    return int((yield FENCE(n=n))[0]["fence"])


@transaction
def claim_gated(worker: str, buckets: list[str], room: int) -> Steps[Gated]:
    yield GATE_LOCK()
    start, skipped = yield from _judge(buckets, room)
    if not start:
        return Gated([], skipped)
    fence = yield from _fence(len(start))
    rows = yield START(worker=worker, fence=fence, chosen=[(id_, place) for place, id_ in enumerate(start, 1)])
    return Gated([Claimed._make(row.values()) for row in rows], skipped)


@transaction
def gate() -> Steps[int]:
    """Decides overlaps that are due, without starting anything; says how many of them are skipped."""
    lines = yield GATED_LINES()
    if not lines:
        return 0
    yield GATE_LOCK()
    # Another part of them first in every second, so that none is for ever behind the others.
    first = lines[0]["now_us"] // 1_000_000 * MOST_LINES % len(lines)
    buckets = [row["bucket"] for row in (*lines[first:], *lines[:first])][:MOST_LINES]
    skipped = 0
    for start in range(0, len(buckets), LINES_AT_ONCE):
        skipped += (yield from _judge(buckets[start : start + LINES_AT_ONCE], 0))[1]
    return skipped


def _judge(buckets: list[str], room: int) -> Steps[tuple[list[str], int]]:
    """Which runs may start, and how many were skipped."""
    rows = yield from _candidates(buckets[:LINES_AT_ONCE])
    if not rows:
        return [], 0
    facts = yield from _facts(rows, room)
    verdicts = admit(facts)
    if verdicts.supersede:
        older = yield OLDER(newer=list(verdicts.supersede.items()))
        yield from end_waiting([row["id"] for row in older], "cancelled", "superseded")
    skipped = yield from end_waiting(verdicts.skip, "skipped", "overlap_skipped")
    if verdicts.stop:
        yield STOP(chosen=_ids(verdicts.stop))
    if verdicts.wait:
        yield PUT_ASIDE(waits=_waits(verdicts.wait, {row["id"]: row["job_id"] for row in rows}))
    return verdicts.start, skipped


def _waits(reasons: dict[str, str], job_of: dict[str, str]) -> list[tuple[str, str, int]]:
    """Who waits, why, and for how long at most."""
    waits, jobs = [], set()
    for id_, reason in sorted(reasons.items()):
        delay_us = RETRY_US
        if reason == "job_concurrency":
            delay_us = BEHIND_US if job_of[id_] in jobs else ASIDE_US
            jobs.add(job_of[id_])
        waits.append((id_, reason, delay_us))
    return waits


def _candidates(buckets: list[str]) -> Steps[Rows]:
    """The first of each line before the second of any, so that nobody stands behind a neighbour's backlog."""
    most = max(10, GATE_AT_ONCE // max(1, len(buckets)))
    lines: dict[str, list[Row]] = {bucket: [] for bucket in buckets}
    for row in (yield CANDIDATES(line=_ids(buckets), most=most)):
        lines[row["bucket"]].append(row)
    found = [(row["priority"], place, row) for line in lines.values() for place, row in enumerate(line)]
    return [row for _, _, row in sorted(found, key=lambda each: each[:2])]


def _facts(rows: Rows, room: int) -> Steps[Facts]:
    specs = yield SPECS(wanted=sorted({(row["job_id"], row["version"]) for row in rows}))
    rules = {(row["job_id"], row["version"]): _read_rules(row["spec"]) for row in specs}
    candidates = [_candidate(row, rules[row["job_id"], row["version"]]) for row in rows]
    jobs = sorted({candidate.job_id for candidate in candidates})
    limits = yield LIMITS()
    caps = {(row["tenant"], row["queue"]): row["max_running"] for row in limits if row["max_running"] is not None}
    oldest = yield OLDEST(job=_ids(jobs))
    running = yield RUNNING(
        job=_ids(jobs),
        grp=_ids(sorted({candidate.group for candidate in candidates if candidate.group})),
        capped=_ids(sorted({tenant for tenant, _ in caps})),
    )
    return Facts(
        candidates=candidates,
        running=[_running(row) for row in running],
        oldest={row["job_id"]: row["oldest"] for row in oldest if row["oldest"]},
        unstarted={row["job_id"]: row["unstarted"] for row in oldest if row["unstarted"]},
        caps=caps,
        paused=frozenset((row["tenant"], row["queue"]) for row in limits if row["is_paused"]),
        room=room,
    )


@reading
def coming(lines: list[str], after_us: int, until_us: int, most: int) -> Steps[list[tuple[str, int]]]:
    """The versions of jobs whose runs become available in these lines meanwhile."""
    rows = yield COMING(line=_ids(lines), after_us=after_us, until_us=until_us, most=most)
    return [(row["job_id"], row["version"]) for row in rows]


@reading
def specs(versions: list[tuple[str, int]]) -> Steps[dict[tuple[str, int], str]]:
    rows = yield SPECS(wanted=versions)
    return {(row["job_id"], row["version"]): row["spec"] for row in rows}


@reading
def results_of(run_ids: list[str]) -> Steps[dict[str, dict[str, Any]]]:
    """What upstream runs left behind, for the runs that they started."""
    rows = yield RESULTS(wanted=_ids(run_ids))
    return {
        row["id"]: {
            "run_id": row["id"],
            "job_id": row["job_id"],
            "status": row["status"].upper(),
            "result": json.loads(row["result"]) if row["result"] else None,
            "error": row["error"],
        }
        for row in rows
    }


@reading
def limits() -> Steps[list[Limit]]:
    rows = yield LIMITS()
    return [
        Limit(row["tenant"], row["queue"], row["max_running"], bool(row["is_paused"]), row["weight"]) for row in rows
    ]


def _ids(ids: list[str]) -> list[tuple[str]]:
    return [(id_,) for id_ in ids]


_read_rules = msgspec.json.Decoder(Rules).decode
_claimed = msgspec.json.Decoder(list[Claimed]).decode


def _candidate(row: Row, rules: Rules) -> Candidate:
    return Candidate(
        row["id"],
        row["job_id"],
        row["tenant"],
        row["queue"],
        row["group_key"],
        rules.overlap,
        rules.max_concurrency,
    )


def _running(row: Row) -> Running:
    return Running(row["id"], row["job_id"], row["tenant"], row["queue"], row["group_key"], row["cancel"] is not None)

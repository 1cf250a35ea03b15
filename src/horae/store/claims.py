"""Waiting runs into running ones, taken by their position in a line alone; and what it takes to run them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from horae.ports import Claimed, Limit, Lines, Share, Waiting
from horae.store.database import Statement, Steps, reading, statement, transaction

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

CLAIMING = """
UPDATE runs
SET state = 'running', attempt = runs.attempt + 1, worker = :worker, started_us = (SELECT horae_now()), reason = NULL,
    token = """
# In the order of Claimed.
CLAIMED = """
RETURNING runs.id, runs.job_id, runs.tenant, runs.version, runs.cause, runs.due_us, runs.run_at_us, runs.attempt,
          runs.max_attempts, runs.token, runs.payload, runs.parent_id, runs.started_us - runs.queued_us AS waited_us,
          runs.started_us
"""
# And how they are run, for a worker that would have to read most of them in another statement. A long one is read once
# for its job, not brought by each of its runs.
_SPEC = """,
          CASE WHEN CAST(:with_specs AS BOOLEAN)
               THEN (SELECT v.spec
                     FROM job_versions v
                     WHERE v.job_id = runs.job_id AND v.version = runs.version AND octet_length(v.spec) <= 2000)
          END AS spec
"""

# PostgreSQL: so many rows of each line, in one statement. Materialized, because an IN with a LIMIT can be planned to
# run its subselect again for each row and then takes more than it was asked for. An array, because a join was planned
# with a hash of the whole backlog (208 ms for 500 of 100,000, against 8).
CLAIM = Statement(f"""
WITH taken AS MATERIALIZED (
    SELECT first.id
    FROM {{rows:share(bucket text, n integer, from_us bigint)}}
    CROSS JOIN LATERAL (
        SELECT id
        FROM runs
        WHERE state = 'queued' AND bucket = share.bucket AND available_us >= share.from_us
          AND available_us <= (SELECT horae_now())
        ORDER BY available_us
        LIMIT share.n
        FOR UPDATE SKIP LOCKED
    ) AS first
)
{CLAIMING} horae_fence()
WHERE runs.id = ANY (ARRAY(SELECT taken.id FROM taken))
{CLAIMED}{_SPEC}
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
            WHERE state = 'queued' AND bucket = :bucket AND available_us >= :from_us AND available_us <= horae_now()
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

RESULTS = Statement("""
SELECT h.id, h.job_id, h.status, h.result, h.error
FROM history h
WHERE h.id IN (SELECT id FROM {rows:wanted(id text)})
""")

# Of payloads in one answer of SQLite, whose strings end at a billion bytes.
CHARACTERS_AT_ONCE = 50_000_000


@reading
def waiting_lines(prefixes: list[str]) -> Steps[Lines]:
    rows = yield WAITING(wanted=[(prefix,) for prefix in prefixes])
    waiting = [Waiting(row["bucket"], row["head_us"]) for row in rows if row["head_us"] is not None]
    return Lines(waiting, rows[0]["now_us"])


@statement
def claim_postgres(worker: str, shares: list[Share], *, with_specs: bool = False) -> Steps[list[Claimed]]:
    rows = yield CLAIM(worker=worker, share=shares, with_specs=with_specs)
    return [Claimed._make(row.values()) for row in rows]


@transaction
def claim_sqlite(
    worker: str,
    shares: list[Share],
    *,
    with_specs: bool = False,  # noqa: ARG001 they could be too long for one answer, which ends at a billion bytes
) -> Steps[list[Claimed]]:
    first = yield from fence(sum(share.n for share in shares))
    claimed: list[Claimed] = []
    for share in shares:
        given = first + len(claimed)
        (line,) = yield LINE(**share._asdict(), fence=given, most_characters=CHARACTERS_AT_ONCE)
        yield TAKE(worker=worker, started_us=line["started_us"], fence=given, taken=line["taken"])
        claimed += _claimed(line["claimed"])
    return claimed


def fence(n: int) -> Steps[int]:
    return int((yield FENCE(n=n))[0]["fence"])


@reading
def coming(lines: list[str], after_us: int, until_us: int, most: int) -> Steps[list[tuple[str, int]]]:
    """The versions of jobs whose runs become available in these lines meanwhile."""
    rows = yield COMING(line=ids(lines), after_us=after_us, until_us=until_us, most=most)
    return [(row["job_id"], row["version"]) for row in rows]


@reading
def specs(versions: list[tuple[str, int]]) -> Steps[dict[tuple[str, int], str]]:
    rows = yield SPECS(wanted=versions)
    return {(row["job_id"], row["version"]): row["spec"] for row in rows}


@reading
def results_of(run_ids: list[str]) -> Steps[dict[str, dict[str, Any]]]:
    """What upstream runs left behind, for the runs that they started."""
    rows = yield RESULTS(wanted=ids(run_ids))
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


def ids(texts: list[str]) -> list[tuple[str]]:
    return [(text,) for text in texts]


_claimed = msgspec.json.Decoder(list[Claimed]).decode

"""Runs that are checked before they start, against their siblings and against caps: overlap is judged when due."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec

from horae.core.gate import Candidate, Facts, Running, admit
from horae.core.job import FREE, Rules, read_bucket
from horae.ports import Claimed, Gated, Share
from horae.store.claims import CLAIMED, CLAIMING, LIMITS, SPECS, fence, ids
from horae.store.database import Row, Rows, Statement, Steps, statement, transaction
from horae.store.results import end_waiting, nudge

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

TAKEN = Statement("""
SELECT r.tenant, r.queue, count(*) AS n
FROM runs r
WHERE r.state = 'running' AND r.tenant IN (SELECT id FROM {rows:capped(id text)})
GROUP BY r.tenant, r.queue
""")

_START = f"""
{CLAIMING} %s
FROM {{rows:chosen(id text, place integer)}}
WHERE runs.id = chosen.id AND runs.state = 'queued'
{CLAIMED}
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

# Of running runs that were seen, those that have ended since.
ENDED_OF = Statement("""
SELECT seen.group_key, seen.job_id
FROM {rows:seen(id text, group_key text, job_id text)}
WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = seen.id AND r.state = 'running')
""")


class Limits(NamedTuple):
    """By tenant and queue, '' for all of them."""

    caps: dict[tuple[str, str], int]
    paused: frozenset[tuple[str, str]]


GATE_AT_ONCE = 500
LINES_AT_ONCE = 50
MOST_LINES = 500
# The end of a sibling brings the next runs back at once. It may bring one that cannot use the place, or none: as many
# of each job as may run at a time are looked at again after this time, as many more after twice of it, and so on, for
# there may be very many. Caps and pauses are looked at again soon.
ASIDE_US = 2_000_000
BEHIND_US = 60_000_000
RETRY_US = 200_000


@transaction
def claim_gated(worker: str, shares: list[Share], room: int) -> Steps[Gated]:
    yield GATE_LOCK()
    start, gated = yield from _judge({each.bucket: each.n for each in shares[:LINES_AT_ONCE]}, room)
    if not start:
        return gated
    first = yield from fence(len(start))
    rows = yield START(worker=worker, fence=first, chosen=[(id_, place) for place, id_ in enumerate(start, 1)])
    return gated._replace(claimed=[Claimed(*row.values()) for row in rows])


@transaction
def gate() -> Steps[Gated]:
    """Decides overlaps that are due, without starting anything."""
    lines = yield GATED_LINES()
    if not lines:
        return Gated([], 0, [], [])
    yield GATE_LOCK()
    # Another part of them first in every second, so that none is for ever behind the others.
    first = lines[0]["now_us"] // 1_000_000 * MOST_LINES % len(lines)
    buckets = [row["bucket"] for row in (*lines[first:], *lines[:first])][:MOST_LINES]
    skipped, blockers = 0, []
    for start in range(0, len(buckets), LINES_AT_ONCE):
        _, gated = yield from _judge(dict.fromkeys(buckets[start : start + LINES_AT_ONCE], 0), 0)
        skipped += gated.skipped
        blockers += gated.blockers
    return Gated([], skipped, blockers, [])


@statement
def ended_of(blockers: list[tuple[str, str | None, str]]) -> Steps[Rows]:
    """Those of them that run no more."""
    return (yield ENDED_OF(seen=blockers))


@transaction
def let_go(ended: Rows) -> Steps[None]:
    """What the end of these runs would have done, had it been known then who waits for it."""
    yield from nudge(ended)


def _judge(shares: dict[str, int], room: int) -> Steps[tuple[list[str], Gated]]:
    """Which runs may start, and what became of the others. A plain line comes here because of a cap alone; as long as
    that leaves no place, none of its runs is looked at or moved.
    """
    limits = yield from _limits()
    shut = yield from _shut([bucket for bucket in shares if bucket.startswith(FREE)], limits)
    rows = yield from _candidates({bucket: n for bucket, n in shares.items() if bucket not in shut}, room)
    if not rows:
        return [], Gated([], 0, [], shut)
    facts = yield from _facts(rows, limits, room)
    verdicts = admit(facts)
    if verdicts.supersede:
        older = yield OLDER(newer=list(verdicts.supersede.items()))
        yield from end_waiting([row["id"] for row in older], "cancelled", "superseded")
    skipped = yield from end_waiting(list(verdicts.skip), "skipped", "overlap_skipped")
    if verdicts.stop:
        yield STOP(chosen=ids(verdicts.stop))
    shut += sorted({row["bucket"] for row in rows if row["id"] in verdicts.wait and row["bucket"].startswith(FREE)})
    moved = [each for each, row in zip(facts.candidates, rows, strict=True) if row["bucket"] not in shut]
    if waits := _waits(verdicts.wait, moved):
        yield PUT_ASIDE(waits=waits)
    return list(verdicts.start), Gated([], skipped, _blockers(verdicts.wait, facts), shut)


def _waits(reasons: dict[str, str], candidates: list[Candidate]) -> list[tuple[str, str, int]]:
    """Who waits, why, and for how long at most."""
    waits = []
    places: Counter[str] = Counter()
    for candidate in sorted(candidates, key=attrgetter("run_id")):
        reason = reasons.get(candidate.run_id)
        if reason == "job_concurrency":
            waves = 1 + places[candidate.job_id] // (candidate.max_concurrency or 1)
            places[candidate.job_id] += 1
            waits.append((candidate.run_id, reason, min(waves * ASIDE_US, BEHIND_US)))
        elif reason is not None:
            waits.append((candidate.run_id, reason, RETRY_US))
    return waits


def _blockers(reasons: dict[str, str], facts: Facts) -> list[tuple[str, str | None, str]]:
    waiting = [each for each in facts.candidates if reasons.get(each.run_id) == "job_concurrency"]
    groups, jobs = {each.group for each in waiting}, {each.job_id for each in waiting}
    return [(run.run_id, run.group, run.job_id) for run in facts.running if run.group in groups or run.job_id in jobs]


def _limits() -> Steps[Limits]:
    rows = yield LIMITS()
    caps = {(row["tenant"], row["queue"]): row["max_running"] for row in rows if row["max_running"] is not None}
    return Limits(caps, frozenset((row["tenant"], row["queue"]) for row in rows if row["is_paused"]))


def _shut(plain: list[str], limits: Limits) -> Steps[list[str]]:
    """Those of the plain lines whose tenant or queue is paused, or has as many running as it may."""
    buckets = {text: read_bucket(text) for text in plain}
    tenants = sorted({bucket.tenant for bucket in buckets.values()})
    rows = (yield TAKEN(capped=ids(tenants))) if limits.caps and tenants else []
    taken = Counter({(row["tenant"], row["queue"]): row["n"] for row in rows})
    for row in rows:
        taken[row["tenant"], ""] += row["n"]

    def has_place(tenant: str, queue: str) -> bool:
        most = limits.caps.get((tenant, queue))
        return (tenant, queue) not in limits.paused and (most is None or taken[tenant, queue] < most)

    return [
        text
        for text, bucket in buckets.items()
        if not (has_place(bucket.tenant, "") and has_place(bucket.tenant, bucket.queue))
    ]


def _candidates(shares: dict[str, int], room: int) -> Steps[Rows]:
    """Each line up to its share, urgent ones first; then, for what is left, the next of each line before another of
    any, so that nobody stands behind a neighbour's backlog.
    """
    if not shares:
        return []
    most = max(10, GATE_AT_ONCE // len(shares))
    if all(bucket.startswith(FREE) for bucket in shares):
        most = min(most, room)  # nothing but a cap is to be judged, and that by those who may start
    lines: dict[str, list[Row]] = {bucket: [] for bucket in shares}
    for row in (yield CANDIDATES(line=ids(list(shares)), most=most)):
        lines[row["bucket"]].append(row)
    found = [
        ((place >= shares[bucket], row["priority"], place), row)
        for bucket, line in lines.items()
        for place, row in enumerate(line)
    ]
    return [row for _, row in sorted(found, key=itemgetter(0))]


def _facts(rows: Rows, limits: Limits, room: int) -> Steps[Facts]:
    specs = yield SPECS(wanted=sorted({(row["job_id"], row["version"]) for row in rows}))
    rules = {(row["job_id"], row["version"]): _read_rules(row["spec"]) for row in specs}
    candidates = [_candidate(row, rules[row["job_id"], row["version"]]) for row in rows]
    jobs = sorted({candidate.job_id for candidate in candidates})
    oldest = yield OLDEST(job=ids(jobs))
    running = yield RUNNING(
        job=ids(jobs),
        grp=ids(sorted({candidate.group for candidate in candidates if candidate.group})),
        capped=ids(sorted({tenant for tenant, _ in limits.caps})),
    )
    return Facts(
        candidates=candidates,
        running=[_running(row) for row in running],
        oldest={row["job_id"]: row["oldest"] for row in oldest if row["oldest"]},
        unstarted={row["job_id"]: row["unstarted"] for row in oldest if row["unstarted"]},
        caps=limits.caps,
        paused=limits.paused,
        room=room,
    )


_read_rules = msgspec.json.Decoder(Rules).decode


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

"""What `horae bench` asks of a store beyond what horae asks: jobs, waiting runs and history in bulk, and figures.

Also the verbs of the hot path by their role, so that the same SQL can be run bare, without the loops around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from horae.ports import Claimed, Decision, Ending, Lines, Planned, Scan, Settled, Share
from horae.store import claims, jobs, plans, results
from horae.store.database import Rows, Statement, Steps, Transaction, reading, transaction

FIRST_JOB = 10_000_000  # so that numbers have the same length, and ids sort as they do

_NUMBERS = """
WITH RECURSIVE numbers(n) AS (
    SELECT CAST(:first AS BIGINT)
    UNION ALL
    SELECT n + 1 FROM numbers WHERE n + 1 < :until
)
"""
_JOB_ID = "'bench-' || CAST(:first_job + n AS TEXT)"
_TENANT = "CASE WHEN :tenants > 1 THEN 'tenant-' || CAST(n % :tenants AS TEXT) ELSE 'default' END"
_PRIORITY = "CASE WHEN :priorities > 1 THEN 1 + n % :priorities ELSE 2 END"
_BUCKET = f":head || CAST({_PRIORITY} AS TEXT) || '|' || {_TENANT}"
_GROUP = f"CASE WHEN :is_gated THEN {_JOB_ID} END"
_LINES = "{rows:line(k integer, spec text, timing text, due_us bigint)}"

ADD_JOBS = Statement(f"""
INSERT INTO jobs (id, tenant, name, version, state, type, kind, queue, priority, bucket, group_key, max_attempts,
                  is_once, shard, created_us, updated_us)
{_NUMBERS}
SELECT {_JOB_ID}, {_TENANT}, {_JOB_ID}, 1, 'active', 'noop', 'cron', 'default', {_PRIORITY}, {_BUCKET}, {_GROUP}, 1,
       false, n % 64, :now_us, :now_us
FROM numbers
""")

ADD_VERSIONS = Statement(f"""
INSERT INTO job_versions (job_id, version, spec, created_us, actor)
{_NUMBERS}
SELECT {_JOB_ID}, 1, line.spec, :now_us, 'bench'
FROM numbers
JOIN {_LINES} ON line.k = n % :lines
""")

ADD_TIMERS = Statement(f"""
INSERT INTO timers (job_id, shard, due_us, version, fired, created_us, timing_version, timing, line_version, bucket,
                    group_key, max_attempts, is_once)
{_NUMBERS}
SELECT {_JOB_ID}, n % 64, CASE WHEN :times > 0 THEN :from_us + n % :times * :apart_us ELSE line.due_us END, 1, 0,
       :now_us, 1, line.timing, 1, {_BUCKET}, {_GROUP}, 1, false
FROM numbers
JOIN {_LINES} ON line.k = n % :lines
""")

ADD_WAITING = Statement(f"""
INSERT INTO runs (id, job_id, tenant, version, cause, queue, priority, bucket, group_key, state, due_us, run_at_us,
                  queued_us, available_us, attempt, max_attempts, is_once, token)
{_NUMBERS}, chosen AS (
    SELECT n, 'bench-' || CAST(:first_job + n % :jobs AS TEXT) AS job_id FROM numbers
)
SELECT horae_run_id(j.id, 'bench:' || CAST(n AS TEXT), :due_us + n), j.id, j.tenant, 1, 'manual', j.queue, j.priority,
       j.bucket, j.group_key, 'queued', :due_us, :due_us, :due_us, :due_us, 0, 1, false, 0
FROM chosen
JOIN jobs j ON j.id = chosen.job_id
""")

ADD_FINISHED = Statement(f"""
INSERT INTO history (id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us,
                     started_us, ended_us, attempt, max_attempts, token, worker)
{_NUMBERS}, chosen AS (
    SELECT n, 'bench-' || CAST(:first_job + n % :jobs AS TEXT) AS job_id, :from_us + n * :step_us AS due_us FROM numbers
)
SELECT horae_run_id(chosen.job_id, 'past:' || CAST(n AS TEXT), due_us), chosen.job_id, 'default', 1, 'manual',
       'default', 2, 'succeeded', due_us, due_us, due_us, due_us + 1000, due_us + 2000, 1, 1, n + 1, 'bench'
FROM chosen
""")

MAKE_DUE = Statement("""
UPDATE timers
SET due_us = :due_us
WHERE job_id IN (SELECT id FROM {rows:chosen(id text)})
""")

# Of all jobs that were planned: those that are due are to be planned first.
MAKE_DUE_AGAIN = Statement("""
UPDATE timers
SET due_us = :due_us
WHERE due_us > :due_us
RETURNING 1
""")

# Those that are due after all of these times.
SPREAD_AGAIN = Statement("""
UPDATE timers
SET due_us = :from_us + (CAST(substr(job_id, 7) AS BIGINT) - :first_job) % :times * :apart_us
WHERE due_us > CAST(:from_us AS BIGINT) + CAST(:times AS BIGINT) * CAST(:apart_us AS BIGINT)
""")

ANALYZE = Statement("ANALYZE jobs, job_versions, timers, runs, history", sqlite="ANALYZE")
WAITING = Statement("SELECT count(*) AS n FROM runs")
JOBS = Statement("SELECT count(*) AS n FROM jobs")
ENDED = Statement("""
SELECT CAST(coalesce(sum(n_tup_ins), 0) AS BIGINT) AS n
FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND relname LIKE 'history%'
""")
IS_ANY_LEFT = Statement("SELECT EXISTS (SELECT 1 FROM runs) AS yes")
EMPTY = Statement("DELETE FROM runs")
SPAN = Statement("""
SELECT count(*) AS n, min(started_us) AS first_us, max(ended_us) AS last_us
FROM history
WHERE status = 'succeeded'
""")
HELD = Statement("""
SELECT count(DISTINCT l.owner) AS owners, count(*) > 0 AND count(*) = (SELECT count(*) FROM leases) AS is_all
FROM leases l
WHERE l.expires_us > horae_now()
""")

_DONE = "FROM history h WHERE h.due_us >= :from_us AND h.due_us < :until_us AND h.status = 'succeeded'"
DONE = Statement(f"SELECT count(*) AS n {_DONE}")
LATENESS = Statement(f"""
SELECT h.started_us - h.run_at_us AS late_us, h.ended_us - h.run_at_us AS done_us, h.priority, h.queued_us, h.run_at_us,
       h.ended_us {_DONE}
""")

SIZE = Statement(
    """
    SELECT sum(pg_total_relation_size(c.oid)) AS bytes
    FROM pg_class c
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind = 'r'
    """,
    sqlite="SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()",
)


@dataclass(frozen=True, slots=True)
class Hot:
    """The verbs of the hot path on one database. All else that the bare limits are made of is in bench/bare.py."""

    scan: Callable[[list[int], int, int], Transaction[Scan]]
    plan: Callable[[str, list[Decision]], Transaction[Planned]]
    look: Callable[[list[str]], Transaction[Lines]]
    claim: Callable[[str, list[Share]], Transaction[list[Claimed]]]
    settle: Callable[[str, list[Ending]], Transaction[Settled]]
    create: Callable[..., Transaction[Any]]


HOT = {
    "postgres": Hot(
        plans.due,
        plans.plan_postgres,
        claims.waiting_lines,
        claims.claim_postgres,
        results.settle_postgres,
        jobs.create,
    ),
    "sqlite": Hot(
        plans.due,
        plans.plan_sqlite,
        claims.waiting_lines,
        claims.claim_sqlite,
        results.settle_sqlite,
        jobs.create,
    ),
}


class Spread(NamedTuple):
    """Job number n is due at the time n modulo their count: so many of them, so far apart."""

    from_us: int = 0
    times: int = 0
    apart_us: int = 0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Jobs that are alike: `lines` are number, definition, timing and first due time, `head` how their waiting lines
    begin.
    """

    lines: list[tuple[int, str, str | None, int]]
    head: str
    is_gated: bool
    tenants: int
    priorities: int
    now_us: int
    spread: Spread | None = None


@transaction
def add_jobs(first: int, until: int, crowd: Crowd) -> Steps[None]:
    """Jobs number `first` to `until` (not included). Number n has line n modulo their count, its tenant likewise."""
    slice_ = {"first": first, "until": until, "first_job": FIRST_JOB}
    of_lines = {**slice_, "lines": len(crowd.lines), "line": crowd.lines}
    alike = {"head": crowd.head, "is_gated": crowd.is_gated, "tenants": crowd.tenants, "priorities": crowd.priorities}
    yield ADD_JOBS(**slice_, **alike, now_us=crowd.now_us)
    yield ADD_VERSIONS(**of_lines, now_us=crowd.now_us)
    yield ADD_TIMERS(**of_lines, **alike, **(crowd.spread or Spread())._asdict(), now_us=crowd.now_us)


@transaction
def add_waiting(first: int, until: int, jobs: int, due_us: int) -> Steps[None]:
    yield ADD_WAITING(first=first, until=until, first_job=FIRST_JOB, jobs=jobs, due_us=due_us)


@transaction
def add_finished(first: int, until: int, jobs: int, from_us: int, step_us: int) -> Steps[None]:
    yield ADD_FINISHED(first=first, until=until, first_job=FIRST_JOB, jobs=jobs, from_us=from_us, step_us=step_us)


@transaction
def make_timers_due(numbers: Iterable[int], due_us: int) -> Steps[None]:
    yield MAKE_DUE(chosen=[(f"bench-{FIRST_JOB + number}",) for number in numbers], due_us=due_us)


@transaction
def spread_again(spread: Spread) -> Steps[None]:
    yield SPREAD_AGAIN(**spread._asdict(), first_job=FIRST_JOB)


def single(query: Statement, **params: Any) -> Transaction[Rows]:
    """One statement and its rows."""

    def steps() -> Steps[Rows]:
        return (yield query(**params))

    return Transaction(steps, is_single=True)


@reading
def lateness(from_us: int, until_us: int) -> Steps[Rows]:
    return (yield LATENESS(from_us=from_us, until_us=until_us))

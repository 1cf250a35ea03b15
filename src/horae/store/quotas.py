"""What a tenant may hold, kept to while jobs and runs are made. A tenant without a quota pays nothing for it.

Jobs are counted as they come and go, under one row of the tenant. Queued runs come and go in the thousands a second
without a word to anybody here, so their number is looked up at most once a second and added to in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from horae.core.access import NO_QUOTA, Quota
from horae.core.errors import Denied, Limited
from horae.core.job import PRIORITY_NAME, make_bucket, read_bucket
from horae.core.rate import Taken, take
from horae.store.database import Query, Statement, Steps, reading, transaction

QUOTA = Statement("""
SELECT max_jobs, max_queued, requests_per_second, max_payload_bytes
FROM tenants
WHERE tenant = :tenant
""")

# With the time, in one round trip.
NOW_AND_QUOTA = Statement("""
SELECT horae_now() AS now_us,
       (SELECT max_jobs FROM tenants WHERE tenant = :tenant) AS max_jobs,
       (SELECT max_queued FROM tenants WHERE tenant = :tenant) AS max_queued
""")

OPEN_USAGE = Statement("""
INSERT INTO usage (tenant, jobs, queued, queued_counted_us)
VALUES (:tenant, -1, 0, 0)
ON CONFLICT (tenant) DO NOTHING
""")

# Whoever holds it is the only one who adds to what the tenant has.
LOCK_USAGE = Statement("SELECT jobs, queued, queued_counted_us FROM usage WHERE tenant = :tenant FOR UPDATE")

COUNT_JOBS = Statement("SELECT count(*) AS n FROM jobs WHERE tenant = :tenant AND state <> 'deleted'")

SET_JOBS = Statement("UPDATE usage SET jobs = :jobs WHERE tenant = :tenant")

# A tenant without a quota has no row, or one that counts nothing.
ADD_JOBS = Statement("UPDATE usage SET jobs = jobs + :n WHERE tenant = :tenant AND jobs >= 0")

SET_QUEUED = Statement("""
UPDATE usage SET queued = :queued, queued_counted_us = :counted_us WHERE tenant = :tenant
""")

# Unknown: counted anew by the next that needs it.
FORGET_JOBS = Statement("UPDATE usage SET jobs = -1 WHERE tenant = :tenant")

COUNTED = Statement("SELECT tenant FROM usage WHERE jobs >= 0 ORDER BY tenant")

# The waiting lines that jobs of a tenant lead to: one index entry a line, however many jobs there are.
LINES_OF_TENANT = Statement("""
WITH RECURSIVE line(bucket) AS (
    SELECT (SELECT min(j.bucket) FROM jobs j WHERE j.tenant = :tenant)
    UNION ALL
    SELECT (SELECT min(j.bucket) FROM jobs j WHERE j.tenant = :tenant AND j.bucket > line.bucket)
    FROM line
    WHERE line.bucket IS NOT NULL
)
SELECT bucket FROM line WHERE bucket IS NOT NULL
""")

COUNT_QUEUED = Statement("""
SELECT count(*) AS n
FROM (SELECT 1 AS one
      FROM {rows:line(bucket text)}
      JOIN runs r ON r.bucket = line.bucket AND r.state = 'queued'
      LIMIT :most) AS found
""")

TOUCH_BUCKET = Statement("""
INSERT INTO rate_buckets (name, free_us)
VALUES (:name, 0)
ON CONFLICT (name) DO NOTHING
""")

LOCK_BUCKET = Statement("SELECT free_us, horae_now() AS now_us FROM rate_buckets WHERE name = :name FOR UPDATE")

FILL_BUCKET = Statement("UPDATE rate_buckets SET free_us = :free_us WHERE name = :name")

COUNT_AGAIN_US = 1_000_000
WHEN_FULL_US = 200_000
NEVER_FULL = 2**62


class Waiting(NamedTuple):
    """How many runs of a tenant wait, and when they were counted."""

    queued: int
    counted_us: int


@dataclass(slots=True)
class AtOnce:
    """Those of new jobs that start at once, and how many of them were let in."""

    tenant: str
    max_queued: int
    waiting: Waiting
    jobs: frozenset[str]
    taken: int = 0

    def refusal(self, job_id: str) -> Limited | None:
        """None lets it in."""
        if job_id not in self.jobs:
            return None
        queued = self.waiting.queued + self.taken
        if queued >= self.max_queued:
            return too_many_runs(self.tenant, 1, self.max_queued, queued)
        self.taken += 1
        return None


@reading
def quota(tenant: str) -> Steps[Quota]:
    rows = yield QUOTA(tenant=tenant)
    return Quota(**rows[0]) if rows else NO_QUOTA


def room_for_jobs(tenant: str, max_jobs: int | None) -> Steps[int]:
    """How many jobs more; until the end of the transaction nobody else adds any."""
    if max_jobs is None:
        return NEVER_FULL
    return max(0, max_jobs - (yield from _count_jobs(tenant, again=False)))


def too_many_jobs(tenant: str, max_jobs: int) -> Denied:
    detail = f'Tenant "{tenant}" may hold {max_jobs:,} jobs (max_jobs) and holds as many: this one was not saved.'
    hint = f"Delete jobs that are no longer needed, or have an admin {_raise(tenant, 'max_jobs', max_jobs)}"
    return Denied(detail, "quota_jobs", hint=hint)


def _raise(tenant: str, quota: str, from_: int) -> str:
    """What an admin has to send, with twice as much as an example."""
    return f'raise it: PATCH /tenants/{tenant} {{"{quota}": {max(1, from_) * 2}}}.'


def waiting_runs(tenant: str, n: int, max_queued: int, now_us: int) -> Steps[Waiting]:
    """How many runs wait, before `n` more; until the end of the transaction nobody else asks for any."""
    yield OPEN_USAGE(tenant=tenant)
    usage = (yield LOCK_USAGE(tenant=tenant))[0]
    queued, counted_us = usage["queued"], usage["queued_counted_us"]
    age_us = now_us - counted_us
    if not 0 <= age_us < COUNT_AGAIN_US or (queued + n > max_queued and age_us >= WHEN_FULL_US):
        lines = yield from lines_of(tenant)
        queued = (yield COUNT_QUEUED(line=lines, most=max_queued + 1))[0]["n"] if lines else 0
        counted_us = now_us
    return Waiting(queued, counted_us)


def add_queued(tenant: str, n: int, waiting: Waiting) -> Query:
    return SET_QUEUED(tenant=tenant, queued=waiting.queued + n, counted_us=waiting.counted_us)


def too_many_runs(tenant: str, n: int, max_queued: int, queued: int) -> Limited:
    most = f'Tenant "{tenant}" may have {max_queued:,} runs waiting (max_queued_runs)'
    detail = f"{most} and has {queued:,}; this asks for {n:,} more."
    enough = max(max_queued, queued + n)
    hint = f"Wait until some have run, or have an admin {_raise(tenant, 'max_queued_runs', enough)}"
    left = max(0, max_queued - queued)
    headers = {"RateLimit-Policy": f'"queued-runs";q={max_queued}', "RateLimit": f'"queued-runs";r={left};t=1'}
    return Limited(detail, "quota_queued", 1, headers, hint=hint)


def reserve_queued(tenant: str, n: int, max_queued: int | None, now_us: int) -> Steps[None]:
    """Raises Limited unless the tenant may have `n` more runs waiting."""
    if max_queued is None:
        return
    waiting = yield from waiting_runs(tenant, n, max_queued, now_us)
    if waiting.queued + n > max_queued:
        raise too_many_runs(tenant, n, max_queued, waiting.queued)
    yield add_queued(tenant, n, waiting)


def reserve(tenant: str, n: int) -> Steps[int]:
    """Room for so many waiting runs, and the time."""
    known = (yield NOW_AND_QUOTA(tenant=tenant))[0]
    yield from reserve_queued(tenant, n, known["max_queued"], known["now_us"])
    return int(known["now_us"])


def lines_of(tenant: str) -> Steps[list[tuple[str]]]:
    """Every waiting line that a run of the tenant may stand in; a run on request may have any priority."""
    found = set()
    for row in (yield LINES_OF_TENANT(tenant=tenant)):
        bucket = read_bucket(row["bucket"])
        for priority in PRIORITY_NAME:
            found.add(
                make_bucket(
                    is_gated=bucket.is_gated, queue=bucket.queue, need=bucket.need, priority=priority, tenant=tenant
                )
            )
    return [(bucket,) for bucket in sorted(found)]


def _count_jobs(tenant: str, *, again: bool) -> Steps[int]:
    yield OPEN_USAGE(tenant=tenant)
    jobs = int((yield LOCK_USAGE(tenant=tenant))[0]["jobs"])
    if jobs < 0 or again:
        # After the lock, in a statement of its own: what others committed before it is seen.
        jobs = int((yield COUNT_JOBS(tenant=tenant))[0]["n"])
        yield SET_JOBS(tenant=tenant, jobs=jobs)
    return jobs


@reading
def counted() -> Steps[list[str]]:
    return [row["tenant"] for row in (yield COUNTED())]


@transaction
def recount(tenant: str) -> Steps[None]:
    """Puts the number right: jobs that were being made while their tenant first got a quota were not counted."""
    max_jobs = [row["max_jobs"] for row in (yield QUOTA(tenant=tenant))]
    if max_jobs and max_jobs[0] is not None:
        yield from _count_jobs(tenant, again=True)


@transaction
def take_tokens(bucket: str, want: int, rate: int) -> Steps[Taken]:
    """For one node, which hands them out one by one."""
    yield TOUCH_BUCKET(name=bucket)
    row = (yield LOCK_BUCKET(name=bucket))[0]
    taken = take(row["free_us"], row["now_us"], want, rate)
    if taken.granted:
        yield FILL_BUCKET(name=bucket, free_us=taken.free_us)
    return taken

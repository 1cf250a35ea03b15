"""Jobs and runs for a benchmark: read as users write them, or made in bulk inside the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from horae.core.compiled import first_due, schedule_of
from horae.core.document import parse_job
from horae.core.egress import allow_ranges
from horae.core.job import FREE, GATED
from horae.ports import NewJob
from horae.store import trials
from horae.store.jobs import encode, timing_text
from horae.store.store import Store

HEAD = f"{FREE}default||"  # a waiting line of plain jobs, up to its priority and tenant
GATED_HEAD = f"{GATED}default||"
LINE = f"{HEAD}2|default"
LOCAL = "127.0.0.0/8"
SLICE = 20_000
DAY_US = 86_400_000_000
AHEAD_SECONDS = 6 * 3600

Documents = list[dict[str, Any]]


def jobs_of(count: int, new_id: Callable[[], str], now_us: int) -> list[NewJob]:
    """New jobs, read and checked."""
    made = []
    for number in range(count):
        id_ = new_id()
        document = {"name": f"bench-{id_}", "type": "noop", "schedule": f"{number % 60} {number % 24} * * *"}
        made.append(NewJob(id_, parse_job(document, job_id=id_, now_us=now_us, tenant="default")))
    return made


def six_hours(now_us: int) -> Documents:
    """Due once in six hours, at every minute of an hour that is neither this one nor the next: with a look-ahead of six
    hours each is planned exactly once, with a short one none by itself.
    """
    hour = (datetime.fromtimestamp(now_us // 1_000_000, UTC).hour + 3) % 6
    return [{"schedule": f"{minute} {hour}-23/6 * * *"} for minute in range(60)]


def once_at(at_us: int) -> str:
    """A cron line whose next time is that second."""
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{at.second} {at.minute} {at.hour} {at.day} {at.month} *"


def lines_of(documents: Documents, now_us: int) -> list[tuple[int, str, str | None, int]]:
    """A number, a definition, its timing and a first due time for each."""
    lines = []
    for number, given in enumerate(documents):
        document = {"name": "bench", "type": "noop", "retry": {"max_retries": 0}} | given
        definition = parse_job(document, job_id="bench", now_us=now_us, tenant="default", allow=allow_ranges(LOCAL))
        due_us = first_due(definition, schedule_of(definition, "bench", now_us), now_us)
        lines.append((number, encode(definition).decode(), timing_text(definition), due_us or 0))
    return lines


async def add_jobs(
    store: Store,
    count: int,
    documents: Documents | None = None,
    *,
    tenants: int = 1,
    priorities: int = 1,
    start: int = 0,
    spread: trials.Spread | None = None,
) -> None:
    """Number n is the document n modulo their count, and so with its tenant and priority; without any it is due in some
    hours. With a `spread` it is due at one of those times first, not when its document says.
    """
    now_us = await store.now()
    documents = documents or six_hours(now_us)
    is_gated = any(document.keys() & {"overlap", "max_concurrency"} for document in documents)
    head = GATED_HEAD if is_gated else HEAD
    crowd = trials.Crowd(lines_of(documents, now_us), head, is_gated, tenants, priorities, now_us, spread)
    for first in range(start, start + count, SLICE):
        await store.database.run(trials.add_jobs(first, min(first + SLICE, start + count), crowd))


async def add_waiting(store: Store, count: int, jobs: int, start: int = 0) -> None:
    """Runs that are due now."""
    due_us = await store.now()
    for first in range(start, start + count, SLICE):
        await store.database.run(trials.add_waiting(first, min(first + SLICE, start + count), jobs, due_us))


async def add_finished(store: Store, start: int, until: int, jobs: int, days: int = 10) -> None:
    """Runs number `start` to `until` of the past days."""
    await store.make_days(days)
    step_us = days * DAY_US // max(1, until)
    from_us = await store.now() - until * step_us
    for first in range(start, until, SLICE):
        await store.database.run(trials.add_finished(first, min(first + SLICE, until), jobs, from_us, step_us))


async def analyze(store: Store) -> None:
    """Fresh statistics, as autovacuum would leave them."""
    await store.database.run(trials.single(trials.ANALYZE))

"""Jobs and runs for a benchmark: read as users write them, or made in bulk inside the database."""

from __future__ import annotations

from collections.abc import Callable

from horae.core.document import first_due, parse_job, schedule_of
from horae.core.job import FREE
from horae.ports import NewJob
from horae.store import trials
from horae.store.jobs import encode
from horae.store.store import Store

HEAD = f"{FREE}default||2|"  # the waiting line of a plain job, up to its tenant
SLICE = 20_000
DAY_US = 86_400_000_000
# Due once in six hours, at every minute of it: with a look-ahead of six hours each is planned exactly once.
SIX_HOURS = [f"{minute} */6 * * *" for minute in range(60)]
AHEAD_SECONDS = 6 * 3600


def jobs_of(count: int, new_id: Callable[[], str], now_us: int) -> list[NewJob]:
    """New jobs, read and checked."""
    made = []
    for number in range(count):
        id_ = new_id()
        document = {"name": f"bench-{id_}", "type": "noop", "schedule": f"{number % 60} {number % 24} * * *"}
        made.append(NewJob(id_, parse_job(document, job_id=id_, now_us=now_us, tenant="default")))
    return made


def lines_of(schedules: list[str], now_us: int) -> list[tuple[int, str, int]]:
    """A number, a definition and a first due time for each schedule."""
    lines = []
    for number, schedule in enumerate(schedules):
        document = {"name": "bench", "type": "noop", "schedule": schedule, "retry": {"max_retries": 0}}
        definition = parse_job(document, job_id="bench", now_us=now_us, tenant="default")
        due_us = first_due(definition, schedule_of(definition, "bench", now_us), now_us)
        lines.append((number, encode(definition).decode(), due_us or 0))
    return lines


async def add_jobs(store: Store, count: int, schedules: list[str], tenants: int = 1, start: int = 0) -> None:
    lines = lines_of(schedules, await store.now())
    for first in range(start, start + count, SLICE):
        until = min(first + SLICE, start + count)
        await store.database.run(trials.add_jobs(first, until, lines, HEAD, tenants))


async def add_waiting(store: Store, count: int, jobs: int) -> None:
    """Runs that are due now."""
    due_us = await store.now()
    for first in range(0, count, SLICE):
        await store.database.run(trials.add_waiting(first, min(first + SLICE, count), jobs, due_us))


async def add_finished(store: Store, count: int, jobs: int, days: int = 10) -> None:
    await store.make_days(days)
    step_us = days * DAY_US // max(1, count)
    from_us = await store.now() - count * step_us
    for first in range(0, count, SLICE):
        await store.database.run(trials.add_finished(first, min(first + SLICE, count), jobs, from_us, step_us))


async def analyze(store: Store) -> None:
    """Fresh statistics, as autovacuum would leave them."""
    await store.database.run(trials.single(trials.ANALYZE))

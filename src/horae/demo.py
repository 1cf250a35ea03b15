"""A store full of made-up jobs and runs, to see how horae looks and feels at size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horae.config import Settings
from horae.core.document import parse_job
from horae.ports import NewJob
from horae.store.demo import FIRST_JOB
from horae.store.store import Store, open_store

TENANT = "default"
JOBS_AT_ONCE = 1000
JOBS_CLEARED_AT_ONCE = 100
RUNS_AT_ONCE = 20_000
TEAMS = ("billing", "search", "ads", "data", "ops")
# A quarter of the jobs each: at the top of an hour, once a day, at an interval, and on request only.
SCHEDULES: tuple[Callable[[int], str], ...] = (
    lambda number: f"{number % 60} * * * *",
    lambda number: f"{number % 60} {number % 24} * * *",
    lambda number: f"@every {3600 + number % 3600}s",
    lambda _: "@manual",
)

Told = Callable[[str], None]


async def load_demo(settings: Settings, *, jobs: int, runs: int, days: int, tell: Told) -> None:
    """A repeat leaves the jobs as they are and adds its runs."""
    store = open_store(settings.database_url)
    try:
        await store.migrate()
        for first in range(0, jobs, JOBS_AT_ONCE):
            await _make_jobs(store, range(first, min(first + JOBS_AT_ONCE, jobs)))
        tell(f"{jobs:,} jobs")
        await _make_runs(store, jobs, runs, days, tell)
        await store.settle_runs()
    finally:
        await store.close()


async def clear_demo(settings: Settings, *, is_dry: bool, tell: Told) -> None:
    """What `load_demo` made, and what became of it, is gone as if it had never been."""
    store = open_store(settings.database_url)
    try:
        await store.check_schema()
        count = await store.count_made_up(TENANT)
        if not is_dry:
            while await store.clear_made_up(TENANT, JOBS_CLEARED_AT_ONCE):
                pass
        tell(f"{count:,} jobs {'would be' if is_dry else 'are'} gone, with their runs")
    finally:
        await store.close()


async def _make_jobs(store: Store, numbers: range) -> None:
    now_us = await store.now()
    made = []
    for number in numbers:
        id_ = f"demo-{FIRST_JOB + number}"
        made.append(NewJob(id_, parse_job(_document(number), job_id=id_, now_us=now_us, tenant=TENANT)))
    await store.create_jobs(None, TENANT, "demo", made, atomic=False)


def _document(number: int) -> dict[str, Any]:
    return {
        "name": f"demo-{TEAMS[number % 5]}-{number:07d}",
        "type": "noop",
        "schedule": SCHEDULES[number % 4](number // 4),
        "priority": ("HIGH", "MEDIUM", "LOW")[number % 3],
        "queue": "default" if number % 10 else "reports",
        "labels": {"team": TEAMS[number % 5], "demo": "true", "made-up-by": "horae-demo"},
        "description": "Made up by `horae demo load`.",
    }


async def _make_runs(store: Store, jobs: int, runs: int, days: int, tell: Told) -> None:
    if not runs or not jobs:
        return
    await store.make_days(days)
    now_us = await store.now()
    step_us = max(1, days * 86_400_000_000 // runs)
    for first in range(0, runs, RUNS_AT_ONCE):
        until = min(first + RUNS_AT_ONCE, runs)
        await store.make_runs(TENANT, jobs, first, until, now_us - runs * step_us, step_us)
        if until % 500_000 == 0 or until == runs:
            tell(f"{until:,} runs")

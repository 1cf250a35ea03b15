"""APScheduler 3 has no queue: the process that holds the jobs runs them. On PostgreSQL, or in memory (not durable)."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from marks import FOLDER, POSTGRES, main, mark

PLAN = Path(FOLDER) / "plan"


async def noop():
    mark()


def made():
    url = POSTGRES.replace("postgresql://", "postgresql+psycopg://")
    store = SQLAlchemyJobStore(url=url) if POSTGRES else MemoryJobStore()
    return AsyncIOScheduler(
        jobstores={"default": store},
        executors={"default": AsyncIOExecutor()},
        job_defaults={"misfire_grace_time": None},
    )


def add(scheduler, count, due):
    sys.modules.setdefault("apscheduler_", sys.modules["__main__"])
    for _ in range(count):
        scheduler.add_job("apscheduler_:noop", "date", run_date=datetime.fromtimestamp(due, UTC))


async def filled(count, due):
    scheduler = made()
    scheduler.start(paused=True)
    add(scheduler, count, due)
    scheduler.shutdown()


def fill(count, due):
    if POSTGRES:
        asyncio.run(filled(count, due))
    else:
        PLAN.write_text(f"{count} {due}")


async def working():
    scheduler = made()
    scheduler.start()
    if not POSTGRES:
        count, due = PLAN.read_text().split()
        add(scheduler, int(count), float(due))
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(fill, lambda: asyncio.run(working()))

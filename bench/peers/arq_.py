"""arq: 500 at once, no results kept."""

import asyncio
from datetime import UTC, datetime

import uvloop
from arq import Worker, create_pool, func
from arq.connections import RedisSettings
from marks import REDIS, main, mark

SETTINGS = RedisSettings.from_dsn(f"{REDIS}/5")


async def noop(context):
    mark()


async def fill(count, due):
    pool = await create_pool(SETTINGS)
    at = {"_defer_until": datetime.fromtimestamp(due, UTC)} if due else {}
    for first in range(0, count, 100):
        await asyncio.gather(*(pool.enqueue_job("noop", **at) for _ in range(min(100, count - first))))
    await pool.aclose()


async def work():
    worker = Worker(
        [func(noop, name="noop", keep_result=0)],
        redis_settings=SETTINGS,
        max_jobs=500,
        poll_delay=0.01,
        queue_read_limit=1000,
        handle_signals=False,
    )
    await worker.async_run()


main(lambda count, due: uvloop.run(fill(count, due)), lambda: uvloop.run(work()))

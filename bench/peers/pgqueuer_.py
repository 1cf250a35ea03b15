"""pgqueuer: batches of 500 on asyncpg and uvloop."""

import asyncio
from datetime import timedelta
from time import time

import asyncpg
import uvloop
from marks import POSTGRES, main, mark
from pgqueuer import AsyncpgDriver, Queries, QueueManager

BATCH = 500


async def fill(count, due):
    connection = await asyncpg.connect(POSTGRES)
    queries = Queries(AsyncpgDriver(connection))
    if not await queries.has_table("pgqueuer"):
        await queries.install()
    for first in range(0, count, 1000):
        size = min(1000, count - first)
        after = [timedelta(seconds=due - time())] * size if due else None
        await queries.enqueue(["noop"] * size, [None] * size, [0] * size, after)
    if due:  # it adds what is left until then to the time at which each batch arrives
        await connection.execute("UPDATE pgqueuer SET execute_after = to_timestamp($1)", due)
    await connection.execute("VACUUM (ANALYZE) pgqueuer")
    await connection.close()


async def work():
    connection = await asyncpg.connect(POSTGRES)
    manager = QueueManager(Queries(AsyncpgDriver(connection)))

    @manager.entrypoint("noop")
    async def noop(job):
        mark()

    await manager.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))


main(lambda count, due: asyncio.run(fill(count, due)), lambda: uvloop.run(work()))

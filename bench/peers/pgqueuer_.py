"""pgqueuer on asyncpg and uvloop: one worker alone with a pool of connections, two with one each; batches of 500, of
1,000 for a crowd. Each was tried in all cases, see docs/performance.md.
"""

import asyncio
import sys
from datetime import timedelta
from time import time

import asyncpg
import uvloop
from marks import POSTGRES, main, mark
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, Queries, QueueManager


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
    case, workers = sys.argv[2:]
    if workers == "1":
        driver = AsyncpgPoolDriver(await asyncpg.create_pool(POSTGRES, min_size=4, max_size=8))
    else:
        driver = AsyncpgDriver(await asyncpg.connect(POSTGRES))
    manager = QueueManager(Queries(driver))
    if case == "herd":  # else it sleeps for 0.1 s when less is left until they are due
        manager.min_dequeue_poll_interval = timedelta(milliseconds=1)

    @manager.entrypoint("noop")
    async def noop(job):
        mark()

    await manager.run(batch_size=1000 if case == "herd" else 500, dequeue_timeout=timedelta(seconds=1))


main(lambda count, due: asyncio.run(fill(count, due)), lambda: uvloop.run(work()))

"""taskiq on Redis: uvloop, 500 at once."""

import asyncio

import uvloop
from marks import REDIS, main, mark
from taskiq.receiver import Receiver
from taskiq_redis import ListQueueBroker

broker = ListQueueBroker(url=f"{REDIS}/2", max_connection_pool_size=600)


@broker.task(task_name="noop")
async def noop():
    mark()


async def fill(count, due):
    await broker.startup()
    for first in range(0, count, 100):
        await asyncio.gather(*(noop.kiq() for _ in range(min(100, count - first))))
    await broker.shutdown()


async def work():
    broker.is_worker_process = True
    await broker.startup()
    receiver = Receiver(broker, max_async_tasks=500, max_prefetch=500, run_startup=False)
    await receiver.listen(asyncio.Event())


main(lambda count, due: uvloop.run(fill(count, due)), lambda: uvloop.run(work()))

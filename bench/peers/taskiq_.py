"""taskiq on Redis: uvloop, 500 at once; due times by its scheduler, which looks every second, in the same process."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import uvloop
from marks import REDIS, main, mark
from taskiq import TaskiqScheduler
from taskiq.cli.scheduler.run import SchedulerLoop
from taskiq.receiver import Receiver
from taskiq_redis import ListQueueBroker, ListRedisScheduleSource

# Without a limit: a worker that waits for jobs reads for as long as there are none.
broker = ListQueueBroker(url=f"{REDIS}/2", max_connection_pool_size=600, socket_timeout=None)
schedules = ListRedisScheduleSource(f"{REDIS}/2", max_connection_pool_size=200, buffer_size=1000)


@broker.task(task_name="noop")
async def noop():
    mark()


def queued(due):
    return noop.schedule_by_time(schedules, datetime.fromtimestamp(due, UTC)) if due else noop.kiq()


async def fill(count, due):
    await broker.startup()
    for first in range(0, count, 100):
        size = min(100, count - first)
        await asyncio.gather(*(queued(due) for _ in range(size)))
    await broker.shutdown()


async def work():
    broker.is_worker_process = True
    await broker.startup()
    receiver = Receiver(broker, max_async_tasks=500, max_prefetch=500, run_startup=False)
    listening = receiver.listen(asyncio.Event())
    if sys.argv[2] != "herd":
        await listening
        return
    loop = SchedulerLoop(TaskiqScheduler(broker, [schedules]))
    await asyncio.gather(listening, loop.run(update_interval=timedelta(seconds=1)))


main(lambda count, due: uvloop.run(fill(count, due)), lambda: uvloop.run(work()))

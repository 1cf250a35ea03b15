"""saq on Redis: 200 at once."""

import asyncio

import uvloop
from marks import REDIS, main, mark
from saq import Queue, Worker

queue = Queue.from_url(f"{REDIS}/6")


async def noop(context):
    mark()


async def fill(count, due):
    await queue.connect()
    at = {"scheduled": int(due)} if due else {}
    for first in range(0, count, 100):
        await asyncio.gather(*(queue.enqueue("noop", ttl=-1, **at) for _ in range(min(100, count - first))))
    await queue.disconnect()


async def work():
    await Worker(queue, functions=[("noop", noop)], concurrency=200, timers={"schedule": 1}).start()


main(lambda count, due: uvloop.run(fill(count, due)), lambda: uvloop.run(work()))

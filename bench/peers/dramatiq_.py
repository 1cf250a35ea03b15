"""dramatiq on Redis: two threads alone, eight each beside another, many fetched at once, no middleware that a no-op
does not need.
"""

import os
import sys
import time

os.environ["dramatiq_queue_prefetch"] = "500"  # noqa: SIM112 its own spelling

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.worker import Worker
from marks import REDIS, main, mark

broker = RedisBroker(url=f"{REDIS}/1", middleware=[])
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop():
    mark()


def fill(count, due):
    for _ in range(count):
        noop.send_with_options(delay=max(0, int((due - time.time()) * 1000)) if due else None)


def work():
    worker = Worker(broker, worker_threads=2 if sys.argv[3] == "1" else 8)
    worker.start()
    while True:
        time.sleep(1)


main(fill, work)

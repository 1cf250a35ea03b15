"""rq: the worker that does not fork for each job, no results kept."""

import sys
from datetime import UTC, datetime

from marks import REDIS, main, mark
from redis import Redis
from rq import Queue, SimpleWorker

connection = Redis.from_url(f"{REDIS}/3")
queue = Queue(connection=connection)


def noop():
    mark()


def fill(count, due):
    import rq_

    if due:
        for _ in range(count):
            queue.enqueue_at(datetime.fromtimestamp(due, UTC), rq_.noop, result_ttl=0)
        return
    for first in range(0, count, 1000):
        jobs = [Queue.prepare_data(rq_.noop, result_ttl=0) for _ in range(min(1000, count - first))]
        queue.enqueue_many(jobs)


def work():
    SimpleWorker([queue], connection=connection).work(with_scheduler=sys.argv[2] == "herd", logging_level="ERROR")


if __name__ == "__main__":
    main(fill, work)

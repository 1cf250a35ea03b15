"""celery on Redis: no results, many prefetched. One child drains fastest, threads are least late."""

import sys
from datetime import UTC, datetime

from celery import Celery
from marks import REDIS, main, mark

app = Celery("peer", broker=f"{REDIS}/0")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,  # without a bound the first of two workers takes everything
    broker_transport_options={"visibility_timeout": 3600},
    worker_enable_remote_control=False,
    worker_send_task_events=False,
)


@app.task(name="noop")
def noop():
    mark()


def fill(count, due):
    at = {"eta": datetime.fromtimestamp(due, UTC)} if due else {}
    with app.producer_pool.acquire() as producer:
        for _ in range(count):
            noop.apply_async(producer=producer, **at)


def work():
    pool = ["--pool=threads", "-c4"] if sys.argv[2] == "herd" else ["--pool=prefork", "-c1"]
    app.worker_main(["worker", *pool, "--without-gossip", "--without-mingle", "--without-heartbeat", "-lERROR"])


if __name__ == "__main__":
    main(fill, work)

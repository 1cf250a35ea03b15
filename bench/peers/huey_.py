"""huey: one consumer with one thread, which is its fastest for a no-op; on Redis, or on SQLite without fsync."""

from datetime import datetime

from huey import RedisHuey, SqliteHuey
from marks import FOLDER, REDIS, main, mark

if REDIS:
    huey = RedisHuey("peer", url=f"{REDIS}/4", results=False, utc=False)
else:
    huey = SqliteHuey("peer", filename=f"{FOLDER}/huey.db", results=False, fsync=False, utc=False)


@huey.task(name="noop")
def noop():
    mark()


def fill(count, due):
    for _ in range(count):
        if due:
            noop.schedule(eta=datetime.fromtimestamp(due))  # noqa: DTZ006 its clock is local
        else:
            noop()


def work():
    huey.create_consumer(
        workers=1, worker_type="thread", initial_delay=0.01, max_delay=0.05, scheduler_interval=1
    ).run()


main(fill, work)

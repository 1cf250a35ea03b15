"""celery beat: as many entries as there are jobs, all due at the next full minute; one beat, one worker."""

import ctypes
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery
from celery.schedules import crontab
from marks import FOLDER, REDIS, main, mark

PLAN = Path(FOLDER) / "beat"

app = Celery("peer", broker=f"{REDIS}/0")
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=0, worker_send_task_events=False, timezone="UTC")


@app.task(name="noop")
def noop():
    mark()


def fill(count, due):
    minute = math.ceil(due / 60) * 60
    PLAN.write_text(f"{count} {minute}")
    return {"due": minute}


def work():
    if sys.argv[2] == "beat":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: gone with the worker that started it
        count, minute = map(int, PLAN.read_text().split())
        at = time.gmtime(minute)
        entry = {"task": "noop", "schedule": crontab(minute=at.tm_min, hour=at.tm_hour)}
        app.conf.beat_schedule = {str(number): entry for number in range(count)}
        app.Beat(loglevel="ERROR", schedule=f"{FOLDER}/beat.db", max_interval=0.05).run()
        return
    beat = subprocess.Popen([sys.executable, __file__, "work", "beat"])
    try:
        app.worker_main(
            ["worker", "--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "-lERROR"]
        )
    finally:
        beat.terminate()


if __name__ == "__main__":
    main(fill, work)

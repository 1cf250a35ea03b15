"""What the tests of executors share: a request, a log that remembers, and a look at processes."""

import asyncio
from pathlib import Path

from horae.core.targets import check_target, normalize_target
from horae.ports import Request

DUE_US = 1_763_200_000_000_000
DUE = "2025-11-15T09:46:40Z"


class Lines:
    """A log; knows when each piece came."""

    def __init__(self):
        self.pieces = []
        self.times = []

    async def __call__(self, text):
        self.pieces.append(text)
        self.times.append(asyncio.get_running_loop().time())

    @property
    def text(self):
        return "".join(self.pieces)


def request_for(type, target, *, allow=(), **changes):
    """An attempt of a job whose target has passed the same check as in the API."""
    assert check_target(type, target, "/target", allow) == []
    values = {
        "run_id": "019a8f2c-1b00-8abc-adef-0123456789ab",
        "job_id": "job-1",
        "job_name": "daily-report",
        "tenant": "default",
        "attempt": 1,
        "fence": 7,
        "scheduled_for_us": DUE_US,
        "timeout_seconds": 20.0,
        "target": normalize_target(type, target),
        "payload": {},
    }
    return Request(**(values | changes))


def is_running(pid):
    """False for a process that is gone or dead; a dead one may wait long for a container's first process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


async def until(is_true, seconds=5.0):
    """Wait for something that another process does."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not is_true():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen"
        await asyncio.sleep(0.02)

"""Finds what a shell job left behind. As a program: waits until its worker is gone, then kills all its jobs.

It is run by path with a bare interpreter, so it imports nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

# Every process of a job inherits it, whatever it does about its group, session, parent and descriptors.
MARKER = "HORAE_SPAWN"
ROUNDS = 20

_MOST_BYTES = 256 * 1024


def marker(worker: str, number: int) -> str:
    return f"{worker}.{number}"


def carriers(worker: str) -> Iterator[tuple[int, str]]:
    """Every process of the machine, with the marker it carries: empty when it is none of this worker's."""
    prefix = f"\0{MARKER}={worker}.".encode()
    for name in _names():
        environ = b"\0" + _read(name, "environ")
        start = environ.find(prefix)
        end = environ.find(b"\0", start + 1)
        yield int(name), environ[start:end].decode().partition("=")[2] if start >= 0 else ""


def has_living(group: int) -> bool:
    """Whether a member of the group still runs; the dead ones may wait long for a container's first process."""
    stats = (_read(name, "stat").rpartition(b")")[2].split() for name in _names())
    return any(len(stat) > 2 and int(stat[2]) == group and stat[0] not in {b"Z", b"X"} for stat in stats)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _names() -> list[str]:
    try:
        # Not pathlib: a path object for each process would double the cost of a look.
        return [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    except FileNotFoundError:  # not Linux: only the process group is cleared
        return []


def _read(pid: str, name: str) -> bytes:
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _watch(worker: str) -> None:
    """Wait for the end of a pipe that only the worker holds open."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    for _ in range(ROUNDS):
        found = [pid for pid, carried in carriers(worker) if carried]
        for pid in found:
            kill(pid)
        if not found:
            break


if __name__ == "__main__":
    _watch(sys.argv[1])

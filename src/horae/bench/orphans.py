"""Nothing stays of a benchmark that was killed: no process, and no folder longer than until the next one."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

PR_SET_PDEATHSIG = 1
PREFIX = "horae-bench-"
LOCK = "lock"


@contextlib.contextmanager
def own_folder(parent: Path | None = None) -> Iterator[Path]:
    """Held by a lock as long as we live; those that nobody holds are removed first."""
    root = parent or Path(tempfile.gettempdir())
    for lock in root.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError), lock.open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if held.read():  # not one that is just being made
                shutil.rmtree(lock.parent, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    try:
        with (home / LOCK).open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            held.write("held while its benchmark runs\n")
            held.flush()
            yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def stop_as_by_ctrl_c() -> None:
    """So ends it a stop, and a terminal that is closed (not after nohup): our own processes are stopped, what was made
    is removed, what was measured is told. A shell switches Ctrl-C itself off for what it starts in the background.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    terminals = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream.isatty()]

    def stop(number: int, _: object) -> None:
        if number == signal.SIGHUP:  # who writes to a terminal that is gone fails
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for terminal in terminals:
                os.dup2(nowhere, terminal)
        signal.raise_signal(signal.SIGINT)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def die_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """For a child to call before it begins. On Linux the kernel stops it even when we are killed; loaded here, as the
    child must not.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, how)

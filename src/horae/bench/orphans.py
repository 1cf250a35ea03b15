"""No child process stays when its parent is gone, whatever became of that."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def die_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """For a child to call before it begins. On Linux the kernel stops it even when we are killed; loaded here, as the
    child must not.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, how)

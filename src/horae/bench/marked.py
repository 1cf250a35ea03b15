"""`python -m horae.bench.marked FILE serve`: horae whose no-ops leave the time of their start in a file, as the jobs of
the peers do. Its history has the time of the claim, some milliseconds before.
"""

from __future__ import annotations

import os
import runpy
import struct
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from horae.executors.noop import NoopExecutor
from horae.ports import Log, Outcome, Request
from horae.store.sqlite import system_now_us

_MARK = struct.Struct("q")


def read(file: Path) -> list[int]:
    """Microseconds, by the clock of this machine."""
    return [at_us for (at_us,) in _MARK.iter_unpack(file.read_bytes())]


def count(file: Path) -> int:
    return file.stat().st_size // _MARK.size if file.exists() else 0


def _leave_marks(name: str) -> None:
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    run = NoopExecutor.run

    def marked(self: NoopExecutor, request: Request, log: Log) -> Coroutine[Any, Any, Outcome]:
        os.write(file, _MARK.pack(system_now_us()))
        return run(self, request, log)

    NoopExecutor.run = marked  # type: ignore[method-assign]


if __name__ == "__main__":
    _leave_marks(sys.argv.pop(1))
    runpy.run_module("horae", run_name="__main__")

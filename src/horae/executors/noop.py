"""Does nothing, for as long and with as many failures as it is told: for trials and benchmarks."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from horae.core.duration import parse_duration
from horae.executors.wire import failed, timed_out
from horae.ports import Log, Outcome, Request

_DONE = Outcome(succeeded=True, result={})
_TOLD_TO_FAIL = failed("exception", "told to fail")


class NoopExecutor:
    async def run(self, request: Request, log: Log) -> Outcome:
        seconds = _seconds(request.target.get("sleep") or 0)
        # Nothing is awaited for a sleep of zero: the benchmark's subject is the way here, not the event loop.
        if seconds:
            await asyncio.sleep(min(seconds, request.timeout_seconds))
        if seconds > request.timeout_seconds:
            return timed_out(request)
        if request.attempt <= (request.target.get("fail") or 0):
            return _TOLD_TO_FAIL
        return _DONE

    async def close(self) -> None:
        """Nothing is held."""


@lru_cache(maxsize=256)
def _seconds(sleep: str | float) -> float:
    return parse_duration(sleep, "/target/sleep") / 1_000_000

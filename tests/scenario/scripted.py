"""Executors that do as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from horae.ports import Log, Outcome, Request


class Scripted:
    """An executor that does as told and remembers what it was asked."""

    def __init__(self, act: Callable[[Request], Any] | None = None) -> None:
        self.requests: list[Request] = []
        self.starts: list[float] = []
        self.stopped: list[str] = []
        self._act = act

    async def run(self, request: Request, log: Log) -> Outcome:
        self.requests.append(request)
        self.starts.append(asyncio.get_running_loop().time())
        try:
            outcome = self._act(request) if self._act else Outcome(succeeded=True)
            if asyncio.iscoroutine(outcome):
                outcome = await outcome
        except asyncio.CancelledError:
            self.stopped.append(request.run_id)
            raise
        assert isinstance(outcome, Outcome)
        return outcome

    async def close(self) -> None:
        return


def sleeping(seconds: float) -> Callable[[Request], Any]:
    async def act(request: Request) -> Outcome:
        await asyncio.sleep(seconds)
        return Outcome(succeeded=True)

    return act


def failing(times: int, **fields: Any) -> Callable[[Request], Any]:
    def act(request: Request) -> Outcome:
        if request.attempt <= times:
            return Outcome(succeeded=False, reason="exception", error="boom", **fields)
        return Outcome(succeeded=True, result={"attempt": request.attempt})

    return act

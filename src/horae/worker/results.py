"""Outcomes to the store, in batches: whatever gathered while the last batch was on its way goes with the next.

A batch that may or may not have arrived is sent again; the token makes that safe.
"""

from __future__ import annotations

import asyncio

from horae.core.errors import Unavailable
from horae.ports import Again, Ending, LogChunk, ResultStore
from horae.telemetry import warn

BATCH = 1000
GATHER_SECONDS = 0.003
RETRY_SECONDS = 0.5


class Results:
    def __init__(self, store: ResultStore, worker: str) -> None:
        self.worker = worker
        self._store = store
        self._endings: list[Ending] = []
        self._again: list[Again] = []
        self._logs: list[LogChunk] = []
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        return len(self._endings) + len(self._again)

    def end(self, ending: Ending) -> None:
        self._endings.append(ending)
        self._arrived.set()

    def again(self, again: Again) -> None:
        self._again.append(again)
        self._arrived.set()

    def log(self, chunk: LogChunk) -> None:
        self._logs.append(chunk)
        self._arrived.set()

    def forget(self) -> None:
        """The lease is gone, and with it the right to report."""
        self._endings.clear()
        self._again.clear()

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(GATHER_SECONDS)
            try:
                await self.flush()
            except Unavailable as error:
                warn("results.waiting", count=self.waiting, why=error.detail)
                await asyncio.sleep(RETRY_SECONDS)

    async def flush(self) -> None:
        """Sends what is there. What was not taken stays and is sent again."""
        self._arrived.clear()
        try:
            # Logs first: who sees a run as over must find all of its output.
            await self._send_logs()
            while self._endings:
                batch = self._endings[:BATCH]
                await self._store.settle(self.worker, batch)
                del self._endings[: len(batch)]
            while self._again:
                again = self._again[:BATCH]
                await self._store.requeue(self.worker, again)
                del self._again[: len(again)]
        except Unavailable:
            self._arrived.set()
            raise

    async def _send_logs(self) -> None:
        while self._logs:
            batch = self._logs[:BATCH]
            await self._store.add_logs(batch)
            del self._logs[: len(batch)]

"""Outcomes to the store, in batches: whatever gathered while the last batch was on its way goes with the next.

A batch that may or may not have arrived is sent again; the token makes that safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TypeVar

from horae.core.errors import Unavailable
from horae.failpoints import hit
from horae.lanes import abreast
from horae.ports import Again, Ending, LogChunk, ResultStore
from horae.telemetry import attempts_requeued, oops, runs_ended, warn

O = TypeVar("O", Ending, Again)  # noqa: E741 an outcome

BATCH = 1000
# With more than this two batches go abreast, where the store can: one at a time is slower than the results of a crowd
# come in, and a worker that is far behind takes no more runs. With less, claims have the better use for a core.
ABREAST_FROM = 3 * BATCH
LOGS_KEPT = 20_000
GATHER_SECONDS = 0.003
RETRY_SECONDS = 0.5
NOT_STORED = "The outcome could not be stored."


class Results:
    def __init__(self, store: ResultStore, worker: str) -> None:
        self.worker = worker
        self._store = store
        self._endings: list[Ending] = []
        self._again: list[Again] = []
        self._logs: list[LogChunk] = []
        self._on_the_way: Sequence[Sequence[Ending | Again]] = ()
        self._unstored: list[Ending] = []
        """What the store does not even take as failed: ours until this worker leaves, when the fleet ends it."""
        self._generation = 0
        self._singly = 0
        """So many times one outcome alone: the store could not take a batch."""
        self._is_struggling = False
        """The last batch did not arrive: two at a time may be too much for a store that is slow."""
        self.on_more: Callable[[], None] = lambda: None
        self._arrived = asyncio.Event()
        self._sending = asyncio.Lock()

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

    @property
    def held(self) -> set[str]:
        """The runs whose outcome is still on its way."""
        return {each.run_id for each in chain(self._endings, self._again, *self._on_the_way, self._unstored)}

    def forget(self) -> None:
        """The lease is gone, and with it the right to report."""
        self._endings, self._again, self._unstored = [], [], []
        self._generation, self._singly = self._generation + 1, 0

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(GATHER_SECONDS)
            try:
                async with self._sending:
                    await self._send()
            except Unavailable as error:
                warn("results.waiting", count=self.waiting, why=error.detail)
                await asyncio.sleep(RETRY_SECONDS)

    async def flush(self, deadline: float = 0.0) -> None:
        """Sends all that is there, after what is on its way. What was not taken stays and is sent again, until the
        deadline here.
        """
        while True:
            try:
                async with self._sending:
                    while self._logs or self.waiting:
                        await self._send()
                return
            except Unavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    async def _send(self) -> None:
        try:
            await self._send_batch(1 if self._singly else BATCH)
            self._singly, self._is_struggling = max(0, self._singly - 1), False
        except Unavailable:
            self._is_struggling = True
            raise
        except Exception as error:  # noqa: BLE001 our bug; the outcomes of the others must not be lost for it
            oops("results.broken", error, count=self.waiting)
            self._singly = self.waiting

    async def _send_batch(self, most: int) -> None:
        """One batch of each kind. What came meanwhile gathers first: the claim for the room that it left goes ahead, so
        that there is work to do while the next batch is stored.
        """
        self._arrived.clear()
        try:
            # Logs first: who sees a run as over must find all of its output.
            await self._send_logs()
            if self._endings:
                # In the same step as the last look at the logs: what ends after it has its output in the next batch.
                lanes = _lanes(self._endings) if self._goes_abreast(most) else [self._endings[:most]]
                self._endings = self._endings[sum(map(len, lanes)) :]
                with self._kept(lanes, self._endings) as left:
                    hit("settle.before_commit")
                    await abreast(*(self._settle(self.worker, lane, left) for lane in lanes))
                    hit("settle.after_commit")
            if self._again:
                again, self._again = self._again[:most], self._again[most:]
                with self._kept([again], self._again):
                    hit("requeue.before_commit")
                    moved = await self._store.requeue(self.worker, again)
                    hit("requeue.after_commit")
                attempts_requeued(each.reason for each in again if each.run_id in moved)
                self.on_more()
        finally:
            if self._logs or self.waiting:
                self._arrived.set()

    def _goes_abreast(self, most: int) -> bool:
        is_far_behind = len(self._endings) > ABREAST_FROM
        return is_far_behind and most == BATCH and self._store.is_parallel and not self._is_struggling

    async def _settle(self, worker: str, endings: list[Ending], left: list[list[Ending]]) -> None:
        settled = await self._store.settle(worker, endings)
        left.remove(endings)
        runs_ended(ending.status for ending in endings if ending.run_id in settled.ended)
        if settled.has_more:
            self.on_more()

    def _fail(self, outcome: Ending | Again, error: Exception) -> None:
        oops("result.broken", error, run=outcome.run_id)
        if isinstance(outcome, Ending) and outcome.error == NOT_STORED:
            self._unstored.append(outcome)
            return
        job_id = outcome.job_id if isinstance(outcome, Ending) else ""
        self.end(Ending(outcome.run_id, outcome.token, "failed", "exception", NOT_STORED, None, job_id))

    @contextmanager
    def _kept(self, batches: list[list[O]], rest: list[O]) -> Iterator[list[list[O]]]:
        """Puts back in front what is left of them when it may not have arrived, unless the right to report was lost
        meanwhile. One that the store cannot take, sent alone, is replaced by what is wrong with it.
        """
        generation, left = self._generation, batches.copy()
        self._on_the_way = left
        try:
            yield left
        except BaseException as error:
            if generation == self._generation:
                if left and self._singly and isinstance(error, Exception) and not isinstance(error, Unavailable):
                    self._fail(left[0][0], error)
                else:
                    rest[:0] = chain.from_iterable(left)
            raise
        finally:
            self._on_the_way = ()

    async def _send_logs(self) -> None:
        """Output whose store is away is kept as long as there is room for it."""
        while self._logs:
            batch, self._logs = self._logs[:BATCH], self._logs[BATCH:]
            try:
                await self._store.add_logs(batch)
            except Unavailable:
                self._logs[:0] = batch
                del self._logs[LOGS_KEPT:]
                raise
            except Exception as error:  # noqa: BLE001 our bug; no outcome must wait for it
                oops("logs.broken", error, count=len(batch))


def _lanes(endings: list[Ending]) -> list[list[Ending]]:
    """What fits into two batches from the front. Those of one job in one of them: whether it has recovered is seen by
    the runs that are stored before.
    """
    lanes: tuple[list[Ending], list[Ending]] = ([], [])
    for ending in islice(endings, 2 * BATCH):
        lane = lanes[hash(ending.job_id) % 2]
        if len(lane) == BATCH:
            break
        lane.append(ending)
    return [lane for lane in lanes if lane]

"""Outcomes on their way to a store that is away, slow or cannot take one of them, on a virtual clock."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from horae.core.errors import Unavailable
from horae.ports import Again, Ending, Log, LogChunk, Outcome, Request, Settled
from horae.store.database import Statement
from horae.store.trials import single
from horae.testing import Horae, virtual
from horae.worker.results import Results
from tests.scenario.rows import states_of, with_crowd

EVENTS = Statement("SELECT kind FROM events WHERE kind = 'late_result'")


@virtual
async def test_results_that_did_not_arrive_go_again_and_are_taken_once() -> None:
    async with Horae(worker_slots=300) as horae:
        await with_crowd(horae)
        settle, sizes, jobs = horae.store.settle, list[int](), set[str]()

        async def breaking(worker: str, endings: list[Ending]) -> Settled:
            sizes.extend([len(endings)] if endings else [])
            jobs.update(ending.job_id for ending in endings)
            if sizes == [len(endings)]:
                raise Unavailable("the test says so")
            return await settle(worker, endings)

        horae.store.settle = breaking  # type: ignore[method-assign]
        horae.store.is_parallel = True
        await horae.advance(20)

        assert sizes[1] >= sizes[0] > 0  # with what came meanwhile
        assert sum(sizes[1:]) == 600
        assert len(jobs - {""}) == 600  # each knows its job: what ends of one is stored in order
        assert await states_of(horae) == {"succeeded": 600}
        assert [event["kind"] for event in await horae.store.database.run(single(EVENTS))] == []


@virtual
async def test_a_worker_that_waits_for_its_results_to_be_stored_goes_on_as_soon_as_they_are() -> None:
    async with Horae() as horae:
        await horae.create({"name": "a", "type": "noop"})
        await horae.advance(1)
        worker = horae.nodes[0].worker
        assert worker is not None
        unknown = [Ending(f"run-{number}", 1, "succeeded", None, None, None) for number in range(10_000)]
        worker.results._endings += unknown

        assert await worker.tick() <= 0.01
        worker.results.forget()


@virtual
@pytest.mark.parametrize(("count", "is_parallel", "lanes"), [(3001, True, 2), (3000, True, 1), (9000, False, 1)])
async def test_far_behind_two_batches_are_stored_at_a_time(count: int, is_parallel: bool, lanes: int) -> None:
    store = Slow(is_parallel=is_parallel)
    results = with_endings(store, count)

    sending = asyncio.create_task(results.run())
    await asyncio.sleep(0.1)

    assert len(store.under_way) == lanes
    assert max(len(batch) for batch in store.under_way) == 1000
    assert results.waiting == count - sum(len(batch) for batch in store.under_way)
    assert len(results.held) == count
    store.opened.set()
    await results.flush()
    assert len(store.stored) == len(set(store.stored)) == count
    sending.cancel()


@virtual
async def test_of_two_batches_at_a_time_one_has_all_that_ended_of_a_job_in_order() -> None:
    store = Slow(is_parallel=True)
    store.opened.set()
    await with_endings(store, 5000).flush()

    first, second = store.under_way[:2]
    assert not {ending.job_id for ending in first} & {ending.job_id for ending in second}
    numbers = [int(ending.run_id.removeprefix("run-")) for ending in first]
    assert numbers == sorted(numbers)


@virtual
async def test_of_two_batches_at_a_time_the_one_that_did_not_arrive_goes_again() -> None:
    store = Slow(is_parallel=True)
    results = with_endings(store, 5000)

    sending = asyncio.create_task(results.run())
    await asyncio.sleep(0.1)
    store.is_away = True
    store.opened.set()
    await asyncio.sleep(0.1)

    stored = len(store.stored)
    assert results.waiting == 5000 - stored
    assert not results.held & set(store.stored)
    store.is_away = False
    await results.flush()
    assert len(store.stored) == len(set(store.stored)) == 5000
    sending.cancel()


@virtual
@pytest.mark.parametrize("jobs", [1, 50])
async def test_a_store_that_is_too_slow_for_two_batches_at_a_time_is_given_one(jobs: int) -> None:
    store = Slow(is_parallel=True)
    store.opened.set()
    store.is_slow = True
    results = with_endings(store, 5000, jobs)

    sending = asyncio.create_task(results.run())
    await asyncio.sleep(30)

    assert len(store.stored) == len(set(store.stored)) == 5000
    assert max(len(batch) for batch in store.under_way) <= 1000
    sending.cancel()


@virtual
async def test_batches_that_are_stopped_on_their_way_are_still_there() -> None:
    store = Slow(is_parallel=True)
    results = with_endings(store, 5000)

    for steps in range(10):
        sending = asyncio.create_task(results.flush())
        for _ in range(steps):
            await asyncio.sleep(0)
            assert len(results.held) == 5000
        sending.cancel()
        await asyncio.wait([sending])
        assert results.waiting == 5000


@virtual
async def test_a_run_is_stored_as_over_only_after_its_output_whenever_it_ends() -> None:
    for steps in range(10):
        store = Slow(is_parallel=True)
        store.opened.set()
        results = with_endings(store, 1)
        sending = asyncio.create_task(results.flush())
        for _ in range(steps):
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(results.log, LogChunk("late", 1, 1, "its last words", "default"))
        asyncio.get_running_loop().call_soon(results.end, Ending("late", 1, "failed", "exception", None, None))
        await asyncio.sleep(0)
        await sending
        await results.flush()

        assert store.stored.index("output of late") < store.stored.index("late")


def with_endings(store: Slow, count: int, jobs: int = 50) -> Results:
    results = Results(store, "w")  # type: ignore[arg-type]
    for number in range(count):
        results.end(Ending(f"run-{number}", 1, "succeeded", None, None, None, f"job-{number % jobs}"))
    return results


class Slow:
    """Keeps batches waiting until it is opened. When away, it takes the first batch and loses the others; when slow, it
    takes one batch in two seconds, and of two at a time none.
    """

    def __init__(self, *, is_parallel: bool) -> None:
        self.is_parallel = is_parallel
        self.is_away = False
        self.is_slow = False
        self._at_once = 0
        self.opened = asyncio.Event()
        self.under_way: list[list[Ending]] = []
        self.stored: list[str] = []

    async def settle(self, worker: str, endings: list[Ending]) -> Settled:
        self.under_way.append(endings)
        await self.opened.wait()
        if (self.is_away and self.stored) or (self.is_slow and not await self._is_in_time()):
            raise Unavailable("the test says so")
        self.stored += (ending.run_id for ending in endings)
        return Settled({ending.run_id for ending in endings}, has_more=False)

    async def _is_in_time(self) -> bool:
        self._at_once += 1
        await asyncio.sleep(1)
        is_alone = self._at_once == 1
        await asyncio.sleep(1)
        self._at_once -= 1
        return is_alone

    async def add_logs(self, chunks: list[LogChunk]) -> None:
        self.stored += (f"output of {chunk.run_id}" for chunk in chunks)


@virtual
async def test_one_outcome_that_cannot_be_stored_keeps_no_other() -> None:
    async with Horae(executors={"noop": Failing()}) as horae:
        names = ("bad", "good")
        for name in names:
            await horae.create({"name": name, "type": "noop", "retry": {"max_retries": 1, "delay": "1h"}})
        bad = await horae.run("bad")
        real = horae.store.requeue

        async def broken(worker: str, again: list[Again]) -> set[str]:
            if any(each.run_id == bad for each in again):
                raise ValueError("our bug")
            return await real(worker, again)

        horae.store.requeue = broken  # type: ignore[method-assign]
        await horae.run("good")
        await horae.advance(5)

        assert [[run["status"] for run in await horae.runs(name)] for name in names] == [["FAILED"], ["RETRYING"]]


class Failing:
    async def run(self, request: Request, log: Log) -> Outcome:
        return Outcome(succeeded=False, reason="exception", error="no")

    async def close(self) -> None:
        return


@virtual
async def test_outcomes_that_are_sent_one_by_one_are_not_out_of_sight() -> None:
    stored: list[str] = []

    async def settle(worker: str, endings: list[Ending]) -> Settled:
        if len(endings) > 1:
            raise ValueError("our bug")
        await asyncio.sleep(1)
        stored.extend(ending.run_id for ending in endings)
        return Settled(set(stored), has_more=False)

    store: Any = SimpleNamespace(settle=settle)
    results = Results(store, "w1")
    task = asyncio.create_task(results.run())
    for run_id in ("a", "b", "c"):
        results.end(Ending(run_id, 1, "succeeded", None, None, None))
    await asyncio.sleep(0.5)
    assert results.held == {"a", "b", "c"}
    await results.flush()

    assert stored == ["a", "b", "c"]
    task.cancel()


@virtual
async def test_what_was_given_up_while_outcomes_went_one_by_one_is_not_sent() -> None:
    sent: list[str] = []

    async def settle(worker: str, endings: list[Ending]) -> Settled:
        if len(endings) > 1:
            raise ValueError("our bug")
        sent.extend(ending.run_id for ending in endings)
        await asyncio.sleep(1)
        raise Unavailable("the test says so")

    store: Any = SimpleNamespace(settle=settle)
    results = Results(store, "w1")
    task = asyncio.create_task(results.run())
    for run_id in ("a", "b"):
        results.end(Ending(run_id, 1, "succeeded", None, None, None))
    await asyncio.sleep(0.5)
    results.forget()
    await asyncio.sleep(10)

    assert (sent, results.waiting) == (["a"], 0)
    task.cancel()


@virtual
async def test_an_outcome_that_cannot_be_stored_at_all_holds_up_no_other_and_no_drain() -> None:
    stored: list[str] = []

    async def settle(worker: str, endings: list[Ending]) -> Settled:
        if any(ending.run_id == "bad" for ending in endings):
            raise ValueError("our bug")
        stored.extend(ending.run_id for ending in endings)
        return Settled(set(stored), has_more=False)

    async def requeue(worker: str, again: list[Again]) -> set[str]:
        stored.extend(each.run_id for each in again)
        return set()

    async def add_logs(chunks: list[LogChunk]) -> None:
        raise ValueError("our bug")

    store: Any = SimpleNamespace(settle=settle, requeue=requeue, add_logs=add_logs)
    results = Results(store, "w1")
    results.log(LogChunk("bad", 1, 1, "text", "default"))
    for run_id in ("a", "bad", "b"):
        results.end(Ending(run_id, 1, "succeeded", None, None, None))
    results.again(Again("c", 1, 0, None, None))
    async with asyncio.timeout(10):
        await results.flush()

    assert sorted(stored) == ["a", "b", "c"]
    assert (results.waiting, results.held, results._singly) == (0, {"bad"}, 0)
    results.forget()
    assert not results.held

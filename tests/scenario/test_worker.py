"""A worker and executors that do not do what they promised, on a virtual clock."""

from __future__ import annotations

import asyncio
from typing import Any

from horae.ports import Log, Outcome, Request
from horae.testing import Horae, virtual
from tests.scenario.rows import rows_of


class Stubborn:
    """Its first attempt does not end, and lets itself be stopped only after a while; the others take long."""

    def __init__(self, *, stops_in: float, others_take: float) -> None:
        self.starts = 0
        self._stops_in = stops_in
        self._others_take = others_take

    async def run(self, request: Request, log: Log) -> Outcome:
        self.starts += 1
        if self.starts > 1:
            await asyncio.sleep(self._others_take)
            return Outcome(succeeded=True)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._stops_in)
        raise AssertionError

    async def close(self) -> None:
        return


@virtual
async def test_an_executor_that_does_not_keep_the_time_is_stopped() -> None:
    stubborn = Stubborn(stops_in=0, others_take=0)
    async with Horae(executors={"noop": stubborn}) as horae:
        await horae.create({"name": "a", "type": "noop", "timeout": "10s", "retry": {"max_retries": 0}})
        await horae.run("a")
        await horae.advance(20)
        assert [run["status"] for run in await rows_of(horae, "a")] == ["running"]
        await horae.advance(10)

        (run,) = await rows_of(horae, "a")
        assert (run["status"], run["reason"], run["error"]) == ("failed", "timeout", "The attempt did not end in time.")


@virtual
async def test_a_run_that_comes_back_is_not_forgotten_when_its_first_attempt_stops_at_last() -> None:
    stubborn = Stubborn(stops_in=60, others_take=300)
    async with Horae(executors={"noop": stubborn}) as horae:
        await horae.create({"name": "a", "type": "noop", "timeout": "1h"})
        await horae.run("a")
        await horae.advance(1)
        worker = horae.nodes[0].worker
        assert worker is not None
        worker._give_up("the test says so")
        await horae.advance(minutes=10)

        (run,) = await rows_of(horae, "a")
        assert (run["status"], run["attempt"], stubborn.starts) == ("succeeded", 2, 2)
        assert (await horae.verify()).violations == []


class Slow:
    async def run(self, request: Request, log: Log) -> Outcome:
        await asyncio.sleep(10)
        return Outcome(succeeded=True)

    async def close(self) -> None:
        return


@virtual
async def test_a_worker_whose_slots_come_free_later_looks_again_before_it_claims() -> None:
    async with Horae(executors={"noop": Slow()}, worker_slots=1) as horae:
        await horae.create({"name": "a", "type": "noop"})
        for _ in range(3):
            await horae.run("a")
        await horae.advance(1)
        await horae.commands.fleet.change_queue(horae.caller, "default", {"is_paused": True}, None)
        await horae.advance(60)

        assert sorted(run["status"] for run in await rows_of(horae, "a")) == ["queued", "queued", "succeeded"]


@virtual
async def test_a_pause_holds_in_its_own_process_from_the_moment_it_is_answered() -> None:
    async with Horae() as horae:
        await horae.create({"name": "a", "type": "noop"})
        await horae.run("a")
        await horae.advance(0.2)  # what holds lines back was looked up just now
        await horae.commands.fleet.change_queue(horae.caller, "default", {"is_paused": True}, None)
        horae.nodes[0].rules_changed()
        await horae.run("a")
        await horae.advance(5)

        assert sorted(run["status"] for run in await horae.runs("a")) == ["QUEUED", "SUCCEEDED"]


@virtual
async def test_a_worker_told_to_stop_while_it_looks_claims_nothing() -> None:
    async with Horae(executors={"noop": Slow()}) as horae:
        await horae.advance(5)
        for verb in ("waiting_lines", "leave"):
            _answer_late(horae.store, verb)
        await horae.create({"name": "a", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(0.2)
        await horae.nodes[0].stop()

        assert [run["status"] for run in await rows_of(horae, "a")] == ["queued"]


def _answer_late(store: Any, verb: str) -> None:
    ask = getattr(store, verb)

    async def late(*args: Any) -> Any:
        answer = await ask(*args)
        await asyncio.sleep(0.3)
        return answer

    setattr(store, verb, late)

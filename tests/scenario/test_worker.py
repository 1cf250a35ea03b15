"""A worker and executors that do not do what they promised, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from horae.core.errors import Unavailable
from horae.ports import Claimed, Ending, Log, Outcome, Request, Settled
from horae.store.database import Statement
from horae.store.trials import single
from horae.testing import Horae, virtual
from tests.scenario.rows import rows_of

STATES = Statement("""
SELECT state, count(*) AS n FROM (SELECT state FROM runs UNION ALL SELECT status FROM history) AS run GROUP BY state
""")
EVENTS = Statement("SELECT kind FROM events WHERE kind = 'late_result'")


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
async def test_runs_that_wait_for_each_other_start_as_soon_as_the_one_before_has_ended() -> None:
    async with Horae() as horae:
        await horae.create({"name": "queued", "type": "noop", "overlap": "queue"})
        await horae.create({"name": "first", "type": "noop"})
        await horae.create({"name": "second", "type": "noop", "after": "first"})
        await horae.create({"name": "third", "type": "noop", "after": "second"})
        for _ in range(10):
            await horae.run("queued")
        await horae.run("first")
        await horae.advance(0.5)

        ended = {name: [run["status"] for run in await horae.runs(name)] for name in ("queued", "second", "third")}
        assert ended == {"queued": ["SUCCEEDED"] * 10, "second": ["SUCCEEDED"], "third": ["SUCCEEDED"]}


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


class Claims:
    """The claims of a store that works on several statements at a time: by whom, whether the worker was known then,
    and how many runs each brought. `answered` is called before the answer to a claim is handed on.
    """

    def __init__(self, horae: Horae, answered: Callable[[int], Awaitable[None]]) -> None:
        self.of_unknown = 0
        self.brought: list[int] = []
        self._worker, self._claim, self._answered = horae.nodes[0].worker, horae.store.claim, answered
        horae.store.claim = self.claim  # type: ignore[method-assign]
        horae.store.is_parallel = True

    async def claim(self, worker: str, shares: list[tuple[str, int]]) -> list[Claimed]:
        if not shares:
            return []  # it gets ready
        assert self._worker is not None
        self.of_unknown += not self._worker._is_registered
        claimed = await self._claim(worker, shares)
        self.brought.append(len(claimed))
        await self._answered(len(self.brought))
        return claimed


async def _with_crowd(horae: Horae) -> None:
    """600 runs that are due in ten seconds."""
    for n in range(600):
        await horae.create({"name": f"j{n}", "type": "noop", "schedule": "@hourly"})
    await horae.advance(3590)


async def _states(horae: Horae) -> dict[str, int]:
    rows = await horae.store.database.run(single(STATES))
    return {row["state"]: row["n"] for row in rows}


@virtual
async def test_a_lane_goes_on_while_the_claim_of_the_other_takes_its_time() -> None:
    async with Horae(worker_slots=200) as horae:
        await _with_crowd(horae)
        claims = Claims(horae, lambda number: asyncio.sleep(5 if number == 1 else 0))
        await horae.advance(12)
        soon = await _states(horae)
        await horae.advance(12)

        assert (soon, await _states(horae)) == ({"succeeded": 500, "running": 100}, {"succeeded": 600})
        assert claims.brought[:6] == [100] * 6


@virtual
async def test_lanes_stop_when_their_queue_is_paused() -> None:
    async with Horae(worker_slots=200) as horae:
        await _with_crowd(horae)

        async def pause(number: int) -> None:
            if number == 3:
                await horae.commands.fleet.change_queue(horae.caller, "default", {"is_paused": True}, None)
                horae.nodes[0].rules_changed()

        claims = Claims(horae, pause)
        await horae.advance(30)

        assert claims.brought in ([100] * 3, [100] * 4)  # the other lane may have asked already
        assert (await _states(horae))["queued"] == 600 - sum(claims.brought)


@virtual
async def test_lanes_stop_when_their_worker_is_given_up() -> None:
    async with Horae(worker_slots=200) as horae:
        await _with_crowd(horae)
        worker = horae.nodes[0].worker
        assert worker is not None

        async def give_up(number: int) -> None:
            if number == 3:
                asyncio.get_running_loop().call_soon(worker._give_up, "the test says so")

        claims = Claims(horae, give_up)
        await horae.advance(minutes=10)

        assert (claims.of_unknown, await _states(horae)) == (0, {"succeeded": 600})
        assert (await horae.verify()).violations == []


@virtual
async def test_results_that_did_not_arrive_go_again_and_are_taken_once() -> None:
    async with Horae(worker_slots=300) as horae:
        await _with_crowd(horae)
        settle, sizes = horae.store.settle, list[int]()

        async def breaking(worker: str, endings: list[Ending]) -> Settled:
            sizes.extend([len(endings)] if endings else [])
            if sizes == [len(endings)]:
                raise Unavailable("the test says so")
            return await settle(worker, endings)

        horae.store.settle = breaking  # type: ignore[method-assign]
        horae.store.is_parallel = True
        await horae.advance(20)

        assert sizes[1] >= sizes[0] > 0  # with what came meanwhile
        assert sum(sizes[1:]) == 600
        assert await _states(horae) == {"succeeded": 600}
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

"""A worker and executors that do not do what they promised, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from horae.commands.runs import RunRequest
from horae.core.errors import Unavailable
from horae.core.timeguard import TimeGuard
from horae.ports import Claimed, Gated, Log, Outcome, Request, Share
from horae.store.database import Statement
from horae.store.trials import single
from horae.testing import Horae, virtual
from horae.worker import opening
from horae.worker.lines import Lines
from horae.worker.loop import DRAINED, OVERTIME
from tests.scenario.rows import rows_of, states_of, with_crowd


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


class Deaf:
    """Its first attempt does not let itself be stopped for an hour; the others do."""

    def __init__(self) -> None:
        self.starts = 0

    async def run(self, request: Request, log: Log) -> Outcome:
        self.starts += 1
        until = asyncio.get_running_loop().time() + 3600
        is_first = self.starts == 1
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not is_first:
                    raise
        return Outcome(succeeded=True)

    async def close(self) -> None:
        return


@virtual
async def test_an_attempt_that_comes_back_is_stopped_though_the_first_one_was_being_stopped() -> None:
    deaf = Deaf()
    async with Horae(executors={"noop": deaf}) as horae:
        await horae.create({"name": "a", "type": "noop", "timeout": "10s", "retry": {"max_retries": 1}})
        await horae.run("a")
        await horae.advance(30)
        worker = horae.nodes[0].worker
        assert worker is not None
        assert list(worker._stops.values()) == ["overtime"]
        worker._give_up("the test says so")
        await horae.advance(minutes=10)

        (run,) = await rows_of(horae, "a")
        assert (run["status"], run["reason"], deaf.starts) == ("failed", "timeout", 2)


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


class Counting:
    """Takes an hour, and is counted."""

    starts = 0

    async def run(self, request: Request, log: Log) -> Outcome:
        self.starts += 1
        await asyncio.sleep(3600)
        return Outcome(succeeded=True)

    async def close(self) -> None:
        return


@pytest.mark.parametrize("why", [DRAINED, OVERTIME])
@virtual
async def test_a_run_that_is_told_to_stop_before_its_first_step_goes_back_as_if_it_had_not_been_claimed(
    why: str,
) -> None:
    counting = Counting()
    async with Horae(executors={"noop": counting}) as horae:
        await horae.create({"name": "a", "type": "noop", "delivery": "at_most_once"})
        await horae.create({"name": "b", "type": "noop"})
        worker = horae.nodes[0].worker
        assert worker is not None
        start, reasons = worker.start, [why, None, "operator"]

        async def told_to_stop_at_once(claimed: list[Claimed]) -> None:
            await start(claimed)
            for run in claimed:
                if reason := reasons.pop(0):
                    worker._stop_run(run.run_id, reason)

        worker.start = told_to_stop_at_once  # type: ignore[method-assign]
        await horae.run("a")
        await horae.advance(1)
        await horae.run("b")
        await horae.advance(1)

        (a,), (b,) = await rows_of(horae, "a"), await rows_of(horae, "b")
        assert (a["status"], a["attempt"], counting.starts) == ("running", 1, 1)
        assert (b["status"], b["reason"]) == ("cancelled", "operator")


@virtual
async def test_what_a_claim_brings_to_a_worker_that_leaves_goes_back() -> None:
    counting = Counting()
    async with Horae(executors={"noop": counting}) as horae:
        await horae.create({"name": "a", "type": "noop", "delivery": "at_most_once"})
        worker = horae.nodes[0].worker
        assert worker is not None
        await horae.advance(1)
        Claims(horae, lambda _: asyncio.sleep(3))
        await horae.run("a")
        await horae.advance(0.5)
        assert worker._taker.under_way
        await worker.stop_now()

        (run,) = await rows_of(horae, "a")
        assert (run["status"], run["attempt"], counting.starts) == ("queued", 0, 0)


def _answer_late(store: Any, verb: str) -> None:
    ask = getattr(store, verb)

    async def late(*args: Any) -> Any:
        answer = await ask(*args)
        await asyncio.sleep(0.3)
        return answer

    setattr(store, verb, late)


class Claims:
    """The claims of a store that works on several statements at a time: by whom, whether the worker was known then and
    asked for definitions, and how many runs each brought. `answered` is called before the answer to a claim is handed
    on.
    """

    def __init__(self, horae: Horae, answered: Callable[[int], Awaitable[None]]) -> None:
        self.of_unknown = 0
        self.brought: list[int] = []
        self.with_specs: list[bool] = []
        self._worker, self._claim, self._answered = horae.nodes[0].worker, horae.store.claim, answered
        horae.store.claim = self.claim  # type: ignore[method-assign]
        horae.store.is_parallel = True

    async def claim(self, worker: str, shares: list[Share], *, with_specs: bool = False) -> list[Claimed]:
        if not shares:
            return []  # it gets ready
        assert self._worker is not None
        self.of_unknown += not self._worker._is_registered
        self.with_specs.append(with_specs)
        claimed = await self._claim(worker, shares, with_specs=with_specs)
        self.brought.append(len(claimed))
        await self._answered(len(self.brought))
        return claimed


@virtual
async def test_a_lane_goes_on_while_the_claim_of_the_other_takes_its_time() -> None:
    async with Horae(worker_slots=200) as horae:
        await with_crowd(horae)
        claims = Claims(horae, lambda number: asyncio.sleep(5 if number == 1 else 0))
        await horae.advance(12)
        soon = await states_of(horae)
        await horae.advance(12)

        assert (soon, await states_of(horae)) == ({"succeeded": 500, "running": 100}, {"succeeded": 600})
        assert claims.brought[:6] == [100] * 6


@virtual
async def test_a_worker_without_room_for_more_definitions_has_its_claims_bring_them() -> None:
    with patch.object(opening, "SPECS_KEPT", 50):
        async with Horae(worker_slots=200) as horae:
            await with_crowd(horae)
            claims = Claims(horae, lambda _: asyncio.sleep(0))
            await horae.advance(12)

            assert await states_of(horae) == {"succeeded": 600}
            assert (claims.with_specs[0], claims.with_specs[-1]) == (False, True)


@virtual
async def test_a_lane_goes_on_while_the_other_looks_which_lines_wait() -> None:
    async with Horae(worker_slots=200) as horae:
        await with_crowd(horae)
        await horae.advance(5)
        Claims(horae, lambda _: asyncio.sleep(0.03))
        looks = 0
        look = horae.store.waiting_lines

        async def late(prefixes: list[str]) -> Any:
            nonlocal looks
            lines = await look(prefixes)
            looks += any(line.head_us <= lines.now_us for line in lines.waiting)
            await asyncio.sleep(60 if looks == 2 else 0)
            return lines

        horae.store.waiting_lines = late  # type: ignore[method-assign]
        await horae.advance(7)

        assert (looks, await states_of(horae)) == (2, {"succeeded": 600})


@virtual
async def test_a_lane_whose_turn_it_is_at_the_gate_does_not_give_it_away() -> None:
    async with Horae(worker_slots=200) as horae:
        for n in range(300):
            await horae.create({"name": f"j{n}", "type": "noop", "schedule": "@hourly"})
        await horae.create({"name": "gated", "type": "noop", "schedule": "@hourly", "overlap": "queue"})
        await horae.advance(3590)
        worker = horae.nodes[0].worker
        assert worker is not None
        lines, turns = worker._taker._lines, 0
        share_out = lines.share_out

        def shifted(due: Any, room: int) -> Any:
            """Whoever begins sees no gate, and both of its lanes do."""
            nonlocal turns
            turns += 1
            plain, gated = share_out(due, room)
            return (plain, gated) if turns % 3 != 1 else (plain or gated, [])

        lines.share_out = shifted  # type: ignore[method-assign]
        await horae.advance(20)

        assert await states_of(horae) == {"succeeded": 301}


@virtual
async def test_a_pause_that_comes_while_the_rules_are_read_holds() -> None:
    async with Horae() as horae:
        await horae.create({"name": "a", "type": "noop"})
        limits = horae.store.limits

        async def read_before() -> Any:
            before = await limits()
            horae.store.limits = limits  # type: ignore[method-assign]
            await horae.commands.fleet.change_queue(horae.caller, "default", {"is_paused": True}, None)
            horae.nodes[0].rules_changed()
            return before

        horae.store.limits = read_before  # type: ignore[method-assign]
        await horae.run("a")
        await horae.advance(5)

        assert [run["status"] for run in await horae.runs("a")] == ["QUEUED"]


@virtual
async def test_rules_that_were_read_before_a_pause_do_not_replace_those_after_it() -> None:
    async with Horae(executors={"noop": Slow()}, worker_slots=1) as horae:
        await horae.create({"name": "a", "type": "noop"})
        for _ in range(2):
            await horae.run("a")
        await horae.advance(1)
        store = SimpleNamespace(waiting_lines=horae.store.waiting_lines)
        lines = Lines(store, TimeGuard())  # type: ignore[arg-type]

        async def late() -> Any:
            store.limits = horae.store.limits
            before = await horae.store.limits()
            await asyncio.sleep(0.5)
            return before

        store.limits = late
        first = asyncio.create_task(lines.look(["-"], ()))
        await asyncio.sleep(0.1)
        await horae.commands.fleet.change_queue(horae.caller, "default", {"is_paused": True}, None)
        lines.forget_limits()
        second = await lines.look(["-"], ())
        seen = await first

        assert second is not None
        assert seen is not None
        assert (second.due, seen.due) == ([], [])


@virtual
async def test_lanes_stop_when_their_queue_is_paused() -> None:
    async with Horae(worker_slots=200) as horae:
        await with_crowd(horae)

        async def pause(number: int) -> None:
            if number == 3:
                await horae.commands.fleet.change_queue(horae.caller, "default", {"is_paused": True}, None)
                horae.nodes[0].rules_changed()

        claims = Claims(horae, pause)
        await horae.advance(30)

        assert claims.brought in ([100] * 3, [100] * 4)  # the other lane may have asked already
        assert (await states_of(horae))["queued"] == 600 - sum(claims.brought)


@virtual
async def test_lanes_stop_when_their_worker_is_given_up() -> None:
    async with Horae(worker_slots=200) as horae:
        await with_crowd(horae)
        worker = horae.nodes[0].worker
        assert worker is not None

        async def give_up(number: int) -> None:
            if number == 3:
                asyncio.get_running_loop().call_soon(worker._give_up, "the test says so")

        claims = Claims(horae, give_up)
        await horae.advance(minutes=10)

        assert (claims.of_unknown, await states_of(horae)) == (0, {"succeeded": 600})
        assert (await horae.verify()).violations == []


@virtual
async def test_runs_without_a_rule_start_while_the_gate_is_away() -> None:
    async with Horae() as horae:
        await horae.advance(1)

        async def away(*_: object) -> Gated:
            raise Unavailable("not now")

        horae.store.claim_gated = away  # type: ignore[method-assign]
        await horae.create({"name": "gated", "type": "noop", "max_concurrency": 1})
        await horae.create({"name": "plain", "type": "noop"})
        await horae.run("gated")
        await horae.run("plain")
        await horae.advance(0.5)

        ended = [[run["status"] for run in await horae.runs(name)] for name in ("gated", "plain")]
        assert ended == [["QUEUED"], ["SUCCEEDED"]]


@virtual
async def test_of_many_slots_those_behind_the_gate_get_as_many_as_their_priority_says() -> None:
    async with Horae(executors={"noop": Slow()}, worker_slots=500) as horae:
        await horae.create({"name": "high", "type": "noop", "priority": "HIGH", "max_concurrency": 1000})
        await horae.create({"name": "low", "type": "noop", "priority": "LOW"})
        await horae.advance(1)
        for name in ("high", "low"):
            await horae.commands.runs.trigger(horae.caller, name, [RunRequest()] * 600, None)
        await horae.advance(0.3)
        started = {row["name"]: row["n"] for row in await horae.store.database.run(single(RUNNING_JOBS))}

        assert started == {"high": 450, "low": 50}


RUNNING_JOBS = Statement("""
SELECT j.name, count(*) AS n FROM runs r JOIN jobs j ON j.id = r.job_id WHERE r.state = 'running' GROUP BY j.name
""")
BREAK = Statement("UPDATE job_versions SET spec = '{}' WHERE job_id IN (SELECT id FROM jobs WHERE name = 'broken')")


@virtual
async def test_a_definition_that_cannot_be_read_here_keeps_nobody_else_waiting() -> None:
    async with Horae() as horae:
        for name in ("broken", "whole"):
            await horae.create({"name": name, "type": "noop"})
        soon_us = await horae.store.now() + 10_000_000
        for name in ("broken", "whole"):
            await horae.commands.runs.trigger(horae.caller, name, [RunRequest(run_at_us=soon_us)], None)
        await horae.store.database.run(single(BREAK))
        await horae.advance(11)

        assert [run["status"] for run in await rows_of(horae, "whole")] == ["succeeded"]
        (broken,) = await rows_of(horae, "broken")
        assert (broken["status"], broken["attempt"]) == ("queued", 0)


@virtual
async def test_a_run_whose_claim_was_lost_is_found_by_a_worker_that_claims_all_the_time() -> None:
    async with Horae(worker_slots=2) as horae:
        await horae.advance(1)
        real, calls = horae.store.claim, 0

        async def claim(worker: str, shares: list[Share], *, with_specs: bool = False) -> list[Claimed]:
            nonlocal calls
            calls += 1
            claimed = await real(worker, shares, with_specs=with_specs)
            if calls == 1:
                raise Unavailable("the answer was lost")
            await asyncio.sleep(1.0037)  # there is always one under way
            return claimed

        horae.store.claim = claim  # type: ignore[method-assign]
        await horae.create({"name": "lost", "type": "noop"})
        await horae.create({"name": "busy", "type": "noop", "priority": "LOW"})
        await horae.run("lost")
        await horae.advance(0.1)
        await horae.commands.runs.trigger(horae.caller, "busy", [RunRequest()] * 100, None)
        await horae.advance(30)

        assert [run["status"] for run in await horae.runs("lost")] == ["SUCCEEDED"]

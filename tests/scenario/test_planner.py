"""The planner beside edits and jobs that it cannot read, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Any

import pytest

from horae.bench import fill
from horae.core.errors import Unavailable
from horae.ports import Decision, Planned, Scan
from horae.scheduler import planner
from horae.store.database import Statement
from horae.store.trials import single
from horae.testing import START_US, Horae, virtual
from tests.scenario.rows import states_of

BREAK = Statement("UPDATE timers SET timing = '{' WHERE substr(job_id, 7) < :until")
DONE = Statement("SELECT job_id, count(*) AS n FROM history GROUP BY job_id")
LATENESS = Statement("""
SELECT h.started_us - h.due_us AS late_us
FROM history h
JOIN jobs j ON j.id = h.job_id
WHERE j.name = :name
""")
EVERY_SECOND = [{"schedule": "* * * * * *"}]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "AT_ONCE", 10)


def slow_plans(horae: Horae, of: Container[int] = range(planner.LANES), seconds: float = 0.2) -> None:
    """Those of these lanes, and of all of them together."""
    plan = horae.store.plan

    async def slow(owner: str, decisions: list[Decision]) -> Planned:
        if any(decision.timer.shard % planner.LANES in of for decision in decisions):
            await asyncio.sleep(seconds)
        return await plan(owner, decisions)

    horae.store.plan = slow  # type: ignore[method-assign]


async def lateness_of(horae: Horae, job: str) -> list[int]:
    return [row["late_us"] for row in await horae.store.database.run(single(LATENESS, name=job))]


@virtual
async def test_more_broken_jobs_than_a_batch_holds_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def tell(*_: object, job: str, **__: object) -> None:
        told.append(job)
        assert len(told) % 1000, "it goes round and round"

    monkeypatch.setattr(planner, "oops", tell)
    async with Horae() as horae:
        await fill.add_jobs(horae.store, 40, EVERY_SECOND)
        await horae.store.database.run(single(BREAK, until="10000025"))
        await horae.advance(30)

        done = {row["job_id"]: row["n"] for row in await horae.store.database.run(single(DONE))}
        assert done.keys() == {f"bench-{10_000_000 + number}" for number in range(25, 40)}
        assert min(done.values()) >= 25
        assert len(told) == len(set(told)) == 25  # once each, not with every scan


@virtual
async def test_a_lane_that_an_edit_came_between_does_not_wait_for_the_end_of_the_other() -> None:
    async with Horae() as horae:
        plan, lanes = horae.store.plan, list[int]()

        async def slow(owner: str, decisions: list[Decision]) -> Planned:
            of = {decision.timer.shard % planner.LANES for decision in decisions}
            if len(of) > 1:
                return await plan(owner, decisions)
            lanes.extend(of)
            await asyncio.sleep(0.2)
            if lanes.count(0) == 1 and of == {0}:
                return Planned(len(decisions) - 1, 0, {})  # an edit
            return await plan(owner, decisions)

        horae.store.plan = slow  # type: ignore[method-assign]
        await fill.add_jobs(horae.store, 400, [{"schedule": "@hourly"}])
        await horae.advance(3650)

        after = lanes[lanes.index(0) + 1 :]
        assert 0 in after[:3], after
        assert sum(row["n"] for row in await horae.store.database.run(single(DONE))) == 400


@virtual
async def test_a_backlog_is_not_looked_for_before_its_head_each_time_and_yet_what_comes_in_there_starts_soon() -> None:
    async with Horae() as horae:
        look, looks = horae.store.due_timers, list[int]()

        async def watched(shards: list[int], ahead_us: int, most: int, from_us: int = 0) -> Scan:
            looks.append(from_us)
            return await look(shards, ahead_us, most, from_us)

        slow_plans(horae)
        horae.store.due_timers = watched  # type: ignore[method-assign]
        await fill.add_jobs(horae.store, 400, [{"schedule": "@hourly"}])
        await horae.advance(3586)  # the hour is in sight
        looks.clear()
        await horae.create({"name": "soon", "type": "noop", "schedule": "* * * * * *"})
        await horae.advance(2)

        assert max(await lateness_of(horae, "soon")) <= 1_000_000
        assert 4 <= looks.count(0) <= 6, looks  # each lane once a second
        assert len(looks) - looks.count(0) >= 10
        hour_us = START_US + 3_600_000_000
        assert all(each == 0 or hour_us - 15_000_000 < each <= hour_us for each in looks), looks
        assert hour_us in looks


@virtual
async def test_a_lane_that_is_done_does_not_wait_for_the_end_of_the_other() -> None:
    async with Horae() as horae:
        slow_plans(horae, of={0})
        await fill.add_jobs(horae.store, 400, [{"schedule": "@hourly"}])
        await horae.advance(3586)
        for number in range(10):
            await horae.create({"name": f"soon-{number}", "type": "noop", "schedule": "* * * * * *"})
        await horae.advance(4)  # lane 0 takes as long at least

        late = [await lateness_of(horae, f"soon-{number}") for number in range(10)]
        assert max(map(max, late)) <= 1_500_000


@virtual
async def test_a_lane_that_failed_does_not_wait_for_the_end_of_the_other() -> None:
    async with Horae() as horae:
        slow_plans(horae, of={0})
        plan, of_one = horae.store.plan, 0

        async def fails_once(owner: str, decisions: list[Decision]) -> Planned:
            nonlocal of_one
            of_one += all(decision.timer.shard % planner.LANES == 1 for decision in decisions)
            if of_one == 5:
                of_one += 1
                raise Unavailable("a connection was lost")
            return await plan(owner, decisions)

        horae.store.plan = fails_once  # type: ignore[method-assign]
        await fill.add_jobs(horae.store, 800, [{"schedule": "@hourly"}])
        await horae.advance(3586)
        for number in range(10):
            await horae.create({"name": f"soon-{number}", "type": "noop", "schedule": "* * * * * *"})
        await horae.advance(8)  # lane 0 takes as long at least

        assert of_one > 5
        late = [await lateness_of(horae, f"soon-{number}") for number in range(10)]
        assert all(None not in each for each in late), late
        assert max(map(max, late)) <= 2_500_000


@virtual
async def test_with_little_or_no_look_ahead_a_second_is_not_slept_through() -> None:
    for seconds in (0.0, 0.5):
        async with Horae(lookahead_seconds=seconds) as horae:
            slow_plans(horae, seconds=0.02)
            await horae.create({"name": "soon", "type": "noop", "schedule": "* * * * * *"})
            await horae.advance(10)

            late = await lateness_of(horae, "soon")
            assert len(late) >= 9
            assert max(late) <= 100_000


@virtual
async def test_a_backlog_that_is_planned_wakes_the_claims_and_no_repair() -> None:
    async with Horae() as horae:
        repairs, looks, chores, lines = 0, 0, horae.store.chores, horae.store.waiting_lines

        async def counted_chores() -> Any:
            nonlocal repairs
            repairs += 1
            return await chores()

        async def counted_lines(*args: Any) -> Any:
            nonlocal looks
            looks += 1
            return await lines(*args)

        await fill.add_jobs(horae.store, 400, [{"schedule": "@hourly"}])
        await horae.advance(3580)
        horae.store.chores, horae.store.waiting_lines = counted_chores, counted_lines  # type: ignore[method-assign]
        await horae.advance(10)

        assert await states_of(horae) == {"queued": 400}
        assert (repairs, looks > 20) == (10, True)

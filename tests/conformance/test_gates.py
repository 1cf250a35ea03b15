"""Runs that are checked before they start: overlap, and how many of a job may run at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from horae.core.job import Definition, make_bucket
from horae.core.timeguard import TimeGuard
from horae.ports import Again, Claimed, Ending, Share
from horae.store import results
from horae.store.database import Rows, Statement, Steps, Transaction
from horae.store.gates import CANDIDATES, LINES_AT_ONCE, PUT_ASIDE
from horae.store.store import Store
from horae.worker.lines import SHUT_SECONDS, Lines
from tests.conformance.conftest import StoreClock
from tests.conformance.world import TENANT, World, count_queries, execute


async def in_order(world: World, clock: StoreClock, job: str, count: int) -> None:
    for n in range(count):
        await world.run_now(job, str(n))
        await clock.advance(0.001)


async def test_overlap_skip_skips_while_an_earlier_run_is_unfinished(world: World, clock: StoreClock) -> None:
    job = await world.job(schedule="*/10 * * * * *", overlap="skip")
    await world.plan()
    await clock.advance(10)
    (first,) = await world.claim()
    await world.plan()
    await clock.advance(10)

    assert await world.claim() == []

    await world.settle([first])
    await world.plan()
    await clock.advance(10)
    assert len(await world.claim()) == 1
    assert (await world.statuses(job))[:3] == ["succeeded", "skipped", "running"]


async def test_overlap_queue_runs_one_after_another_in_order(world: World, clock: StoreClock) -> None:
    await world.job(schedule="*/5 * * * * *", overlap="queue")
    await world.plan()
    await clock.advance(15)

    order = []
    for _ in range(3):
        (run,) = await world.claim()
        order.append(run.due_us)
        assert await world.claim() == []
        await world.settle([run])

    assert order == sorted(order)
    assert len(order) == 3


async def test_overlap_replace_stops_the_earlier_run_first(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(schedule="*/10 * * * * *", overlap="replace")
    await world.plan()
    await clock.advance(10)
    (first,) = await world.claim()
    await world.plan()
    await clock.advance(10)

    assert await world.claim() == []
    assert await store.cancelled("w1") == {first.run_id: "superseded"}

    await world.settle([first], "cancelled", "superseded")
    (second,) = await world.claim()
    assert second.due_us == first.due_us + 10_000_000
    assert (await world.statuses(job))[:2] == ["cancelled", "running"]


async def test_max_concurrency_holds_and_the_next_one_starts_when_one_ends(world: World) -> None:
    job = await world.job(max_concurrency=2)
    for n in range(5):
        await world.run_now(job, str(n))

    first = await world.claim()
    assert len(first) == 2
    assert await world.claim() == []

    await world.settle(first[:1])
    assert len(await world.claim()) == 1


async def test_a_settle_says_whether_others_may_have_waited_for_it(world: World, store: Store) -> None:
    plain, gated, first = await world.job(), await world.job(overlap="queue"), await world.job(name="first")
    await world.job(after="first")
    told = {}
    for job in (plain, gated, first):
        await world.run_now(job)
        (run,) = await world.claim()
        told[job] = (await store.settle("w1", [Ending(run.run_id, run.token, "succeeded", None, None, None)])).has_more

    assert told == {plain: False, gated: True, first: True}


async def test_a_run_that_waits_for_its_next_attempt_lets_its_siblings_go_on(world: World, store: Store) -> None:
    job = await world.job(max_concurrency=2)
    for n in range(4):
        await world.run_now(job, str(n))
    running = await world.claim()
    assert len(running) == 2
    assert await world.claim() == []

    await store.requeue("w1", [Again(run.run_id, run.token, 3_600_000_000, "exception", "no") for run in running])

    assert len(await world.claim()) == 2


async def test_those_far_behind_in_a_group_are_looked_at_again_late(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(max_concurrency=1)
    for n in range(30):
        await world.run_now(job, str(n))
        await clock.advance(0.001)  # so that they have an order
    await world.claim()
    await world.claim()
    await clock.advance(3)

    with count_queries(store) as seen:
        assert await world.claim() == []  # the one that is next was put aside again
        await world.claim()

    aside = [query for query in seen if query.statement is PUT_ASIDE]
    assert [len(query.params["waits"]) for query in aside] == [1]


async def test_as_many_of_each_group_go_on_as_have_ended(world: World, store: Store) -> None:
    jobs = [await world.job(max_concurrency=most) for most in (1, 3)]
    for job in jobs:
        for n in range(6):
            await world.run_now(job, str(n))
    running = await world.claim()
    assert sorted(Counter(run.job_id for run in running).items()) == [(jobs[0], 1), (jobs[1], 3)]
    assert await world.claim() == []

    last = [run for run in running if run.job_id == jobs[1]][-1]
    await world.settle([run for run in running if run is not last])

    assert sorted(Counter(run.job_id for run in await world.claim()).items()) == [(jobs[0], 1), (jobs[1], 2)]


async def test_gated_runs_are_claimed_and_settled_in_as_many_statements_however_many_they_are(
    world: World, store: Store
) -> None:
    counts = []
    for number in (5, 50):
        jobs = [await world.job(max_concurrency=1, queue=f"q{n % 5}") for n in range(number)]
        for job in jobs:
            await world.run_now(job)
        with count_queries(store) as seen:
            claimed = await world.claim()
            await world.settle(claimed)
        assert len(claimed) == number
        counts.append(len(seen))

    assert counts[0] == counts[1] < 20


async def test_overlap_is_judged_in_every_line_however_many_there_are(world: World, store: Store):
    jobs = [await world.job(queue=f"q{number:02d}", overlap="skip", schedule="@manual") for number in range(70)]
    for job in jobs:
        await world.run_now(job, "1")
        await world.run_now(job, "2")

    assert await store.gate() == 70
    assert [await world.statuses(job) for job in jobs] == [["queued", "skipped"]] * 70


async def test_two_ends_before_a_claim_bring_two_runs(world: World, clock: StoreClock) -> None:
    job = await world.job(max_concurrency=5)
    await in_order(world, clock, job, 20)
    running = await world.claim()
    assert await world.claim() == []

    for run in running:
        await world.settle([run])

    assert len(await world.claim()) == 5


async def test_a_run_that_nobody_serves_does_not_keep_the_place_of_others_that_share_its_key(
    world: World, store: Store, clock: StoreClock
) -> None:
    unserved = await world.job(max_concurrency=1, concurrency_key="db", queue="of-nobody")
    served = await world.job(max_concurrency=1, concurrency_key="db")
    await in_order(world, clock, unserved, 1)
    await in_order(world, clock, served, 4)
    line = make_bucket(is_gated=True, queue="default", need="", priority=2, tenant=TENANT)

    for _ in range(4):
        (run,) = (await store.claim_gated("w1", [Share(line, 10)], 10)).claimed
        await store.gate()
        assert run.job_id == served
        await world.settle([run])


async def test_a_run_that_may_not_overlap_does_not_keep_the_place_of_others_that_share_its_key(
    world: World, clock: StoreClock
) -> None:
    single = await world.job(max_concurrency=2, concurrency_key="db", overlap="queue")
    other = await world.job(max_concurrency=2, concurrency_key="db")
    await in_order(world, clock, single, 2)
    await in_order(world, clock, other, 4)
    running = {run.job_id: run for run in await world.claim()}
    assert set(running) == {single, other}
    assert await world.claim() == []

    for _ in range(3):
        await world.settle([running[other]])
        (running[other],) = await world.claim()
        assert running[other].job_id == other


async def test_those_whom_no_end_brings_back_are_looked_at_again_in_turn(
    world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "nudge", lambda _: iter(()))
    job = await world.job(max_concurrency=2)
    await in_order(world, clock, job, 12)
    await world.settle(await world.claim())
    running = await world.claim()
    assert await world.claim() == []
    await world.settle(running)

    started = []
    for _ in range(4):
        await clock.advance(2)
        started.append(len(running := await world.claim()))
        await world.settle(running)

    assert started == [2, 2, 2, 2]


@pytest.mark.parametrize("dialect", ["postgres"])
async def test_a_run_that_ends_while_the_gate_looks_at_it_is_not_missed(
    world: World, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.job(max_concurrency=3)
    await in_order(world, clock, job, 3)
    running = await world.claim()
    for n in range(3, 9):
        await world.run_now(job, str(n))
    begun = asyncio.Event()
    whole = store.database.run

    async def slowly(transaction: Transaction[Any]) -> Any:
        return await whole(replace(transaction, steps=lambda: pausing(transaction.steps())))

    def pausing(steps: Steps[Any]) -> Steps[Any]:
        rows: Rows = None  # type: ignore[assignment] nothing yet
        try:
            while True:
                query = steps.send(rows)
                if query.statement is PUT_ASIDE and not begun.is_set():
                    begun.set()
                    yield Statement("SELECT pg_sleep(0.5)")()
                rows = yield query
        except StopIteration as end:
            return end.value

    monkeypatch.setattr(store.database, "run", slowly)
    gate = asyncio.create_task(world.claim())
    await begun.wait()
    monkeypatch.undo()
    await world.settle(running)
    assert await gate == []

    assert len(await world.claim()) == 3


async def test_the_end_of_a_run_brings_the_most_urgent_of_its_siblings(world: World, clock: StoreClock) -> None:
    job = await world.job(max_concurrency=2)
    await in_order(world, clock, job, 20)
    running = await world.claim()
    urgent = await world.run_now(job, "urgent", priority="HIGH")
    assert await world.claim() == []

    await world.settle(running[:1])

    assert [run.run_id for run in await world.claim()] == [urgent]


async def test_where_one_runs_at_a_time_an_urgent_one_does_not_keep_the_place_empty(
    world: World, clock: StoreClock
) -> None:
    job = await world.job(max_concurrency=1)
    await in_order(world, clock, job, 5)
    (running,) = await world.claim()
    await world.run_now(job, "urgent", priority="HIGH")
    assert await world.claim() == []

    for _ in range(4):
        await world.settle([running])
        due_us = running.due_us
        (running,) = await world.claim()
        assert running.due_us > due_us


async def cap(store: Store, tenant: str, most: int) -> None:
    await execute(
        store,
        "INSERT INTO limits (tenant, queue, max_running, is_paused) VALUES (:tenant, '', :most, false)",
        tenant=tenant,
        most=most,
    )


async def taken(lines: Lines, room: int) -> list[Claimed]:
    seen = await lines.look(["-", "+"], ())
    assert seen is not None
    plain, gated = lines.share_out(seen.due, room)
    assert plain == []
    return await lines.take_gated("w1", gated) if gated else []


async def test_a_backlog_behind_a_cap_is_left_as_it_is(world: World, store: Store, clock: StoreClock) -> None:
    await world.worker()
    job = await world.job()
    await in_order(world, clock, job, 50)
    await cap(store, TENANT, 2)
    lines = Lines(store, TimeGuard())

    running = await taken(lines, 10)
    with count_queries(store) as seen:
        assert await taken(lines, 10) == []  # shut
        assert await taken(Lines(store, TimeGuard()), 10) == []  # another process, which does not know
    await world.settle(running)
    again = await taken(Lines(store, TimeGuard()), 10)

    assert not {PUT_ASIDE, CANDIDATES} & {query.statement for query in seen}
    assert [len(running), len(again)] == [2, 2]
    assert [run.due_us for run in running + again] == sorted(run.due_us for run in running + again)


async def test_a_line_that_is_shut_is_looked_at_again_soon(world: World, store: Store) -> None:
    await world.worker()
    job = await world.job()
    for n in range(2):
        await world.run_now(job, str(n))
    await cap(store, TENANT, 1)
    lines = Lines(store, TimeGuard())
    await taken(lines, 10)

    await taken(lines, 10)
    seen = await lines.look(["-"], ())

    assert seen is not None
    assert seen.due == []
    assert 0 < seen.seconds_to_next <= SHUT_SECONDS


async def test_a_retry_of_a_version_that_had_a_rule_waits_for_nobody_when_its_job_has_none_any_more(
    world: World, store: Store
) -> None:
    job = await world.job(name="ruled", max_concurrency=1, retry={"max_retries": 0})
    await world.run_now(job)
    await world.settle(failed := await world.claim(), "failed", "exception")
    await store.change_job(None, TENANT, job, "test", _without_rule, None)
    await world.run_now(await world.job())
    (other,) = await world.claim()
    await store.retry_run(None, TENANT, failed[0].run_id)
    await cap(store, TENANT, 5)

    (run,) = await taken(Lines(store, TimeGuard()), 10)

    assert (run.run_id, other.run_id != run.run_id) == (failed[0].run_id, True)


def _without_rule(current: Definition, *_: object, **__: object) -> Definition:
    return msgspec.structs.replace(current, max_concurrency=None)


async def test_gated_lines_of_lower_priority_get_their_part(world: World, store: Store) -> None:
    await world.worker()
    high = await world.job(max_concurrency=1000, priority="HIGH")
    low = await world.job(max_concurrency=1000, priority="LOW")
    await world.run_now(low)
    lines = Lines(store, TimeGuard())

    for n in range(10):
        for number in range(10):
            await world.run_now(high, f"{n}-{number}")
        if low in {run.job_id for run in await taken(lines, 9)}:
            return

    raise AssertionError("it never came")


async def test_every_gated_line_gets_its_turn_however_many_there_are(world: World, store: Store) -> None:
    await world.worker()
    urgent = [
        await world.job(max_concurrency=1000, queue=f"q{n:02d}", priority="HIGH") for n in range(LINES_AT_ONCE + 5)
    ]
    last = await world.job(max_concurrency=1000, queue="z", priority="LOW")
    await world.run_now(last)
    lines = Lines(store, TimeGuard())
    served = set()

    for n in range(10):
        for job in urgent:
            for number in range(2):
                await world.run_now(job, f"{n}-{number}")
        served |= {run.job_id for run in await taken(lines, len(urgent) + 10)}

    assert served == {*urgent, last}

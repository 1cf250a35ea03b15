"""Answers that are lost or late, processes that die or drain, clocks that jump: the walk goes on."""

from __future__ import annotations

import asyncio
from typing import Any

from horae.core.errors import Unavailable
from horae.store.database import Statement, Transaction
from horae.testing import START_US, Horae, virtual
from tests.scenario.rows import rows_of
from tests.scenario.scripted import Scripted, failing, sleeping


class Away:
    """A database that can be out of reach."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.dialect = inner.dialect
        self.is_away = False

    async def run(self, transaction: Transaction[Any]) -> Any:
        if self.is_away:
            await asyncio.sleep(0.1)
            raise Unavailable("out of reach")
        return await self.inner.run(transaction)

    async def close(self) -> None:
        await self.inner.close()


def lose(horae: Horae, verb: str, times: int, *, is_done: bool) -> None:
    """The next calls of a verb fail for the caller, after or before the store did as told."""
    real = getattr(horae.store, verb)
    left = times

    async def faulty(*args: Any, **words: Any) -> Any:
        nonlocal left
        if left <= 0:
            return await real(*args, **words)
        left -= 1
        if is_done:
            await real(*args, **words)
        raise Unavailable("the answer was lost")

    setattr(horae.store, verb, faulty)


def delay(horae: Horae, verb: str, seconds: float) -> None:
    """The next answer of a verb takes its time; the store did as told at once."""
    real = getattr(horae.store, verb)

    async def slow(*args: Any, **words: Any) -> Any:
        setattr(horae.store, verb, real)
        answer = await real(*args, **words)
        await asyncio.sleep(seconds)
        return answer

    setattr(horae.store, verb, slow)


@virtual
async def test_a_drained_node_hands_its_runs_back_and_they_do_not_lose_an_attempt() -> None:
    work = Scripted(sleeping(3600))
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "2h", "retries": 0})
        await horae.advance(1)
        holder = next(node for node in horae.nodes if node.worker and node.worker.running)
        await holder.stop()
        await horae.advance(2)
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"], run["max_attempts"]) == ("running", 2, 2)


@virtual
async def test_work_that_ends_within_the_grace_is_not_handed_back() -> None:
    work = Scripted(sleeping(10))
    async with Horae(nodes=1, executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(1)
        await horae.nodes[0].stop()
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


async def drain_during(horae: Horae, verb: str, *, before: float = 0, after: float = 0) -> Any:
    """The run of a node that drains while a verb is on its way to the store, or its answer on the way back."""
    real = getattr(horae.store, verb)

    async def slow(*args: Any, **words: Any) -> Any:
        await asyncio.sleep(before)
        answer = await real(*args, **words)
        await asyncio.sleep(after)
        return answer

    await horae.advance(5)
    setattr(horae.store, verb, slow)
    job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
    await horae.advance(1)
    await horae.nodes[0].stop()
    (run,) = await rows_of(horae, job)
    return run


@virtual
async def test_a_claim_under_way_when_a_drain_begins_is_waited_for() -> None:
    work = Scripted(sleeping(1))
    async with Horae(executors={"noop": work}) as horae:
        run = await drain_during(horae, "claim", after=2)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_an_outcome_on_its_way_when_a_drain_ends_is_waited_for() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        run = await drain_during(horae, "settle", before=2)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_an_outcome_that_the_store_does_not_take_when_a_drain_ends_is_sent_again() -> None:
    work = Scripted(sleeping(2))
    async with Horae(executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(1)
        lose(horae, "settle", times=3, is_done=False)
        await horae.nodes[0].stop()
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_a_drain_ends_with_its_grace_though_the_store_stays_away() -> None:
    async with Horae(executors={"noop": Scripted(sleeping(2))}) as horae:
        await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(1)
        lose(horae, "settle", times=10_000, is_done=False)
        began = asyncio.get_running_loop().time()
        await horae.nodes[0].stop()

        assert 29 <= asyncio.get_running_loop().time() - began <= 32


@virtual
async def test_a_killed_worker_costs_its_visibility_and_the_run_comes_back() -> None:
    work = Scripted(sleeping(3600))
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "2h"})
        await horae.advance(1)
        next(node for node in horae.nodes if node.worker and node.worker.running).kill()
        await horae.advance(15 + 15 + 3)  # visibility, and the dead node's leases
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"]) == ("running", 2)


@virtual
async def test_a_killed_scheduler_costs_nothing_that_was_staged() -> None:
    work = Scripted()
    async with Horae(nodes=1, executors={"noop": work}, lookahead_seconds=20, roles="worker") as horae:
        planner = horae.add_node(roles="scheduler")
        horae.add_node(roles="scheduler")
        for n in range(40):
            await horae.create({"name": f"j{n}", "type": "noop", "schedule": "*/2 * * * * *"})
        await horae.advance(10)
        planner.kill()
        await horae.advance(60)

    late = [start * 1e6 + START_US - r.scheduled_for_us for start, r in zip(work.starts, work.requests, strict=True)]
    keys = {(r.job_id, r.scheduled_for_us) for r in work.requests}
    assert len(keys) == len(work.requests) >= 40 * 34
    assert max(late) < 1_000_000


@virtual
async def test_without_the_store_work_is_stopped_before_its_lease_ends_and_goes_on_afterwards() -> None:
    work = Scripted(sleeping(3600))
    async with Horae(executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "2h"})
        await horae.advance(6)
        horae.store.database = horae.store.control = away = Away(horae.store.database)
        away.is_away = True
        lost = asyncio.get_running_loop().time()
        while not work.stopped:
            await horae.advance(0.1)
        stopped_after = asyncio.get_running_loop().time() - lost
        await horae.advance(60)
        away.is_away = False
        await horae.advance(5)
        (run,) = await rows_of(horae, job)

    assert stopped_after < 15
    assert (run["status"], run["attempt"]) == ("running", 2)


@virtual
async def test_an_outage_is_caught_up_by_the_misfire_policy_without_a_restart() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        job = await horae.create(
            {"name": "j", "type": "noop", "schedule": "*/10 * * * * *", "misfire": {"policy": "catch_up", "max": 100}}
        )
        await horae.advance(60)
        horae.store.database = horae.store.control = away = Away(horae.store.database)
        away.is_away = True
        await horae.advance(300)
        away.is_away = False
        await horae.advance(60)
        runs = [run for run in await rows_of(horae, job) if run["due_us"] <= START_US + 400_000_000]

    assert [run["due_us"] - START_US for run in runs] == [n * 10_000_000 for n in range(1, 41)]
    assert {run["status"] for run in runs} == {"succeeded"}


@virtual
async def test_a_claim_whose_answer_was_lost_comes_back_without_losing_an_attempt() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "claim", 1, is_done=True)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(15)
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)
    assert len(work.requests) == 1


@virtual
async def test_definitions_that_cannot_be_read_send_the_runs_back() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "specs", 2, is_done=False)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(5)
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_a_result_whose_answer_was_lost_is_sent_again_and_is_not_called_late() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "settle", 3, is_done=True)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "*/10 * * * * *"})
        await horae.advance(61)
        runs = [run for run in await rows_of(horae, job) if run["status"] != "queued"]
        count = Statement("SELECT count(*) AS n FROM events WHERE kind = 'late_result'")

        def steps() -> Any:
            return (yield count())[0]["n"]

        late = await horae.store.database.run(Transaction(steps))

    assert [run["status"] for run in runs] == ["succeeded"] * 6
    assert len(work.requests) == 6
    assert late == 0


@virtual
async def test_a_retry_whose_answer_was_lost_is_made_once() -> None:
    work = Scripted(failing(1))
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "requeue", 1, is_done=True)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(20)
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"]) == ("succeeded", 2)
    assert len(work.requests) == 2


@virtual
async def test_a_slow_answer_to_a_claim_starts_the_run_once() -> None:
    work = Scripted()
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        await horae.advance(1)
        delay(horae, "claim", 8)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(30)
        (run,) = await rows_of(horae, job)

    assert len(work.requests) == 1
    assert run["status"] == "succeeded"


@virtual
async def test_a_heartbeat_answered_after_the_worker_gave_up_does_not_count_for_its_successor() -> None:
    work = Scripted(sleeping(3))
    async with Horae(executors={"noop": work}) as horae:
        # Due right after the late answer, before the successor says by itself that it is there.
        await horae.create({"name": "j", "type": "noop", "schedule": "2027-01-15T08:00:17.4Z"})
        await horae.advance(6)
        worker = horae.nodes[0].worker
        assert worker is not None
        old = worker.id
        delay(horae, "beat", 7.3)  # sent at 10 s; the last good one was sent at 5 s and is good for 12 s
        await horae.advance(11.2)
        assert worker.id != old
        await horae.advance(10)
        (run,) = await rows_of(horae, "j")

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_a_worker_alone_goes_on_after_the_clock_jumped() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}, roles="worker") as horae:
        horae.add_node(roles="scheduler")
        await horae.create({"name": "j", "type": "noop", "schedule": "*/10 * * * * *"})
        await horae.advance(25)
        horae.jump(3600)
        await horae.advance(60)
        before = len(work.requests)
        await horae.advance(60)

    assert len(work.requests) >= before + 5


@virtual
async def test_a_short_jump_of_the_clock_does_not_stop_triggering_for_as_long() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        await horae.create({"name": "j", "type": "noop", "schedule": "*/10 * * * * *"})
        await horae.advance(25)
        horae.jump(3600)
        await horae.advance(2)
        horae.jump(-3600)
        await horae.advance(60)

    assert len(work.requests) >= 5


@virtual
async def test_a_node_that_drains_does_not_take_its_shards_back() -> None:
    work = Scripted(sleeping(25))
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        await horae.advance(20)
        await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "60s"})
        await horae.advance(1)
        leaving = next(node for node in horae.nodes if node.worker and node.worker.running)
        other = next(node for node in horae.nodes if node is not leaving)
        stopping = asyncio.create_task(leaving.stop())
        await horae.advance(15)
        assert leaving.shards is not None
        assert other.shards is not None
        held = len(leaving.shards.held), len(other.shards.held)
        await stopping

    assert held == (0, 64)


@virtual
async def test_what_a_node_leaves_is_taken_over_well_within_a_second() -> None:
    for tenths in range(10):  # whenever the other looked last
        async with Horae(nodes=2) as horae:
            await horae.advance(20 + tenths / 10)
            leaving, other = horae.nodes
            assert other.shards is not None
            assert len(other.shards.held) == 32
            await leaving.stop()
            await horae.advance(0.6)

            assert len(other.shards.held) == 64


@virtual
async def test_a_jump_of_the_clock_that_is_not_believed_skips_nothing() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "*/3 * * * * *", "misfire": "skip"})
        await horae.advance(25)
        horae.jump(3600)
        await horae.advance(8)
        horae.jump(-3600)
        await horae.advance(60)
        skipped = [
            run for run in await rows_of(horae, job) if run["status"] == "skipped" and run["skip_until_us"] is None
        ]

    assert skipped == []


@virtual
async def test_a_run_that_is_about_to_start_is_no_stray() -> None:
    """The question for strays was asked before the claim and answered while its definitions were still on their way."""
    work = Scripted()
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        await horae.advance(4.9)
        real = horae.store.running_of

        async def asked_early(worker: str, older_than_us: int) -> dict[str, int]:
            await asyncio.sleep(6)
            return await real(worker, older_than_us)

        horae.store.running_of = asked_early  # type: ignore[method-assign]
        await horae.advance(0.5)
        delay(horae, "specs", 8)
        await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(30)

    assert len(work.requests) == 1

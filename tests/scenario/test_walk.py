"""The walk of a due time with real movers on a virtual clock: hours of scheduling in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from horae.commands import Caller, RunRequest
from horae.core.errors import Unavailable
from horae.ports import Log, Outcome, Request
from horae.store.database import Statement, Transaction
from horae.testing import START_US, Horae, virtual
from horae.worker import loop


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


@virtual
async def test_hours_of_a_minutely_job_runs_every_minute_once_and_on_time() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        await horae.create({"name": "j", "type": "noop", "schedule": "* * * * *"})
        await horae.advance(hours=3, seconds=1)

    assert len(work.requests) == 180
    dues = [request.scheduled_for_us for request in work.requests]
    assert dues == [START_US + 60_000_000 * n for n in range(1, 181)]
    assert max(start * 1e6 + START_US - due for start, due in zip(work.starts, dues, strict=True)) < 50_000


@virtual
async def test_two_nodes_share_the_work_and_nothing_runs_twice() -> None:
    work = Scripted()
    async with Horae(nodes=3, executors={"noop": work}) as horae:
        for n in range(20):
            await horae.create({"name": f"j{n}", "type": "noop", "schedule": "*/5 * * * * *"})
        await horae.advance(120)

    keys = [(request.job_id, request.scheduled_for_us) for request in work.requests]
    assert len(keys) == len(set(keys))
    assert len(keys) >= 20 * 23


@virtual
async def test_failures_are_tried_again_with_backoff_and_the_key_stays_the_same() -> None:
    work = Scripted(failing(2))
    async with Horae(executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(30)
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"], run["result"]) == ("succeeded", 3, '{"attempt": 3}')
    gaps = [two - one for one, two in zip(work.starts, work.starts[1:], strict=False)]
    assert [round(gap) for gap in gaps] == [2, 4]
    assert len({request.run_id for request in work.requests}) == 1
    fences = [request.fence for request in work.requests]
    assert fences == sorted(set(fences))


@virtual
async def test_exhausted_attempts_end_in_the_dead_letters() -> None:
    async with Horae(executors={"noop": Scripted(failing(99))}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "retries": 1})
        await horae.advance(30)
        (run,) = await horae.runs(job)
        letters = (await horae.store.dead_letters("default", None, {}, None, 10)).rows

    assert (run["status"], run["attempt"], run["error"]) == ("failed", 2, "boom")
    assert [letter["id"] for letter in letters] == [run["id"]]


@virtual
async def test_retry_after_is_honoured() -> None:
    work = Scripted(failing(1, retry_after_seconds=60))
    async with Horae(executors={"noop": work}) as horae:
        await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(90)

    assert round(work.starts[1] - work.starts[0]) == 60


@virtual
async def test_a_running_run_is_cancelled_within_two_seconds() -> None:
    work = Scripted(sleeping(3600))
    async with Horae(executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "2h"})
        await horae.advance(5)
        (run,) = await horae.runs(job)
        await horae.commands.runs.cancel(horae.caller, run["id"], None)
        await horae.advance(2)
        (run,) = await horae.runs(job)

    assert (run["status"], run["reason"]) == ("cancelled", "cancelled_by_user")
    assert work.stopped == [run["id"]]


@virtual
async def test_a_drained_node_hands_its_runs_back_and_they_do_not_lose_an_attempt() -> None:
    work = Scripted(sleeping(3600))
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "2h", "retries": 0})
        await horae.advance(1)
        holder = next(node for node in horae.nodes if node.worker and node.worker.running)
        await holder.stop()
        await horae.advance(2)
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"], run["max_attempts"]) == ("running", 2, 2)


@virtual
async def test_work_that_ends_within_the_grace_is_not_handed_back() -> None:
    work = Scripted(sleeping(10))
    async with Horae(nodes=1, executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(1)
        await horae.nodes[0].stop()
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_a_claim_under_way_when_a_drain_begins_is_waited_for() -> None:
    work = Scripted(sleeping(1))
    async with Horae(executors={"noop": work}) as horae:
        await horae.advance(5)
        claim = horae.store.claim

        async def answered_late(*args: Any) -> Any:
            claimed = await claim(*args)
            await asyncio.sleep(2)
            return claimed

        horae.store.claim = answered_late  # type: ignore[method-assign]
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(1)
        await horae.nodes[0].stop()
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_an_outcome_on_its_way_when_a_drain_ends_is_waited_for() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        await horae.advance(5)
        settle = horae.store.settle

        async def arriving_late(*args: Any) -> Any:
            await asyncio.sleep(2)
            return await settle(*args)

        horae.store.settle = arriving_late  # type: ignore[method-assign]
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(1)
        await horae.nodes[0].stop()
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_a_killed_worker_costs_its_visibility_and_the_run_comes_back() -> None:
    work = Scripted(sleeping(3600))
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "timeout": "2h"})
        await horae.advance(1)
        next(node for node in horae.nodes if node.worker and node.worker.running).kill()
        await horae.advance(15 + 15 + 3)  # visibility, and the dead node's leases
        (run,) = await horae.runs(job)

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
        (run,) = await horae.runs(job)

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
        runs = [run for run in await horae.runs(job) if run["due_us"] <= START_US + 400_000_000]

    assert [run["due_us"] - START_US for run in runs] == [n * 10_000_000 for n in range(1, 41)]
    assert {run["status"] for run in runs} == {"succeeded"}


@virtual
async def test_high_goes_first_but_low_is_not_starved() -> None:
    work = Scripted(sleeping(1))
    async with Horae(executors={"noop": work}, worker_slots=10) as horae:
        await horae.advance(1)
        for name, priority in (("low", "LOW"), ("high", "HIGH")):
            await horae.create({"name": name, "type": "noop", "priority": priority})
        for name in ("low", "high"):
            await horae.commands.runs.trigger(horae.caller, name, [RunRequest()] * 100, None)
        await horae.advance(5)

    first = [request.job_name for request in work.requests[10:50]]
    assert first.count("high") > first.count("low") > 0


@virtual
async def test_a_flood_of_one_tenant_does_not_keep_another_waiting() -> None:
    work = Scripted(sleeping(1))
    async with Horae(executors={"noop": work}, worker_slots=10) as horae:
        for tenant, count in (("flood", 1000), ("calm", 5)):
            caller = Caller(tenant, "test")
            await horae.commands.jobs.create(caller, {"name": "j", "type": "noop"}, None)
            await horae.commands.runs.trigger(caller, "j", [RunRequest()] * count, None)
        await horae.advance(5)

    assert [request.tenant for request in work.requests[:30]].count("calm") == 5


@virtual
async def test_a_chain_hands_the_result_on() -> None:
    work = Scripted(lambda request: Outcome(succeeded=True, result={"from": request.job_name}))
    async with Horae(executors={"noop": work}) as horae:
        await horae.create({"name": "a", "type": "noop", "schedule": "@every 1h"})
        await horae.create({"name": "b", "type": "noop", "after": "a"})
        await horae.create({"name": "c", "type": "noop", "after": "b"})
        await horae.advance(hours=1, seconds=10)

    assert [request.job_name for request in work.requests] == ["a", "b", "c"]
    upstream = work.requests[2].upstream
    assert upstream is not None
    assert upstream["result"] == {"from": "b"}


@virtual
async def test_an_executor_with_a_bug_fails_the_attempt_and_nothing_else() -> None:
    def broken(request: Request) -> Outcome:
        raise RuntimeError("our bug")

    async with Horae(executors={"noop": Scripted(broken)}) as horae:
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "retries": 0})
        await horae.advance(5)
        (run,) = await horae.runs(job)

    assert (run["status"], run["reason"]) == ("failed", "exception")


@virtual
async def test_a_cap_on_a_queue_holds() -> None:
    most = 0
    running = 0

    async def act(request: Request) -> Outcome:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return Outcome(succeeded=True)

    async with Horae(nodes=2, executors={"noop": Scripted(act)}) as horae:
        insert = Statement(
            "INSERT INTO limits (tenant, queue, max_running, is_paused) VALUES ('default', 'default', 3, false)"
        )

        def steps() -> Any:
            yield insert()

        await horae.store.database.run(Transaction(steps))
        await horae.create({"name": "j", "type": "noop"})
        await horae.advance(2)
        await horae.commands.runs.trigger(horae.caller, "j", [RunRequest()] * 30, None)
        await horae.advance(30)
        runs = await horae.runs("j")

    assert most == 3
    assert {run["status"] for run in runs} == {"succeeded"}


def lose(horae: Horae, verb: str, times: int, *, is_done: bool) -> None:
    """The next calls of a verb fail for the caller, after or before the store did as told."""
    real = getattr(horae.store, verb)
    left = times

    async def faulty(*args: Any) -> Any:
        nonlocal left
        if left <= 0:
            return await real(*args)
        left -= 1
        if is_done:
            await real(*args)
        raise Unavailable("the answer was lost")

    setattr(horae.store, verb, faulty)


@virtual
async def test_a_claim_whose_answer_was_lost_comes_back_without_losing_an_attempt() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "claim", 1, is_done=True)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(15)
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)
    assert len(work.requests) == 1


@virtual
async def test_definitions_that_cannot_be_read_send_the_runs_back() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "specs", 2, is_done=False)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now"})
        await horae.advance(5)
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_a_result_whose_answer_was_lost_is_sent_again_and_is_not_called_late() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        lose(horae, "settle", 3, is_done=True)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "*/10 * * * * *"})
        await horae.advance(61)
        runs = [run for run in await horae.runs(job) if run["status"] != "queued"]
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
        (run,) = await horae.runs(job)

    assert (run["status"], run["attempt"]) == ("succeeded", 2)
    assert len(work.requests) == 2


@virtual
async def test_runs_with_a_rule_are_not_starved_by_those_without() -> None:
    work = Scripted(sleeping(1))
    async with Horae(executors={"noop": work}, worker_slots=5) as horae:
        await horae.create({"name": "free", "type": "noop"})
        await horae.create({"name": "ruled", "type": "noop", "overlap": "queue", "priority": "HIGH"})
        await horae.commands.runs.trigger(horae.caller, "free", [RunRequest()] * 100, None)
        await horae.commands.runs.trigger(horae.caller, "ruled", [RunRequest()] * 3, None)
        await horae.advance(10)

    assert [request.job_name for request in work.requests].count("ruled") == 3


@virtual
async def test_a_short_backoff_is_short() -> None:
    work = Scripted(failing(2))
    async with Horae(executors={"noop": work}) as horae:
        retry = {"delay": "100ms", "backoff": "fixed"}
        await horae.create({"name": "j", "type": "noop", "schedule": "@now", "retry": retry})
        await horae.advance(5)

    assert max(two - one for one, two in zip(work.starts, work.starts[1:], strict=False)) < 0.2


def delay(horae: Horae, verb: str, seconds: float) -> None:
    """The next answer of a verb takes its time; the store did as told at once."""
    real = getattr(horae.store, verb)

    async def slow(*args: Any) -> Any:
        setattr(horae.store, verb, real)
        answer = await real(*args)
        await asyncio.sleep(seconds)
        return answer

    setattr(horae.store, verb, slow)


@virtual
async def test_a_slow_answer_to_a_claim_starts_the_run_once() -> None:
    work = Scripted()
    async with Horae(nodes=2, executors={"noop": work}) as horae:
        await horae.advance(1)
        delay(horae, "claim", 8)
        job = await horae.create({"name": "j", "type": "noop", "schedule": "@now", "delivery": "at_most_once"})
        await horae.advance(30)
        (run,) = await horae.runs(job)

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
        (run,) = await horae.runs("j")

    assert (run["status"], run["attempt"]) == ("succeeded", 1)


@virtual
async def test_output_with_odd_escapes_is_kept_as_it_is_and_handed_on() -> None:
    odd = {"text": "a\\u0000b", "nul": "a\x00b"}
    work = Scripted(lambda _: Outcome(succeeded=True, result=odd))
    async with Horae(executors={"noop": work}) as horae:
        await horae.create({"name": "a", "type": "noop"})
        await horae.create({"name": "b", "type": "noop", "after": "a"})
        await horae.commands.runs.trigger(horae.caller, "a", [RunRequest()], None)
        await horae.advance(5)

    upstream = work.requests[1].upstream
    assert upstream is not None
    assert upstream["result"] == {"text": "a\\u0000b", "nul": "ab"}


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
async def test_a_small_cache_of_definitions_never_loses_what_is_about_to_run() -> None:
    work = Scripted()
    with patch.object(loop, "SPECS_KEPT", 5):
        async with Horae(executors={"noop": work}) as horae:
            for n in range(40):
                await horae.create({"name": f"j{n}", "type": "noop", "schedule": "*/5 * * * * *"})
            await horae.advance(31)

    assert len(work.requests) == 40 * 6


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
        skipped = [run for run in await horae.runs(job) if run["status"] == "skipped" and run["skip_until_us"] is None]

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

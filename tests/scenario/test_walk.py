"""The walk of a due time with real movers on a virtual clock: hours of scheduling in milliseconds."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from horae.commands import Caller, RunRequest
from horae.ports import Outcome, Request
from horae.store.claims import COMING, SPECS
from horae.store.database import Statement, Transaction
from horae.testing import START_US, VAULT, Horae, virtual
from horae.worker import opening
from horae.worker.secrets import Secrets
from tests.conformance.world import count_queries
from tests.scenario.rows import rows_of
from tests.scenario.scripted import Scripted, failing, sleeping


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
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["attempt"], run["result"]) == ("succeeded", 3, '{"attempt":3}')
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
        (run,) = await rows_of(horae, job)
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
        (run,) = await rows_of(horae, job)
        await horae.commands.runs.cancel(horae.caller, run["id"], None)
        await horae.advance(2)
        (run,) = await rows_of(horae, job)

    assert (run["status"], run["reason"]) == ("cancelled", "cancelled_by_user")
    assert work.stopped == [run["id"]]


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
        (run,) = await rows_of(horae, job)

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
        runs = await rows_of(horae, "j")

    assert most == 3
    assert {run["status"] for run in runs} == {"succeeded"}


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
async def test_a_small_cache_of_definitions_never_loses_what_is_about_to_run() -> None:
    work = Scripted()
    with patch.object(opening, "SPECS_KEPT", 5):
        async with Horae(executors={"noop": work}) as horae:
            for n in range(40):
                await horae.create({"name": f"j{n}", "type": "noop", "schedule": "*/5 * * * * *"})
            await horae.advance(31)

    assert len(work.requests) == 40 * 6


@virtual
async def test_jobs_that_come_round_are_found_though_not_all_of_them_are_kept() -> None:
    with patch.object(opening, "SPECS_KEPT", 300):
        async with Horae() as horae:
            jobs = [(await horae.create({"name": f"j{n}", "type": "noop"}), 1) for n in range(400)]
            opener = opening.Opener(horae.store, Secrets(horae.store, VAULT))
            with count_queries(horae.store) as queries:
                for _ in range(10):
                    for first in range(0, 400, 50):
                        assert len(await opener.specs(jobs[first : first + 50])) == 50

    read = sum(len(query.params["wanted"]) for query in queries if query.statement is SPECS)
    assert read < 4000 * 0.5, "without the oldest none of them would be found"


@virtual
async def test_definitions_that_a_claim_brought_are_not_read_once_more() -> None:
    with patch.object(opening, "SPECS_KEPT", 20):
        async with Horae() as horae:
            jobs = [(await horae.create({"name": f"j{n}", "type": "noop"}), 1) for n in range(60)]
            opener = opening.Opener(horae.store, Secrets(horae.store, VAULT))
            await opener.specs(jobs[:40])
            had_room = not opener.is_short
            texts = await horae.store.specs(jobs) | {jobs[59]: '{"type": "of a newer release"}'}
            await opener.specs(jobs[40:])
            is_short = opener.is_short
            with count_queries(horae.store) as queries:
                found = await opener.specs(jobs[40:], texts)
            await opener.specs(list(opener._kept))

    assert (had_room, is_short, opener.is_short) == (True, True, False)
    assert (len(found), queries) == (19, [])


@virtual
async def test_large_definitions_are_kept_by_their_size() -> None:
    with patch.object(opening, "CHARACTERS_KEPT", 50_000):
        async with Horae() as horae:
            jobs = []
            for n in range(20):
                payload = {"text": "x" * (100_000 if n == 7 else 10_000)}
                jobs.append((await horae.create({"name": f"j{n}", "type": "noop", "payload": payload}), 1))
            opener = opening.Opener(horae.store, Secrets(horae.store, VAULT))
            await opener.specs(jobs[:3])
            with count_queries(horae.store) as queries:
                await opener.specs(jobs[:3])
                assert queries == []
                assert len(await opener.specs(jobs)) == 20
                await opener.specs(jobs)

    assert [len(query.params["wanted"]) for query in queries] == [17, 16]


@virtual
async def test_definitions_are_read_before_their_runs_are_due() -> None:
    work = Scripted()
    async with Horae(executors={"noop": work}) as horae:
        for n in range(40):
            await horae.create({"name": f"j{n}", "type": "noop", "schedule": "@hourly"})
        await horae.advance(3599.5)
        with count_queries(horae.store) as queries:
            await horae.advance(1)

    assert len(work.requests) == 40
    assert SPECS not in [query.statement for query in queries]


@virtual
@pytest.mark.parametrize(("jobs", "is_crowd"), [(101, True), (5, False)])
async def test_a_worker_gets_ready_for_a_crowd_before_it_is_due(jobs: int, *, is_crowd: bool) -> None:
    async with Horae(executors={"noop": Scripted()}) as horae:
        for n in range(jobs):
            await horae.create({"name": f"j{n}", "type": "noop", "schedule": "@hourly"})
        with patch.object(horae.store, "make_ready", AsyncMock()) as make_ready:
            await horae.advance(3599.5)

    assert bool(make_ready.await_count) == is_crowd


@virtual
async def test_a_worker_with_nothing_to_come_reads_nothing_ahead() -> None:
    async with Horae(executors={"noop": Scripted()}) as horae:
        await horae.create({"name": "j", "type": "noop", "schedule": "@hourly"})
        with count_queries(horae.store) as queries:
            await horae.advance(3000)

    assert COMING not in [query.statement for query in queries]


@virtual
async def test_a_run_without_one_of_its_secrets_ends_and_those_beside_it_start() -> None:
    target = {"url": "https://example.com/", "headers": {"A": "{{ secret.ONE }}", "B": "{{ secret.TWO }}"}}
    async with Horae(executors={"http": Scripted()}, secrets={"ONE": "1", "TWO": "2"}) as horae:
        bad = await horae.create({"name": "bad", "type": "http", "target": target})
        good = await horae.create({"name": "good", "type": "http", "target": "https://example.com/"})
        await horae.commands.secrets.delete(horae.caller, "TWO")
        for name in ("bad", "good"):
            await horae.run(name)
        await horae.advance(2)
        (refused,), (started,) = await rows_of(horae, bad), await rows_of(horae, good)

    assert (refused["status"], refused["reason"]) == ("failed", "payload_rejected")
    assert "There is no secret TWO" in refused["error"]
    assert (started["status"], started["attempt"]) == ("succeeded", 1)

"""What every store must do, on every database."""

from __future__ import annotations

import asyncio
import json

import pytest

from horae.core.errors import Conflict
from horae.core.job import After, Definition
from horae.core.run import run_id, scheduled_key
from horae.ports import Asked, LogChunk, NewJob, NewRun, Once, Share
from horae.scheduler.planner import BESIDE_SECONDS, POLL_SECONDS
from horae.store.database import Steps, Transaction
from horae.store.results import end_waiting
from horae.store.store import Store
from horae.verify.report import check
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import LATE_SECONDS, TENANT, World


async def test_a_due_time_becomes_one_run_before_it_is_due_and_cannot_be_claimed_early(
    world: World, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/10 * * * * *")
    await world.plan()
    assert await world.claim() == []

    await clock.advance(10)
    claimed = await world.claim()

    due_us = START_US + 10_000_000
    assert [c.run_id for c in claimed] == [run_id(job, scheduled_key(due_us), due_us)]
    assert await world.settle(claimed) == 1
    assert await world.statuses(job) == ["succeeded"]


async def test_a_claim_brings_how_its_runs_are_run_if_it_is_asked_to_and_the_store_can(
    world: World, store: Store
) -> None:
    job = await world.job()
    for number in range(2):
        await world.run_now(job, f"{number}")
    (line,) = (await store.waiting_lines(["-"])).waiting

    (plain,) = await store.claim("w1", [Share(line.bucket, 1)])
    (asked,) = await store.claim("w1", [Share(line.bucket, 1)], with_specs=True)

    spec = (await store.specs([(job, 1)]))[job, 1]
    assert (plain.spec, asked.spec) == (None, spec if store.is_parallel else None)


async def test_a_long_definition_is_not_brought_by_each_of_its_runs(world: World, store: Store) -> None:
    short, long = await world.job(), await world.job(payload={"text": "x" * 2000})
    for job in (short, long):
        await world.run_now(job)
    (line,) = (await store.waiting_lines(["-"])).waiting

    brought = {run.job_id: run.spec for run in await store.claim("w1", [Share(line.bucket, 2)], with_specs=True)}

    assert (brought[short] is not None, brought[long]) == (store.is_parallel, None)


async def test_a_second_plan_of_the_same_due_time_moves_nothing(world: World, store: Store) -> None:
    await world.job(schedule="*/10 * * * * *")
    await world.shards.tick()
    scan = await store.due_timers(list(range(64)), 15_000_000, 100)
    decisions = world.planner.decide(scan.timers, world.shards.held, scan.now_us)

    first = await store.plan(world.owner, decisions)
    second = await store.plan(world.owner, decisions)

    assert (first.moved, first.opened) == (1, 1)
    assert (second.moved, second.opened) == (0, 0)


async def test_a_look_that_begins_behind_a_time_tells_of_nothing_before_it(world: World, store: Store) -> None:
    for seconds in (4, 6, 8):
        await world.job(schedule=f"@every {seconds}s")
    every = list(range(64))
    first, second, third = (timer.due_us for timer in (await store.due_timers(every, 15_000_000, 10)).timers)

    for from_us, expected in ((0, [first, second, third]), (second, [second, third]), (third + 1, [])):
        scan = await store.due_timers(every, 15_000_000, 10, from_us)
        assert [timer.due_us for timer in scan.timers] == expected
        assert scan.head_us == (expected[0] if expected else None)


async def test_a_plan_with_an_old_epoch_moves_nothing(world: World, store: Store, clock: StoreClock) -> None:
    await world.job(schedule="*/10 * * * * *")
    await world.shards.tick()
    scan = await store.due_timers(list(range(64)), 15_000_000, 100)
    decisions = world.planner.decide(scan.timers, world.shards.held, scan.now_us)
    await clock.advance(16)
    await World(store, "node-2").shards.tick()

    planned = await store.plan(world.owner, decisions)

    assert planned.moved == 0


async def test_runs_with_large_payloads_are_claimed_in_parts(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horae.store.claims.CHARACTERS_AT_ONCE", 100)
    job = await world.job()
    for key, payload in enumerate(["x" * 60, "y" * 60, None, "z" * 300]):
        await world.run_now(job, str(key), payload=None if payload is None else json.dumps(payload))
    await world.worker()

    claims = [await world.claim(), await world.claim()]

    assert sorted(len(json.loads(run.payload)) for each in claims for run in each if run.payload) == [60, 60, 300]
    assert [len(each) for each in claims] == ([2, 2] if store.database.dialect == "sqlite" else [4, 0])
    assert len({run.token for each in claims for run in each}) == 4


async def test_a_claim_begins_where_its_line_did_and_finds_what_came_before_with_the_next_look(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job()
    await world.worker()
    await clock.advance(60)
    later = await world.run_now(job, "later")
    (line,) = (await store.waiting_lines(["-"])).waiting
    earlier = await world.run_now(job, "earlier", due_us=line.head_us - 30_000_000)

    taken = await store.claim("w1", [Share(line.bucket, 10, line.head_us)])
    (line,) = (await store.waiting_lines(["-"])).waiting
    more = await store.claim("w1", [Share(line.bucket, 10, line.head_us)])

    assert ([run.run_id for run in taken], [run.run_id for run in more]) == ([later], [earlier])


async def test_a_taken_name_is_refused(world: World) -> None:
    await world.job(name="same")

    with pytest.raises(AssertionError, match="name_taken"):
        await world.job(name="same")


async def test_a_result_with_an_old_token_changes_nothing_and_is_on_record(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job()
    await world.run_now(job)
    await world.worker(ttl_us=1_000_000)
    (old,) = await world.claim()
    await clock.advance(2)
    assert await store.reap(10) == 1
    await world.worker("w2")
    (new,) = await world.claim(worker="w2")

    taken = await world.settle([old])

    assert taken == 0
    assert (new.attempt, new.run_id) == (2, old.run_id)
    assert new.token > old.token
    assert await world.settle([new]) == 1
    assert await world.statuses(job) == ["succeeded"]
    _, attempts = await store.run(TENANT, old.run_id)
    assert [(a["attempt"], a["reason"]) for a in attempts] == [(1, "worker_lost")]


async def test_an_at_most_once_run_of_a_lost_worker_ends_unknown(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(delivery="at_most_once")
    await world.run_now(job)
    await world.worker(ttl_us=1_000_000)
    await world.claim()
    await clock.advance(2)

    await store.reap(10)

    assert await world.statuses(job) == ["unknown"]
    assert await world.claim() == []


async def test_misfires_follow_the_policy(world: World, clock: StoreClock) -> None:
    skip = await world.job(schedule="* * * * *", misfire="skip")
    once = await world.job(schedule="* * * * *", misfire="run_once")
    catch = await world.job(schedule="* * * * *", misfire={"policy": "catch_up", "window": "5m", "max": 3})
    await clock.advance(600 + LATE_SECONDS)

    await world.plan()

    def shape(rows: list) -> list:
        return [(r["status"], r["reason"], r["skip_count"]) for r in reversed(rows) if r["due_us"] <= clock.now_us]

    assert shape(await world.runs(skip)) == [("skipped", "scheduler_down", 10)]
    assert shape(await world.runs(once)) == [("skipped", "scheduler_down", 9), ("queued", "no_worker", 0)]
    assert shape(await world.runs(catch)) == [
        ("skipped", "catch_up_expired", 5),
        ("queued", "no_worker", 0),
        ("queued", "no_worker", 0),
        ("queued", "no_worker", 0),
        ("skipped", "catch_up_expired", 2),
    ]


async def test_pause_until_resumes_by_itself(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(schedule="*/10 * * * * *")
    await store.pause_job(None, TENANT, job, "test", clock.now_us + 60_000_000, None)
    await clock.advance(50)

    await world.plan()

    assert [r["due_us"] for r in await world.runs(job)] == [START_US + 60_000_000]


async def test_skipped_due_times_are_counted_as_recorded(world: World, store: Store, clock: StoreClock) -> None:
    """Also of timers that did not move: an edit came between, and nothing of their plan was saved."""
    await world.job(schedule="* * * * *", misfire="skip")
    await world.job(schedule="* * * * *", misfire={"policy": "catch_up", "window": "5m", "max": 3})
    await clock.advance(600 + LATE_SECONDS)
    await world.shards.tick()
    held = dict.fromkeys(range(64), 1)
    scan = await store.due_timers(sorted(held), 0, 100)
    decisions = world.planner.decide(scan.timers, held, scan.now_us)

    planned = await store.plan(world.owner, decisions)
    again = await store.plan(world.owner, decisions)

    assert (planned.moved, planned.skipped) == (2, {"scheduler_down": 10, "catch_up_expired": 7})
    assert (again.moved, again.opened, again.skipped) == (0, 0, {})


async def test_jobs_are_found_by_how_they_fare(world: World, store: Store, clock: StoreClock) -> None:
    well = await world.job(schedule="* * * * *", name="well")
    bad = await world.job(name="bad", retry={"max_retries": 0})
    fresh = await world.job(name="fresh")
    await world.worker()
    await world.run_now(bad)
    await world.settle(await world.claim(), "failed", "exception")

    async def found(health: str) -> list[str]:
        filters = dict.fromkeys(("status", "search", "label", "type", "queue", "priority", "due_before_us"))
        page = await store.jobs(TENANT, {**filters, "health": health}, "name", None, 10)
        return [row["id"] for row in page.rows]

    assert await found("failing") == [bad]
    assert await found("late") == []
    assert await found("never_run") == [fresh, well]

    await clock.advance(50)
    await world.plan()
    await clock.advance(130)  # nobody takes what was staged, and nobody plans what comes after it

    assert await found("late") == [well]
    assert await found("never_run") == [fresh]


async def test_chains_start_downstream_runs_in_the_same_transaction(world: World) -> None:
    a = await world.job(name="a")
    b = await world.job(name="b", after="a")
    c = await world.job(name="c", after={"job": "b", "on": "failure"})
    await world.run_now(a)

    await world.settle(await world.claim())
    (run_b,) = await world.claim()
    await world.settle([run_b], "failed", "exception")
    (run_c,) = await world.claim()

    assert (run_b.job_id, run_b.cause) == (b, "after")
    assert run_c.job_id == c
    assert run_c.parent_id == run_b.run_id


async def test_a_dead_letter_is_replayed_once(world: World, store: Store) -> None:
    job = await world.job()
    run = await world.run_now(job)
    await world.settle(await world.claim(), "failed", "exception")
    assert [r["id"] for r in (await store.dead_letters(TENANT, None, {}, None, 10)).rows] == [run]

    first = await store.replay(None, TENANT, run)
    second = await store.replay(None, TENANT, run)

    assert first == second != run
    assert (await store.dead_letters(TENANT, None, {}, None, 10)).rows == []


async def test_retry_gives_the_same_run_one_more_attempt(world: World, store: Store) -> None:
    job = await world.job(retries=0)
    run = await world.run_now(job)
    await world.settle(await world.claim(), "failed", "exception")

    await store.retry_run(None, TENANT, run)
    (again,) = await world.claim()

    assert (again.run_id, again.attempt, again.max_attempts) == (run, 2, 2)
    await world.settle([again])
    assert await world.statuses(job) == ["succeeded"]


async def test_cancel_ends_a_waiting_run_and_flags_a_running_one(world: World, store: Store) -> None:
    job = await world.job()
    waiting = await world.run_now(job, "1")
    await store.cancel_run(None, TENANT, waiting)
    running = await world.run_now(job, "2")
    await world.claim()
    await store.cancel_run(None, TENANT, running)

    assert await store.cancelled("w1") == {running: "cancelled_by_user"}
    with pytest.raises(Conflict):
        await store.cancel_run(None, TENANT, waiting)


async def test_delete_leaves_no_later_run(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(schedule="*/10 * * * * *")
    await world.plan()
    await store.delete_job(None, TENANT, job, "test", None)
    await clock.advance(60)
    await world.plan()

    assert await world.runs(job) == []


async def test_max_runs_ends_the_schedule(world: World, clock: StoreClock) -> None:
    job = await world.job(schedule="* * * * * *", max_runs=3)
    await world.plan()
    await clock.advance(20)
    await world.plan()

    assert len(await world.runs(job)) == 3


async def test_shards_are_balanced_and_handed_over(store: Store) -> None:
    one, two = World(store, "node-1"), World(store, "node-2")
    await one.shards.tick()
    await two.shards.tick()
    await one.shards.tick()
    await two.shards.tick()
    assert (len(one.shards.held), len(two.shards.held)) == (32, 32)

    await one.shards.stop()
    await two.shards.tick()

    assert len(two.shards.held) == 64


async def test_who_plans_sees_the_shards_that_another_left(store: Store) -> None:
    one, two = World(store, "node-1"), World(store, "node-2")
    seen: list[str] = []
    two.planner.on_free_shards = lambda: seen.append("free")
    for world in (one, two, one, two):
        await world.plan()
    assert len(two.shards.held) == 32
    seen.clear()

    assert await two.planner.tick() == BESIDE_SECONDS
    assert seen == []

    await one.shards.stop()
    await two.planner.tick()
    await two.planner.tick()
    assert seen == ["free"]

    await two.shards.tick()
    assert await two.planner.tick() == POLL_SECONDS
    assert len(two.shards.held) == 64
    assert seen == ["free"]


async def test_keys_make_a_repeat_harmless(store: Store, world: World) -> None:
    job = await world.job()
    once = Asked("test", Once(TENANT, "key-1", "digest"))
    first = await store.trigger(once, TENANT, job, [NewRun("manual", "a")])
    second = await store.trigger(once, TENANT, job, [NewRun("manual", "b")])

    assert first == second
    assert len(await world.runs(job)) == 1


async def test_the_sweep_drops_what_is_older_than_the_retention(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job()
    await store.sweep(86_400_000_000)
    await world.run_now(job)
    await world.settle(await world.claim())
    assert await world.statuses(job) == ["succeeded"]
    await clock.advance(3 * 86_400)

    await store.sweep(86_400_000_000)

    assert await world.statuses(job) == []


async def test_a_chain_that_does_not_follow_says_why(world: World, store: Store, clock: StoreClock) -> None:
    up = await world.job(name="up")
    on_success = await world.job(name="on-success", after="up")
    paused = await world.job(name="paused", after={"job": "up", "on": "always"})
    await store.pause_job(None, TENANT, paused, "test", clock.now_us + 60_000_000, None)
    await world.run_now(up)
    await world.settle(await world.claim(), "failed", "exception")

    assert [(r["status"], r["reason"]) for r in await world.runs(on_success)] == [("skipped", "dependency_failed")]
    assert [(r["status"], r["reason"]) for r in await world.runs(paused)] == [("skipped", "job_paused")]

    await clock.advance(61)
    await world.run_now(up, "2")
    await world.settle(await world.claim())
    assert (await world.statuses(paused))[-1] == "queued"


async def test_always_also_follows_a_run_that_was_cancelled_while_it_waited(world: World, store: Store) -> None:
    await world.job(name="up")
    down = await world.job(name="down", after={"job": "up", "on": "always"})
    run = await world.run_now("up")

    await store.cancel_run(None, TENANT, run)

    assert await world.statuses(down) == ["queued"]


async def test_the_schema_can_be_checked_while_others_write(world: World, store: Store) -> None:
    job = await world.job()

    async def write(number: int) -> None:
        await world.run_now(job, str(number))
        await store.check_schema()

    async with asyncio.timeout(20):
        await asyncio.gather(*(write(number) for number in range(100)))


async def test_jobs_of_one_batch_may_follow_each_other(store: Store) -> None:
    jobs = [
        NewJob("a", Definition(name="a", type="noop")),
        NewJob("b", Definition(name="b", type="noop", after=(After("a"),))),
        NewJob("c", Definition(name="c", type="noop", after=(After("nobody"),))),
    ]

    answers = await store.create_jobs(None, TENANT, "test", jobs, atomic=False)

    assert answers[:2] == [{"job_id": "a"}, {"job_id": "b"}]
    assert answers[2]["faults"][0][0] == "/after"


async def test_a_run_that_was_taken_meanwhile_is_not_ended_as_waiting(world: World, store: Store) -> None:
    job = await world.job()
    run = await world.run_now(job)
    (claimed,) = await world.claim()

    def steps() -> Steps[None]:
        yield from end_waiting([run], "cancelled", "cancelled_by_user")

    await store.database.run(Transaction(steps))

    assert await world.statuses(job) == ["running"]
    assert await world.settle([claimed]) == 1


async def test_output_that_is_sent_again_is_kept_once(world: World, store: Store) -> None:
    run = await world.run_now(await world.job())
    chunks = [LogChunk(run, 1, 1, "one", TENANT), LogChunk(run, 1, 2, "two", TENANT)]

    await store.add_logs(chunks)
    await store.add_logs(chunks)

    assert [row["text"] for row in await store.logs(TENANT, run, 0, 0, 10)] == ["one", "two"]
    assert await store.logs("other", run, 0, 0, 10) == []


async def test_the_whole_record_can_be_exported_and_verified(world: World, store: Store, clock: StoreClock) -> None:
    await world.job(schedule="*/10 * * * * *")
    failing = await world.job(schedule="@every 30s", retries=0)
    for _ in range(20):
        await world.plan()
        await clock.advance(10)
        claimed = await world.claim()
        await world.settle([run for run in claimed if run.job_id != failing])
        await world.settle([run for run in claimed if run.job_id == failing], "failed", "exception")

    report = check([line async for block in store.export(10**15) for line in block.splitlines()])

    assert report.violations == []
    assert report.counts["succeeded"] > 10


async def test_a_run_that_was_replayed_is_not_retried_too(world: World, store: Store) -> None:
    run = await world.run_now(await world.job(retries=0))
    await world.worker()
    await world.settle(await world.claim(), "failed", "exception")
    again = await store.replay(None, TENANT, run)

    with pytest.raises(Conflict, match=again):
        await store.retry_run(None, TENANT, run)
    assert await store.replay(None, TENANT, run) == again

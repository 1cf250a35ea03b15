"""Why it did, did not, will or will not run: every scenario has a verdict and a reason of the closed list."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from horae.core.errors import NotFound
from horae.core.explain import explain
from horae.core.job import Definition
from horae.core.run import REASONS
from horae.ports import Again, WorkerState
from horae.store.store import Store
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import LATE_SECONDS, TENANT, World, execute

MINUTE = 60_000_000
RETENTION_US = 86_400_000_000
AT = START_US + MINUTE  # the first due time of "* * * * *"


class Asking:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, job: str, at_us: int | None = AT) -> tuple[str, str | None]:
        told = explain(await self._store.explain_facts(TENANT, job, at_us), RETENTION_US)
        assert told["text"]
        assert told["reason"] is None or told["reason"] in REASONS
        self.text = told["text"]
        self.told = told
        return told["verdict"], told["reason"]


@pytest.fixture
def why(store: Store) -> Asking:
    return Asking(store)


async def staged_and_due(world: World, clock: StoreClock, **fields: Any) -> str:
    """A job whose first due time has come, with a worker alive."""
    job = await world.job(schedule="* * * * *", **fields)
    await clock.advance(50)
    await world.plan()
    await world.worker()
    await clock.advance(10)
    return job


async def edit(store: Store, job: str, **fields: Any) -> None:
    def merge(current: Definition, *_: object) -> Definition:
        return msgspec.structs.replace(current, **fields)

    await store.change_job(None, TENANT, job, "test", merge, None)


async def test_future_due_time(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await world.plan()
    assert await why(job) == ("will_run", None)


async def test_future_due_time_is_the_default(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await world.plan()
    assert await why(job, None) == ("will_run", None)


async def test_future_with_jitter(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *", jitter="20s")
    await world.plan()
    assert await why(job) == ("will_run", "jitter")


async def test_future_while_no_scheduler_is_alive(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    assert await why(job) == ("will_run", "scheduler_down")


async def test_future_of_a_paused_job(world: World, store: Store, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await store.pause_job(None, TENANT, job, "ana", None, "lunch")
    assert await why(job) == ("will_not_run", "job_paused")
    assert "ana" in why.text
    assert "lunch" in why.text


async def test_without_a_due_time_to_come_the_latest_run_is_meant(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="@manual")
    assert await why(job, None) == ("skipped", "outside_window")
    await world.run_now(job)
    await world.worker()
    assert (await why(job, None))[0] == "waiting"
    await clock.advance(1)
    await world.settle(await world.claim(), "failed", "exception")
    assert await why(job, None) == ("ran", "exception")


async def test_future_in_a_paused_queue(world: World, store: Store, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await execute(store, "INSERT INTO limits (tenant, queue, is_paused) VALUES (:t, 'default', true)", t=TENANT)
    await world.plan()
    assert await why(job) == ("will_run", "queue_paused")
    assert "waits" in why.text


async def test_future_after_a_timed_pause(world: World, store: Store, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await world.plan()
    await store.pause_job(None, TENANT, job, "ana", START_US + 5 * MINUTE, None)
    assert await why(job) == ("will_not_run", "job_paused")
    assert await why(job, START_US + 5 * MINUTE) == ("will_run", None)


async def test_future_of_a_deleted_job(world: World, store: Store, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await store.delete_job(None, TENANT, job, "ana", None)
    assert await why(job) == ("will_not_run", "schedule_changed")


async def test_future_on_a_holiday(world: World, why: Asking) -> None:
    job = await world.job(schedule="0 9 * * *", calendar={"exclude": ["2027-01-16"]})
    assert await why(job, START_US + 25 * 60 * MINUTE) == ("will_not_run", "calendar_excluded")


async def test_future_after_the_end(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *", end_at="2027-01-15T09:00:00Z")
    assert await why(job, START_US + 61 * MINUTE) == ("will_not_run", "outside_window")


async def test_future_before_the_start(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *", start_at="2027-01-15T09:00:00Z")
    assert await why(job) == ("will_not_run", "outside_window")


async def test_future_instant_that_is_not_a_due_time(world: World, why: Asking) -> None:
    job = await world.job(schedule="0 9 * * *")
    assert await why(job, AT) == ("will_not_run", "outside_window")
    assert "2027-01-15T09:00:00Z" in why.text


async def test_future_time_in_the_spring_gap(world: World, why: Asking) -> None:
    job = await world.job(schedule="30 2 * * *", timezone="Europe/Berlin", dst={"gap": "skip"})
    # 2027-03-28 02:30 does not exist in Berlin; the offset before the jump makes it 01:30 UTC.
    assert await why(job, 1_806_197_400_000_000) == ("will_not_run", "dst_gap")


async def test_a_job_that_runs_on_request_only(world: World, why: Asking) -> None:
    job = await world.job()
    assert await why(job) == ("will_not_run", "outside_window")


async def test_a_job_that_runs_after_another(world: World, why: Asking) -> None:
    await world.job(name="up")
    job = await world.job(after="up")
    assert await why(job) == ("will_not_run", "waiting_for_upstream")


async def test_a_chained_job_that_the_ending_did_not_start(world: World, why: Asking) -> None:
    up = await world.job(name="up")
    down = await world.job(after={"job": "up", "on": "failure"})
    await world.worker()
    await world.run_now(up)
    await world.settle(await world.claim())
    skip = (await world.runs(down))[0]

    assert await why(down, skip["due_us"]) == ("skipped", "dependency_failed")


async def test_between_due_times_of_a_job_that_will_not_run_again(
    world: World, clock: StoreClock, store: Store, why: Asking
) -> None:
    done = await world.job(schedule="* * * * *", max_runs=1)
    paused = await world.job(schedule="0 9 * * *")
    await store.pause_job(None, TENANT, paused, "anna", None, "moving house")
    await clock.advance(50)
    await world.plan()

    assert await why(done, START_US + MINUTE + 1) == ("will_not_run", "outside_window")
    assert why.text == "The schedule has no due time then, and the job has had all of its 1 runs."
    assert await why(paused, AT + 1) == ("will_not_run", "outside_window")
    assert "paused" in why.text
    assert "moving house" in why.text


async def test_future_after_all_runs_are_used(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *", max_runs=1)
    await clock.advance(50)
    await world.plan()
    assert await why(job, START_US + 2 * MINUTE) == ("will_not_run", "outside_window")
    await clock.advance(600)
    assert await why(job, START_US + 2 * MINUTE) == ("skipped", "outside_window")


async def test_staged(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await clock.advance(50)
    await world.plan()
    assert await why(job) == ("will_run", None)
    assert why.told["run_id"]


async def test_waiting_for_jitter(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, jitter="10m")
    assert await why(job) == ("waiting", "jitter")


async def test_waiting_without_any_worker(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await clock.advance(50)
    await world.plan()
    await clock.advance(10)
    assert await why(job) == ("waiting", "no_worker")


async def test_waiting_in_a_queue_that_nobody_serves(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, queue="reports")
    assert await why(job) == ("waiting", "no_worker")
    assert "reports" in why.text


async def test_waiting_for_a_worker_with_the_handler(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, type="python", target={"handler": "make_report"})
    assert await why(job) == ("waiting", "no_worker_for_type")
    assert "make_report" in why.text


async def test_waiting_behind_more_urgent_runs(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, priority="LOW")
    await world.run_now(await world.job(priority="HIGH"))
    assert await why(job) == ("waiting", "behind_higher_priority")


async def test_waiting_for_a_free_slot(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    await store.beat(WorkerState("w1", "host", "active", 1, 100, ["default"], []), 15_000_000)
    assert await why(job) == ("waiting", "slots_full")


async def test_waiting_in_a_paused_queue(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    await execute(store, "INSERT INTO limits (tenant, queue, is_paused) VALUES (:t, 'default', true)", t=TENANT)
    assert await why(job) == ("waiting", "queue_paused")


async def test_waiting_in_a_paused_tenant(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    await execute(store, "INSERT INTO limits (tenant, queue, is_paused) VALUES (:t, '', true)", t=TENANT)
    assert await why(job) == ("waiting", "tenant_paused")


async def test_waiting_for_a_sibling(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, overlap="queue")
    await world.run_now(job, due_us=START_US)
    await world.claim()
    assert await world.claim() == []
    assert await why(job) == ("waiting", "job_concurrency")


async def test_running(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    await world.claim()
    assert await why(job) == ("running", None)


async def test_waiting_for_the_next_attempt(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    (run,) = await world.claim()
    await store.requeue("w1", [Again(run.run_id, run.token, 60_000_000, "exception", "boom")])
    assert await why(job) == ("waiting", "retry_backoff")


async def test_a_next_attempt_that_waits_for_a_sibling(world: World, store: Store, clock: StoreClock, why: Asking):
    job = await staged_and_due(world, clock, max_concurrency=1)
    (run,) = await world.claim()
    await world.run_now(job, "sibling")
    await store.requeue("w1", [Again(run.run_id, run.token, 1_000_000, "exception", "boom")])
    assert len(await world.claim()) == 1
    await clock.advance(2)
    assert await world.claim() == []

    assert await why(job) == ("waiting", "job_concurrency")


async def test_waiting_for_an_open_circuit(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    (run,) = await world.claim()
    await store.requeue("w1", [Again(run.run_id, run.token, 60_000_000, "rate_limited", "open", counts=False)])
    assert await why(job) == ("waiting", "rate_limited")


async def test_succeeded(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    await world.settle(await world.claim())
    assert await why(job) == ("ran", None)


@pytest.mark.parametrize("reason", ["exit_code", "http_status", "timeout", "exception"])
async def test_failed(world: World, clock: StoreClock, why: Asking, reason: str) -> None:
    job = await staged_and_due(world, clock)
    await world.settle(await world.claim(), "failed", reason)
    assert await why(job) == ("ran", reason)


async def test_worker_lost_at_most_once(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, delivery="at_most_once")
    await world.claim()
    await clock.advance(60)
    await store.reap(10)
    assert await why(job) == ("ran", "worker_lost")


async def test_cancelled_while_waiting(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock)
    await store.cancel_run(None, TENANT, (await world.runs(job))[0]["id"])
    assert await why(job) == ("skipped", "cancelled_by_user")


async def test_skipped_because_of_overlap(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, overlap="skip")
    await world.run_now(job, due_us=START_US)
    await world.claim()
    assert await why(job) == ("skipped", "overlap_skipped")


async def test_replaced_by_a_newer_one(world: World, clock: StoreClock, why: Asking) -> None:
    job = await staged_and_due(world, clock, overlap="replace")
    await clock.advance(1)
    await world.run_now(job)
    await world.claim()
    assert await why(job) == ("skipped", "superseded")


async def test_missed_while_no_scheduler_ran(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await clock.advance(300)
    assert await why(job) == ("missed", "scheduler_down")
    await clock.advance(LATE_SECONDS)
    await world.plan()
    assert await why(job) == ("missed", "scheduler_down")
    assert "5 due times" in why.text or "4 due times" in why.text


async def test_missed_outside_the_catch_up_window(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *", misfire={"policy": "catch_up", "window": "2m"})
    await clock.advance(600 + LATE_SECONDS)
    await world.plan()
    assert await why(job) == ("missed", "catch_up_expired")


async def test_due_but_not_decided_yet(world: World, clock: StoreClock, why: Asking) -> None:
    await world.plan()
    job = await world.job(schedule="* * * * *")
    await clock.advance(50)
    await world.shards.tick()
    await clock.advance(12)
    assert await why(job) == ("waiting", "scheduler_down")


async def test_past_during_a_pause(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await store.pause_job(None, TENANT, job, "ana", None, None)
    await clock.advance(90)
    await store.resume_job(None, TENANT, job, "ana")
    assert await why(job) == ("skipped", "job_paused")


async def test_past_before_the_job_existed(world: World, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    assert await why(job, START_US - MINUTE) == ("skipped", "outside_window")


async def test_past_after_the_job_was_deleted(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await store.delete_job(None, TENANT, job, "ana", None)
    await clock.advance(120)
    assert await why(job) == ("skipped", "schedule_changed")


async def test_past_that_an_edit_took_away(world: World, store: Store, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await clock.advance(30)
    await edit(store, job, schedule=("0 9 * * *",))
    await clock.advance(60)
    assert await why(job) == ("skipped", "schedule_changed")


async def test_past_that_was_missed_and_then_edited_away(
    world: World, store: Store, clock: StoreClock, why: Asking
) -> None:
    job = await world.job(schedule="* * * * *")
    await clock.advance(90)
    await edit(store, job, schedule=("0 9 * * *",))
    assert await why(job) == ("skipped", "schedule_changed")


async def test_past_on_an_excluded_day(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *", calendar={"exclude": ["2027-01-15"]})
    await clock.advance(120)
    assert await why(job) == ("skipped", "calendar_excluded")


async def test_past_instant_that_was_not_a_due_time(world: World, clock: StoreClock, why: Asking) -> None:
    job = await world.job(schedule="* * * * *")
    await clock.advance(120)
    assert await why(job, AT + 5_000_000) == ("skipped", "outside_window")


async def test_past_without_a_record_is_told_as_it_is(
    world: World, store: Store, clock: StoreClock, why: Asking
) -> None:
    job = await staged_and_due(world, clock)
    await world.settle(await world.claim())
    assert await why(job) == ("ran", None)

    await execute(store, "DELETE FROM history")
    assert await why(job) == ("missed", None)
    assert "horae verify" in why.text

    await clock.advance(86_401)
    assert await why(job) == ("ran", None)
    assert "no longer kept" in why.text


async def test_the_name_of_a_deleted_job_leads_to_its_id(world: World, store: Store, why: Asking) -> None:
    job = await world.job(name="gone")
    await store.delete_job(None, TENANT, "gone", "test", None)

    with pytest.raises(NotFound, match=job):
        await why("gone")


async def test_an_unknown_job_is_an_error(why: Asking) -> None:
    with pytest.raises(NotFound):
        await why("nobody")

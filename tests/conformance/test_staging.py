"""What was staged ahead, and what becomes of it: called off, edited, missed."""

from __future__ import annotations

import msgspec
import pytest

from horae.core.errors import Unavailable
from horae.core.job import SHARDS, Definition
from horae.ports import Merge
from horae.store import leases
from horae.store.store import Store
from horae.verify.report import check
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import TENANT, World, count_queries


def schedule_to(text: str) -> Merge:
    return lambda current, *_: msgspec.structs.replace(current, schedule=(text,))


async def _seconds(world: World, job: str) -> list[tuple[str, int, int]]:
    """Oldest first: status, and the first and last second it stands for."""
    rows = sorted(await world.runs(job), key=lambda row: row["due_us"])
    spans = [(r["status"], r["due_us"], r["skip_until_us"] or r["due_us"]) for r in rows]
    return [
        (status, (from_us - START_US) // 1_000_000, (to_us - START_US) // 1_000_000) for status, from_us, to_us in spans
    ]


async def _call_off(world: World, store: Store, job: str, second: int) -> str:
    (run,) = [row["id"] for row in await world.runs(job) if row["due_us"] == START_US + second * 1_000_000]
    await store.cancel_run(None, TENANT, run)
    return str(run)


async def test_pause_withdraws_what_is_staged_and_resume_starts_from_now(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/10 * * * * *")
    await world.plan()
    await store.pause_job(None, TENANT, job, "test", None, "lunch")
    assert await world.runs(job) == []
    await clock.advance(60)
    await world.plan()
    assert await world.runs(job) == []

    await store.resume_job(None, TENANT, job, "test")
    await world.plan()

    assert [r["due_us"] for r in await world.runs(job)] == [clock.now_us + 10_000_000]


async def test_an_edit_of_the_schedule_never_fires_the_past(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(schedule="0 * * * *")
    await world.plan()
    await clock.advance(2)

    def merge(current: Definition, *_: object) -> Definition:
        return msgspec.structs.replace(current, schedule=("* * * * *",))

    await store.change_job(None, TENANT, job, "test", merge, 1)
    await clock.advance(50)
    await world.plan()

    assert [r["due_us"] for r in await world.runs(job)] == [START_US + 60_000_000]


@pytest.mark.parametrize("verb", ["change", "pause", "delete"])
async def test_a_change_that_a_start_overtook_counts_from_that_start_on(
    verb: str, world: World, store: Store, clock: StoreClock
) -> None:
    """The change looks at the time, the due time comes and is claimed, and only then the rest is withdrawn."""
    job = await world.job(schedule="* * * * * *")
    await world.plan()
    await world.worker(ttl_us=600_000_000)
    await clock.advance(3)
    claimed = await world.claim()
    await clock.advance(-0.001)

    match verb:
        case "change":
            await store.change_job(None, TENANT, job, "test", schedule_to("*/5 * * * * *"), None)
        case "pause":
            await store.pause_job(None, TENANT, job, "test", None, None)
        case _:
            await store.delete_job(None, TENANT, job, "test", None)
    await clock.advance(0.001)
    await world.settle(claimed)
    for _ in range(10):
        await clock.advance(10)
        await world.plan()
        await world.settle(await world.claim())

    report = check([line async for block in store.export(86_400_000_000) for line in block.splitlines()])
    assert [str(violation) for violation in report.violations] == []


async def test_a_due_time_called_off_ahead_is_not_planned_again_by_an_edit(world: World, store: Store) -> None:
    job = await world.job(schedule="*/5 * * * * *", max_runs=6)
    await world.plan()
    await _call_off(world, store, job, 10)

    await store.change_job(None, TENANT, job, "test", schedule_to("*/2 * * * * *"), 1)
    await world.plan()

    queued = [("queued", at, at) for at in (2, 4, 6, 8)]
    assert await _seconds(world, job) == [*queued, ("cancelled", 10, 10), ("queued", 12, 12)]  # six with the cancelled


async def test_a_skipped_stretch_leaves_out_what_was_called_off(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(schedule="*/5 * * * * *", misfire="skip")
    await world.plan()
    await _call_off(world, store, job, 10)
    await store.change_job(None, TENANT, job, "test", schedule_to("*/2 * * * * *"), 1)

    await clock.advance(20)
    await store.change_job(None, TENANT, job, "test", schedule_to("0 0 * * *"), 2)

    assert await _seconds(world, job) == [("skipped", 2, 8), ("cancelled", 10, 10), ("skipped", 12, 20)]


async def test_a_called_off_due_time_that_was_retried_is_planned_like_the_others(world: World, store: Store) -> None:
    job = await world.job(schedule="*/5 * * * * *")
    await world.plan()
    await store.retry_run(None, TENANT, await _call_off(world, store, job, 10))

    await store.change_job(None, TENANT, job, "test", schedule_to("*/10 * * * * *"), 1)
    await world.plan()

    assert await _seconds(world, job) == [("queued", 10, 10)]


async def test_a_retry_of_a_run_that_was_called_off_still_waits_for_its_time(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/10 * * * * *")
    await world.plan()
    await store.retry_run(None, TENANT, await _call_off(world, store, job, 10))
    assert await world.claim() == []

    await clock.advance(10)

    assert len(await world.claim()) == 1


async def test_a_schedule_changed_during_a_timed_pause_goes_on_after_it(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/10 * * * * *")
    await store.pause_job(None, TENANT, job, "test", clock.now_us + 60_000_000, None)

    def merge(current: Definition, *_: object) -> Definition:
        return msgspec.structs.replace(current, schedule=("*/20 * * * * *",))

    await store.change_job(None, TENANT, job, "test", merge, None)
    await clock.advance(50)
    await world.plan()

    assert [r["due_us"] for r in await world.runs(job)] == [START_US + 60_000_000]


async def test_a_due_time_staged_beyond_a_pause_is_not_counted_twice_by_resume(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/10 * * * * *", max_runs=2)
    await store.pause_job(None, TENANT, job, "test", clock.now_us + 5_000_000, None)
    await world.plan()
    await store.resume_job(None, TENANT, job, "test")
    for _ in range(4):
        await world.plan()
        await clock.advance(10)

    assert [r["due_us"] - START_US for r in reversed(await world.runs(job))] == [10_000_000, 20_000_000]


async def test_after_the_clock_went_back_nothing_that_started_is_planned_again(
    world: World, store: Store, clock: StoreClock
) -> None:
    edited = await world.job(schedule="*/10 * * * * *")
    paused = await world.job(schedule="*/10 * * * * *")
    for _ in range(4):
        await world.plan()
        await clock.advance(10)
        await world.settle(await world.claim())
    await clock.advance(-35)

    def merge(current: Definition, *_: object) -> Definition:
        return msgspec.structs.replace(current, schedule=("*/5 * * * * *",))

    await store.change_job(None, TENANT, edited, "test", merge, None)
    await store.pause_job(None, TENANT, paused, "test", None, None)
    await store.resume_job(None, TENANT, paused, "test")
    for _ in range(5):
        await world.plan()
        await clock.advance(10)
        await world.settle(await world.claim())

    for job in (edited, paused):
        dues = [run["due_us"] for run in await world.runs(job) if run["due_us"] <= clock.now_us]
        assert len(dues) == len(set(dues))


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("skip", ["skipped", "skipped"]),
        ("run_once", ["skipped", "skipped", "succeeded"]),
        ({"policy": "catch_up", "window": "25s", "max": 5}, ["skipped", "succeeded", "succeeded"]),
    ],
)
async def test_the_misfire_policy_also_judges_what_was_staged_before_an_outage(
    world: World, store: Store, clock: StoreClock, misfire: object, expected: list[str]
) -> None:
    job = await world.job(schedule="*/10 * * * * *", misfire=misfire)
    await clock.advance(1)
    await world.plan()  # stages the first; then everything dies for a while
    await clock.advance(35)

    back = World(store, "node-2")
    await back.plan()
    await world.settle(await world.claim())

    missed = [run for run in reversed(await world.runs(job)) if run["due_us"] <= clock.now_us - 5_000_000]
    assert [run["status"] for run in missed] == expected
    assert sum(max(1, run["skip_count"]) for run in missed) == 3


async def test_what_was_staged_before_an_outage_is_judged_in_as_many_statements_however_many_jobs_there_are(
    world: World, store: Store, clock: StoreClock
) -> None:
    counts = []
    for number in (2, 20):
        for _ in range(number):
            await world.job(schedule="*/10 * * * * *", misfire="skip")
        await world.plan()
        await clock.advance(35)
        with count_queries(store) as seen:
            skipped = await store.database.run(leases.judge_overdue(list(range(64))))
        assert skipped["scheduler_down"] >= number
        counts.append(len(seen))

    assert counts[0] == counts[1]


async def test_what_was_staged_before_an_outage_is_judged_before_more_is_planned_even_if_it_fails_at_first(
    world: World, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.job(schedule="*/10 * * * * *", misfire="run_once")
    await clock.advance(1)
    await world.plan()
    await clock.advance(35)
    back = World(store, "node-2")

    async def away(shards: list[int]) -> dict[str, int]:
        raise Unavailable("not now")

    with monkeypatch.context() as patched:
        patched.setattr(store, "judge_overdue", away)
        with pytest.raises(Unavailable):
            await back.plan()
        assert not back.shards.has_spoken
        assert back.shards.held == {}
    await back.plan()

    assert back.shards.has_spoken
    missed = [run for run in reversed(await world.runs(job)) if run["due_us"] <= clock.now_us - 5_000_000]
    assert [run["status"] for run in missed] == ["skipped", "skipped", "queued"]


async def test_what_was_staged_runs_late_when_only_the_scheduler_was_away(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/10 * * * * *", misfire="skip")
    await world.worker(ttl_us=600_000_000)
    await clock.advance(1)
    await world.plan()
    await clock.advance(35)

    await World(store, "node-2").plan()

    first = min(await world.runs(job), key=lambda run: run["due_us"])
    assert (first["status"], first["due_us"]) == ("queued", START_US + 10_000_000)


async def test_catch_up_counts_staged_and_missed_together(world: World, store: Store, clock: StoreClock) -> None:
    job = await world.job(schedule="*/5 * * * * *", misfire={"policy": "catch_up", "window": "1h", "max": 3})
    await clock.advance(1)
    await world.plan()
    await clock.advance(40)

    await World(store, "node-2").plan()

    late = [run for run in await _seconds(world, job) if run[1] <= 36]
    # Oldest first: of those staged before the outage 5, 10 and 15, and none of those that were missed after them.
    assert late == [*(("queued", at, at) for at in (5, 10, 15)), ("skipped", 20, 35)]


async def test_what_is_left_of_a_catch_up_goes_to_those_missed_after_the_staged_ones(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="*/5 * * * * *", misfire={"policy": "catch_up", "window": "1h", "max": 5})
    await clock.advance(1)
    await world.plan()
    await clock.advance(40)

    await World(store, "node-2").plan()

    late = [run for run in await _seconds(world, job) if run[1] <= 36]
    assert late == [*(("queued", at, at) for at in (5, 10, 15, 20, 25)), ("skipped", 30, 35)]


async def test_an_edit_comes_after_what_has_started(world: World, store: Store, clock: StoreClock) -> None:
    """A worker may take a run between the moment an edit reads the time and the moment it withdraws what is staged."""
    job = await world.job(schedule="*/5 * * * * *")
    await world.worker()
    await world.plan()
    await clock.advance(5.001)
    (claimed,) = await world.claim()
    await clock.advance(-0.002)  # the edit read the time just before

    await store.change_job(None, TENANT, job, "test", schedule_to("0 * * * *"), 1)
    await clock.advance(0.002)
    await world.settle([claimed])

    assert (await store.versions(TENANT, job))[0]["created_us"] >= claimed.due_us
    assert check([line async for block in store.export(10**15) for line in block.splitlines()]).violations == []


async def test_what_comes_soon_is_told_by_line_and_time(world: World, store: Store, clock: StoreClock) -> None:
    """The clock stands at a full minute: the jobs below are due 5 and 10 seconds later."""
    first = await world.job(schedule="5 * * * * *")
    second = await world.job(schedule="10 * * * * *")
    other = await world.job(schedule="5 * * * * *", priority="HIGH")
    await world.plan()
    now_us = await store.now()
    lines = sorted(line.bucket for line in (await store.waiting_lines(["-"])).waiting)
    high, medium = lines

    assert await store.coming([medium], now_us, now_us + 6_000_000, 10) == [(first, 1)]
    assert await store.coming([medium], now_us + 6_000_000, now_us + 15_000_000, 10) == [(second, 1)]
    assert sorted(await store.coming(lines, now_us, now_us + 6_000_000, 10)) == sorted([(first, 1), (other, 1)])
    assert len(await store.coming(lines, 0, now_us + 15_000_000, 2)) == 2
    assert await store.coming([high], now_us, now_us + 1_000_000, 10) == []


async def test_a_due_timer_tells_how_old_its_job_is_whatever_its_version(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="@every 7s")
    await clock.advance(3)
    edited = await world.job(schedule="@every 7s")
    await clock.advance(1)
    await store.change_job(None, TENANT, edited, "test", schedule_to("@every 8s"), 1)

    scan = await store.due_timers(list(range(SHARDS)), 15_000_000, 10)

    told = {timer.job_id: (timer.version, timer.created_us, "@every 8s" in timer.timing) for timer in scan.timers}
    assert told == {job: (1, START_US, False), edited: (2, START_US + 3_000_000, True)}


async def test_a_worker_that_gets_ready_takes_nothing(world: World, store: Store, clock: StoreClock) -> None:
    await world.job(schedule="5 * * * * *")
    await world.worker()
    await world.plan()
    await clock.advance(6)

    await store.make_ready("w1")

    assert len(await world.claim()) == 1

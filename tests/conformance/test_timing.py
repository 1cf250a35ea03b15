"""What a timer says of its job, so that a planner need not look at the definition; and when it must nevertheless."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from horae.core.document import parse_job
from horae.core.job import SHARDS, Timing, read_timing
from horae.ports import Scan
from horae.store.database import Statement
from horae.store.jobs import TIMING_AT_MOST, timing_text
from horae.store.store import Store
from horae.store.trials import single
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.test_staging import schedule_to
from tests.conformance.world import TENANT, World, execute

A_YEAR = [(date(2030, 1, 1) + timedelta(days)).isoformat() for days in range(365)]


async def look(store: Store) -> Scan:
    return await store.due_timers(list(range(SHARDS)), 15_000_000, 10)


async def seconds(world: World, job: str) -> list[int]:
    await world.plan()
    return sorted((row["due_us"] - START_US) // 1_000_000 for row in await world.runs(job))


async def test_a_due_time_is_decided_without_its_definition(world: World, store: Store, clock: StoreClock) -> None:
    made = await world.job(schedule="@every 4s")
    edited = await world.job(schedule="@every 4s")
    await clock.advance(1)
    await store.change_job(None, TENANT, edited, "test", schedule_to("@every 6s"), 1)
    await execute(store, "DELETE FROM job_versions")

    assert {timer.job_id: timer.timing for timer in (await look(store)).timers} == {
        made: '{"schedule":["@every 4s"]}',
        edited: '{"schedule":["@every 6s"]}',
    }
    assert await seconds(world, made) == [4, 8, 12, 16]
    assert await seconds(world, edited) == [6, 12]


async def test_what_is_long_stays_in_the_definition(world: World, store: Store) -> None:
    job = await world.job(schedule="@every 4s", calendar={"include": A_YEAR})

    await execute(store, "UPDATE timers SET due_us = :due_us", due_us=START_US + 4_000_000)

    (found,) = (await look(store)).timers
    assert found.is_known
    assert len(found.timing) > TIMING_AT_MOST
    assert read_timing(found.timing).calendar is not None
    assert (found.job_id, found.created_us) == (job, START_US)


async def test_a_job_that_an_earlier_release_made_is_planned_by_its_definition(
    world: World, store: Store, clock: StoreClock
) -> None:
    await clock.advance(1)
    job = await world.job(schedule="@every 4s")
    await execute(store, "UPDATE timers SET created_us = NULL, timing_version = NULL, timing = NULL")

    (found,) = (await look(store)).timers
    assert found.created_us == START_US + 1_000_000
    assert not found.is_known
    assert await seconds(world, job) == [5, 9, 13]

    await clock.advance(10)
    (again,) = (await look(store)).timers
    assert (again.timing, again.created_us, again.is_known) == ('{"schedule":["@every 4s"]}', found.created_us, True)


async def test_a_job_that_an_earlier_release_edited_is_planned_as_edited(
    world: World, store: Store, clock: StoreClock
) -> None:
    job = await world.job(schedule="@every 4s")
    await execute(
        store,
        """
        INSERT INTO job_versions (job_id, version, spec, created_us, actor)
        SELECT job_id, 2, replace(spec, '4s', '7s'), created_us, actor FROM job_versions
        """,
    )
    await execute(store, "UPDATE jobs SET version = 2")
    await execute(store, "UPDATE timers SET version = 2, due_us = :due_us", due_us=START_US + 7_000_000)

    assert await seconds(world, job) == [7, 14]
    await clock.advance(10)
    (found,) = (await look(store)).timers
    assert (found.timing, found.is_known) == ('{"schedule":["@every 7s"]}', True)


async def test_an_edit_tells_a_timer_of_an_earlier_release_all_that_it_lacks(
    world: World, store: Store, clock: StoreClock
) -> None:
    await clock.advance(1)
    job = await world.job(schedule="@every 4s")
    await execute(store, "UPDATE timers SET created_us = NULL, timing_version = NULL, timing = NULL")
    await store.change_job(None, TENANT, job, "test", schedule_to("@every 6s"), 1)
    await execute(store, "DELETE FROM job_versions")

    assert await seconds(world, job) == [7, 13]


@pytest.mark.parametrize(
    "said",
    [
        {"schedule": ["0 9 * * *", "H 3 * * *"], "timezone": "Europe/Berlin"},
        {"schedule": "@every 90s", "start_at": "2030-01-01T00:00:00Z", "end_at": "2031-01-01T00:00:00Z"},
        {"schedule": "5 * * * *", "max_runs": 7, "jitter": "30s"},
        {"schedule": "5 * * * *", "misfire": {"policy": "catch_up", "max": 3, "window": "2h"}},
        {"schedule": "30 2 * * *", "timezone": "Europe/Berlin", "dst": {"gap": "skip", "fold": "last"}},
        {"schedule": "5 * * * *", "calendar": {"exclude": ["2030-01-01"]}},
        {},
    ],
)
def test_a_timer_says_all_that_a_planner_needs(said: dict[str, object]) -> None:
    document = {"name": "n", "type": "noop", "payload": {"a": "b" * 500}, **said}
    definition = parse_job(document, job_id="j", now_us=START_US, tenant=TENANT)

    text = timing_text(definition)

    assert text is not None
    timing = read_timing(text)
    for name in Timing.__struct_fields__:
        assert getattr(timing, name) == getattr(definition, name)


async def lines_of(world: World, job: str) -> set[tuple[object, ...]]:
    names = ("tenant", "queue", "priority", "max_attempts")
    return {tuple(row[name] for name in names) for row in await world.runs(job)}


async def test_a_due_time_becomes_a_run_without_a_look_at_its_job(
    world: World, store: Store, clock: StoreClock
) -> None:
    said = {"queue": "reports", "priority": "HIGH", "retry": {"max_retries": 4}, "delivery": "at_least_once"}
    job = await world.job(schedule="@every 4s", max_concurrency=1, **said)
    await execute(store, "UPDATE jobs SET bucket = 'nowhere', group_key = NULL, max_attempts = 9, queue = 'nowhere'")

    await world.plan()

    assert await lines_of(world, job) == {(TENANT, "reports", 1, 5)}
    rows = await store.database.run(single(Statement("SELECT bucket, group_key, is_once FROM runs")))
    assert {tuple(row.values()) for row in rows} == {("+reports||1|default", job, False)}


@pytest.mark.parametrize("how", ["made", "edited"])
async def test_a_job_that_an_earlier_release_wrote_waits_in_the_line_of_its_job(
    how: str, world: World, store: Store, clock: StoreClock
) -> None:
    """It knows of timings, and of nothing else in a timer."""
    job = await world.job(schedule="@every 4s", queue="before", retry={"max_retries": 0})
    await execute(store, "UPDATE jobs SET queue = 'after', bucket = '-after||2|default', max_attempts = 3")
    if how == "made":
        await execute(store, "UPDATE timers SET line_version = NULL, bucket = NULL, max_attempts = NULL")
    else:
        await execute(
            store,
            """
            INSERT INTO job_versions (job_id, version, spec, created_us, actor)
            SELECT job_id, 2, spec, created_us, actor FROM job_versions
            """,
        )
        await execute(store, "UPDATE jobs SET version = 2")
        await execute(store, "UPDATE timers SET version = 2, timing_version = 2")

    await world.plan()

    assert await lines_of(world, job) == {(TENANT, "after", 2, 3)}
    await clock.advance(10)
    (found,) = (await look(store)).timers
    assert (found.line.bucket, found.is_known) == ("-after||2|default", True)

"""Named calendars: what a job is planned by, how a change reaches it, and what cannot be deleted.

The clock starts on Friday 2027-01-15 at 08:00 UTC.
"""

from __future__ import annotations

import msgspec
import pytest

from horae.core.duration import format_instant
from horae.core.errors import Conflict, Invalid, NotFound
from horae.core.job import Definition
from horae.ports import Closing
from horae.scheduler.janitor import Janitor
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import TENANT, World


async def next_day(store: Store, job: str) -> str | None:
    due_us = (await store.job(TENANT, job))["due_us"]
    return None if due_us is None else format_instant(due_us)[:10]


async def janitor_works(world: World, store: Store) -> None:
    await world.plan()
    world.guard.held = None

    async def close_logs(runs: object) -> Closing:
        raise AssertionError(runs)

    await Janitor(store, world.shards, world.guard, 86_400, close_logs).tick()


async def test_a_job_follows_its_calendar_and_each_change_of_it(world: World, store: Store) -> None:
    await store.put_calendar(None, TENANT, "company-days", {"exclude": ["2027-01-16"]})
    job = await world.job(schedule="0 9 * * *", start_at="2027-01-16T00:00:00Z", calendar={"name": "company-days"})
    other = await world.job(schedule="0 9 * * *", start_at="2027-01-16T00:00:00Z")
    assert (await next_day(store, job), await next_day(store, other)) == ("2027-01-17", "2027-01-16")

    await store.put_calendar(None, TENANT, "company-days", {"exclude": ["2027-01-16", "2027-01-17"]})
    await janitor_works(world, store)

    versions = await store.versions(TENANT, job)
    assert [(row["version"], row["actor"]) for row in versions] == [(2, "calendar company-days"), (1, "test")]
    assert (await next_day(store, job), await next_day(store, other)) == ("2027-01-18", "2027-01-16")

    await store.put_calendar(None, TENANT, "company-days", {"exclude": ["2027-01-17", "2027-01-16"]})  # another order
    await janitor_works(world, store)
    await janitor_works(world, store)
    assert [row["version"] for row in await store.versions(TENANT, job)] == [3, 2, 1]
    assert await store.stale_jobs(10) == []


async def test_the_same_days_again_change_nothing(world: World, store: Store) -> None:
    first = await store.put_calendar(None, TENANT, "c", {"exclude": ["2027-01-16"]})
    again = await store.put_calendar(None, TENANT, "c", {"exclude": ["2027-01-16"]})

    assert (first["version"], again["version"]) == (1, 1)


async def test_a_calendar_in_use_stays(world: World, store: Store) -> None:
    await store.put_calendar(None, TENANT, "c", {"exclude": ["2027-01-16"]})
    job = await world.job(schedule="0 9 * * *", calendar={"name": "c"})

    with pytest.raises(Conflict, match="job-1"):
        await store.delete_calendar(None, TENANT, "c")

    def merge(current: Definition, *_: object) -> Definition:
        return msgspec.structs.replace(current, calendar=None)

    await store.change_job(None, TENANT, job, "test", merge, None)
    await store.delete_calendar(None, TENANT, "c")
    with pytest.raises(NotFound):
        await store.delete_calendar(None, TENANT, "c")


async def test_a_deleted_job_uses_no_calendar(world: World, store: Store) -> None:
    await store.put_calendar(None, TENANT, "c", {"exclude": ["2027-01-16"]})
    await store.delete_job(None, TENANT, await world.job(calendar={"name": "c"}), "test", None)

    await store.delete_calendar(None, TENANT, "c")


async def test_calendars_of_another_tenant_are_not_seen(world: World, store: Store) -> None:
    await store.put_calendar(None, "other", "c", {"exclude": ["2027-01-16"]})

    assert await store.calendars(TENANT) == []
    with pytest.raises(AssertionError, match="There is no calendar"):
        await world.job(schedule="0 9 * * *", calendar={"name": "c"})

    job = await world.job()

    def merge(current: Definition, *_: object) -> Definition:
        return msgspec.structs.replace(current, calendar={"name": "c"})

    with pytest.raises(Invalid):
        await store.change_job(None, TENANT, job, "test", merge, None)


async def test_a_paused_job_follows_its_calendar_and_stays_paused(
    world: World, store: Store, clock: StoreClock
) -> None:
    await store.put_calendar(None, TENANT, "c", {"exclude": ["2027-01-16"]})
    job = await world.job(schedule="0 9 * * *", calendar={"name": "c"})
    await store.pause_job(None, TENANT, job, "test", None, None)

    await store.put_calendar(None, TENANT, "c", {"exclude": ["2027-01-17"]})
    await janitor_works(world, store)

    assert (await store.job(TENANT, job))["status"] == "PAUSED"
    await store.resume_job(None, TENANT, job, "test")
    assert await next_day(store, job) == "2027-01-15"
    await clock.advance(86_400)
    await world.plan()
    await clock.advance(86_400)
    await world.plan()
    assert await next_day(store, job) == "2027-01-18"  # the 17th is left out

"""What is to come, counted once for all who ask, over both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from horae.api.forecast import Forecasts
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.asking import create, pointers, run_now

Api = httpx2.AsyncClient


async def test_a_stretch_to_come_names_its_jobs(api: Api, world: World, clock: StoreClock):
    await create(api, name="hourly", schedule="0 * * * *", priority="HIGH")
    await create(api, name="second", schedule="* * * * * *", queue="fast")
    await create(api, name="early", schedule="30 7 * * *")
    await create(api, name="twice", schedule="0 * * * *", max_runs=2)
    await create(api, name="asked")
    await run_now(api, "asked", run_at="2027-01-15T12:00:30Z")
    await world.plan()
    noon = "from=2027-01-15T12:00:00Z&to=2027-01-15T12:01:00Z"

    answer = (await api.get(f"forecast/jobs?{noon}")).json()
    part = (await api.get(f"forecast/jobs?{noon}&limit=1")).json()
    theirs = (await api.get(f"forecast/jobs?{noon}", headers={"X-Horae-Tenant": "other"})).json()

    assert {(job["job_name"], job["due"], job["runs"]) for job in answer["jobs"]} == {
        ("hourly", "2027-01-15T12:00:00Z", 1),
        ("second", "2027-01-15T12:00:00Z", 60),
        ("asked", "2027-01-15T12:00:30Z", 1),
    }
    assert answer["is_complete"] is True
    # Two runs are over before noon.
    later = (await api.get(f"forecast?bucket=1m&{noon}")).json()
    assert sum(bucket["runs"] for bucket in later["buckets"]) == 62
    assert (len(part["jobs"]), part["is_complete"]) == (1, False)
    assert theirs["jobs"] == []
    assert pointers(await api.get("forecast/jobs?to=2027-01-15T12:00:00Z")) == ["/query/to"]


async def test_a_forecast_counts_runs_by_time_priority_and_queue(api: Api, world: World, clock: StoreClock):
    await create(api, name="quarter", schedule="*/15 * * * *", priority="HIGH")
    await create(api, name="twin", schedule="*/15 * * * *", priority="HIGH")
    await create(api, name="second", schedule="* * * * * *", queue="fast", max_runs=100)
    await create(api, name="every", schedule="@every 20m")
    await create(api, name="asked")
    await create(api, name="paused", schedule="* * * * *")
    await api.post("jobs/paused/pause")
    await run_now(api, "asked", run_at="2027-01-15T08:31:00Z")
    await world.plan()

    answer = (await api.get("forecast?to=2027-01-15T09:00:00Z&bucket=15m")).json()

    buckets = {
        bucket["at"]: {(p["priority"], p["queue"]): p["runs"] for p in bucket["by"]} for bucket in answer["buckets"]
    }
    assert buckets == {
        "2027-01-15T08:00:00Z": {("MEDIUM", "fast"): 100},
        "2027-01-15T08:15:00Z": {("HIGH", "default"): 2, ("MEDIUM", "default"): 1},
        "2027-01-15T08:30:00Z": {("HIGH", "default"): 2, ("MEDIUM", "default"): 2},
        "2027-01-15T08:45:00Z": {("HIGH", "default"): 2},
    }
    assert (answer["runs"], answer["is_complete"], answer["bucket"]) == (109, True, "15m")


async def test_a_dense_schedule_is_counted_by_arithmetic(api: Api):
    await create(api, name="second", schedule="* * * * * *")

    answer = (await api.get("forecast?to=2027-01-16T08:00:00Z&bucket=1h")).json()

    assert [bucket["runs"] for bucket in answer["buckets"]] == [3599, *([3600] * 23)]


async def test_a_forecast_sees_a_change_at_once(api: Api, clock: StoreClock):
    await create(api, schedule="0 * * * *")
    query = "forecast?bucket=1h&to=2027-01-16T00:00:00Z"
    first = (await api.get(query)).json()["runs"]
    await clock.advance(0.001)
    await api.patch("jobs/report", json={"schedule": "*/30 * * * *"})

    assert (first, (await api.get(query)).json()["runs"]) == (15, 31)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("bucket=0s", "/query/bucket"),
        ("bucket=2d", "/query/bucket"),
        ("bucket=x", "/query/bucket"),
        ("bucket=1s&to=2027-01-16T08:00:00Z", "/query/bucket"),
        ("to=2027-01-15T07:00:00Z", "/query/to"),
        ("to=2150-01-01T00:00:00Z", "/query/bucket"),
        ("from=2027-01-20T00:00:00Z&to=2027-01-19T00:00:00Z", "/query/to"),
    ],
)
async def test_a_forecast_that_cannot_be_is_refused(api: Api, query: str, where: str):
    assert pointers(await api.get(f"forecast?{query}")) == [where]


async def test_a_forecast_is_counted_once_for_all_who_ask(store: Store, api: Api, monkeypatch: pytest.MonkeyPatch):
    await create(api, schedule="0 * * * *")
    counted = 0
    count = Forecasts._count

    async def counting(self: Forecasts, *args: Any) -> Any:
        nonlocal counted
        counted += 1
        return await count(self, *args)

    monkeypatch.setattr(Forecasts, "_count", counting)

    answers = await asyncio.gather(*(api.get("forecast?bucket=1h") for _ in range(5)))

    assert counted == 1
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("dialect", ["sqlite"])
async def test_a_forecast_that_was_just_counted_is_not_counted_again(
    store: Store, api: Api, monkeypatch: pytest.MonkeyPatch
):
    version = await store.schedules_version("default")
    is_counted = asyncio.Event()
    asked = counted = 0
    count = Forecasts._count

    async def second_comes_at_the_end(_: str) -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:
            await is_counted.wait()
            await asyncio.sleep(0)
        return version

    async def counting(self: Forecasts, *args: Any) -> Any:
        nonlocal counted
        counted += 1
        answer = await count(self, *args)
        is_counted.set()
        return answer

    monkeypatch.setattr(store, "schedules_version", second_comes_at_the_end)
    monkeypatch.setattr(Forecasts, "_count", counting)

    await asyncio.gather(*(api.get("forecast?bucket=1h") for _ in range(2)))

    assert (asked, counted) == (2, 1)

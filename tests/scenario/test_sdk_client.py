"""The async client against the API over both databases. The sync one has the same shape and its own system tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx2
import pytest

from horae.sdk import AsyncClient
from horae.sdk.errors import Conflict, Invalid, NotFound, Stale
from horae.store.store import Store
from tests.conformance.conftest import START_US
from tests.conformance.world import World
from tests.scenario.conftest import ADDRESS, app_over


@pytest.fixture
async def horae(store: Store) -> AsyncIterator[AsyncClient]:
    transport = httpx2.ASGITransport(app=app_over(store))
    async with AsyncClient(ADDRESS, transport=transport, retries=0) as client:
        yield client


async def test_a_job_from_its_making_to_its_end(horae: AsyncClient):
    job = await horae.jobs.create("report", schedule="0 9 * * *", type="noop", labels={"team": "bi"})
    assert job.next_fire_time == datetime(2027, 1, 15, 9, tzinfo=UTC)

    assert (await horae.jobs.update("report", version=job.version, priority="HIGH")).priority == "HIGH"
    with pytest.raises(Stale):
        await horae.jobs.update("report", version=job.version, priority="LOW")
    assert (await horae.jobs.pause("report", reason="maintenance")).status == "PAUSED"
    assert (await horae.jobs.upsert("report", schedule="0 10 * * *", type="noop")).status == "PAUSED"
    assert (await horae.jobs.resume("report")).status == "SCHEDULED"
    assert [version["version"] for version in await horae.jobs.versions("report")]
    assert (await horae.jobs.status("report")).status == "SCHEDULED"
    await horae.jobs.delete("report")
    with pytest.raises(NotFound):
        await horae.jobs.update("report", priority="LOW")


async def test_lists_over_pages(horae: AsyncClient):
    await horae.jobs.create_many([{"name": f"job-{number}", "type": "noop"} for number in range(5)], atomic=True)

    assert [job.name async for job in horae.jobs.list(limit=2)] == [f"job-{number}" for number in range(5)]


async def test_a_key_makes_a_run_once(horae: AsyncClient):
    await horae.jobs.create("report", type="noop")

    first = await horae.jobs.run("report", idempotency_key="k1", payload={"a": 1})
    second = await horae.jobs.run("report", idempotency_key="k1", payload={"a": 1})

    assert first.run_id == second.run_id
    assert [run.run_id async for run in horae.runs.list(job="report")] == [first.run_id]


async def test_a_refusal_names_the_place_and_the_fix(horae: AsyncClient):
    with pytest.raises(Invalid) as refused:
        await horae.jobs.create("report", schedule="61 9 * * *", type="noop")

    assert refused.value.pointer == "/schedule"
    assert refused.value.hint


async def test_a_worker_by_the_client(horae: AsyncClient, world: World):
    await horae.jobs.create("report", type="custom", retry=0)
    run = await horae.jobs.run("report")

    (claimed,) = (await horae.workers.claim("w1", ["report"])).runs
    assert await horae.workers.log(run.run_id, claimed["fence"], 1, "hello\n")
    beat = await horae.workers.heartbeat("w1", {run.run_id: claimed["fence"]})
    assert beat.runs[0]["state"] == "running"
    await horae.workers.complete(run.run_id, claimed["fence"], "failed", error="no")
    with pytest.raises(Conflict) as refused:
        await horae.workers.complete(run.run_id, claimed["fence"] + 1, "succeeded")
    assert refused.value.code == "stale_fence"

    ended = await run.wait()
    assert (ended.status, ended.error_message) == ("FAILED", "no")
    assert await ended.logs() == "hello\n"
    assert [text async for text in horae.runs.follow(run.run_id)] == ["hello\n"]
    assert [dead.run_id async for dead in horae.dead_letters.list()] == [run.run_id]
    replayed = await horae.dead_letters.replay(run.run_id)
    assert replayed.replay_of == run.run_id
    assert (await horae.runs.cancel(replayed.run_id)).run_id == replayed.run_id
    await horae.workers.leave("w1")
    assert await horae.workers.list() == []


async def test_schedules_secrets_queues_and_figures(horae: AsyncClient):
    preview = await horae.schedules.preview("0 9 * * 1-5", timezone="Europe/Berlin", count=2)
    assert len(preview.next) == 2
    await horae.secrets.put("TOKEN", "correct horse")
    assert [secret.name for secret in await horae.secrets.list()] == ["TOKEN"]
    await horae.secrets.delete("TOKEN")
    await horae.jobs.create("report", type="noop", schedule="0 9 * * *")
    await horae.queues.pause("default")
    assert [queue.queue for queue in await horae.queues.list()] == ["default"]
    await horae.queues.resume("default")
    assert (await horae.stats()).data
    assert (await horae.forecast(bucket="1h")).data
    day = 86_400
    start = datetime.fromtimestamp(START_US / 1e6 - day, UTC)
    plan = await horae.jobs.backfill("report", start, datetime.fromtimestamp(START_US / 1e6, UTC), dry_run=True)
    assert plan.data

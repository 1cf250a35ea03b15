"""Searches, made-up data, drains, stats and series, over both databases."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from horae import demo
from horae.config import Settings
from horae.demo import load_demo
from horae.store import run_lists, series
from horae.store.store import Store, open_store
from horae.testing import Horae, virtual
from horae.verify.report import check
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.asking import assert_problem, create, end, failed, run_now
from tests.scenario.rows import rows_of

Api = httpx2.AsyncClient


# Searches that end before they have found a page


@pytest.mark.parametrize(
    "path", ["runs?priority=HIGH", "runs?priority=HIGH&status=FAILED", "dead-letters?priority=HIGH"]
)
async def test_a_search_that_finds_little_goes_on_page_by_page(
    api: Api, store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch, path: str
):
    monkeypatch.setattr(run_lists, "SEARCHED", 3)
    monkeypatch.setattr(run_lists, "LETTERS", 2)
    monkeypatch.setattr(run_lists, "MOST_LOOKS", 1)
    await create(api, retries=0)
    wanted = []
    for number in range(14):
        is_wanted = number in (1, 12)
        made = await failed(api, store, world, clock, 1, priority="HIGH" if is_wanted else "LOW")
        wanted += made if is_wanted else []
    if path == "runs?priority=HIGH":
        wanted.append(await run_now(api, priority="HIGH"))
        await run_now(api, priority="LOW", run_at="2027-01-16T00:00:00Z")

    found, cursor, pages = [], "", 0
    while cursor is not None:
        page = (await api.get(f"{path}&limit=2&cursor={cursor}")).json()
        found += next(value for name, value in page.items() if name != "next_cursor")
        cursor, pages = page["next_cursor"], pages + 1

    assert [run["run_id"] for run in found] == wanted[::-1]
    assert pages > 3


async def test_a_search_by_reason_does_not_go_through_what_succeeded(
    api: Api, store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_lists, "SEARCHED", 2)
    await create(api, retries=0)
    dead = await failed(api, store, world, clock, 1)
    for _ in range(6):
        await run_now(api)
        await end(store, await world.claim(), "succeeded")
    found = (await api.get("runs?reason=exception")).json()
    none = (await api.get("runs?queue=nowhere")).json()

    assert ([run["run_id"] for run in found["runs"]], found["next_cursor"]) == (dead, None)
    assert found["searched_back_to"] is None
    assert none["runs"] == []
    assert none["next_cursor"] is not None
    assert none["searched_back_to"].endswith("Z")


# Made-up data


async def test_made_up_data_is_listed_and_keeps_the_promise(tmp_path: Any):
    url = f"sqlite:///{tmp_path}/demo.db"
    told: list[str] = []

    for _ in range(2):
        await load_demo(Settings(database_url=url), jobs=40, runs=500, days=3, tell=told.append)

    store = open_store(url)
    page = await store.runs("default", None, {"status": "failed"}, None, 100)
    letters = await store.dead_letters("default", None, {}, None, 100)
    report = check([line async for block in store.export(retention_us=10**15) for line in block.splitlines()])
    await store.close()
    assert told == ["40 jobs", "500 runs"] * 2
    assert len(page.rows) == len(letters.rows) == 20
    assert report.is_clean, report


async def test_made_up_data_is_cleared_and_nothing_else(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    own = await failed(api, store, world, clock, 1)
    await demo._make_jobs(store, range(30))
    await demo._make_runs(store, 30, 300, 1, lambda _: None)
    await api.delete("jobs/demo-billing-0000000")
    assert await store.count_made_up("default") == 30

    cleared = [await store.clear_made_up("default", 20) for _ in range(3)]

    assert cleared == [20, 10, 0]
    assert [job["name"] for job in (await api.get("jobs")).json()["jobs"]] == ["report"]
    assert [run["run_id"] for run in (await api.get("runs")).json()["runs"]] == own
    assert [run["run_id"] for run in (await api.get("dead-letters")).json()["dead_letters"]] == own
    assert (await api.get("jobs?status=CANCELLED")).json()["jobs"] == []


# Fleet


async def test_a_worker_is_told_to_drain_with_its_next_heartbeat(api: Api, world: World, store: Store):
    await world.worker("w1")

    answer = await api.post("workers/w1/drain")
    shown = (await api.get("workers")).json()["workers"]
    before = await store.running_of("w1", 0)
    await world.worker("w1")

    assert (answer.status_code, answer.json()) == (202, {"worker_id": "w1", "state": "draining"})
    assert [worker["state"] for worker in shown] == ["draining"]
    assert before == {}
    assert_problem(await api.post("workers/nobody/drain"), 404, "not_found")


@virtual
async def test_a_drained_worker_ends_what_it_has_and_takes_nothing_new() -> None:
    async with Horae(nodes=2) as horae:
        first, second = (node.worker for node in horae.nodes)
        assert first is not None
        assert second is not None
        await horae.advance(1)
        await horae.commands.fleet.drain_worker(horae.caller, first.id, None)
        await horae.advance(6)
        job = await horae.create({"name": "j", "schedule": "*/10 * * * * *", "type": "noop"})
        await horae.advance(60)

        states = {row["id"]: row["state"] for row in await horae.store.workers()}
        assert states == {first.id: "draining", second.id: "active"}
        assert {run["worker"] for run in await rows_of(horae, job) if run["status"] == "succeeded"} == {second.id}


async def test_stats_tell_how_things_stand(api: Api, world: World, store: Store, clock: StoreClock):
    await create(api, retries=0)
    await create(api, name="late", queue="slow", priority="HIGH")
    await world.worker()
    for status in ("succeeded", "succeeded", "failed"):
        await run_now(api)
        await clock.advance(0.25)
        await end(store, await world.claim(), status)
    await run_now(api)
    await world.claim()
    await run_now(api)
    await run_now(api, "late")
    await run_now(api, "late", run_at="2027-01-16T00:00:00Z")
    await clock.advance(10)

    stats = (await api.get("stats")).json()
    theirs = (await api.get("stats", headers={"X-Horae-Tenant": "other"})).json()

    assert (stats["jobs"], stats["dead_letters"]) == (2, 1)
    assert stats["runs"] == {"running": 1, "queued": 2, "pending": 1}
    assert sorted((line["queue"], line["queued"], line["pending"]) for line in stats["waiting"]) == [
        ("default", 1, 0),
        ("slow", 1, 1),
    ]
    assert {line["oldest_seconds"] for line in stats["waiting"]} == {10}
    assert stats["workers"] == {"alive": 1, "slots": 100, "running": 0}
    assert (stats["recent"]["succeeded"], stats["recent"]["failed"]) == (2, 1)
    assert stats["recent"]["lateness_ms"] == {"p50": 250, "p95": 250, "p99": 250, "max": 250}
    assert (theirs["jobs"], theirs["runs"]) == (0, {"running": 0, "queued": 0, "pending": 0})


async def test_a_series_counts_each_thing_when_it_happened(
    api: Api, world: World, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
):
    await create(api, retries=0)
    for late in (1, 2, 3, 300):
        await run_now(api)
        await clock.advance(late)
        claimed = await world.claim()
        await clock.advance(60)
        await end(store, claimed, "succeeded")
    await run_now(api)
    await world.claim()
    await clock.advance(1)

    whole = (await api.get("stats/series?window=15m")).json()
    theirs = (await api.get("stats/series", headers={"X-Horae-Tenant": "other"})).json()
    points = whole["points"]
    at = {name: [point["at"] for point in points if point[name]] for name in ("due", "started", "finished")}

    assert (whole["step_seconds"], whole["is_whole"]) == (15, True)
    assert [sum(point[name] for point in points) for name in ("due", "started", "finished")] == [5, 5, 4]
    # The fourth was due at 08:03:06, started five minutes later, and ended a minute after that.
    assert at["due"][3] == "2027-01-15T08:03:00Z"
    assert at["started"][3] == "2027-01-15T08:08:00Z"
    assert at["finished"][3] == "2027-01-15T08:09:00Z"
    assert whole["lateness_ms"] == {"p50": 2000, "p95": 300_000, "p99": 300_000}
    (late,) = [point["lateness_ms"] for point in points if point["at"] == at["started"][3]]
    assert late == {"p50": 300_000, "p95": 300_000, "p99": 300_000}
    assert sum(point["due"] + point["started"] + point["finished"] for point in theirs["points"]) == 0

    monkeypatch.setattr(series, "MOST_LOOKED_AT", 2)
    part = (await api.get("stats/series?window=15m")).json()

    assert part["is_whole"] is False
    assert sum(point["finished"] for point in part["points"]) == 2
    assert_problem(await api.get("stats/series?window=1s"), 422, "invalid")

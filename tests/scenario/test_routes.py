"""Backfill, replays in bulk, forecast, drain, stats and the event stream, over both databases."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Self

import httpx2
import msgspec
import pytest

from horae.api import events as event_stream
from horae.api.events import Events, Feed
from horae.api.forecast import Forecasts
from horae.config import Settings
from horae.demo import load_demo
from horae.store import run_lists, series
from horae.store.store import Store, open_store
from horae.testing import Horae, virtual
from horae.verify.report import check
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import World
from tests.scenario.asking import assert_problem, create, end, pointers, run_now
from tests.scenario.rows import rows_of

Api = httpx2.AsyncClient


# Backfill


def hours(*numbers: int) -> list[str]:
    return [f"2027-01-15T{number:02d}:00:00Z" for number in numbers]


async def hourly(api: Api, world: World, clock: StoreClock, **fields: Any) -> dict[str, Any]:
    """A job that ran at 09:00 and was paused from 09:30 to 12:30; it is 12:45 now."""
    job = await create(api, name="hourly", schedule="0 * * * *", **fields)
    await clock.advance(3600)
    await world.plan()
    await world.settle(await world.claim())
    await clock.advance(1800)
    await api.post("jobs/hourly/pause")
    await clock.advance(3 * 3600)
    await api.post("jobs/hourly/resume")
    await clock.advance(900)
    return job


RANGE = {"from": "2027-01-15T06:00:00Z", "to": "2027-01-15T12:45:00Z"}


async def test_a_backfill_makes_the_runs_that_are_missing_once(api: Api, world: World, clock: StoreClock):
    await hourly(api, world, clock)

    dry = await api.post("jobs/hourly/backfill", json={**RANGE, "dry_run": True})
    done = await api.post("jobs/hourly/backfill", json=RANGE)
    again = await api.post("jobs/hourly/backfill", json=RANGE)

    assert (dry.status_code, dry.json()["times"]) == (200, hours(6, 7, 8, 10, 11, 12))
    assert (done.status_code, done.json()) == (202, {"runs": 6, "next_from": None})
    assert again.json()["runs"] == 0
    runs = (await api.get("runs?status=QUEUED")).json()["runs"]
    assert {run["trigger"] for run in runs} == {"backfill"}
    assert [run["scheduled_for"] for run in reversed(runs)] == hours(6, 7, 8, 10, 11, 12)
    assert {run["run_at"] for run in runs} == {"2027-01-15T12:45:00Z"}
    assert {run["priority"] for run in runs} == {"LOW"}


async def test_a_backfill_goes_on_where_its_limit_ended_it(api: Api, world: World, clock: StoreClock):
    await hourly(api, world, clock)
    made, from_ = [], RANGE["from"]

    while from_ is not None:
        body = {**RANGE, "from": from_, "max": 4}
        dry = (await api.post("jobs/hourly/backfill", json={**body, "dry_run": True})).json()
        answer = (await api.post("jobs/hourly/backfill", json=body)).json()
        assert answer == {name: dry[name] for name in ("runs", "next_from")}
        made, from_ = made + dry["times"], answer["next_from"]

    assert made == hours(6, 7, 8, 10, 11, 12)


async def test_the_same_key_makes_the_same_backfill(api: Api, world: World, clock: StoreClock):
    await hourly(api, world, clock)

    answers = [await api.post("jobs/hourly/backfill", json=RANGE, headers={"Idempotency-Key": "k"}) for _ in range(2)]

    assert [answer.json()["runs"] for answer in answers] == [6, 6]
    assert len((await api.get("runs?status=QUEUED")).json()["runs"]) == 6


async def test_what_the_scheduler_has_still_to_decide_is_not_backfilled(api: Api, clock: StoreClock):
    await create(api, name="hourly", schedule="0 * * * *")
    await clock.advance(3 * 3600)

    answer = await api.post("jobs/hourly/backfill", json={"from": "2027-01-15T07:00:00Z", "to": hours(11)[0]})

    # 09:00 to 11:00 have passed, but no scheduler has been there; 07:00 and 08:00 were before the job.
    assert answer.json()["runs"] == 2


async def test_a_backfill_that_cannot_be_is_refused(api: Api, clock: StoreClock):
    await create(api, name="hourly", schedule="0 * * * *", overlap="skip")
    bad: list[tuple[Any, list[str]]] = [
        ({}, ["/from", "/to"]),
        ({"from": "x", "to": 5}, ["/from", "/to"]),
        ({"from": hours(7)[0], "to": hours(6)[0]}, ["/to"]),
        ({"from": hours(7)[0], "to": hours(9)[0]}, ["/to"]),
        (
            {**RANGE, "max": 0, "dry_run": "yes", "priority": "URGENT", "mx": 1},
            ["/mx", "/max", "/dry_run", "/priority"],
        ),
    ]
    for body, where in bad:
        assert pointers(await api.post("jobs/hourly/backfill", json=body)) == where
    past = {"from": hours(6)[0], "to": hours(7)[0]}
    assert_problem(await api.post("jobs/hourly/backfill", json=past), 409, "overlap")
    assert (await api.post("jobs/hourly/backfill", json={**past, "dry_run": True})).json()["runs"] == 2
    assert_problem(await api.post("jobs/nobody/backfill", json=past), 404, "not_found")


@virtual
async def test_a_backfill_keeps_the_promise_and_explains_itself() -> None:
    async with Horae() as horae:
        job = await horae.create({"name": "j", "schedule": "*/10 * * * *", "type": "noop"})
        await horae.advance(minutes=25)
        await horae.commands.jobs.pause(horae.caller, job, None, None, None)
        await horae.advance(minutes=30)
        await horae.commands.jobs.resume(horae.caller, job, None)
        for node in horae.nodes:
            node.kill()
        await horae.advance(hours=2)  # nobody decides
        horae.add_node()
        await horae.advance(minutes=5)
        from horae.commands import BackfillRequest

        now_us = await horae.store.now()
        wish = BackfillRequest(START_US, now_us, 100)
        done = await horae.commands.runs.backfill(horae.caller, job, wish, None)
        await horae.advance(minutes=5)

        # Three due times of the pause, and all but the latest of the outage, which run_once made good.
        assert len(done.dues) > 10
        runs = await rows_of(horae, job)
        assert {run["status"] for run in runs if run["cause"] == "backfill"} == {"succeeded"}
        assert (await horae.verify()).is_clean
        assert (await horae.why(job, done.dues[-1]))["verdict"] == "ran"
        assert (await horae.commands.runs.backfill(horae.caller, job, wish, None)).dues == []


# Dead letters in bulk


async def failed(api: Api, store: Store, world: World, clock: StoreClock, count: int, **fields: Any) -> list[str]:
    made = []
    for _ in range(count):
        made.append(await run_now(api, **fields))
        await end(store, await world.claim(), "failed", reason="exception", error="boom")
        await clock.advance(1)
    return made


async def test_dead_letters_are_filtered(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await create(api, name="other", retries=0, queue="slow")
    low = await failed(api, store, world, clock, 1, priority="LOW")
    plain = await failed(api, store, world, clock, 2)
    slow = await failed(api, store, world, clock, 1, job="other")

    async def found(query: str) -> set[str]:
        answer = await api.get(f"dead-letters?{query}")
        assert answer.status_code == 200, answer.text
        return {run["run_id"] for run in answer.json()["dead_letters"]}

    assert await found("") == {*low, *plain, *slow}
    assert await found("job=other") == await found("queue=slow") == {*slow}
    assert await found("priority=LOW") == {*low}
    assert await found("reason=timeout") == set()
    assert await found("reason=exception&job=report&priority=MEDIUM") == {*plain}
    assert await found("due_before=2027-01-15T08:00:01Z") == {*low}
    assert await found("due_after=2027-01-15T08:00:02Z&due_before=2027-01-15T08:00:03Z") == {plain[1]}


async def test_dead_letters_are_grouped_by_what_they_died_of(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await create(api, name="other", retries=0, queue="slow")
    errors = [f"HTTP 503 from 10.0.0.{n} for order {n}0000" for n in range(1, 4)] + ["no such table"]
    made = []
    for error in errors:
        made.append(await run_now(api))
        await end(store, await world.claim(), "failed", reason="exception", error=error)
        await clock.advance(3600)
    await run_now(api, "other")
    await end(store, await world.claim(), "failed", reason="timeout")
    await clock.advance(1)

    answer = (await api.get("/dead-letters:groups")).json()
    told = [(group["job_name"], group["error"], group["runs"]) for group in answer["groups"]]
    shared = answer["groups"][0]
    slow = (await api.get("/dead-letters:groups?queue=slow")).json()
    one = (await api.get("/dead-letters:groups?limit=1")).json()
    listed = (await api.get("dead-letters", params={"error": shared["error"], "job": "report"})).json()
    theirs = (await api.get("/dead-letters:groups", headers={"X-Horae-Tenant": "other"})).json()

    assert told[0] == ("report", "HTTP 503 from … for order …", 3)
    assert set(told[1:]) == {("report", "no such table", 1), ("other", "timeout", 1)}
    assert (answer["group_count"], answer["run_count"]) == (3, 5)
    assert (shared["first_due"], shared["last_due"]) == ("2027-01-15T08:00:00Z", "2027-01-15T10:00:00Z")
    assert (shared["newest_run_id"], shared["by_age"]["day"]) == (made[2], 3)
    assert [group["job_name"] for group in slow["groups"]] == ["other"]
    assert (len(one["groups"]), one["group_count"], one["run_count"]) == (1, 3, 5)
    assert {run["run_id"] for run in listed["dead_letters"]} == set(made[:3])
    assert theirs == {"groups": [], "group_count": 0, "run_count": 0}

    body = {"filter": {"job": "report", "error": shared["error"]}, "expected_count": 3, "rate": 1}
    done = await api.post("/dead-letters:replay", json=body)

    assert done.json()["count"] == 3
    assert (await api.get("/dead-letters:groups")).json()["run_count"] == 2


async def test_all_that_match_are_replayed_at_a_pace(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0, payload={"of": "the job"})
    first = await failed(api, store, world, clock, 3, payload={"of": "the run"})
    await failed(api, store, world, clock, 1, priority="LOW")
    body = {"filter": {"priority": "MEDIUM", "job": "report", "reason": "EXCEPTION"}}

    dry = await api.post("/dead-letters:replay", json={**body, "dry_run": True})
    wrong = await api.post("/dead-letters:replay", json={**body, "expected_count": 4})
    done = await api.post("/dead-letters:replay", json={**body, "expected_count": 3, "rate": 0.5})
    again = await api.post("/dead-letters:replay", json=body)

    assert (dry.status_code, dry.json()) == (200, {"count": 3, "replay_of": first, "dry_run": True})
    assert_problem(wrong, 409, "count_changed")
    assert (done.status_code, done.json()["count"]) == (202, 3)
    assert again.json() == {"count": 0, "run_ids": []}
    runs = [(await api.get(f"runs/{id_}")).json() for id_ in done.json()["run_ids"]]
    assert [run["replay_of"] for run in runs] == first
    assert [run["run_at"] for run in runs] == [f"2027-01-15T08:00:{s:02d}Z" for s in (4, 6, 8)]
    (claimed,) = await world.claim()
    assert claimed.payload is not None
    assert msgspec.json.decode(claimed.payload) == {"of": "the run"}
    assert len((await api.get("dead-letters")).json()["dead_letters"]) == 1


async def test_a_replay_in_bulk_is_done_once_for_a_key(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await failed(api, store, world, clock, 2)

    answers = [await api.post("/dead-letters:replay", headers={"Idempotency-Key": "k"}) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["count"] == 2


async def test_a_replay_that_cannot_be_is_refused(api: Api):
    bad: list[tuple[Any, list[str]]] = [
        ({"filter": []}, ["/filter"]),
        ({"filter": {"status": "x"}}, ["/filter/status"]),
        ({"filter": {"reason": 5, "due_after": "x"}}, ["/filter/reason", "/filter/due_after"]),
        ({"rate": 0, "expected_count": -1}, ["/expected_count", "/rate"]),
        ({"rate": True}, ["/rate"]),
    ]
    for body, where in bad:
        assert pointers(await api.post("/dead-letters:replay", json=body)) == where
    assert_problem(await api.post("/dead-letters:replay", json={"filter": {"job": "nobody"}}), 404, "not_found")


async def test_all_that_match_are_discarded_and_never_more_than_were_counted(
    api: Api, store: Store, world: World, clock: StoreClock
):
    await create(api, retries=0)
    low = await failed(api, store, world, clock, 1, priority="LOW")
    others = await failed(api, store, world, clock, 2)
    body = {"filter": {"priority": "MEDIUM"}}

    dry = await api.post("/dead-letters:discard", json={**body, "dry_run": True})
    unsaid = await api.post("/dead-letters:discard", json=body)
    wrong = await api.post("/dead-letters:discard", json={**body, "expected_count": 3})
    theirs = await api.post("/dead-letters:discard", json={"expected_count": 3}, headers={"X-Horae-Tenant": "other"})
    done = await api.post("/dead-letters:discard", json={**body, "expected_count": 2})

    assert dry.json() == {"count": 2, "run_ids": others, "dry_run": True}
    assert pointers(unsaid) == ["/expected_count"]
    assert_problem(wrong, 409, "count_changed")
    assert_problem(theirs, 409, "count_changed")
    assert (done.status_code, done.json()["run_ids"]) == (200, others)
    left = (await api.get("dead-letters")).json()["dead_letters"]
    assert [run["run_id"] for run in left] == low
    assert (await api.get(f"runs/{others[0]}")).json()["status"] == "FAILED"
    assert_problem(await api.post(f"dead-letters/{others[0]}/replay"), 409, "discarded")

    # Those of a deleted job cannot be replayed any more, but go away all the same.
    await api.delete("jobs/report")
    assert (await api.post("/dead-letters:replay", json={"dry_run": True})).json()["count"] == 0
    assert (await api.post("/dead-letters:discard", json={"expected_count": 1})).json()["run_ids"] == low


async def test_letters_of_another_tenant_are_not_replayed(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await failed(api, store, world, clock, 1)

    answer = await api.post("/dead-letters:replay", headers={"X-Horae-Tenant": "other"})

    assert answer.json()["count"] == 0


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


# Forecast


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


# Events


def parsed(frame: bytes) -> tuple[int, str, dict[str, Any]]:
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().splitlines())
    return int(fields["id"]), fields["event"], msgspec.json.decode(fields["data"])


async def always() -> bool:
    return True


async def frames(
    events: Events, tenant: str, since_us: int | None, count: int
) -> list[tuple[int, str, dict[str, Any]]]:
    found: list[tuple[int, str, dict[str, Any]]] = []
    async with asyncio.timeout(20), aclosing(events._stream(tenant, since_us, always)) as stream:
        async for frame in stream:
            if not frame.startswith(b":"):
                found.append(parsed(frame))
            if len(found) == count:
                return found
    raise AssertionError


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)


class Listener:
    """A stream that is read one event at a time: nothing happens meanwhile that the test does not do."""

    def __init__(self, events: Events, tenant: str) -> None:
        self._feed = events._feed
        self._stream = events._stream(tenant, None, always)

    async def __aenter__(self) -> Self:
        assert (await anext(self._stream)).startswith(b":")
        self._next = asyncio.create_task(self._read())
        while self._feed._since_us is None:  # noqa: ASYNC110 the first look has no event of its own
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)
        await self._stream.aclose()

    async def next(self) -> tuple[str, str, str]:
        async with asyncio.timeout(30):
            _, kind, data = await self._next
        self._next = asyncio.create_task(self._read())
        return kind, data.get("run_id") or data["name"], data.get("change") or data["status"]

    async def _read(self) -> tuple[int, str, dict[str, Any]]:
        while (frame := await anext(self._stream)).startswith(b":"):
            pass
        return parsed(frame)


@pytest.mark.usefixtures("quick")
async def test_changes_of_jobs_and_runs_are_streamed_to_their_tenant(
    api: Api, store: Store, world: World, clock: StoreClock
):
    events = Events(store, lambda: False)
    async with Listener(events, "default") as ours, Listener(events, "other") as theirs:
        await clock.advance(1)
        await api.post("jobs", json={"name": "x"}, headers={"X-Horae-Tenant": "other"})
        assert await theirs.next() == ("job", "x", "created")
        await create(api)
        assert await ours.next() == ("job", "report", "created")
        run = await run_now(api)
        claimed = await world.claim()
        assert await ours.next() == ("run", run, "RUNNING")
        await clock.advance(1)
        await end(store, claimed, "failed", reason="timeout")
        assert await ours.next() == ("run", run, "FAILED")
        await api.post("jobs/report/pause")
        assert await ours.next() == ("job", "report", "paused")
        await clock.advance(1)
        await api.delete("jobs/report")
        assert await ours.next() == ("job", "report", "deleted")


@pytest.mark.usefixtures("quick")
async def test_a_stream_goes_on_after_the_last_event(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api)
    await clock.advance(100)
    last = START_US + 50_000_000
    run = await run_now(api)
    await world.worker()
    await end(store, await world.claim())
    await clock.advance(60)

    (found,) = await frames(Events(store, lambda: False), "default", last, 1)
    (gap, again) = await frames(Events(store, lambda: False), "default", last - 7_200_000_000, 2)

    assert (found[1], found[2]["run_id"], found[2]["status"]) == ("run", run, "SUCCEEDED")
    assert (gap[1], again[1]) == ("gap", "job")


async def test_listeners_share_one_look_and_a_slow_one_is_told(api: Api, store: Store, clock: StoreClock, quick: None):
    feed, looks = Feed(store), 0
    feed.watched["default"] += 1
    happened = store.happened

    async def counting(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await happened(*args)

    store.happened = counting  # type: ignore[method-assign]
    await asyncio.gather(*(feed.look() for _ in range(20)))
    assert looks == 1

    start = feed.number
    await clock.advance(1)
    await create(api)
    await asyncio.sleep(0.02)
    await feed.look()
    assert [event.kind for event in feed.after(start)[0]] == ["job"]
    assert not feed.after(start)[1]
    assert feed.after(start - 5)[1]


async def test_a_last_event_that_is_none_is_refused(api: Api):
    assert pointers(await api.get("events", headers={"Last-Event-ID": "x"})) == ["/headers/Last-Event-ID"]

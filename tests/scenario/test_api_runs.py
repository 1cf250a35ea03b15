"""Runs over HTTP, from the request to the log."""

from __future__ import annotations

import asyncio

import pytest

from horae.ports import Again, LogChunk
from horae.store.store import Store
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import World
from tests.scenario.asking import Api, assert_problem, create, end, on_one_store, pointers, run_now
from tests.scenario.conftest import app_over, client_of

RUN_FIELDS = {
    "run_id", "job_id", "job_name", "tenant", "status", "trigger", "scheduled_for", "run_at", "queued_at", "start_time",
    "end_time", "modified_time", "duration_ms", "attempt_number", "retry_count", "max_attempts", "priority", "queue",
    "executor_id", "result", "error_message", "reason", "log_url", "job_version", "replay_of", "lateness_ms",
}  # fmt: skip


# Runs


async def test_a_manual_run_can_have_its_own_payload_priority_and_time(api: Api, store: Store):
    await create(api)

    run = await run_now(api, payload={"region": "eu"}, priority="high", run_at="2027-01-15T09:00:00Z")

    answer = (await api.get(f"runs/{run}")).json()
    assert set(answer) == RUN_FIELDS | {"attempts"}
    assert (answer["status"], answer["trigger"], answer["priority"]) == ("PENDING", "manual", "HIGH")
    assert answer["scheduled_for"] == answer["run_at"] == "2027-01-15T09:00:00Z"
    row, _ = await store.run("default", run)
    assert row["payload"] == '{"region":"eu"}'


async def test_run_and_run_now_need_no_body(api: Api):
    await create(api)

    for path in ("jobs/report/run", "jobs/report/runNow"):
        answer = await api.post(path)
        assert answer.status_code == 202
        assert set(answer.json()) == {"run_id"}
    assert len((await api.get("jobs/report/runs")).json()) == 2


async def test_a_run_that_cannot_be_is_refused(api: Api):
    await create(api)
    past, far = "2027-01-15T07:00:00Z", "2300-01-01T00:00:00Z"
    bad = {"payload": "x" * 300_000, "priority": "URGENT", "run_at": past, "when": 1}

    assert sorted(pointers(await api.post("jobs/report/run", json={**bad, "run_at": far}))) == [
        "/payload", "/priority", "/run_at", "/when",
    ]  # fmt: skip
    assert pointers(await api.post("jobs/report/run", json={"run_at": past})) == ["/run_at"]
    assert pointers(await api.post("jobs/report/run", json={"payload": {"a": "\0"}})) == ["/payload/a"]
    assert pointers(await api.post("jobs/report/run", json=[])) == [""]


async def test_the_life_of_a_run_as_the_api_tells_it(api: Api, world: World, store: Store, clock: StoreClock):
    job = await create(api, retries=1, schedule="*/10 * * * * *", max_runs=1)
    await world.plan()
    (run,) = (await api.get("jobs/report/runs")).json()
    assert set(run) == RUN_FIELDS
    assert (run["status"], run["attempt_number"], run["retry_count"]) == ("PENDING", 1, 0)
    assert (run["trigger"], run["job_id"], run["job_name"]) == ("schedule", job["job_id"], "report")
    path = f"runs/{run['run_id']}"

    await clock.advance(10)
    assert (await api.get(path)).json()["status"] == "QUEUED"

    await clock.advance(1.5)
    (claimed,) = await world.claim()
    run = (await api.get(path)).json()
    assert (run["status"], run["executor_id"], run["lateness_ms"]) == ("RUNNING", "w1", 1500)
    assert run["start_time"] == run["modified_time"] == "2027-01-15T08:00:11.500Z"
    assert [attempt["status"] for attempt in run["attempts"]] == ["RUNNING"]

    await clock.advance(1)
    await store.requeue("w1", [Again(claimed.run_id, claimed.token, 2_000_000, "http_status", "500 Oh")])
    run = (await api.get(path)).json()
    assert (run["status"], run["reason"], run["error_message"]) == ("RETRYING", "http_status", "500 Oh")

    await clock.advance(2)
    claimed_again = await world.claim()
    assert (await api.get(path)).json()["retry_count"] == 1
    await clock.advance(0.25)
    await end(store, claimed_again, result='{"rows": 3}')

    run = (await api.get(path)).json()
    assert (run["status"], run["attempt_number"], run["retry_count"], run["max_attempts"]) == ("SUCCEEDED", 2, 1, 2)
    assert (run["result"], run["duration_ms"], run["log_url"]) == ({"rows": 3}, 250, f"/api/v1/{path}/logs")
    assert [(a["attempt_number"], a["status"], a["reason"]) for a in run["attempts"]] == [
        (1, "FAILED", "http_status"),
        (2, "SUCCEEDED", None),
    ]
    assert run["attempts"][0]["duration_ms"] == 1000


async def test_the_status_of_a_job_is_that_of_its_latest_run(api: Api, world: World, store: Store):
    job = await create(api, schedule="0 9 * * *")
    before = (await api.get("jobs/report/status")).json()
    run = await run_now(api)
    await end(store, await world.claim(), "failed", reason="timeout", error="too slow")

    after = (await api.get("jobs/report/status")).json()

    assert before == {
        "job_id": job["job_id"],
        "status": "SCHEDULED",
        "last_run": None,
        "next_run": "2027-01-15T09:00:00Z",
        "retry_count": 0,
        "latest_run": None,
    }
    assert (after["status"], after["last_run"], after["next_run"]) == (
        "FAILED",
        "2027-01-15T08:00:00Z",
        "2027-01-15T09:00:00Z",
    )
    assert after["latest_run"]["run_id"] == run
    assert set(after["latest_run"]) == RUN_FIELDS


async def test_runs_are_filtered(api: Api, world: World, store: Store):
    await create(api, name="a", priority="HIGH")
    await create(api, name="b", queue="slow")
    failed, waiting = await run_now(api, "a"), await run_now(api, "b")
    later = await run_now(api, "a", run_at="2027-01-15T09:00:00Z")
    claimed = await world.claim()
    await end(store, [c for c in claimed if c.run_id == failed], "failed", reason="timeout")

    async def ids(query: str) -> set[str]:
        answer = await api.get(f"runs?{query}")
        assert answer.status_code == 200, answer.text
        return {run["run_id"] for run in answer.json()["runs"]}

    assert await ids("") == {failed, waiting, later}
    assert await ids("job=a") == {failed, later}
    assert await ids("status=FAILED") == await ids("status=failure") == {failed}
    assert await ids("status=running") == {waiting}
    assert await ids("status=PENDING") == {later}
    assert await ids("queue=slow") == {waiting}
    assert await ids("priority=HIGH") == {failed, later}
    assert await ids("worker=w1") == {failed, waiting}
    assert await ids("reason=timeout") == {failed}
    assert await ids("due_after=2027-01-15T09:00:00Z") == {later}
    assert await ids("due_before=2027-01-15T09:00:00Z") == {failed, waiting}
    assert_problem(await api.get("runs?job=nobody"), 404, "not_found")


@pytest.mark.parametrize("word", ["SUCCESS", "Completed", "done", "SUCCEEDED", "succeeded"])
async def test_other_words_for_success(api: Api, world: World, store: Store, word: str):
    await create(api)
    await run_now(api)
    await end(store, await world.claim())

    (run,) = (await api.get(f"jobs/report/runs?status={word}")).json()
    assert run["status"] == "SUCCEEDED"
    assert (await api.get("jobs/report/runs?status=enqueued")).json() == []


@pytest.mark.parametrize("word", ["runs", "history"])
async def test_the_history_is_an_array_whose_link_leads_to_the_next_page(
    http: Api, api: Api, clock: StoreClock, word: str
):
    job = await create(api, name="a job/no".replace("/", " "))
    for _ in range(5):
        await run_now(api, job["job_id"])
        await clock.advance(1)

    whole = (await api.get(f"jobs/a job no/{word}")).json()
    answer, paged = await api.get(f"jobs/a job no/{word}?limit=2&status=queued"), []
    paged += answer.json()
    while link := answer.links.get("next"):
        assert link["url"].startswith("/api/v1/jobs/")
        answer = await http.get(link["url"])
        paged += answer.json()

    assert paged == whole
    assert [run["scheduled_for"] for run in whole] == sorted((run["scheduled_for"] for run in whole), reverse=True)
    assert len(whole) == 5


async def test_a_skip_that_stands_for_many_says_so(api: Api, world: World, clock: StoreClock):
    await create(api, schedule="* * * * *", misfire="skip")
    await world.plan()
    await clock.advance(3600)
    await world.plan()

    skipped = (await api.get("jobs/report/runs?status=skipped")).json()

    assert skipped
    assert skipped[0]["skipped_count"] > 1
    assert skipped[0]["skipped_until"] > skipped[0]["scheduled_for"]
    assert set(skipped[0]) == RUN_FIELDS | {"skipped_until", "skipped_count"}


async def test_many_runs_at_once(api: Api):
    await create(api)
    runs = [{"payload": {"n": 1}}, {}, {"priority": "LOW", "run_at": "2027-01-15T09:00:00Z"}]

    answer = await api.post("/runs:batch", json={"job": "report", "runs": runs})

    assert (answer.status_code, answer.json()["created"]) == (202, 3)
    assert {run["run_id"] for run in (await api.get("runs")).json()["runs"]} == set(answer.json()["run_ids"])
    bad = await api.post("/runs:batch", json={"job": "report", "runs": [{}, {"a": 1}, {"priority": 9}, 5]})
    assert pointers(bad) == ["/runs/1/a", "/runs/2/priority", "/runs/3"]
    assert pointers(await api.post("/runs:batch", json={})) == ["/job", "/runs"]
    assert_problem(await api.post("/runs:batch", json={"job": "nobody", "runs": [{}]}), 404, "not_found")
    assert len((await api.get("runs")).json()["runs"]) == 3


async def test_cancel_ends_a_waiting_run_and_tells_a_running_one(api: Api, world: World, store: Store):
    await create(api)
    waiting = await run_now(api)
    answer = await api.post(f"runs/{waiting}/cancel")
    running = await run_now(api)
    await world.claim()

    told = await api.post(f"runs/{running}/cancel")

    assert (answer.status_code, answer.json()["run_id"], answer.json()["status"]) == (202, waiting, "CANCELLED")
    assert answer.json()["reason"] == "cancelled_by_user"
    assert (told.status_code, told.json()["status"]) == (202, "RUNNING")
    assert await store.cancelled("w1") == {running: "cancelled_by_user"}
    assert_problem(await api.post(f"runs/{waiting}/cancel"), 409, "run_is_over")


async def test_retry_is_one_more_attempt_of_the_same_run(api: Api, world: World, store: Store):
    await create(api, retries=0)
    run = await run_now(api)
    assert_problem(await api.post(f"runs/{run}/retry"), 409, "run_is_live")
    await end(store, await world.claim(), "failed", reason="exception")

    answer = await api.post(f"runs/{run}/retry")

    assert (answer.status_code, answer.json()["status"], answer.json()["run_id"]) == (202, "RETRYING", run)
    await end(store, await world.claim())
    run = (await api.get(f"runs/{run}")).json()
    assert [attempt["status"] for attempt in run["attempts"]] == ["FAILED", "SUCCEEDED"]


async def test_dead_letters_are_replayed_or_discarded(api: Api, world: World, store: Store):
    await create(api, retries=0)
    one, two = await run_now(api), await run_now(api)
    await end(store, await world.claim(), "failed", reason="exception", error="boom")

    dead = (await api.get("dead-letters")).json()
    assert {run["run_id"] for run in dead["dead_letters"]} == {one, two}
    assert dead["dead_letters"][0]["error_message"] == "boom"
    page = (await api.get("dead-letters?limit=1&job=report")).json()
    rest = (await api.get(f"dead-letters?limit=1&cursor={page['next_cursor']}")).json()
    assert page["dead_letters"] + rest["dead_letters"] == dead["dead_letters"]

    replayed = await api.post(f"dead-letters/{one}/replay")
    discarded = await api.delete(f"dead-letters/{two}")

    new = (await api.get(f"runs/{replayed.json()['run_id']}")).json()
    assert (replayed.status_code, new["replay_of"], new["trigger"]) == (202, one, "replay")
    assert (discarded.status_code, discarded.json()) == (200, {"deleted": True, "run_id": two})
    assert (await api.get("dead-letters")).json()["dead_letters"] == []
    assert_problem(await api.post(f"dead-letters/{two}/replay"), 409, "discarded")
    assert_problem(await api.delete(f"dead-letters/{one}"), 409, "replayed")
    assert_problem(await api.delete("dead-letters/nobody"), 404, "not_found")


async def test_logs_are_text_and_can_be_followed_to_the_end(api: Api, world: World, store: Store):
    await create(api)
    run = await run_now(api)
    claimed = await world.claim()
    texts = [f"line {number}\n" for number in range(450)]
    await store.add_logs([LogChunk(run, 1, number, text, "default") for number, text in enumerate(texts)])
    await store.add_logs([LogChunk(run, 2, 1, "second ✓\n", "default")])

    following = asyncio.create_task(api.get(f"runs/{run}/logs?follow=true"))
    await asyncio.sleep(0.1)
    assert not following.done()
    await end(store, claimed)

    events = await following
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.text.count("event: log\n") == 451
    assert events.text.endswith(f'event: end\ndata: {{"run_id":"{run}","status":"SUCCEEDED"}}\n\n')
    whole = await api.get(f"runs/{run}/logs")
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.text == "".join(texts) + "second ✓\n"
    assert (await api.get(f"runs/{run}/logs?attempt=2")).text == "second ✓\n"
    assert (await api.get(f"runs/{run}/logs?attempt=1")).text == "".join(texts)
    rest = await api.get(f"runs/{run}/logs?follow=1", headers={"Last-Event-ID": "1-448"})
    assert rest.text.startswith(
        ': still here\n\nid: 1-449\nevent: log\ndata: {"attempt_number":1,"text":"line 449\\n"}'
    )


@on_one_store
async def test_a_stream_ends_when_the_process_wants_to_leave(store: Store, world: World):
    job = await world.job()
    run = await world.run_now(job)
    async with client_of(app_over(store, is_stopping=lambda: True)) as client:
        async with asyncio.timeout(2):
            assert (await client.get(f"/v1/runs/{run}/logs?follow=true")).text == ": still here\n\n"


async def test_workers_are_listed(api: Api, world: World, clock: StoreClock):
    await world.worker("w1")

    (worker,) = (await api.get("workers")).json()["workers"]

    assert (worker["worker_id"], worker["state"], worker["slots"], worker["queues"]) == (
        "w1",
        "active",
        100,
        ["default"],
    )
    await clock.advance(60)
    assert (await api.get("workers")).json()["workers"][0]["state"] == "lost"


@on_one_store
async def test_explain_is_asked_with_the_instant(api: Api):
    assert (await api.get("jobs/report/explain?at=2027-01-15T08:00:00Z")).json() == {
        "tenant": "default",
        "word": "report",
        "at_us": START_US,
    }
    assert (await api.get("jobs/report/explain")).json()["at_us"] is None

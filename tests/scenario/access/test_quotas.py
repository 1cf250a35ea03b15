"""How much a tenant may hold and ask for."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.applications import Starlette

from horae.ports import Share
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.access.doors import Client, client, closed, new_key, on_one_store, problem

# Quotas


async def quota(admin: Client, **fields: Any) -> None:
    answer = await admin.post("/tenants", json={"tenant": "default", **fields})
    assert answer.status_code == 201, answer.text


async def test_s21_a_tenant_holds_no_more_jobs_than_its_quota(admin: Client):
    await admin.post("/jobs", json={"name": "before", "type": "noop"})
    await quota(admin, max_jobs=3)
    for name in ("a", "b"):
        assert (await admin.post("/jobs", json={"name": name, "type": "noop"})).status_code == 201

    refused = problem(await admin.post("/jobs", json={"name": "c", "type": "noop"}), 403, "quota_jobs")
    assert "3 jobs" in refused["detail"]
    assert "max_jobs" in refused["detail"]
    assert (await admin.get("/tenants/default")).json()["usage"] == {"jobs": 3}
    await admin.delete("/jobs/a")
    assert (await admin.post("/jobs", json={"name": "c", "type": "noop"})).status_code == 201
    assert (await admin.put("/jobs/b", json={"priority": "HIGH"})).status_code == 200
    problem(await admin.put("/jobs/d", json={"type": "noop"}), 403, "quota_jobs")


async def test_s21_a_batch_does_not_pass_beyond_the_quota(admin: Client):
    await quota(admin, max_jobs=4)
    jobs = [{"name": f"job-{n}", "type": "noop"} for n in range(6)]

    atomic = (await admin.post("/jobs:batch?atomic=true", json={"jobs": jobs})).json()
    parts = (await admin.post("/jobs:batch", json={"jobs": jobs})).json()

    assert (atomic["created"], atomic["failed"]) == (0, 6)
    assert (parts["created"], parts["failed"]) == (4, 2)
    assert parts["results"][5]["error"]["code"] == "quota_jobs"
    assert parts["results"][5]["error"]["status"] == 403
    assert len((await admin.get("/jobs")).json()["jobs"]) == 4


async def test_s21_jobs_made_at_the_same_moment_do_not_pass_beyond_the_quota(admin: Client):
    await quota(admin, max_jobs=5)

    answers = await asyncio.gather(*(admin.post("/jobs", json={"name": f"job-{n}", "type": "noop"}) for n in range(20)))

    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [403] * 15
    assert len((await admin.get("/jobs")).json()["jobs"]) == 5


async def test_s21_waiting_runs_have_a_quota_that_empties_as_they_run(admin: Client, world: World, clock: StoreClock):
    await quota(admin, max_queued_runs=3)
    await admin.post("/jobs", json={"name": "a", "type": "noop"})
    many = [{"payload": n} for n in range(4)]

    too_many = await admin.post("/runs:batch", json={"job": "a", "runs": many})
    fits = await admin.post("/runs:batch", json={"job": "a", "runs": many[:3]})
    full = await admin.post("/jobs/a/run", json={"priority": "LOW"})

    refused = problem(too_many, 429, "quota_queued")
    assert "has 0" in refused["detail"]
    assert "asks for 4" in refused["detail"]
    assert fits.status_code == 202
    problem(full, 429, "quota_queued")
    assert int(full.headers["retry-after"]) >= 1
    await world.settle(await world.claim(2))
    await clock.advance(1)
    assert (await admin.post("/jobs/a/run")).status_code == 202
    assert (await admin.post("/jobs/a/run")).status_code == 202
    problem(await admin.post("/jobs/a/run"), 429, "quota_queued")


async def test_s21_runs_asked_for_at_the_same_moment_do_not_pass_beyond_the_quota(admin: Client, world: World):
    await quota(admin, max_queued_runs=5)
    await admin.post("/jobs", json={"name": "a", "type": "noop"})

    answers = await asyncio.gather(*(admin.post("/jobs/a/run") for _ in range(20)))

    assert sorted(answer.status_code for answer in answers) == [202] * 5 + [429] * 15


async def test_s21_a_replay_in_bulk_and_a_backfill_do_not_pass_beyond_the_quota(
    admin: Client, world: World, clock: StoreClock
):
    await quota(admin, max_queued_runs=2)
    await admin.post("/jobs", json={"name": "hourly", "type": "noop", "schedule": "0 * * * *", "overlap": "allow"})
    for _ in range(3):
        await admin.post("/jobs/hourly/run")
        await world.settle(await world.claim(), "failed", "exception")
        await clock.advance(1)
    past = {"from": "2027-01-15T04:00:00Z", "to": "2027-01-15T07:30:00Z"}

    for answer in (
        await admin.post("/dead-letters:replay", json={}),
        await admin.post("/jobs/hourly/backfill", json=past),
    ):
        assert "max_queued_runs" in problem(answer, 429, "quota_queued")["detail"]
    assert len((await admin.get("/dead-letters")).json()["dead_letters"]) == 3
    fits = await admin.post("/jobs/hourly/backfill", json={**past, "from": "2027-01-15T06:00:00Z"})
    assert (fits.status_code, fits.json()["runs"]) == (202, 2)


async def test_s21_jobs_that_start_at_once_count_as_waiting_runs(admin: Client, world: World, clock: StoreClock):
    await quota(admin, max_queued_runs=2)
    now = [{"name": f"now-{n}", "type": "noop", "schedule": "@now"} for n in range(4)]
    key = {"Idempotency-Key": "once"}

    parts = (await admin.post("/jobs:batch", json={"jobs": [*now[:3], {"name": "later", "type": "noop"}]})).json()
    assert [each.get("error", {}).get("code") for each in parts["results"]] == [None, None, "quota_queued", None]
    assert parts["results"][2]["error"]["status"] == 429
    single = await admin.post("/jobs", json=now[3], headers=key)
    assert "max_queued_runs" in problem(single, 429, "quota_queued")["detail"]
    assert int(single.headers["retry-after"]) >= 1
    problem(await admin.put("/jobs/now-3", json={"type": "noop", "schedule": "@now"}), 429, "quota_queued")
    problem(await admin.post("/jobs:batch?atomic=true", json={"jobs": now[2:]}), 429, "quota_queued")
    problem(await admin.post("/jobs/later/run"), 429, "quota_queued")
    assert len((await admin.get("/jobs")).json()["jobs"]) == 3

    await world.settle(await world.claim(1))
    await clock.advance(1)
    assert (await admin.post("/jobs", json=now[3], headers=key)).status_code == 201
    problem(await admin.post("/jobs/later/run"), 429, "quota_queued")


async def test_s21_a_retry_counts_as_a_waiting_run(admin: Client, world: World, clock: StoreClock):
    await admin.post("/jobs", json={"name": "a", "type": "noop"})
    run = (await admin.post("/jobs/a/run")).json()["run_id"]
    await world.settle(await world.claim(), "failed", "exception")
    await quota(admin, max_queued_runs=1)
    await admin.post("/jobs/a/run")

    problem(await admin.post(f"/runs/{run}/retry"), 429, "quota_queued")
    await world.settle(await world.claim())
    await clock.advance(1)
    assert (await admin.post(f"/runs/{run}/retry")).status_code == 202


async def test_s21_a_payload_has_a_quota(admin: Client):
    await quota(admin, max_payload_bytes=20)
    await admin.post("/jobs", json={"name": "a", "type": "noop", "payload": {"n": 1}})
    large = {"text": "x" * 20}

    for answer in (
        await admin.post("/jobs", json={"name": "b", "type": "noop", "payload": large}),
        await admin.patch("/jobs/a", json={"payload": large}),
        await admin.post("/jobs/a/run", json={"payload": large}),
    ):
        refused = problem(answer, 422, "quota_payload")
        assert refused["errors"][0]["pointer"] == "/payload"
        assert "20" in refused["detail"]
    batch = await admin.post("/runs:batch", json={"job": "a", "runs": [{"payload": 1}, {"payload": large}]})
    assert problem(batch, 422, "quota_payload")["errors"][0]["pointer"] == "/runs/1/payload"
    of_one = await admin.post("/runs:batch", json={"job": "a", "runs": [{"payload": large}]})
    assert problem(of_one, 422, "quota_payload")["errors"][0]["pointer"] == "/runs/0/payload"


async def test_a_tenants_cap_on_running_runs_holds(admin: Client, store: Store):
    await quota(admin, max_running_runs=2)
    for n in range(4):
        await admin.post("/jobs", json={"name": f"j{n}", "type": "noop"})
        await admin.post(f"/jobs/j{n}/run")
    (line,) = (await store.waiting_lines(["-"])).waiting

    claimed = (await store.claim_gated("w1", [Share(line.bucket, 10)], 10)).claimed

    assert len(claimed) == 2


# Rate limits


async def test_a_tenant_that_asks_too_often_is_told_to_wait(app: Starlette, admin: Client, clock: StoreClock):
    key = (await new_key(admin, "viewer", "busy"))["key"]
    await admin.post("/tenants", json={"tenant": "busy", "requests_per_second": 20})
    async with client(app, key) as busy:
        answers = [await busy.get("/jobs") for _ in range(30)]
        refused = answers[-1]
        await clock.advance(0.5)
        await asyncio.sleep(0.06)
        later = [(await busy.get("/jobs")).status_code for _ in range(12)]

    assert [answer.status_code for answer in answers] == [200] * 20 + [429] * 10
    assert answers[0].headers["ratelimit-policy"] == '"tenant";q=20;w=1'
    assert answers[0].headers["ratelimit"] == '"tenant";r=19;t=1'
    assert problem(refused, 429, "rate_limited")["detail"].startswith("The limit of this tenant is 20 requests")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["ratelimit"] == '"tenant";r=0;t=1'
    assert later == [200] * 10 + [429] * 2
    assert (await admin.get("/jobs")).status_code == 200


async def test_the_limit_is_one_for_all_nodes(store: Store, admin: Client):
    key = (await new_key(admin, requests_per_second=30))["key"]
    nodes = [closed(store) for _ in range(3)]

    answers = []
    for app in nodes * 20:
        async with client(app, key) as user:
            answers.append((await user.get("/jobs")).status_code)

    # Tokens that a node has in hand when the bucket is empty are given out by that node alone.
    assert 24 <= answers.count(200) <= 30
    assert set(answers) == {200, 429}


@on_one_store
async def test_most_requests_cost_no_statement_for_the_limit(store: Store, admin: Client):
    from horae.api.limiter import Limiter
    from horae.commands import Caller
    from horae.core.access import KeyFacts

    class Counting:
        asked = 0

        async def quota(self, tenant: str) -> Any:
            self.asked += 1
            return await store.quota(tenant)

        async def take_tokens(self, *args: Any) -> Any:
            self.asked += 1
            return await store.take_tokens(*args)

    counting = Counting()
    limiter = Limiter(counting)
    caller = Caller("default", "x", key=KeyFacts("k", "default", "x", "viewer", "", (), 1000))
    for _ in range(1000):
        await limiter.admit(caller)

    assert counting.asked <= 12

"""What tenants must not see of each other or of the house, and what a key must not open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette

from horae.api import events, runs
from horae.api.access import OPEN_SCOPE, KeyAccess
from horae.api.keys import SCOPES
from horae.core.access import key_hash
from horae.ports import WorkerState
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.access.doors import ADMIN, Client, all_operations, client, new_key, on_one_store, problem
from tests.scenario.conftest import app_over

HOST = "db-3.internal.example"


async def join(store: Store, id_: str) -> None:
    await store.beat(WorkerState(id_, HOST, "active", 10, 3, ("*",), ()), 60_000_000)


async def test_the_hosts_of_shared_workers_are_told_to_the_house_alone(app: Starlette, admin: Client, store: Store):
    for id_ in ("shared-1", "remote:team-a:w", "remote:team-b:w"):
        await join(store, id_)
    told = {}
    for role, tenant in (("viewer", "team-a"), ("admin", "team-a"), ("viewer", "default"), ("admin", "default")):
        async with client(app, (await new_key(admin, role, tenant))["key"]) as user:
            answer = await user.get("/workers")
            told[role, tenant] = {worker["worker_id"]: worker["node"] for worker in answer.json()["workers"]}
            assert (HOST in (await user.get("/stats")).text, (await user.get("/stats")).status_code) == (False, 200)

    for role in ("viewer", "admin"):
        assert told[role, "team-a"] == {"shared-1": "shared", "remote:team-a:w": HOST}
    assert told["viewer", "default"] == {"shared-1": HOST}
    assert told["admin", "default"] == dict.fromkeys(("shared-1", "remote:team-a:w", "remote:team-b:w"), HOST)


async def test_a_tenant_counts_only_workers_that_may_run_its_runs(app: Starlette, admin: Client, store: Store):
    for id_ in ("shared-1", "remote:team-a:w", "remote:team-b:w"):
        await join(store, id_)

    async with client(app, (await new_key(admin, "viewer", "team-a"))["key"]) as user:
        assert (await user.get("/stats")).json()["workers"] == {"alive": 2, "slots": 20, "running": 6}


async def test_a_shared_worker_is_drained_by_the_house_alone(app: Starlette, admin: Client, store: Store):
    """It runs the runs of others too: to drain it would stop them."""
    for id_ in ("shared-1", "remote:team-a:w", "remote:team-b:w"):
        await join(store, id_)
    async with client(app, (await new_key(admin, "admin", "team-a"))["key"]) as tenant:
        problem(await tenant.post("/workers/shared-1/drain"), 403, "shared_worker")
        problem(await tenant.post("/workers/shared-2/drain"), 404, "not_found")
        problem(await tenant.post("/workers/remote:team-b:w/drain"), 404, "not_found")
        assert (await tenant.post("/workers/remote:team-a:w/drain")).status_code == 202
    async with client(app, (await new_key(admin, "operator"))["key"]) as house:
        assert (await house.post("/workers/shared-1/drain")).status_code == 202
        problem(await house.post("/workers/remote:team-b:w/drain"), 404, "not_found")


async def test_runs_of_others_that_come_first_are_not_counted_for_us(two_tenants: tuple[Client, Client], store: Store):
    ours, theirs = two_tenants
    await join(store, "shared-1")
    await theirs.post("/jobs", json={"name": "first", "type": "noop", "priority": "HIGH"})
    await theirs.post("/runs:batch", json={"job": "first", "runs": [{}] * 7})
    await ours.post("/jobs", json={"name": "last", "type": "noop", "schedule": "@now", "priority": "LOW"})

    assert "7" not in (await ours.get("/jobs/last/explain")).json()["text"]


async def test_s06_a_narrow_admin_makes_no_key_that_opens_more(app: Starlette, admin: Client):
    wide = await new_key(admin, "admin")
    narrow = await new_key(admin, "admin", scopes=["keys", "jobs"])
    async with client(app, narrow["key"]) as user:
        for scopes in ([], ["jobs", "secrets"], None):
            refused = await user.post("/keys", json={"name": "k", "role": "admin", "scopes": scopes})
            problem(refused, 403, "scope_needed")
        problem(await user.post(f"/keys/{wide['key_id']}/rotate"), 403, "scope_needed")
        made = await user.post("/keys", json={"name": "k", "role": "editor", "scopes": ["jobs"]})
        assert made.status_code == 201
        assert (await user.post(f"/keys/{narrow['key_id']}/rotate")).status_code == 201


def test_s06_every_operation_can_be_allowed_by_a_scope():
    scopes = {operation["x-horae-scope"] for *_, operation in all_operations()}

    assert scopes == {*SCOPES, OPEN_SCOPE}


async def test_s22_things_of_another_tenant_are_not_named_in_bodies_and_queries(two_tenants: tuple[Client, Client]):
    ours, theirs = two_tenants
    await ours.put("/calendars/days", json={"exclude": ["2026-12-25"]})
    await ours.put("/secrets/TOKEN", json={"value": "correct"})
    await ours.post("/webhooks", json={"name": "ops", "url": "https://example.com/", "events": ["run.failed"]})
    job = (await ours.post("/jobs", json={"name": "up", "type": "noop"})).json()["job_id"]
    run = (await ours.post(f"/jobs/{job}/run")).json()["run_id"]
    new: dict[str, Any] = {"name": "down", "type": "noop", "schedule": "@daily"}
    url = {"url": "https://example.com/{{ secret.TOKEN }}"}

    answers = [
        await theirs.post("/jobs", json=new | {"after": job}),
        await theirs.post("/jobs", json=new | {"after": "up"}),
        await theirs.post("/jobs", json=new | {"calendar": "days"}),
        await theirs.post("/jobs", json=new | {"notify": [{"channel": "ops", "on": ["run.failed"]}]}),
        await theirs.post("/jobs", json=new | {"type": "http", "target": url}),
    ]
    assert [answer.status_code for answer in answers] == [422] * 5
    assert (await theirs.post("/runs:batch", json={"job": job, "runs": [{}]})).status_code == 404
    assert (await theirs.get(f"/runs?job={job}")).status_code == 404
    assert (await theirs.post("/dead-letters:replay", json={"filter": {"job": job}})).status_code == 404
    assert (await theirs.get("/runs")).json()["runs"] == []
    assert (await ours.get(f"/runs/{run}")).json()["status"] == "QUEUED"


@on_one_store
async def test_s20_a_key_of_a_request_is_each_tenants_own(two_tenants: tuple[Client, Client]):
    ours, theirs = two_tenants
    once = {"Idempotency-Key": "same"}
    mine = await ours.post("/jobs", json={"name": "a", "type": "noop"}, headers=once)
    other = await theirs.post("/jobs", json={"name": "a", "type": "noop"}, headers=once)

    assert (mine.status_code, other.status_code) == (201, 201)
    assert mine.json()["job_id"] != other.json()["job_id"]
    assert "Idempotency-Replayed" not in other.headers


async def test_of_two_changes_of_one_version_one_is_stale(admin: Client):
    job = (await admin.post("/jobs", json={"name": "a", "type": "noop"})).json()
    changes = [
        admin.patch("/jobs/a", json={"description": f"by {number}"}, headers={"If-Match": '"v1"'})
        for number in range(8)
    ]

    statuses = sorted(answer.status_code for answer in await asyncio.gather(*changes))

    assert statuses == [200] + [412] * 7
    assert (await admin.get(f"/jobs/{job['job_id']}")).json()["version"] == 2


@on_one_store
async def test_s01_what_is_open_tells_no_version_and_no_server(app: Starlette):
    async with client(app, "") as nobody:
        answers = [await nobody.get(f"http://127.0.0.1:8700/{path}") for path in ("healthz", "readyz")]

    assert [answer.json() for answer in answers] == [{"status": "ok"}, {"ready": True, "reasons": []}]
    assert all("server" not in answer.headers for answer in answers)


async def test_s14_a_cursor_that_was_made_up_is_refused_or_shows_only_ones_own(
    two_tenants: tuple[Client, Client], world: World, clock: StoreClock
):
    """A cursor names a place in a list and nothing else: there is no tenant in it that could be exchanged."""
    ours, theirs = two_tenants
    for name in ("x", "y", "z"):
        await ours.post("/jobs", json={"name": name, "type": "noop"})
        await ours.post(f"/jobs/{name}/run")
        await ours.post("/keys", json={"name": name, "role": "viewer"})
    for path, key in (("jobs", "jobs"), ("runs", "runs"), ("keys", "keys"), ("audit", "entries")):
        cursor = (await ours.get(f"/{path}?limit=1")).json()["next_cursor"]
        page = (await theirs.get(f"/{path}?cursor={cursor}")).json()
        assert {item["tenant"] for item in page[key]} <= {"team-b"}, path
        for spoilt in (cursor[:-2], cursor + "AAAA", "e30", "bnVsbA"):
            answer = await theirs.get(f"/{path}?cursor={spoilt}")
            assert answer.status_code == 422, (path, spoilt)
            assert answer.json()["errors"][0]["pointer"] == "/query/cursor"


@pytest.fixture
def lasting(store: Store) -> Starlette:
    """As `app`, but streams go on until somebody ends them."""
    return app_over(store, KeyAccess(key_hash(ADMIN), store, kept_seconds=0), is_stopping=lambda: False)


@on_one_store
@pytest.mark.parametrize("path", ["/events", "/runs/{run}/logs?follow=true"])
async def test_s05_a_stream_ends_with_its_key(
    lasting: Starlette, admin: Client, path: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(runs, "POLL_SECONDS", 0.01)
    await admin.post("/jobs", json={"name": "a", "type": "noop"})
    run = (await admin.post("/jobs/a/run")).json()["run_id"]
    made = await new_key(admin)

    async with client(lasting, made["key"]) as user:
        stream = asyncio.create_task(user.get(path.format(run=run)))
        assert not (await asyncio.wait([stream], timeout=0.3))[0]
        await admin.delete(f"/keys/{made['key_id']}")
        async with asyncio.timeout(5):
            assert (await stream).status_code == 200


@on_one_store
async def test_s05_a_worker_that_waits_is_given_nothing_after_its_key_is_revoked(lasting: Starlette, admin: Client):
    made = await new_key(admin, "worker")
    await admin.post("/jobs", json={"name": "report", "type": "custom"})
    claim = {"worker": "w", "handlers": ["report"], "holds": [], "wait": "20s"}

    async with client(lasting, made["key"]) as worker:
        waiting = asyncio.create_task(worker.post("/workers/claim", json=claim))
        await asyncio.wait([waiting], timeout=0.2)
        await admin.delete(f"/keys/{made['key_id']}")
        run = (await admin.post("/jobs/report/run")).json()["run_id"]
        async with asyncio.timeout(10):
            assert (await waiting).json()["runs"] == []

    assert (await admin.get(f"/runs/{run}")).json()["status"] == "QUEUED"

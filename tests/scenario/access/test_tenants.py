"""Tenants do not see each other."""

from __future__ import annotations

import asyncio
import json

from starlette.applications import Starlette

from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.access.doors import Client, all_operations, client, new_key, problem

# Tenants


async def _more_things(ours: Client) -> dict[str, str]:
    await ours.put("/calendars/days", json={"exclude": ["2026-12-25"]})
    await ours.put("/secrets/TOKEN", json={"value": "correct"})
    hook = {"name": "ops", "url": "https://example.com/", "events": ["run.failed"]}
    webhook = (await ours.post("/webhooks", json=hook)).json()["id"]
    delivery = (await ours.post("/webhooks/ops/test")).json()["delivery_id"]
    return {"calendar": "days", "secret": "TOKEN", "webhook": webhook, "delivery": delivery, "worker": "0" * 36}


async def test_s13_ids_of_another_tenant_are_as_unknown_as_any(
    two_tenants: tuple[Client, Client], world: World, store: Store
):
    ours, theirs = two_tenants
    job = (await ours.post("/jobs", json={"name": "secret", "type": "noop", "queue": "ours"})).json()["job_id"]
    run = (await ours.post(f"/jobs/{job}/run")).json()["run_id"]
    key = (await ours.post("/keys", json={"name": "k", "role": "viewer"})).json()["key_id"]
    ids = {"job": job, "run": run, "key": key, "tenant": "team-a", "queue": "ours"} | await _more_things(ours)
    unknown = {"job": "0" * 36, "run": "0" * 36, "key": "0" * 36, "tenant": "nowhere", "queue": "nothing"}
    unknown |= {
        "calendar": "nothing",
        "secret": "NOTHING",
        "webhook": "nothing",
        "delivery": "0" * 36,
        "worker": "0" * 36,
    }
    bodies = {"changeJob": {"priority": "HIGH"}, "putJob": {"priority": "HIGH"}, "changeQueue": {}, "changeWebhook": {}}
    bodies["backfillJob"] = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
    bodies["writeLog"] = {"fence": 1, "seq": 1, "text": "x"}
    bodies["completeRun"] = {"fence": 1, "status": "succeeded"}
    # These make what is not there, or speak of a worker by a name of the caller's own.
    makers = ("heartbeat", "leaveFleet", "pauseQueue", "resumeQueue", "changeTenant", "putCalendar", "putSecret")

    for method, path, operation in await asyncio.to_thread(all_operations):
        if "{" not in path or operation["operationId"] in makers:
            continue
        answers = []
        for words in (ids, unknown):
            body = {"json": bodies[operation["operationId"]]} if operation["operationId"] in bodies else {}
            answer = await theirs.request(method, path.format(**words), **body)
            assert answer.status_code == 404, f"{method} {path} {answer.text}"
            text = json.dumps(answer.json() | {"request_id": ""})
            answers.append(text.replace(next(words[w] for w in words if "{" + w + "}" in path), "ID"))
        assert answers[0] == answers[1]
    assert (await ours.get(f"/jobs/{job}")).json()["version"] == 1
    assert (await ours.get(f"/runs/{run}")).json()["status"] == "QUEUED"


async def test_s14_a_cursor_carries_nobody_into_another_tenant(two_tenants: tuple[Client, Client]):
    ours, theirs = two_tenants
    for name in ("x", "y", "z"):
        await ours.post("/jobs", json={"name": name, "type": "noop"})
    await theirs.post("/jobs", json={"name": "zz", "type": "noop"})
    cursor = (await ours.get("/jobs?limit=1")).json()["next_cursor"]

    page = (await theirs.get(f"/jobs?cursor={cursor}")).json()
    broken = await theirs.get(f"/jobs?cursor={cursor[:-3]}")

    assert {job["tenant"] for job in page["jobs"]} == {"team-b"}
    assert broken.status_code == 422


async def test_s15_fields_that_are_ours_to_set_change_nothing(admin: Client):
    """Those of an answer are passed over where they say what is so, for it can be sent back; all else is refused."""
    for field in ("tenant_id", "state", "attempt", "lease_token", "owner", "shard", "actor"):
        answer = await admin.post("/jobs", json={"name": "a", "type": "noop", field: "x"})
        assert answer.status_code == 422, field
        assert f"/{field}" in [fault["pointer"] for fault in answer.json()["errors"]]
    assert (await admin.get("/jobs")).json()["jobs"] == []
    made = (await admin.post("/jobs", json={"name": "a", "type": "noop", "id": "a.b"})).json()
    assert "a.b" not in made.values()
    ours = {"job_id": "a.b", "version": 7, "created_at": "2001-01-01T00:00:00Z", "status": "PAUSED", "tenant": "x"}
    for name, value in ours.items():
        for answer in (
            await admin.post("/jobs", json={"name": "b", "type": "noop", name: value}),
            await admin.patch("/jobs/a", json={"priority": "HIGH", name: value}),
            await admin.put("/jobs/a", json={"priority": "HIGH", name: value}),
            await admin.put("/jobs/new", json={"type": "noop", name: value}),
        ):
            assert answer.status_code == 422, (name, answer.text)
            assert [fault["pointer"] for fault in answer.json()["errors"]] == [f"/{name}"]
    assert (await admin.get("/jobs")).json()["jobs"] == [made]


async def test_s20_names_and_conflicts_tell_nothing_across_tenants(two_tenants: tuple[Client, Client]):
    ours, theirs = two_tenants
    first = await ours.post("/jobs", json={"name": "same", "type": "noop"})
    second = await theirs.post("/jobs", json={"name": "same", "type": "noop"})

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.headers["etag"] == first.headers["etag"]
    assert (await theirs.get("/audit")).json()["entries"][0]["target"] == second.json()["job_id"]


async def test_s22_nothing_of_another_tenant_is_reached_by_name(two_tenants: tuple[Client, Client], world: World):
    ours, theirs = two_tenants
    await ours.post("/jobs", json={"name": "up", "type": "noop", "queue": "ours"})

    chained = await theirs.post("/jobs", json={"name": "down", "type": "noop", "after": "up"})
    elsewhere = await theirs.post("/jobs", json={"name": "x", "type": "noop", "tenant": "team-a"})
    await theirs.post("/queues/ours/pause")

    assert (chained.status_code, elsewhere.status_code) == (422, 422)
    assert [queue["paused"] for queue in (await ours.get("/queues")).json()["queues"]] == [False]


async def test_only_an_admin_of_default_names_another_tenant(app: Starlette, admin: Client):
    keys = {
        "viewer": (await new_key(admin, "viewer"))["key"],
        "editor": (await new_key(admin, "editor"))["key"],
        "acme": (await new_key(admin, "admin", "acme"))["key"],
    }
    assert (await admin.get("/jobs", headers={"X-Horae-Tenant": "acme"})).status_code == 200
    for key in keys.values():
        async with client(app, key) as user:
            answer = await user.get("/jobs", headers={"X-Horae-Tenant": "other"})
            refused = problem(answer, 403, "other_tenant")
            assert refused["errors"][0]["pointer"] == "/headers/X-Horae-Tenant"
    async with client(app, keys["acme"]) as acme:
        assert (await acme.get("/jobs", headers={"X-Horae-Tenant": "acme"})).status_code == 200
        problem(await acme.post("/tenants", json={"tenant": "mine"}), 403, "keeper_needed")
        problem(await acme.get("/tenants/default"), 404, "not_found")


async def test_the_default_tenant_is_always_there(admin: Client):
    async def names(query: str = "") -> list[str]:
        return [each["tenant"] for each in (await admin.get(f"/tenants{query}")).json()["tenants"]]

    assert await names() == ["default"]
    told = (await admin.get("/tenants/default")).json()
    assert (told["description"], told["weight"], told["paused"], told["created_at"]) == ("", 1, False, None)
    for name in ("ads", "zoo"):
        await admin.post("/tenants", json={"tenant": name})
    first = (await admin.get("/tenants?limit=1")).json()
    second = (await admin.get(f"/tenants?limit=1&cursor={first['next_cursor']}")).json()
    third = (await admin.get(f"/tenants?limit=1&cursor={second['next_cursor']}")).json()
    pages = [[each["tenant"] for each in page["tenants"]] for page in (first, second, third)]
    assert pages == [["ads"], ["default"], ["zoo"]]
    assert third["next_cursor"] is None
    changed = await admin.patch("/tenants/default", json={"max_jobs": 7})
    assert (changed.status_code, changed.json()["max_jobs"]) == (200, 7)
    assert await names() == ["ads", "default", "zoo"]
    problem(await admin.get("/tenants/nowhere"), 404, "not_found")


async def test_a_tenant_is_made_looked_at_and_changed(admin: Client, clock: StoreClock):
    made = await admin.post("/tenants", json={"tenant": "ads", "max_jobs": 5, "weight": 3, "description": "The ads"})
    again = await admin.post("/tenants", json={"tenant": "ads"})
    changed = (await admin.patch("/tenants/ads", json={"max_jobs": None, "max_running_runs": 2, "paused": True})).json()

    assert made.status_code == 201
    assert made.json() == {
        "tenant": "ads",
        "description": "The ads",
        "max_jobs": 5,
        "max_queued_runs": None,
        "max_running_runs": None,
        "requests_per_second": None,
        "max_payload_bytes": None,
        "weight": 3,
        "paused": False,
        "usage": {"jobs": None},
        "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z",
    }
    assert [fault["pointer"] for fault in problem(again, 409, "name_taken")["errors"]] == ["/tenant"]
    for name in (".", "..", "..."):
        dots = await admin.post("/tenants", json={"tenant": name})
        assert [fault["pointer"] for fault in problem(dots, 422, "invalid")["errors"]] == ["/tenant"]
    assert (changed["max_jobs"], changed["max_running_runs"], changed["paused"], changed["weight"]) == (
        None,
        2,
        True,
        3,
    )
    assert [each["tenant"] for each in (await admin.get("/tenants")).json()["tenants"]] == ["ads", "default"]
    problem(await admin.patch("/tenants/nowhere", json={}), 404, "not_found")
    bad = await admin.patch("/tenants/ads", json={"max_jobs": -1, "weight": 0, "wieght": 2, "paused": "yes"})
    assert {fault["pointer"] for fault in problem(bad, 422, "invalid")["errors"]} == {
        "/max_jobs",
        "/weight",
        "/wieght",
        "/paused",
    }


async def test_tenants_can_be_made_again_with_an_idempotency_key(admin: Client):
    headers = {"Idempotency-Key": "t"}
    answers = [await admin.post("/tenants", json={"tenant": "ads"}, headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 201]

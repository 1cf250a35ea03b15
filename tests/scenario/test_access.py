"""Who may come in and do what, over both databases. The numbers S.. are those of the security checklist."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from horae.api.access import KeyAccess
from horae.api.roles import GLOBAL, LEAST, ROLE_OF
from horae.core.access import KEY_ROLES, ROLES, includes, key_hash
from horae.core.explain import explain
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.conftest import ADDRESS, app_over

Client = httpx2.AsyncClient

ADMIN = "the admin key of the settings"
on_one_store = pytest.mark.parametrize("dialect", ["sqlite"])


def closed(store: Any, **more: Any) -> Starlette:
    """An app as `serve` has it, but that remembers no key for longer than one request."""

    async def why(tenant: str, word: str, at_us: int | None) -> dict[str, Any]:
        return explain(await store.explain_facts(tenant, word, at_us), 10**15)

    access = KeyAccess(key_hash(ADMIN), store, kept_seconds=0, **more)
    return app_over(store, access, explain=why, is_stopping=lambda: True)


@asynccontextmanager
async def client(app: Starlette, key: str = ADMIN, address: str = "192.0.2.1") -> AsyncIterator[Client]:
    transport = httpx2.ASGITransport(app=app, client=(address, 5000))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with Client(transport=transport, base_url=f"{ADDRESS}/api/v1/", headers=headers) as made:
        yield made


@pytest.fixture
def app(store: Store) -> Starlette:
    return closed(store)


@pytest.fixture
async def admin(app: Starlette) -> AsyncIterator[Client]:
    async with client(app) as made:
        yield made


async def new_key(admin: Client, role: str = "viewer", tenant: str = "default", **fields: Any) -> dict[str, Any]:
    answer = await admin.post(
        "/keys", json={"name": f"a {role}", "role": role, **fields}, headers={"X-Horae-Tenant": tenant}
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    made: dict[str, Any] = answer.json()
    assert made["code"] == code, made
    return made


def operations(app: Starlette) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every route behind the door."""
    described = next(route for route in app.routes if route.path == "/openapi.json")
    document = asyncio.run(_described(described))
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "servers" and "x-horae-role" in operation
    ]


async def _described(route: Any) -> Any:
    return json.loads((await route.endpoint(None)).body)


def all_operations() -> list[tuple[str, str, dict[str, Any]]]:
    return operations(closed(None))


# Keys


async def test_a_key_opens_the_door_in_its_tenant(app: Starlette, admin: Client):
    made = await new_key(admin, "editor", "acme")

    async with client(app, made["key"]) as acme:
        job = (await acme.post("/jobs", json={"name": "a", "type": "noop"})).json()
        versions = (await acme.get("/jobs/a/versions")).json()["versions"]

    assert job["tenant"] == "acme"
    assert versions[0]["actor"] == "a editor"
    assert (await admin.get("/jobs/a")).status_code == 404


async def test_s03_only_the_hash_of_a_key_is_kept_and_it_is_shown_once(store: Store, admin: Client):
    answer = await admin.post("/keys", json={"name": "ci", "role": "viewer"}, headers={"Idempotency-Key": "once"})
    key = answer.json()["key"]
    repeat = await admin.post("/keys", json={"name": "ci", "role": "viewer"}, headers={"Idempotency-Key": "once"})
    listed = (await admin.get("/keys")).json()["keys"]

    assert key.startswith("horae_")
    assert len(key) == len("horae_") + 43
    assert listed[0]["prefix"] == key[:14]
    assert repeat.status_code == 201
    assert repeat.json() == answer.json() | {"key": None}
    assert len(listed) == 1
    assert key not in await everything_in(store)
    assert key_hash(key) in await everything_in(store)


async def everything_in(store: Store) -> str:
    from horae.store.database import Statement, transaction

    @transaction
    def read() -> Any:
        found = []
        for table in ("api_keys", "audit", "idempotency", "meta", "events"):
            found += yield Statement(f"SELECT * FROM {table}")()
        return [dict(row) for row in found]

    return json.dumps(await store.database.run(read()))


@on_one_store
async def test_s04_keys_are_compared_by_hash_and_in_constant_time(
    store: Store, admin: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
):
    """A guess that shares letters with a key shares nothing with its hash."""
    made = await new_key(admin)
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b)

    async with client(app, made["key"][:-1] + ("A" if made["key"][-1] != "A" else "B")) as near:
        assert (await near.get("/jobs")).status_code == 401

    assert all(len(a) == len(b) == 64 for a, b in compared)
    assert compared


async def test_s05_a_revoked_key_opens_nothing_on_any_node(store: Store, admin: Client):
    made = await new_key(admin)
    other_node = closed(store)
    async with client(other_node, made["key"]) as there:
        assert (await there.get("/jobs")).status_code == 200

        assert (await admin.delete(f"/keys/{made['key_id']}")).json() == {"revoked": True, "key_id": made["key_id"]}

        problem(await there.get("/jobs"), 401, "unauthorized")
    assert (await admin.delete(f"/keys/{made['key_id']}")).status_code == 200
    assert (await admin.get(f"/keys/{made['key_id']}")).json()["status"] == "revoked"


async def test_a_key_is_remembered_for_less_than_five_seconds(store: Store, monkeypatch: pytest.MonkeyPatch):
    from horae.api import access, limiter

    assert access.KEPT_SECONDS < 5
    assert limiter.KEPT_SECONDS < 5


async def test_s06_an_expired_key_is_refused_and_a_narrow_one_is_told_why(
    app: Starlette, admin: Client, clock: StoreClock
):
    short = await new_key(admin, "editor", expires_in="1h")
    narrow = await new_key(admin, "editor", scopes=["runs"])
    async with client(app, short["key"]) as brief, client(app, narrow["key"]) as runs_only:
        assert (await brief.get("/jobs")).status_code == 200
        assert (await runs_only.get("/runs")).status_code == 200
        refused = problem(await runs_only.post("/jobs", json={"name": "a"}), 403, "scope_needed")
        await clock.advance(3601)

        problem(await brief.get("/jobs"), 401, "unauthorized")
    assert '"jobs"' in refused["detail"]
    assert (await admin.get(f"/keys/{short['key_id']}")).json()["status"] == "expired"


async def test_a_key_is_rolled_over_with_an_overlap(app: Starlette, admin: Client, clock: StoreClock):
    old = await new_key(admin, "editor", scopes=["jobs"], requests_per_second=7)
    new = (await admin.post(f"/keys/{old['key_id']}/rotate", json={"overlap": "10m"})).json()

    assert new["key"] != old["key"]
    assert {name: new[name] for name in ("name", "role", "scopes", "requests_per_second")} == {
        name: old[name] for name in ("name", "role", "scopes", "requests_per_second")
    }
    async with client(app, old["key"]) as before, client(app, new["key"]) as after:
        assert [(await each.get("/jobs")).status_code for each in (before, after)] == [200, 200]
        await clock.advance(601)
        assert [(await each.get("/jobs")).status_code for each in (before, after)] == [401, 200]
    await admin.delete(f"/keys/{old['key_id']}")
    problem(await admin.post(f"/keys/{old['key_id']}/rotate"), 409, "key_revoked")


async def test_when_a_key_was_last_used_is_written_in_batches(store: Store, admin: Client, clock: StoreClock):
    access = KeyAccess(key_hash(ADMIN), store, kept_seconds=0)
    keys = [await new_key(admin) for _ in range(2)]
    async with client(app_over(store, access), keys[0]["key"]) as user:
        await user.get("/jobs")
        before = (await admin.get(f"/keys/{keys[0]['key_id']}")).json()
        await access.flush()

    assert before["last_used_at"] is None
    assert [(await admin.get(f"/keys/{key['key_id']}")).json()["last_used_at"] for key in keys] == [
        "2027-01-15T08:00:00Z",
        None,
    ]


@on_one_store
@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({}, ["/name", "/role"]),
        ({"name": "a", "role": "owner"}, ["/role"]),
        ({"name": "", "role": "viewer"}, ["/name"]),
        ({"name": "a", "role": "viewer", "scopes": ["job"]}, ["/scopes/0"]),
        ({"name": "a", "role": "viewer", "scopes": "jobs"}, ["/scopes"]),
        ({"name": "a", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}, ["/expires_at"]),
        ({"name": "a", "role": "viewer", "expires_in": "1h", "expires_at": "2030-01-01T00:00:00Z"}, ["/expires_in"]),
        ({"name": "a", "role": "viewer", "requests_per_second": 0}, ["/requests_per_second"]),
        ({"name": "a", "role": "viewer", "tenant": "b", "hash": "x"}, ["/tenant", "/hash"]),
    ],
)
async def test_a_bad_key_document_is_refused_field_by_field(admin: Client, document: Any, where: list[str]):
    answer = await admin.post("/keys", json=document)

    assert [fault["pointer"] for fault in problem(answer, 422, "invalid")["errors"]] == where
    assert (await admin.get("/keys")).json()["keys"] == []


async def test_keys_page_by_cursor(admin: Client):
    made = [(await new_key(admin))["key_id"] for _ in range(3)]
    first = (await admin.get("/keys?limit=2")).json()
    second = (await admin.get(f"/keys?limit=2&cursor={first['next_cursor']}")).json()

    assert sorted(key["key_id"] for key in first["keys"] + second["keys"]) == sorted(made)
    assert second["next_cursor"] is None


# Bad keys


@on_one_store
async def test_s11_many_bad_keys_from_one_address_are_slowed_down_and_others_are_not(app: Starlette, admin: Client):
    good = await new_key(admin)
    async with client(app, good["key"], "198.51.100.7") as neighbour:
        assert (await neighbour.get("/jobs")).status_code == 200
        statuses = []
        async with client(app, "horae_wrong", "198.51.100.7") as guesser:
            for _ in range(1000):
                answer = await guesser.get("/jobs")
                statuses.append(answer.status_code)
        known = await neighbour.get("/jobs")
    async with client(app, good["key"], "198.51.100.8") as elsewhere:
        unaffected = await elsewhere.get("/jobs")

    assert set(statuses) == {401, 429}
    assert statuses.count(401) < 400
    assert int(answer.headers["retry-after"]) >= 1
    assert (known.status_code, unaffected.status_code) == (200, 200)


@on_one_store
async def test_s11_guesses_of_a_slowed_address_cost_no_statement(store: Store):
    class Counting:
        looked = 0

        async def find_key(self, _: str) -> None:
            self.looked += 1

    counting = Counting()
    app = app_over(store, KeyAccess("", counting))
    async with client(app, "horae_wrong") as guesser:
        for _ in range(1000):
            await guesser.get("/jobs")

    assert counting.looked < 400


# Roles


def test_every_operation_names_its_least_role():
    named = {operation["operationId"] for *_, operation in all_operations()}

    assert named == set(ROLE_OF), "put the operation into api/roles.py"
    assert all(operation["x-horae-role"] == ROLE_OF[operation["operationId"]] for *_, operation in all_operations())
    assert named >= GLOBAL
    assert [role for role in LEAST if role in ROLES] == list(ROLES)


@on_one_store
@pytest.mark.parametrize("role", KEY_ROLES)
async def test_s16_every_operation_is_open_to_its_role_and_those_above_alone(store: Store, admin: Client, role: str):
    app = closed(store)
    made = await new_key(admin, role)
    async with client(app, made["key"]) as user:
        for method, path, operation in await asyncio.to_thread(all_operations):
            least = operation["x-horae-role"]
            answer = await user.request(method, path.replace("{", "").replace("}", ""))
            what = f"{role} {method} {path}: {answer.text}"
            if not includes(role, least):
                refused = problem(answer, 403, "role_needed")
                assert f'"{least}"' in refused["detail"], what
                assert f'"{role}"' in refused["detail"], what
                assert least in refused["errors"][0]["hint"], what
            else:
                assert answer.status_code not in (401, 403, 500), what


@on_one_store
async def test_s01_without_a_key_every_described_route_is_closed(store: Store, app: Starlette):
    async with client(app, "") as nobody:
        bodies = set()
        for method, path, _ in await asyncio.to_thread(all_operations):
            answer = await nobody.request(method, path.replace("{", "").replace("}", ""))
            bodies.add(json.dumps(problem(answer, 401, "unauthorized") | {"request_id": ""}))
        assert len(bodies) == 1


@on_one_store
async def test_s12_a_key_in_the_address_is_refused_and_not_repeated(app: Starlette):
    async with client(app, "") as nobody:
        answer = await nobody.get(f"/jobs?api_key={ADMIN}", headers={"X-API-Key": ADMIN})

    assert answer.status_code == 422
    assert ADMIN not in answer.text


# Tenants


@pytest.fixture
async def two_tenants(app: Starlette, admin: Client) -> AsyncIterator[tuple[Client, Client]]:
    keys = [(await new_key(admin, "admin", tenant))["key"] for tenant in ("team-a", "team-b")]
    async with client(app, keys[0]) as ours, client(app, keys[1]) as theirs:
        yield ours, theirs


async def _more_things(ours: Client) -> dict[str, str]:
    await ours.put("/calendars/days", json={"exclude": ["2026-12-25"]})
    await ours.put("/secrets/TOKEN", json={"value": "x"})
    hook = {"name": "ops", "url": "https://example.com/", "events": ["run.failed"]}
    webhook = (await ours.post("/webhooks", json=hook)).json()["id"]
    delivery = (await ours.post("/webhooks/ops/test")).json()["delivery_id"]
    return {"calendar": "days", "secret": "TOKEN", "webhook": webhook, "delivery": delivery, "worker": "0" * 36}


async def test_s13_ids_of_another_tenant_are_as_unknown_as_any(
    two_tenants: tuple[Client, Client], world: World, store: Store
):
    ours, theirs = two_tenants
    job = (await ours.post("/jobs", json={"name": "secret", "type": "noop"})).json()["job_id"]
    run = (await ours.post(f"/jobs/{job}/run")).json()["run_id"]
    key = (await ours.post("/keys", json={"name": "k", "role": "viewer"})).json()["key_id"]
    ids = {"job": job, "run": run, "key": key, "tenant": "team-a", "queue": "default"} | await _more_things(ours)
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
    """Those of an answer are passed over, so that an answer can be sent back; any other is refused."""
    for field in ("tenant_id", "state", "attempt", "lease_token", "owner", "shard", "actor"):
        answer = await admin.post("/jobs", json={"name": "a", "type": "noop", field: "x"})
        assert answer.status_code == 422, field
        assert f"/{field}" in [fault["pointer"] for fault in answer.json()["errors"]]
    assert (await admin.get("/jobs")).json()["jobs"] == []
    ours = {"job_id": "a.b", "id": "a.b", "version": 7, "created_at": "2001-01-01T00:00:00Z", "status": "PAUSED"}
    made = (await admin.post("/jobs", json={"name": "a", "type": "noop", **ours})).json()
    assert not {name for name in ours if made.get(name) == ours[name]}
    assert (await admin.post("/jobs", json={"name": "b", "type": "noop", "tenant": "x"})).status_code == 422


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
    problem(again, 409, "name_taken")
    assert (changed["max_jobs"], changed["max_running_runs"], changed["paused"], changed["weight"]) == (
        None,
        2,
        True,
        3,
    )
    assert [each["tenant"] for each in (await admin.get("/tenants")).json()["tenants"]] == ["ads"]
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


async def test_a_tenants_cap_on_running_runs_holds(admin: Client, store: Store):
    await quota(admin, max_running_runs=2)
    for n in range(4):
        await admin.post("/jobs", json={"name": f"j{n}", "type": "noop"})
        await admin.post(f"/jobs/j{n}/run")
    (line,) = (await store.waiting_lines(["-"])).waiting

    claimed = await store.claim_gated("w1", [line.bucket], 10)

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


# Queues


async def test_queues_tell_what_waits_and_what_runs(admin: Client, world: World, clock: StoreClock):
    for name, queue, priority in (("a", "default", "HIGH"), ("b", "default", "LOW"), ("c", "slow", "MEDIUM")):
        await admin.post("/jobs", json={"name": name, "type": "noop", "queue": queue, "priority": priority})
    await admin.post("/jobs/a/run")
    await world.claim()
    await admin.post("/jobs/a/run")
    await clock.advance(3)
    await admin.post("/jobs/b/run")
    await admin.post("/jobs/b/run", json={"run_at": "2030-01-01T00:00:00Z"})

    default, slow = (await admin.get("/queues")).json()["queues"]

    assert default == {
        "queue": "default",
        "queued": 2,
        "queued_is_exact": True,
        "running": 1,
        "oldest_age_ms": 3000,
        "by_priority": {
            "HIGH": {"queued": 1, "oldest_age_ms": 3000},
            "MEDIUM": {"queued": 0, "oldest_age_ms": None},
            "LOW": {"queued": 1, "oldest_age_ms": 0},
        },
        "paused": False,
        "max_running": None,
    }
    assert (slow["queue"], slow["queued"], slow["running"], slow["oldest_age_ms"]) == ("slow", 0, 0, None)


async def test_a_queue_is_paused_resumed_and_capped(admin: Client, store: Store):
    paused = (await admin.post("/queues/default/pause")).json()
    assert [(limit.queue, limit.is_paused) for limit in await store.limits()] == [("default", True)]
    resumed = (await admin.post("/queues/default/resume")).json()
    capped = (await admin.patch("/queues/default", json={"max_running": 3})).json()
    freed = (await admin.patch("/queues/default", json={"max_running": None})).json()

    assert (paused["paused"], resumed["paused"]) == (True, False)
    assert (capped["max_running"], freed["max_running"]) == (3, None)
    problem(await admin.patch("/queues/nothing", json={}), 404, "not_found")
    assert (await admin.post("/queues/a%20b/pause")).status_code == 422
    assert (await admin.patch("/queues/default", json={"max_running": "x"})).status_code == 422


# Audit


async def test_s61_every_change_is_written_down_with_who_and_what(app: Starlette, admin: Client, world: World):
    made = await new_key(admin, "editor")
    async with client(app, made["key"], "192.0.2.44") as editor:
        job = (await editor.post("/jobs", json={"name": "a", "type": "noop"}, headers={"X-Request-Id": "r-1"})).json()
        await editor.patch("/jobs/a", json={"priority": "HIGH"})
        await editor.patch("/jobs/a", json={"priority": "HIGH"})
        run = (await editor.post("/jobs/a/run")).json()["run_id"]
        await editor.post(f"/runs/{run}/cancel")
        await editor.post(f"/runs/{run}/retry")
        await editor.post("/jobs/a/pause", json={"reason": "rest"})
        await editor.post("/jobs/a/resume")
        await editor.delete("/jobs/a")
    await admin.delete(f"/keys/{made['key_id']}")
    entries = (await admin.get("/audit")).json()["entries"]

    assert [entry["action"] for entry in reversed(entries)] == [
        "key.created", "job.created", "job.changed", "job.run", "run.cancelled", "run.retried", "job.paused",
        "job.resumed", "job.deleted", "key.revoked",
    ]  # fmt: skip
    created, changed = entries[-2], entries[-3]
    assert (created["actor"], created["key_id"], created["request_id"], created["address"], created["target"]) == (
        "a editor",
        made["key_id"],
        "r-1",
        "192.0.2.44",
        job["job_id"],
    )
    assert (changed["before"], changed["after"]) == (
        {"version": 1, "priority": "MEDIUM"},
        {"version": 2, "priority": "HIGH"},
    )
    assert entries[0]["before"]["prefix"] == made["prefix"]


async def test_a_batch_is_one_entry_and_a_refusal_or_a_repeat_is_none(admin: Client):
    jobs = {"jobs": [{"name": f"j{n}", "type": "noop"} for n in range(3)]}
    for _ in range(2):
        await admin.post("/jobs:batch", json=jobs, headers={"Idempotency-Key": "b"})
    await admin.post("/jobs", json={"name": "j1", "type": "noop"})
    await admin.post("/jobs", json={"name": ""})
    await admin.delete("/jobs/unknown")

    (entry,) = (await admin.get("/audit")).json()["entries"]

    assert entry["action"] == "jobs.created"
    assert [job["name"] for job in entry["after"]["jobs"]] == ["j0", "j1", "j2"]


async def test_no_secret_is_written_down(admin: Client, store: Store):
    target = {
        "url": "https://example.com/hook?token=T0PSECRET&page=2",
        "headers": {"Authorization": "Bearer T0PSECRET", "X-Api-Key": "T0PSECRET", "Accept": "text/plain"},
        "body": {"password": "T0PSECRET", "deep": [{"client_secret": "T0PSECRET"}]},
    }
    await admin.post("/jobs", json={"name": "a", "type": "http", "target": target, "payload": {"api_key": "T0PSECRET"}})
    await admin.patch("/jobs/a", json={"target": target | {"headers": {"Cookie": "T0PSECRET"}}})

    text = (await admin.get("/audit")).text
    assert "T0PSECRET" not in text
    assert "page=2" in text
    assert "text/plain" in text


async def test_the_log_is_filtered_and_paged(admin: Client, app: Starlette, clock: StoreClock):
    key = await new_key(admin, "editor")
    await clock.advance(60)
    async with client(app, key["key"]) as editor:
        job = (await editor.post("/jobs", json={"name": "a", "type": "noop"})).json()["job_id"]
        await editor.post("/jobs/a/pause")

    async def actions(query: str) -> list[str]:
        return [entry["action"] for entry in (await admin.get(f"/audit?{query}")).json()["entries"]]

    assert await actions(f"target={job}") == ["job.paused", "job.created"]
    assert await actions("action=job") == ["job.paused", "job.created"]
    assert await actions("action=key.created") == ["key.created"]
    assert await actions("actor=admin") == ["key.created"]
    assert await actions(f"key={key['key_id']}") == ["job.paused", "job.created"]
    assert await actions("since=2027-01-15T08:01:00Z") == ["job.paused", "job.created"]
    assert await actions("until=2027-01-15T08:01:00Z") == ["key.created"]
    first = (await admin.get("/audit?limit=2")).json()
    second = (await admin.get(f"/audit?limit=2&cursor={first['next_cursor']}")).json()
    assert [entry["action"] for entry in first["entries"] + second["entries"]] == await actions("")
    assert (await admin.get("/audit?cursor=WyJhdWRpdCIsbnVsbCwieCJd")).status_code == 422


async def test_the_whole_log_can_be_taken_away_and_checked(admin: Client, store: Store):
    for n in range(5):
        await admin.post("/jobs", json={"name": f"j{n}", "type": "noop"})
    await store.seal_audit(100)
    answer = await admin.get("/audit/export")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    check = (await admin.get("/audit/verify")).json()

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5]
    assert check == {
        "tenant": "default",
        "ok": True,
        "rows": 5,
        "unsealed": 0,
        "head": lines[-1]["hash"],
        "breaks": [],
    }


# The rest of the list


@on_one_store
async def test_s39_ids_are_made_here_and_have_no_dots(admin: Client):
    job = (await admin.post("/jobs", json={"name": "a", "type": "noop", "job_id": "a.b"})).json()["job_id"]
    run = (await admin.post("/jobs/a/run")).json()["run_id"]

    assert all(re.fullmatch("[0-9a-f-]{36}", id_) for id_ in (job, run))


@on_one_store
async def test_s34_and_s40_nothing_over_the_api_opens_addresses_or_the_shell(admin: Client):
    for field in ("egress_allow", "shell", "allow"):
        assert (await admin.patch("/tenants/default", json={field: "on"})).status_code == 422
        answer = await admin.post("/jobs", json={"name": "a", "type": "noop", field: "on"})
        assert answer.status_code == 422


def test_describing_the_api_names_the_role_of_each_operation():
    described = {operation["operationId"]: operation for *_, operation in all_operations()}

    assert described["createTenant"]["description"].startswith("Least role: admin.")
    assert "429" in described["listJobs"]["responses"]

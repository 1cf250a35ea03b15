"""Keys: what they open, how they are kept, and how guessing is slowed down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette

from horae.api.access import KeyAccess
from horae.core.access import key_hash
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.test_access_store import run_sql
from tests.scenario.access.doors import ADMIN, Client, client, closed, new_key, on_one_store, problem
from tests.scenario.conftest import app_over

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
    assert repeat.json() == answer.json()
    assert len(listed) == 1
    assert key not in await everything_in(store)
    assert key_hash(key) in await everything_in(store)


async def test_a_key_whose_answer_was_lost_is_had_by_a_repeat_and_opens_the_door(app: Starlette, admin: Client):
    once = {"Idempotency-Key": "lost"}
    made = (await admin.post("/keys", json={"name": "ci", "role": "viewer"})).json()
    path = f"/keys/{made['key_id']}/rotate"
    first, second = [(await admin.post(path, headers=once)).json() for _ in range(2)]

    assert first == second
    async with client(app, second["key"]) as user:
        assert (await user.get("/jobs")).status_code == 200
    assert len((await admin.get("/keys")).json()["keys"]) == 2


async def test_a_key_that_an_earlier_release_made_is_not_shown_again_and_says_so(admin: Client, store: Store):
    once, document = {"Idempotency-Key": "old"}, {"name": "ci", "role": "viewer"}
    made = (await admin.post("/keys", json=document, headers=once)).json()["key_id"]
    await run_sql(store, "UPDATE idempotency SET result = :result", result=f'"{made}"')

    (fault,) = problem(await admin.post("/keys", json=document, headers=once), 409, "conflict")["errors"]

    assert f"POST /keys/{made}/rotate" in fault["hint"]


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


@on_one_store
@pytest.mark.parametrize(("path", "field"), [("/keys/KEY/rotate", "overlap"), ("/keys", "expires_in")])
@pytest.mark.parametrize("length", [1e308, -1e308, "-1s", "4000d", "soon"])
async def test_a_length_of_time_that_is_none_is_refused_with_one_to_paste(
    admin: Client, path: str, field: str, length: object
):
    old = await new_key(admin)
    path = path.replace("KEY", old["key_id"])
    body: dict[str, Any] = {"name": "b", "role": "viewer"} if path == "/keys" else {}

    fault = problem(await admin.post(path, json={**body, field: length}), 422, "invalid")["errors"][0]

    assert fault["pointer"] == f"/{field}"
    pasted = json.loads("{" + fault["hint"].removeprefix("Write ").removesuffix(".") + "}")
    assert (await admin.post(path, json=body | pasted)).status_code == 201


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
        ({"name": "a", "role": "viewer", "expires_in": "0s"}, ["/expires_in"]),
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

"""Which role may do what."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.applications import Starlette

from horae.api.roles import GLOBAL, LEAST, ROLE_OF
from horae.core.access import KEY_ROLES, ROLES, includes
from horae.store.store import Store
from tests.scenario.access.doors import ADMIN, Client, all_operations, client, closed, new_key, on_one_store, problem

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
            if path == "/whoami":
                assert answer.json()["role"] == role, what
            elif not includes(role, least):
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
async def test_a_key_that_was_sent_is_told_to_be_a_wrong_one_and_no_more(app: Starlette, admin: Client):
    made = (await admin.post("/keys", json={"name": "a", "role": "viewer"})).json()
    await admin.delete(f"/keys/{made['key_id']}")
    bodies = set()
    for key in (made["key"], "horae_guess", "a.b.c", "no key at all"):
        async with client(app, key) as stranger:
            bodies.add(json.dumps(problem(await stranger.get("/jobs"), 401, "unauthorized") | {"request_id": ""}))

    (body,) = bodies
    assert "The key or token that was sent is not accepted." in body
    assert "This needs a key" not in body


@on_one_store
async def test_s12_a_key_in_the_address_is_refused_and_not_repeated(app: Starlette):
    async with client(app, "") as nobody:
        answer = await nobody.get(f"/jobs?api_key={ADMIN}", headers={"X-API-Key": ADMIN})

    assert answer.status_code == 422
    assert ADMIN not in answer.text

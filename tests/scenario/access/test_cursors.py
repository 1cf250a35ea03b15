"""Cursors are not signed, and need not be: a forged one gives a part of what the list gives anyway, or is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from horae.api.query import SORTS
from horae.store.store import Store
from tests.conformance.world import World, count_queries
from tests.scenario.access.doors import Client, all_operations, client, closed, new_key, problem

PATHS = sorted(
    path.replace("{job}", "mine").replace("{webhook}", "mine")
    for method, path, operation in all_operations()
    if method == "GET" and "cursor" in {each["name"] for each in operation.get("parameters", ())}
)
NAMES = ("jobs", "runs", "dead", "keys", "tenants", "audit", "deliveries", *SORTS)


def forged(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


async def fill(api: Client, world: World) -> None:
    hook = {"name": "mine", "url": "https://hooks.example.com/x", "events": ["run.failed"]}
    assert (await api.post("/webhooks", json=hook)).status_code == 201
    for name in ("mine", "more", "rest"):
        assert (await api.post("/jobs", json={"name": name, "type": "noop", "retry": 0})).status_code == 201
        assert (await api.post(f"/jobs/{name}/run")).status_code == 202
        await world.settle(await world.claim(), "failed", "exception")
        await api.post(f"/jobs/{name}/run")


def rows_of(answer: Any) -> list[dict[str, Any]]:
    if isinstance(answer, list):
        return answer
    return next(value for name, value in answer.items() if name != "next_cursor")


def known(rows: list[dict[str, Any]]) -> list[str]:
    """Which rows they are. When a key was used, and how far the audit log is sealed, may differ meanwhile."""
    names = ("delivery_id", "run_id", "job_id", "key_id", "id", "tenant")
    return [str(next(row[name] for name in names if name in row)) for row in rows]


def test_every_list_with_a_cursor_is_tried():
    assert {"/jobs", "/runs", "/dead-letters", "/keys", "/tenants", "/audit", "/deliveries"} <= set(PATHS)


@pytest.mark.parametrize("path", PATHS)
async def test_a_forged_cursor_shows_nothing_more_and_costs_nothing_more(store: Store, world: World, path: str):
    app = closed(store)
    async with client(app) as admin:
        await fill(admin, world)
        theirs = [known(rows_of((await admin.get(each)).json())) for each in PATHS]
        own_key = (await new_key(admin, "admin", "acme"))["key"]
        async with client(app, own_key) as acme:
            await fill(acme, world)
            ids = sorted({id_ for rows in theirs for id_ in rows})
            keys = [None, 0, 1, -1, 2**63 - 1, 2**63, -(2**70), 1.5, "", "mine", "~", "x" * 200, True, [], {}]
            cursors = [forged(name, None, id_) for name in NAMES for id_ in (*ids, "", "~", "x" * 200, "0", "-1")]
            cursors += [forged(name, key, id_) for name in NAMES for key in keys for id_ in (ids[0], "", "\ud800")]
            cursors += ["bnVsbA", "W10", forged(), forged("jobs"), forged("runs", None, "a", "b"), "7_8", "=", "AA=="]
            user = admin if path == "/tenants" else acme
            sorts = SORTS if path == "/jobs" else ("",)
            for sort in sorts:
                asked = {"sort": sort} if sort else {}
                with count_queries(store) as plain:
                    whole = known(rows_of((await user.get(path, params=asked)).json()))
                is_taken = 0
                for cursor in cursors:
                    with count_queries(store) as seen:
                        answer = await user.get(path, params={**asked, "cursor": cursor})
                    if answer.status_code != 200:
                        assert problem(answer, 422, "invalid")["errors"][0]["pointer"] == "/query/cursor"
                        continue
                    rows = known(rows_of(answer.json()))
                    is_taken += 1
                    assert rows == whole[len(whole) - len(rows) :]
                    assert len(seen) <= len(plain) + 1, cursor
                assert is_taken

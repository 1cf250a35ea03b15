"""Idempotency keys: a repeat does nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from horae.core.errors import Unavailable
from horae.store.store import Store
from tests.conformance.world import World
from tests.scenario.asking import Api, assert_problem, create, end, on_one_store, pointers, run_now

# Idempotency keys


@pytest.mark.parametrize("path", ["jobs", "jobs/report/run", "jobs/report/pause", "jobs/report/resume", "/runs:batch"])
async def test_the_same_key_and_request_get_the_same_answer(api: Api, path: str):
    await create(api)
    bodies = {"jobs": {"name": "other"}, "/runs:batch": {"job": "report", "runs": [{}]}}
    key = {"Idempotency-Key": "k 1"}

    first = await api.post(path, json=bodies.get(path, {}), headers=key)
    second = await api.post(path, json=bodies.get(path, {}), headers=key)

    assert first.is_success, first.text
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    for name in ("etag", "location"):
        assert second.headers.get(name) == first.headers.get(name)
    other = await api.post(path, json={"name": "third", "run_at": None}, headers=key)
    assert [fault["pointer"] for fault in assert_problem(other, 422, "key_reused")["errors"]] == [
        "/headers/Idempotency-Key"
    ]


async def test_a_key_is_the_same_under_both_bases_and_belongs_to_a_tenant(http: Api):
    key = {"Idempotency-Key": "k"}

    first = await http.post("/api/v1/jobs", json={"name": "a"}, headers=key)
    second = await http.post("/v1/jobs", json={"name": "a"}, headers=key)
    other = await http.post("/v1/jobs", json={"name": "a"}, headers=key | {"X-Horae-Tenant": "other"})

    assert second.json() == first.json()
    assert other.json()["job_id"] != first.json()["job_id"]


async def test_a_repeat_after_a_lost_answer_does_nothing_twice(api: Api, store: Store, monkeypatch: pytest.MonkeyPatch):
    await create(api)

    async def lost(*_: Any) -> None:
        raise Unavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "remember", lost)
        first = await api.post("jobs/report/run", headers={"Idempotency-Key": "k"})
    second = await api.post("jobs/report/run", headers={"Idempotency-Key": "k"})

    assert first.status_code == second.status_code == 202
    assert second.json() == first.json()
    assert len((await api.get("runs")).json()["runs"]) == 1


@pytest.mark.parametrize("path", ["runs/{run}/cancel", "dead-letters/{run}/replay", "runs/{run}/retry"])
async def test_keys_make_requests_about_runs_repeatable(api: Api, world: World, store: Store, path: str):
    await create(api, retries=0)
    run = await run_now(api)
    if "cancel" not in path:
        await end(store, await world.claim(), "failed", reason="exception")
    key = {"Idempotency-Key": "k"}

    first = await api.post(path.format(run=run), headers=key)
    second = await api.post(path.format(run=run), headers=key)

    assert first.status_code == second.status_code == 202
    assert first.json() == second.json()


@on_one_store
@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\tb", "käse"])
async def test_a_key_that_is_none_is_refused(api: Api, key: str):
    answer = await api.post("jobs", json={}, headers={"Idempotency-Key": key.encode()})

    assert pointers(answer) == ["/headers/Idempotency-Key"]


async def test_a_request_that_was_refused_can_be_mended_under_the_same_key(api: Api):
    key = {"Idempotency-Key": "k"}
    assert_problem(await api.post("jobs", json={"schedule": "bad"}, headers=key), 422, "invalid")

    assert (await api.post("jobs", json={"schedule": "@daily"}, headers=key)).status_code == 201

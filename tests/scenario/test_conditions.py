"""Conditions of a change: kept where they mean something, refused where they do not, dropped nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.access.doors import all_operations
from tests.scenario.asking import Api, assert_problem, create, on_one_store, pointers, run_now

ELSEWHERE = [
    (method, path)
    for method, path, _ in all_operations()
    if method != "GET" and not path.startswith("/jobs/{job}") and path != "/dead-letters:groups"
]


@on_one_store
@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
@pytest.mark.parametrize(("method", "path"), ELSEWHERE)
async def test_a_condition_where_nothing_has_a_version_is_refused(api: Api, method: str, path: str, header: str):
    where = path.replace("{", "").replace("}", "")

    answer = await api.request(method, where, json={} if method != "DELETE" else None, headers={header: "*"})

    assert pointers(answer) == [f"/headers/{header}"]


async def test_of_several_versions_any_will_do(api: Api):
    await create(api)
    seen = {"If-Match": '"v7", W/"v1"'}

    good = await api.patch("jobs/report", json={"description": "x"}, headers=seen)
    late = await api.patch("jobs/report", json={"description": "y"}, headers=seen)
    twice = await api.patch(
        "jobs/report", json={"description": "z"}, headers=[("If-Match", '"v9"'), ("If-Match", '"v2"')]
    )

    assert good.json()["version"] == 2
    assert_problem(late, 412, "stale")
    assert twice.json()["description"] == "z"
    for wrong in ('"v1", x', '"v1", *', ",", '"v1'):
        answer = await api.patch("jobs/report", json={"description": "z"}, headers={"If-Match": wrong})
        assert pointers(answer) == ["/headers/If-Match"]


async def test_a_job_can_be_put_only_if_there_is_none(api: Api):
    new = {"If-None-Match": "*"}
    first = await api.put("jobs/report", json={"type": "noop"}, headers=new)
    by_id = f"jobs/{first.json()['job_id']}"
    for path in ("jobs/report", by_id):
        problem = assert_problem(
            await api.put(path, json={"type": "noop", "description": "x"}, headers=new), 412, "stale"
        )
        assert problem["errors"][0]["pointer"] == "/headers/If-None-Match"

    assert first.status_code == 201
    assert (await api.get("jobs/report")).json()["version"] == 1
    other = await api.put("jobs/other", json={"type": "noop"}, headers={"If-None-Match": '"v1"'})
    assert pointers(other) == ["/headers/If-None-Match"]
    assert pointers(await api.patch("jobs/report", json={}, headers=new)) == ["/headers/If-None-Match"]
    assert_problem(await api.put("jobs/other", json={"description": "x"}, headers=new), 404, "not_found")


@on_one_store
async def test_two_idempotency_keys_are_one_too_many(api: Api):
    await create(api)
    keys: Any = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]

    refused = await api.post("jobs/report/run", json={}, headers=keys)
    alike = await api.post("jobs/report/run", json={}, headers=[keys[0], keys[0]])

    assert pointers(refused) == ["/headers/Idempotency-Key"]
    assert alike.status_code == 202
    assert [run["run_id"] for run in (await api.get("runs")).json()["runs"]] == [alike.json()["run_id"]]


@on_one_store
@pytest.mark.parametrize("path", ["jobs/report/backfill", "/dead-letters:replay", "/dead-letters:discard"])
async def test_a_dry_run_that_belongs_in_the_body_is_told_so(api: Api, path: str):
    await create(api, schedule="@hourly")
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T02:00:00Z"} if "backfill" in path else {}

    answer = await api.post(f"{path}?dry_run=true", json=body)

    assert pointers(answer) == ["/query/dry_run"]
    assert answer.json()["errors"][0]["hint"] == 'Write "dry_run": true in the body.'
    assert (await api.post(path, json={**body, "dry_run": True})).status_code == 200


async def test_the_default_queue_is_there_before_its_first_job(api: Api):
    answers = [
        await api.post("queues/default/resume"),
        await api.patch("queues/default", json={"max_running": None}),
        await api.patch("queues/default", json={}),
        await api.post("queues/default/pause"),
    ]

    assert [(answer.status_code, answer.json()["paused"]) for answer in answers] == [
        *[(200, False)] * 3,
        (200, True),
    ]
    assert_problem(await api.post("queues/nope/resume"), 404, "not_found")


async def test_too_many_waiting_runs_are_told_with_the_headers_of_a_limit(api: Api):
    await create(api)
    await api.post("tenants", json={"tenant": "default"})
    await api.patch("tenants/default", json={"max_queued_runs": 1})
    await run_now(api)

    answer = await api.post("jobs/report/run")

    assert_problem(answer, 429, "quota_queued")
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["ratelimit-policy"] == '"queued-runs";q=1'
    assert answer.headers["ratelimit"] == '"queued-runs";r=0;t=1'

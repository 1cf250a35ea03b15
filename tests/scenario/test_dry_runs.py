"""`?dry_run=true`: a change is tried for real, told, and undone, over both databases."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from horae.store.database import Rows, Statement, Steps, reading
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.asking import assert_problem, create, failed, pointers, run_now

Api = httpx2.AsyncClient

TABLES = (
    "jobs", "job_versions", "job_labels", "timers", "runs", "history", "dead_letters", "events", "calendars", "secrets",
    "webhooks", "watches", "deliveries", "api_keys", "tenants", "limits", "usage", "workers", "audit", "idempotency",
)  # fmt: skip
DRY = {"dry_run": "true"}


@reading
def everything() -> Steps[dict[str, Rows]]:
    found = {}
    for table in TABLES:
        found[table] = sorted([dict(row) for row in (yield Statement(f"SELECT * FROM {table}")())], key=repr)
    return found


async def a_world(api: Api, store: Store, world: World, clock: StoreClock) -> dict[str, str]:
    """Something of every kind, by the name that it has in a path."""
    await create(api, retries=0)
    (dead,) = await failed(api, store, world, clock, 1)
    (ended,) = await failed(api, store, world, clock, 1)
    await world.worker("w1")
    for path, body in (
        ("calendars/days", {"exclude": ["2030-12-24"]}),
        ("secrets/token", {"value": "the first"}),
    ):
        answer = await api.put(path, json=body)
        assert answer.is_success, answer.text
    hook = {"name": "ops", "url": "https://example.com/hook", "events": ["run.failed"]}
    for path, body in (
        ("webhooks", hook),
        ("tenants", {"tenant": "acme"}),
        ("jobs", {"name": "asleep", "type": "noop"}),
    ):
        answer = await api.post(path, json=body)
        assert answer.is_success, answer.text
    await api.post("jobs/asleep/pause")
    key = (await api.post("keys", json={"name": "ci", "role": "viewer"})).json()["key_id"]
    delivery = (await api.post("webhooks/ops/test")).json()["delivery_id"]
    waiting = await run_now(api)
    return {
        "dead": dead, "run": waiting, "ended": ended, "key": key, "delivery": delivery, "webhook": "ops",
        "calendar": "days", "secret": "token", "tenant": "acme", "queue": "default", "worker": "w1", "job": "report",
    }  # fmt: skip


# Of each operation: what would change it, and how that is told.
CHANGES: dict[str, tuple[str, str, Any, str]] = {
    "createJob": ("POST", "jobs", {"name": "new", "type": "noop", "schedule": "@now"}, "job.created"),
    "putJob": ("PUT", "jobs/newer", {"type": "noop"}, "job.created"),
    "changeJob": ("PATCH", "jobs/report", {"priority": "HIGH"}, "job.changed"),
    "deleteJob": ("DELETE", "jobs/report", None, "job.deleted"),
    "pauseJob": ("POST", "jobs/report/pause", {"reason": "why"}, "job.paused"),
    "resumeJob": ("POST", "jobs/asleep/resume", None, "job.resumed"),
    "runJob": ("POST", "jobs/report/run", {"payload": 1}, "job.run"),
    "runJobNow": ("POST", "jobs/report/runNow", None, "job.run"),
    "cancelRun": ("POST", "runs/{run}/cancel", None, "run.cancelled"),
    "retryRun": ("POST", "runs/{ended}/retry", None, "run.retried"),
    "replayRun": ("POST", "dead-letters/{dead}/replay", None, "run.replayed"),
    "discardRun": ("DELETE", "dead-letters/{dead}", None, "run.discarded"),
    "pauseQueue": ("POST", "queues/default/pause", None, "queue.changed"),
    "resumeQueue": ("POST", "queues/paused/resume", None, "queue.changed"),
    "changeQueue": ("PATCH", "queues/default", {"max_running": 3}, "queue.changed"),
    "drainWorker": ("POST", "workers/w1/drain", None, "worker.drained"),
    "putCalendar": ("PUT", "calendars/days", {"exclude": ["2031-12-24"]}, "calendar.set"),
    "deleteCalendar": ("DELETE", "calendars/days", None, "calendar.deleted"),
    "putSecret": ("PUT", "secrets/token", {"value": "the second"}, "secret.set"),
    "deleteSecret": ("DELETE", "secrets/token", None, "secret.deleted"),
    "createWebhook": (
        "POST", "webhooks", {"name": "b", "url": "https://example.com/b", "events": ["run.late"]}, "webhook.created"
    ),
    "changeWebhook": ("PATCH", "webhooks/ops", {"url": "https://example.com/other"}, "webhook.changed"),
    "deleteWebhook": ("DELETE", "webhooks/ops", None, "webhook.deleted"),
    "rotateWebhook": ("POST", "webhooks/ops/rotate", None, "webhook.rotated"),
    "testWebhook": ("POST", "webhooks/ops/test", None, "webhook.tested"),
    "resendDelivery": ("POST", "deliveries/{delivery}/resend", None, "delivery.resent"),
    "createKey": ("POST", "keys", {"name": "second", "role": "admin"}, "key.created"),
    "rotateKey": ("POST", "keys/{key}/rotate", None, "key.rotated"),
    "revokeKey": ("DELETE", "keys/{key}", None, "key.revoked"),
    "createTenant": ("POST", "tenants", {"tenant": "second"}, "tenant.created"),
    "changeTenant": ("PATCH", "tenants/acme", {"max_jobs": 5}, "tenant.changed"),
}  # fmt: skip


async def test_every_change_is_told_and_undone(api: Api, http: Api, store: Store, world: World, clock: StoreClock):
    there = await a_world(api, store, world, clock)
    await api.post("queues/paused/pause")
    told = (await http.get("/openapi.json")).json()["paths"]
    dry = {
        operation["operationId"]
        for path in told.values()
        for operation in path.values()
        if isinstance(operation, dict) and any(each["name"] == "dry_run" for each in operation.get("parameters", []))
    }
    before = await store.database.run(everything())

    assert dry == set(CHANGES)
    for method, path, body, action in CHANGES.values():
        key = {"Idempotency-Key": f"for {path}"} if method == "POST" else {}
        answer = await api.request(method, path.format(**there), json=body, params=DRY, headers=key)

        assert answer.status_code == 200, (path, answer.text)
        assert set(answer.json()) == {"dry_run", "changes"}
        assert [change["action"] for change in answer.json()["changes"]] == [action], path
        assert await store.database.run(everything()) == before, path


async def test_what_would_be_refused_is_refused_as_ever(api: Api):
    await create(api)

    assert_problem(await api.post("jobs", json={"name": "report", "type": "noop"}, params=DRY), 409, "name_taken")
    assert pointers(await api.post("jobs", json={"name": "x", "scedule": "@now"}, params=DRY)) == ["/scedule"]
    assert_problem(await api.delete("jobs/nobody", params=DRY), 404, "not_found")
    stale = await api.patch("jobs/report", json={"priority": "LOW"}, params=DRY, headers={"If-Match": '"v9"'})
    assert_problem(stale, 412, "stale")


async def test_what_would_change_nothing_says_so(api: Api):
    await create(api)

    answer = await api.post("jobs/report/resume", params=DRY)

    assert (answer.status_code, answer.json()) == (200, {"dry_run": True, "changes": []})


async def test_a_key_of_a_dry_run_is_free_for_the_real_one(api: Api):
    headers = {"Idempotency-Key": "mine"}
    body = {"name": "report", "type": "noop"}

    tried = await api.post("jobs", json=body, params=DRY, headers=headers)
    made = await api.post("jobs", json=body, headers=headers)
    again = await api.post("jobs", json=body, headers=headers)
    repeated = await api.post("jobs", json=body, params=DRY, headers=headers)
    bad = await api.post("jobs", json=body, params=DRY, headers={"Idempotency-Key": ""})

    assert (tried.status_code, made.status_code) == (200, 201)
    assert again.json()["job_id"] == made.json()["job_id"]
    assert repeated.json() == {"dry_run": True, "changes": []}  # it is done by now
    assert pointers(bad) == ["/headers/Idempotency-Key"]


@pytest.mark.parametrize("path", ["/jobs:batch", "/jobs/report/backfill", "/dead-letters:replay", "/workers/claim"])
async def test_what_cannot_be_tried_refuses_the_word(api: Api, path: str):
    await create(api)

    assert "/query/dry_run" in pointers(await api.post(path, json={}, params=DRY))

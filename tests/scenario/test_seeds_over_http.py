"""The requests of the five seed documents as they stand there, and the keys of the answers that they show.

Placeholders (`"https://..."`, `"URL"`, `{ ... }`) are filled in; nothing else is changed.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from horae.ports import Ending
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World

Api = httpx2.AsyncClient

CLEANUP = """
{
  "name": "Daily Data Cleanup",
  "schedule_type": "CRON",
  "cron_expression": "0 0 * * *",
  "payload": {
    "cleanup_target": "old_logs",
    "retention_days": 30
  },
  "max_retries": 2
}
"""


async def post(client: Api, path: str, text: str) -> dict[str, Any]:
    answer = await client.post(path, content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_seed_0_a_job_definition(http: Api):
    job = await post(
        http,
        "/api/v1/jobs",
        """
        {
          "job_id": "UUID",
          "schedule": "0 9 * * *",
          "type": "HTTP/Script",
          "payload": {
            "url": "https://example.com/api",
            "method": "POST",
            "body": { }
          },
          "retries": 3,
          "status": "SCHEDULED/FAILED/COMPLETED",
          "next_run": "2025-06-24T09:00:00Z",
          "created_at": "...",
          "updated_at": "..."
        }
        """,
    )

    assert job["job_id"] != "UUID"
    assert (job["schedule"], job["type"], job["status"]) == ("0 9 * * *", "http", "SCHEDULED")
    assert job["target"]["url"] == "https://example.com/api"
    assert (job["max_retries"], job["next_fire_time"]) == (3, "2027-01-15T09:00:00Z")
    assert job["created_at"] == "2027-01-15T08:00:00Z"


async def test_seed_0_its_job_log(http: Api, world: World, store: Store):
    job = await post(http, "/v1/jobs", '{"type": "noop", "schedule": "@now"}')
    claimed = await world.claim()
    await store.settle("w1", [Ending(c.run_id, c.token, "succeeded", None, None, '"fine"') for c in claimed])

    (log,) = (await http.get(f"/v1/jobs/{job['job_id']}/runs?status=SUCCESS")).json()

    assert (log["job_id"], log["result"], log["duration_ms"]) == (job["job_id"], "fine", 0)
    assert log["end_time"] == "2027-01-15T08:00:00Z"
    assert (await http.get(f"/v1/jobs/{job['job_id']}/runs?status=FAILURE")).json() == []


@pytest.mark.parametrize("type_", ["HTTP_REQUEST", "DATABASE_QUERY", "ETL_TASK", "NOTIFICATION", "DATA_SYNC", "CUSTOM"])
async def test_seed_1_a_job_as_its_java_class_becomes_json(http: Api, type_: str):
    definition = {
        "id": None,
        "name": "nightly",
        "cronExpression": "0 2 * * *",
        "scheduledTime": 0,
        "type": type_,
        "priority": "HIGH",
        "parameters": {"url": "https://example.com/api"},
        "maxRetries": 5,
        "retryCount": 0,
        "status": "SCHEDULED",
    }

    job = await post(http, "/api/v1/jobs", json.dumps(definition))

    assert (job["cron_expression"], job["priority"], job["max_retries"]) == ("0 2 * * *", "HIGH", 5)
    assert job["payload"] == {"url": "https://example.com/api"}
    assert job["next_fire_time"] == "2027-01-16T02:00:00Z"


async def test_seed_1_a_one_time_job(http: Api):
    definition = {
        "name": "once",
        "cronExpression": None,
        "scheduledTime": 1_800_003_600_000,
        "type": "CUSTOM",
        "priority": "LOW",
        "parameters": {},
        "maxRetries": 3,
    }

    job = await post(http, "/api/v1/jobs", json.dumps(definition))

    assert (job["schedule_type"], job["next_fire_time"]) == ("FUTURE", "2027-01-15T09:00:00Z")


@pytest.mark.parametrize("word", ["ENQUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "RETRYING"])
async def test_seed_1_every_status_is_a_filter(http: Api, word: str):
    assert (await http.get(f"/api/v1/runs?status={word}")).status_code == 200


async def test_seed_2_its_three_requests(http: Api, world: World, store: Store):
    made = await post(
        http,
        "/api/v1/jobs",
        '{ "name": "daily-report", "cron": "0 9 * * *", "callback_url": "https://example.com/report", '
        '"priority": "HIGH", "payload": {} }',
    )
    assert made["next_fire_time"] == "2027-01-15T09:00:00Z"
    job_id = made["job_id"]
    await http.post(f"/api/v1/jobs/{job_id}/run")
    claimed = await world.claim()
    await store.settle("w1", [Ending(c.run_id, c.token, "succeeded", None, None, None) for c in claimed])

    status = (await http.get(f"/api/v1/jobs/{job_id}/status")).json()
    deleted = await http.delete(f"/api/v1/jobs/{job_id}")

    assert {name: status[name] for name in ("job_id", "status", "last_run", "next_run", "retry_count")} == {
        "job_id": job_id,
        "status": "SUCCEEDED",
        "last_run": "2027-01-15T08:00:00Z",
        "next_run": "2027-01-15T09:00:00Z",
        "retry_count": 0,
    }
    assert (deleted.status_code, deleted.json()["deleted"]) == (200, True)


async def test_seed_3_its_two_requests(http: Api):
    job = await post(http, "/v1/jobs", '{"cron": "*/5 * * * *", "target": "https://example.com/hook", "payload": "{}"}')
    await http.post(f"/v1/jobs/{job['job_id']}/run")

    history = (await http.get(f"/v1/jobs/{job['job_id']}/history")).json()

    assert (job["target"]["url"], job["payload"]) == ("https://example.com/hook", {})
    assert [run["status"] for run in history] == ["QUEUED"]
    assert history[0].keys() >= {"job_id", "status", "start_time", "end_time"}


async def test_seed_4_create_read_update_run_and_delete(http: Api, clock: StoreClock):
    made = await post(http, "/v1/jobs", CLEANUP)
    path = f"/v1/jobs/{made['job_id']}"

    job = (await http.get(path)).json()
    assert {name: job[name] for name in ("name", "schedule_type", "cron_expression", "status", "max_retries")} == {
        "name": "Daily Data Cleanup",
        "schedule_type": "CRON",
        "cron_expression": "0 0 * * *",
        "status": "SCHEDULED",
        "max_retries": 2,
    }
    assert job["payload"] == {"cleanup_target": "old_logs", "retention_days": 30}
    assert job["created_at"] == job["updated_at"] == "2027-01-15T08:00:00Z"

    await clock.advance(1)
    changed = await http.put(path, json={"name": "Updated Data Cleanup", "schedule_time": "2025-09-25T10:00:00Z"})
    assert changed.status_code == 200
    assert changed.json()["name"] == "Updated Data Cleanup"
    assert changed.json()["schedule_type"] == "FUTURE"
    assert changed.json()["updated_at"] == "2027-01-15T08:00:01Z"

    assert (await http.post(f"{path}/runNow")).status_code == 202
    assert (await http.delete(path)).status_code == 200


async def test_seed_4_a_future_and_an_immediate_job(http: Api):
    future = {"name": "f", "schedule_type": "FUTURE", "schedule_time": "2027-09-25T10:00:00Z"}
    assert (await post(http, "/v1/jobs", json.dumps(future)))["next_fire_time"] == "2027-09-25T10:00:00Z"

    job = await post(http, "/v1/jobs", '{"name": "i", "schedule_type": "IMMEDIATE", "payload": {}}')

    assert job["schedule_type"] == "IMMEDIATE"
    assert [run["status"] for run in (await http.get(f"/v1/jobs/{job['job_id']}/runs")).json()] == ["QUEUED"]


async def test_seed_4_the_status_and_the_runs_of_a_job(http: Api, world: World, store: Store, clock: StoreClock):
    job = await post(http, "/v1/jobs", '{"name": "n", "type": "noop", "max_retries": 0}')
    path = f"/v1/jobs/{job['job_id']}"
    await http.post(f"{path}/runNow")
    (claimed,) = await world.claim()

    latest = (await http.get(f"{path}/status")).json()["latest_run"]
    assert latest.keys() >= {"run_id", "status", "start_time", "modified_time", "attempt_number", "executor_id"}
    assert (latest["status"], latest["attempt_number"], latest["executor_id"]) == ("RUNNING", 1, "w1")

    await clock.advance(10)
    ending = Ending(claimed.run_id, claimed.token, "failed", "exception", "Database connection failed", None)
    await store.settle("w1", [ending])
    (run,) = (await http.get(f"{path}/runs")).json()
    assert {name: run[name] for name in ("status", "start_time", "end_time", "modified_time", "error_message")} == {
        "status": "FAILED",
        "start_time": "2027-01-15T08:00:00Z",
        "end_time": "2027-01-15T08:00:10Z",
        "modified_time": "2027-01-15T08:00:10Z",
        "error_message": "Database connection failed",
    }
    assert (await http.get(run["log_url"])).status_code == 200

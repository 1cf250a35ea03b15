"""Every change is written down, and what nobody can set over the API."""

from __future__ import annotations

import json
import re

import pytest
from starlette.applications import Starlette

from horae.store import audit
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.access.doors import Client, all_operations, client, new_key, on_one_store

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
        {"name": job["name"], "version": 1, "priority": "MEDIUM"},
        {"name": job["name"], "version": 2, "priority": "HIGH"},
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


async def test_every_entry_about_a_job_has_its_id_and_its_name(admin: Client):
    job = (await admin.post("/jobs", json={"name": "a", "type": "noop", "schedule": "@hourly"})).json()["job_id"]
    await admin.patch("/jobs/a", json={"priority": "HIGH"})
    for verb in ("pause", "resume", "run"):
        await admin.post(f"/jobs/a/{verb}")
    await admin.post("/runs:batch", json={"job": "a", "runs": [{}, {}]})
    await admin.delete("/jobs/a")

    entries = (await admin.get(f"/audit?target={job}")).json()["entries"]

    assert [entry["action"] for entry in entries] == [
        "job.deleted", "job.run", "job.run", "job.resumed", "job.paused", "job.changed", "job.created",
    ]  # fmt: skip
    for entry in entries:
        assert ((entry["before"] or {}) | (entry["after"] or {})).get("name") == "a", entry


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


async def test_a_search_through_a_long_log_breaks_off_and_goes_on(admin: Client, monkeypatch: pytest.MonkeyPatch):
    for n in range(9):
        await admin.post("/jobs", json={"name": f"j{n}", "type": "noop"})
    await admin.post("/jobs/j0/pause")
    await admin.post("/jobs/j1/pause")
    monkeypatch.setattr(audit, "SEARCHED", 3)

    expected = {"action=job.created": (9, 4), "action=job.paused": (2, 4), "actor=nobody": (0, 4), "": (11, 3)}
    for query, wanted in expected.items():
        found, cursor, pages = [], "", 0
        while cursor is not None:
            page = (await admin.get(f"/audit?{query}&limit=5&cursor={cursor}")).json()
            found += [entry["id"] for entry in page["entries"]]
            cursor, pages = page["next_cursor"], pages + 1
        assert (len(found), pages) == wanted
        assert found == sorted(found, reverse=True)


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
    refused = await admin.post("/jobs", json={"name": "a", "type": "noop", "job_id": "a.b"})
    assert refused.status_code == 422
    job = (await admin.post("/jobs", json={"name": "a", "type": "noop"})).json()["job_id"]
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

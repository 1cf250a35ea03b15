"""Every route of the API over both databases: what it does, what it answers, and how it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import jsonschema_rs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from horae.api.access import KeyAccess, key_hash
from horae.commands.jobs import JobCommands
from horae.core.errors import Unavailable
from horae.ports import Again, Claimed, Ending, LogChunk
from horae.store.store import Store
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import World
from tests.scenario.conftest import app_over, client_of

Api = httpx2.AsyncClient

# For what never comes to the store.
on_one_store = pytest.mark.parametrize("dialect", ["sqlite"])

JOB_FIELDS = {
    "name", "schedule", "timezone", "type", "target", "payload", "priority", "queue", "timeout", "retry", "misfire",
    "overlap", "max_concurrency", "jitter", "dst", "calendar", "start_at", "end_at", "max_runs", "delivery", "after",
    "notify", "labels", "description", "job_id", "tenant", "status", "schedule_type", "cron_expression", "max_retries",
    "next_fire_time", "last_run_status", "version", "created_at", "updated_at",
}  # fmt: skip
RUN_FIELDS = {
    "run_id", "job_id", "job_name", "tenant", "status", "trigger", "scheduled_for", "run_at", "queued_at", "start_time",
    "end_time", "modified_time", "duration_ms", "attempt_number", "retry_count", "max_attempts", "priority", "queue",
    "executor_id", "result", "error_message", "reason", "log_url", "job_version", "replay_of", "lateness_ms",
}  # fmt: skip


async def create(api: Api, **fields: Any) -> dict[str, Any]:
    answer = await api.post("jobs", json={"name": "report", "type": "noop", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def run_now(api: Api, job: str = "report", **fields: Any) -> str:
    answer = await api.post(f"jobs/{job}/run", json=fields)
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def end(store: Store, claimed: list[Claimed], status: str = "succeeded", **more: Any) -> None:
    fields = {"reason": None, "error": None, "result": None} | more
    await store.settle("w1", [Ending(c.run_id, c.token, status, **fields) for c in claimed])


def assert_problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) == {"type", "title", "status", "detail", "code", "errors", "request_id"}
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert all(set(fault) == {"pointer", "detail", "hint"} for fault in problem["errors"])
    return problem


def pointers(answer: httpx2.Response) -> list[str]:
    return [fault["pointer"] for fault in assert_problem(answer, 422, "invalid")["errors"]]


# Jobs


async def test_a_new_job_is_answered_in_full_with_its_place_and_version(api: Api):
    answer = await api.post("jobs", json={"name": "report", "schedule": "0 9 * * *", "target": "https://example.com/"})

    job = answer.json()
    assert answer.status_code == 201
    assert set(job) >= JOB_FIELDS
    assert answer.headers["location"] == f"/api/v1/jobs/{job['job_id']}"
    assert answer.headers["etag"] == '"v1"'
    assert (job["status"], job["schedule_type"], job["cron_expression"]) == ("SCHEDULED", "CRON", "0 9 * * *")
    assert job["next_fire_time"] == "2027-01-15T09:00:00Z"
    assert (job["version"], job["tenant"], job["last_run_status"]) == (1, "default", None)
    assert job["created_at"] == job["updated_at"] == "2027-01-15T08:00:00Z"


async def test_a_job_is_found_by_its_id_and_by_its_name_under_both_bases(http: Api, api: Api):
    made = await create(api, name="monthly report, all of it")

    for base in ("/api/v1", "/v1"):
        for word in (made["job_id"], "monthly report, all of it"):
            answer = await http.get(f"{base}/jobs/{word}")
            assert answer.json() == made
            assert answer.headers["etag"] == '"v1"'


async def test_a_name_can_be_taken_only_once(api: Api):
    await create(api)

    problem = assert_problem(await api.post("jobs", json={"name": "report"}), 409, "name_taken")

    assert "report" in problem["detail"]


async def test_every_fault_of_a_job_is_named_at_once(api: Api):
    answer = await api.post("jobs", json={"schedule": "61 9 * * *", "timezone": "Europe/Berln", "retires": 3})

    assert sorted(pointers(answer)) == ["/retires", "/schedule", "/timezone"]
    assert "Europe/Berlin" in answer.text
    assert "retries" in answer.text


async def test_only_the_fields_given_change_and_each_change_is_a_version(api: Api):
    await create(api, schedule="0 9 * * *", labels={"team": "billing"})

    for method, priority in (("PUT", 1), ("PATCH", "low")):
        change = {"timezone": "Europe/Berlin", "priority": priority}
        answer = await api.request(method, "jobs/report", json=change)
        assert answer.status_code == 200

    job = answer.json()
    assert answer.headers["etag"] == '"v3"'
    assert (job["version"], job["priority"], job["labels"]) == (3, "LOW", {"team": "billing"})
    assert job["next_fire_time"] == "2027-01-16T08:00:00Z"
    versions = (await api.get("jobs/report/versions")).json()["versions"]
    assert [version["version"] for version in versions] == [3, 2, 1]
    assert versions[0]["diff"] == [{"field": "priority", "before": "HIGH", "after": "LOW"}]
    assert {change["field"] for change in versions[1]["diff"]} == {"timezone", "priority"}
    assert versions[2]["diff"] == []
    assert versions[0]["actor"] == "anonymous"
    assert versions[0]["created_at"] == "2027-01-15T08:00:00Z"


@on_one_store
@pytest.mark.parametrize("told", ['"v1"', "v1", "1", 'W/"v1"', "*", '"1"'])
async def test_a_change_of_the_version_that_was_seen_is_taken(api: Api, told: str):
    await create(api)

    assert (await api.patch("jobs/report", json={"priority": "HIGH"}, headers={"If-Match": told})).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_change_of_an_older_version_is_refused(api: Api, method: str):
    await create(api)
    await api.patch("jobs/report", json={"priority": "HIGH"})

    answer = await api.request(method, "jobs/report", json={"priority": "LOW"}, headers={"If-Match": '"v1"'})

    assert_problem(answer, 412, "stale")
    assert (await api.get("jobs/report")).json()["priority"] == "HIGH"


@on_one_store
async def test_a_version_that_is_none_is_refused(api: Api):
    await create(api)

    answer = await api.patch("jobs/report", json={"priority": "LOW"}, headers={"If-Match": '"abc"'})

    assert pointers(answer) == ["/headers/If-Match"]


async def test_put_creates_a_job_under_a_new_name(api: Api):
    answer = await api.put("jobs/weekly", json={"schedule": "0 9 * * 1", "type": "noop"})

    assert answer.status_code == 201
    assert answer.json()["name"] == "weekly"
    assert answer.headers["location"] == f"/api/v1/jobs/{answer.json()['job_id']}"


@pytest.mark.parametrize("when", [{"interval": "5m"}, {"scheduledTime": "2100-01-01T00:00:00Z"}])
async def test_put_creates_a_job_that_says_when_by_any_name(api: Api, when: dict[str, str]):
    answer = await api.put("jobs/weekly", json={"payload": {"url": "https://example.com/hook"}, **when})

    assert answer.status_code == 201


@pytest.mark.parametrize("version", ["*", '"v1"'])
async def test_put_with_a_version_creates_nothing(api: Api, version: str):
    answer = await api.put("jobs/weekly", json={"type": "noop"}, headers={"If-Match": version})

    assert_problem(answer, 404, "not_found")


async def test_a_deleted_job_is_cancelled_and_its_name_is_free(api: Api, world: World):
    job = await create(api, schedule="0 9 * * *")

    answer = await api.delete("jobs/report")

    assert (answer.status_code, answer.json()) == (200, {"deleted": True, "job_id": job["job_id"]})
    assert_problem(await api.get("jobs/report"), 404, "not_found")
    gone = (await api.get(f"jobs/{job['job_id']}")).json()
    assert (gone["status"], gone["next_fire_time"]) == ("CANCELLED", None)
    assert_problem(await api.patch(f"jobs/{job['job_id']}", json={"priority": "LOW"}), 409, "job_deleted")
    await create(api)


async def test_delete_cancels_what_waits(api: Api):
    job = await create(api)
    await run_now(api)

    await api.delete("jobs/report")

    (run,) = (await api.get(f"jobs/{job['job_id']}/runs")).json()
    assert run["status"] == "CANCELLED"


async def test_a_paused_job_says_until_when_and_why(api: Api, clock: StoreClock):
    await create(api, schedule="0 9 * * *")

    paused = (await api.post("jobs/report/pause", json={"until": "2027-01-15T10:00:00Z", "reason": "move"})).json()

    assert (paused["status"], paused["next_fire_time"]) == ("PAUSED", None)
    assert (paused["paused_until"], paused["pause_reason"]) == ("2027-01-15T10:00:00Z", "move")
    await clock.advance(2 * 3600)
    awake = (await api.get("jobs/report")).json()
    assert (awake["status"], awake["next_fire_time"]) == ("SCHEDULED", "2027-01-16T09:00:00Z")
    assert "paused_until" not in awake


async def test_pause_and_resume_need_no_body(api: Api):
    await create(api, schedule="0 9 * * *")

    assert (await api.post("jobs/report/pause")).json()["status"] == "PAUSED"
    assert (await api.post("jobs/report/resume")).json()["status"] == "SCHEDULED"
    assert (await api.post("jobs/report/resume")).status_code == 200


async def test_a_pause_cannot_end_in_the_past(api: Api):
    await create(api)

    assert pointers(await api.post("jobs/report/pause", json={"until": "2027-01-15T07:00:00Z"})) == ["/until"]
    assert pointers(await api.post("jobs/report/pause", json={"untl": "x"})) == ["/untl"]


async def test_a_job_with_nothing_left_to_do_is_completed(api: Api, world: World, store: Store):
    await create(api, schedule="@now")
    assert (await api.get("jobs/report")).json()["status"] == "SCHEDULED"

    await end(store, await world.claim())

    job = (await api.get("jobs/report")).json()
    assert (job["status"], job["last_run_status"], job["next_fire_time"]) == ("COMPLETED", "SUCCEEDED", None)
    assert [job["name"] for job in (await api.get("jobs?status=completed")).json()["jobs"]] == ["report"]


async def test_a_staged_run_is_the_next_fire_time(api: Api, world: World):
    await create(api, schedule="*/5 * * * * *")

    await world.plan()

    assert (await api.get("jobs/report")).json()["next_fire_time"] == "2027-01-15T08:00:05Z"


# Lists of jobs


async def test_a_calendar_is_defined_named_listed_and_deleted(api: Api):
    made = (await api.put("calendars/company-days", json={"exclude": ["2027-01-16"], "holidays": None})).json()
    job = await create(api, schedule="0 9 * * *", calendar="company-days")

    assert {key: made[key] for key in ("name", "version", "exclude")} == {
        "name": "company-days", "version": 1, "exclude": ["2027-01-16"]
    }  # fmt: skip
    assert job["calendar"] == {"name": "company-days", "version": 1, "exclude": ["2027-01-16"]}
    assert (await api.get("calendars")).json() == {"calendars": [made]}
    assert (await api.get("calendars/company-days")).json() == made
    assert_problem(await api.delete("calendars/company-days"), 409, "calendar_used")
    assert (await api.put("jobs/report", json=job)).json()["version"] == 1  # an answer is a request

    changed = (await api.patch("jobs/report", json={"calendar": {"exclude": ["2027-01-17"]}})).json()
    assert changed["calendar"] == {"exclude": ["2027-01-17"]}
    assert (await api.delete("calendars/company-days")).json() == {"deleted": True, "name": "company-days"}
    assert_problem(await api.get("calendars/company-days"), 404, "not_found")


async def test_a_calendar_that_is_none_is_refused(api: Api):
    unknown = assert_problem(await api.post("jobs", json={"name": "a", "calendar": "works-council"}), 422, "invalid")
    assert "PUT /calendars/works-council" in unknown["errors"][0]["hint"]
    assert pointers(await api.post("jobs", json={"name": "a", "calendar": {"name": "works-council"}})) == ["/calendar"]
    assert pointers(await api.post("jobs", json={"name": "a", "calendar": {"name": 5}})) == ["/calendar/name"]
    assert pointers(await api.put("calendars/c", json={"exclude": ["soon"]})) == ["/exclude/0"]
    assert pointers(await api.put("calendars/c", json={})) == [""]
    assert pointers(await api.put("calendars/c", json=[])) == [""]
    assert pointers(await api.put("calendars/a%20b", json={"exclude": ["2027-01-16"]})) == ["/calendar"]


async def test_jobs_are_filtered(api: Api):
    await create(api, name="a_1", schedule="0 9 * * *", labels={"team": "billing"}, priority="HIGH")
    await create(api, name="a-2", schedule="0 12 * * *", queue="slow", labels={"team": "ads"})
    await create(api, name="B%3", type="custom")
    await api.post("jobs/a-2/pause")
    await api.delete(f"jobs/{(await create(api, name='gone'))['job_id']}")

    async def names(query: str) -> list[str]:
        answer = await api.get(f"jobs?{query}")
        assert answer.status_code == 200, answer.text
        return [job["name"] for job in answer.json()["jobs"]]

    assert await names("") == ["B%3", "a-2", "a_1"]
    assert await names("status=paused") == ["a-2"]
    assert await names("status=SCHEDULED") == ["B%3", "a_1"]
    assert await names("status=cancelled") == ["gone"]
    assert await names("q=A") == ["a-2", "a_1"]
    assert await names("q=_") == ["a_1"]
    assert await names("q=%25") == ["B%3"]
    assert await names("label=team:billing") == ["a_1"]
    assert await names("label=team:nobody") == []
    assert await names("type=NOOP") == ["a-2", "a_1"]
    assert await names("queue=slow") == ["a-2"]
    assert await names("priority=high") == ["a_1"]
    assert await names("priority=1") == ["a_1"]
    assert await names("due_before=2027-01-15T10:00:00Z") == ["a_1"]
    assert await names("status=&q=&limit=2") == ["B%3", "a-2"]


@pytest.mark.parametrize("sort", ["name", "-name", "next_fire_time", "-next_fire_time", "updated_at", "-updated_at"])
async def test_pages_cover_every_job_once_in_every_order(api: Api, clock: StoreClock, sort: str):
    for number in range(7):
        await create(api, name=f"job-{number}", schedule=f"{number % 3} * * * *" if number % 2 else "@manual")
        await clock.advance(number % 2)

    whole = (await api.get(f"jobs?sort={sort}")).json()
    paged, cursor = [], ""
    while cursor is not None:
        page = (await api.get(f"jobs?sort={sort}&limit=2&cursor={cursor}")).json()
        assert len(page["jobs"]) <= 2
        paged, cursor = paged + page["jobs"], page["next_cursor"]

    assert paged == whole["jobs"]
    assert len({job["job_id"] for job in paged}) == 7
    assert whole["next_cursor"] is None


@pytest.mark.parametrize("sort", ["next_fire_time", "-next_fire_time"])
async def test_a_job_is_listed_by_its_staged_run(api: Api, world: World, clock: StoreClock, sort: str):
    """The timer of a job with a staged run already stands at the due time after it."""
    await create(api, name="hourly", schedule="0 * * * *")
    await create(api, name="daily", schedule="0 8 * * *")
    await create(api, name="half", schedule="30 * * * *")
    await create(api, name="asked")
    await create(api, name="paused", schedule="1 * * * *")
    await create(api, name="never")
    await clock.advance(23 * 3600 + 59 * 60 + 50)
    await world.plan()
    await clock.advance(5)
    await run_now(api, "asked", run_at="2027-01-16T08:01:00Z")
    await api.post("jobs/paused/pause", json={"until": "2027-01-16T08:00:30Z"})

    jobs: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = (await api.get(f"jobs?sort={sort}&limit=2&cursor={cursor}")).json()
        jobs, cursor = jobs + page["jobs"], page["next_cursor"]

    jobs = jobs if sort == "next_fire_time" else jobs[::-1]
    due = [job["next_fire_time"] for job in jobs]
    assert due[:4] == ["2027-01-16T08:00:00Z", "2027-01-16T08:00:00Z", "2027-01-16T08:01:00Z", "2027-01-16T08:30:00Z"]
    assert {job["name"] for job in jobs[:2]} == {"hourly", "daily"}
    assert [job["name"] for job in jobs[2:]] == ["asked", "half", "never", "paused"]
    assert due[4:] == [None, None]


@pytest.mark.parametrize("sort", ["name", "next_fire_time", "updated_at"])
async def test_due_before_sees_staged_runs_and_no_paused_job(api: Api, world: World, clock: StoreClock, sort: str):
    await create(api, name="daily", schedule="0 8 * * *")
    await create(api, name="half", schedule="30 * * * *")
    await create(api, name="paused", schedule="1 * * * *")
    await clock.advance(23 * 3600 + 59 * 60 + 50)
    await world.plan()
    await api.post("jobs/paused/pause", json={"until": "2027-01-16T08:00:00Z"})

    async def names(before: str) -> list[str]:
        answer = await api.get(f"jobs?sort={sort}&due_before={before}")
        return [job["name"] for job in answer.json()["jobs"]]

    assert await names("2027-01-16T08:00:00Z") == []
    assert await names("2027-01-16T08:00:01Z") == ["daily"]
    assert sorted(await names("2027-01-16T09:00:00Z")) == ["daily", "half"]


async def test_a_cursor_of_another_order_or_list_is_refused(api: Api):
    for name in ("a", "b"):
        await create(api, name=name)
    cursor = (await api.get("jobs?limit=1")).json()["next_cursor"]

    assert pointers(await api.get(f"jobs?sort=updated_at&cursor={cursor}")) == ["/query/cursor"]
    assert pointers(await api.get(f"runs?cursor={cursor}")) == ["/query/cursor"]


async def test_tenants_do_not_see_each_other(api: Api):
    job, run = (await create(api))["job_id"], await run_now(api)
    other = {"X-Horae-Tenant": "other"}

    for path in ("jobs/{}", "jobs/{}/runs", "jobs/{}/versions", "jobs/{}/status", "runs/{}", "runs/{}/logs"):
        id_, unknown_id = (run if path.startswith("runs") else job), "0" * 36
        theirs = assert_problem(await api.get(path.format(id_), headers=other), 404, "not_found")
        unknown = assert_problem(await api.get(path.format(unknown_id)), 404, "not_found")
        assert theirs["detail"].replace(id_, unknown_id) == unknown["detail"]
    assert_problem(await api.get("jobs/report", headers=other), 404, "not_found")
    assert (await api.get("jobs", headers=other)).json() == {"jobs": [], "next_cursor": None}
    for path in (f"jobs/{job}/run", f"runs/{run}/cancel", f"runs/{run}/retry", f"dead-letters/{run}/replay"):
        assert_problem(await api.post(path, headers=other), 404, "not_found")
    assert (await api.post("jobs", json={"name": "report"}, headers=other)).json()["tenant"] == "other"


# Batches


async def test_a_batch_saves_what_it_can_and_says_what_not(api: Api):
    await create(api)
    jobs = [{"name": "one"}, {"name": "report"}, {"schedule": "bad"}, 5, {"name": "one"}, {"name": "two"}]

    answer = await api.post("/jobs:batch", json={"jobs": jobs})

    body = answer.json()
    assert (answer.status_code, body["created"], body["failed"]) == (200, 2, 4)
    assert [result["index"] for result in body["results"]] == [0, 1, 2, 3, 4, 5]
    assert [result.get("error", {}).get("status") for result in body["results"]] == [None, 409, 422, 422, 409, None]
    assert (await api.get(f"jobs/{body['results'][5]['job_id']}")).json()["name"] == "two"


async def test_a_batch_in_lines_names_the_line_that_is_not_json(api: Api):
    lines = b'{"name": "one"}\n\n{"name": \n{"name": "a", "name": "b"}\r\n{"name": "two"}'

    answer = await api.post(
        "/jobs:batch", content=lines, headers={"Content-Type": "application/x-ndjson; charset=utf-8"}
    )

    body = answer.json()
    assert (body["created"], body["failed"]) == (2, 2)
    assert [result.get("error", {}).get("status") for result in body["results"]] == [None, 400, 400, None]
    assert body["results"][1]["error"]["detail"].startswith("Line 3: ")
    assert '"name" comes twice' in body["results"][2]["error"]["detail"]


@pytest.mark.parametrize("bad", [b'{"name": "one"}', b'{"schedule": "bad"}', b"{"])
async def test_an_atomic_batch_saves_all_or_none(api: Api, bad: bytes):
    headers = {"Content-Type": "application/x-ndjson"}

    refused = await api.post("/jobs:batch?atomic=true", content=b'{"name": "one"}\n' + bad, headers=headers)
    kept = await api.get("jobs")
    saved = await api.post("/jobs:batch?atomic=true", content=b'{"name": "one"}\n{"name": "two"}', headers=headers)

    assert (refused.json()["created"], refused.json()["failed"]) == (0, 2)
    assert refused.json()["results"][0]["error"]["code"] == "batch_refused"
    assert kept.json()["jobs"] == []
    assert saved.json()["created"] == 2


async def test_a_batch_of_many_parts_keeps_its_order_and_is_done_once_for_a_key(api: Api):
    jobs = [{"name": f"job-{number:04}"} for number in range(1203)]
    key = {"Idempotency-Key": "import-1"}

    first = await api.post("/jobs:batch", json={"jobs": jobs}, headers=key)
    second = await api.post("/jobs:batch", json={"jobs": jobs}, headers=key)
    other = await api.post("/jobs:batch", json={"jobs": jobs[:1]}, headers=key)

    results = first.json()["results"]
    assert first.json()["created"] == 1203
    assert (await api.get(f"jobs/{results[1202]['job_id']}")).json()["name"] == "job-1202"
    assert second.json() == first.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert_problem(other, 422, "key_reused")


async def test_a_batch_goes_on_where_it_broke(store: Store):
    """The store goes away after the first part: with a key the whole is answered 503, and a repeat completes it."""
    jobs = {"jobs": [{"name": f"job-{number}"} for number in range(700)]}
    flaky = Flaky(store)
    async with client_of(app_over(flaky)) as client:
        flaky.answers = 2
        with_key = await client.post("/v1/jobs:batch", json=jobs, headers={"Idempotency-Key": "k"})
        flaky.answers = 1000
        again = await client.post("/v1/jobs:batch", json=jobs, headers={"Idempotency-Key": "k"})

        assert_problem(with_key, 503, "unavailable")
        assert again.json()["created"] == 700

        flaky.answers = 2
        without = (await client.post("/v1/jobs:batch", json={"jobs": [{} for _ in range(700)]})).json()
        assert (without["created"], without["failed"]) == (500, 200)
        assert without["results"][500]["error"]["code"] == "unavailable"


class Flaky:
    """A store that answers so many changes, and then is away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.answers = 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def now(self) -> int:
        self.answers -= 1
        if self.answers < 1:
            raise Unavailable("PostgreSQL cannot be reached: 10.0.0.5:5432")
        return await self._store.now()


# Runs


async def test_a_manual_run_can_have_its_own_payload_priority_and_time(api: Api, store: Store):
    await create(api)

    run = await run_now(api, payload={"region": "eu"}, priority="high", run_at="2027-01-15T09:00:00Z")

    answer = (await api.get(f"runs/{run}")).json()
    assert set(answer) == RUN_FIELDS | {"attempts"}
    assert (answer["status"], answer["trigger"], answer["priority"]) == ("PENDING", "manual", "HIGH")
    assert answer["scheduled_for"] == answer["run_at"] == "2027-01-15T09:00:00Z"
    row, _ = await store.run("default", run)
    assert row["payload"] == '{"region":"eu"}'


async def test_run_and_run_now_need_no_body(api: Api):
    await create(api)

    for path in ("jobs/report/run", "jobs/report/runNow"):
        answer = await api.post(path)
        assert answer.status_code == 202
        assert set(answer.json()) == {"run_id"}
    assert len((await api.get("jobs/report/runs")).json()) == 2


async def test_a_run_that_cannot_be_is_refused(api: Api):
    await create(api)
    past, far = "2027-01-15T07:00:00Z", "2300-01-01T00:00:00Z"
    bad = {"payload": "x" * 300_000, "priority": "URGENT", "run_at": past, "when": 1}

    assert sorted(pointers(await api.post("jobs/report/run", json={**bad, "run_at": far}))) == [
        "/payload", "/priority", "/run_at", "/when",
    ]  # fmt: skip
    assert pointers(await api.post("jobs/report/run", json={"run_at": past})) == ["/run_at"]
    assert pointers(await api.post("jobs/report/run", json={"payload": {"a": "\0"}})) == ["/payload/a"]
    assert pointers(await api.post("jobs/report/run", json=[])) == [""]


async def test_the_life_of_a_run_as_the_api_tells_it(api: Api, world: World, store: Store, clock: StoreClock):
    job = await create(api, retries=1, schedule="*/10 * * * * *", max_runs=1)
    await world.plan()
    (run,) = (await api.get("jobs/report/runs")).json()
    assert set(run) == RUN_FIELDS
    assert (run["status"], run["attempt_number"], run["retry_count"]) == ("PENDING", 1, 0)
    assert (run["trigger"], run["job_id"], run["job_name"]) == ("schedule", job["job_id"], "report")
    path = f"runs/{run['run_id']}"

    await clock.advance(10)
    assert (await api.get(path)).json()["status"] == "QUEUED"

    await clock.advance(1.5)
    (claimed,) = await world.claim()
    run = (await api.get(path)).json()
    assert (run["status"], run["executor_id"], run["lateness_ms"]) == ("RUNNING", "w1", 1500)
    assert run["start_time"] == run["modified_time"] == "2027-01-15T08:00:11.500Z"
    assert [attempt["status"] for attempt in run["attempts"]] == ["RUNNING"]

    await clock.advance(1)
    await store.requeue("w1", [Again(claimed.run_id, claimed.token, 2_000_000, "http_status", "500 Oh")])
    run = (await api.get(path)).json()
    assert (run["status"], run["reason"], run["error_message"]) == ("RETRYING", "http_status", "500 Oh")

    await clock.advance(2)
    claimed_again = await world.claim()
    assert (await api.get(path)).json()["retry_count"] == 1
    await clock.advance(0.25)
    await end(store, claimed_again, result='{"rows": 3}')

    run = (await api.get(path)).json()
    assert (run["status"], run["attempt_number"], run["retry_count"], run["max_attempts"]) == ("SUCCEEDED", 2, 1, 2)
    assert (run["result"], run["duration_ms"], run["log_url"]) == ({"rows": 3}, 250, f"/api/v1/{path}/logs")
    assert [(a["attempt_number"], a["status"], a["reason"]) for a in run["attempts"]] == [
        (1, "FAILED", "http_status"),
        (2, "SUCCEEDED", None),
    ]
    assert run["attempts"][0]["duration_ms"] == 1000


async def test_the_status_of_a_job_is_that_of_its_latest_run(api: Api, world: World, store: Store):
    job = await create(api, schedule="0 9 * * *")
    before = (await api.get("jobs/report/status")).json()
    run = await run_now(api)
    await end(store, await world.claim(), "failed", reason="timeout", error="too slow")

    after = (await api.get("jobs/report/status")).json()

    assert before == {
        "job_id": job["job_id"],
        "status": "SCHEDULED",
        "last_run": None,
        "next_run": "2027-01-15T09:00:00Z",
        "retry_count": 0,
        "latest_run": None,
    }
    assert (after["status"], after["last_run"], after["next_run"]) == (
        "FAILED",
        "2027-01-15T08:00:00Z",
        "2027-01-15T09:00:00Z",
    )
    assert after["latest_run"]["run_id"] == run
    assert set(after["latest_run"]) == RUN_FIELDS


async def test_runs_are_filtered(api: Api, world: World, store: Store):
    await create(api, name="a", priority="HIGH")
    await create(api, name="b", queue="slow")
    failed, waiting = await run_now(api, "a"), await run_now(api, "b")
    later = await run_now(api, "a", run_at="2027-01-15T09:00:00Z")
    claimed = await world.claim()
    await end(store, [c for c in claimed if c.run_id == failed], "failed", reason="timeout")

    async def ids(query: str) -> set[str]:
        answer = await api.get(f"runs?{query}")
        assert answer.status_code == 200, answer.text
        return {run["run_id"] for run in answer.json()["runs"]}

    assert await ids("") == {failed, waiting, later}
    assert await ids("job=a") == {failed, later}
    assert await ids("status=FAILED") == await ids("status=failure") == {failed}
    assert await ids("status=running") == {waiting}
    assert await ids("status=PENDING") == {later}
    assert await ids("queue=slow") == {waiting}
    assert await ids("priority=HIGH") == {failed, later}
    assert await ids("worker=w1") == {failed, waiting}
    assert await ids("reason=timeout") == {failed}
    assert await ids("due_after=2027-01-15T09:00:00Z") == {later}
    assert await ids("due_before=2027-01-15T09:00:00Z") == {failed, waiting}
    assert_problem(await api.get("runs?job=nobody"), 404, "not_found")


@pytest.mark.parametrize("word", ["SUCCESS", "Completed", "done", "SUCCEEDED", "succeeded"])
async def test_other_words_for_success(api: Api, world: World, store: Store, word: str):
    await create(api)
    await run_now(api)
    await end(store, await world.claim())

    (run,) = (await api.get(f"jobs/report/runs?status={word}")).json()
    assert run["status"] == "SUCCEEDED"
    assert (await api.get("jobs/report/runs?status=enqueued")).json() == []


@pytest.mark.parametrize("word", ["runs", "history"])
async def test_the_history_is_an_array_whose_link_leads_to_the_next_page(
    http: Api, api: Api, clock: StoreClock, word: str
):
    job = await create(api, name="a job/no".replace("/", " "))
    for _ in range(5):
        await run_now(api, job["job_id"])
        await clock.advance(1)

    whole = (await api.get(f"jobs/a job no/{word}")).json()
    answer, paged = await api.get(f"jobs/a job no/{word}?limit=2&status=queued"), []
    paged += answer.json()
    while link := answer.links.get("next"):
        assert link["url"].startswith("/api/v1/jobs/")
        answer = await http.get(link["url"])
        paged += answer.json()

    assert paged == whole
    assert [run["scheduled_for"] for run in whole] == sorted((run["scheduled_for"] for run in whole), reverse=True)
    assert len(whole) == 5


async def test_a_skip_that_stands_for_many_says_so(api: Api, world: World, clock: StoreClock):
    await create(api, schedule="* * * * *", misfire="skip")
    await world.plan()
    await clock.advance(3600)
    await world.plan()

    skipped = (await api.get("jobs/report/runs?status=skipped")).json()

    assert skipped
    assert skipped[0]["skipped_count"] > 1
    assert skipped[0]["skipped_until"] > skipped[0]["scheduled_for"]
    assert set(skipped[0]) == RUN_FIELDS | {"skipped_until", "skipped_count"}


async def test_many_runs_at_once(api: Api):
    await create(api)
    runs = [{"payload": {"n": 1}}, {}, {"priority": "LOW", "run_at": "2027-01-15T09:00:00Z"}]

    answer = await api.post("/runs:batch", json={"job": "report", "runs": runs})

    assert (answer.status_code, answer.json()["created"]) == (202, 3)
    assert {run["run_id"] for run in (await api.get("runs")).json()["runs"]} == set(answer.json()["run_ids"])
    bad = await api.post("/runs:batch", json={"job": "report", "runs": [{}, {"a": 1}, {"priority": 9}, 5]})
    assert pointers(bad) == ["/runs/1/a", "/runs/2/priority", "/runs/3"]
    assert pointers(await api.post("/runs:batch", json={})) == ["/job", "/runs"]
    assert_problem(await api.post("/runs:batch", json={"job": "nobody", "runs": [{}]}), 404, "not_found")
    assert len((await api.get("runs")).json()["runs"]) == 3


async def test_cancel_ends_a_waiting_run_and_tells_a_running_one(api: Api, world: World, store: Store):
    await create(api)
    waiting = await run_now(api)
    answer = await api.post(f"runs/{waiting}/cancel")
    running = await run_now(api)
    await world.claim()

    told = await api.post(f"runs/{running}/cancel")

    assert (answer.status_code, answer.json()["run_id"], answer.json()["status"]) == (202, waiting, "CANCELLED")
    assert answer.json()["reason"] == "cancelled_by_user"
    assert (told.status_code, told.json()["status"]) == (202, "RUNNING")
    assert await store.cancelled("w1") == {running: "cancelled_by_user"}
    assert_problem(await api.post(f"runs/{waiting}/cancel"), 409, "run_is_over")


async def test_retry_is_one_more_attempt_of_the_same_run(api: Api, world: World, store: Store):
    await create(api, retries=0)
    run = await run_now(api)
    assert_problem(await api.post(f"runs/{run}/retry"), 409, "run_is_live")
    await end(store, await world.claim(), "failed", reason="exception")

    answer = await api.post(f"runs/{run}/retry")

    assert (answer.status_code, answer.json()["status"], answer.json()["run_id"]) == (202, "RETRYING", run)
    await end(store, await world.claim())
    run = (await api.get(f"runs/{run}")).json()
    assert [attempt["status"] for attempt in run["attempts"]] == ["FAILED", "SUCCEEDED"]


async def test_dead_letters_are_replayed_or_discarded(api: Api, world: World, store: Store):
    await create(api, retries=0)
    one, two = await run_now(api), await run_now(api)
    await end(store, await world.claim(), "failed", reason="exception", error="boom")

    dead = (await api.get("dead-letters")).json()
    assert {run["run_id"] for run in dead["dead_letters"]} == {one, two}
    assert dead["dead_letters"][0]["error_message"] == "boom"
    page = (await api.get("dead-letters?limit=1&job=report")).json()
    rest = (await api.get(f"dead-letters?limit=1&cursor={page['next_cursor']}")).json()
    assert page["dead_letters"] + rest["dead_letters"] == dead["dead_letters"]

    replayed = await api.post(f"dead-letters/{one}/replay")
    discarded = await api.delete(f"dead-letters/{two}")

    new = (await api.get(f"runs/{replayed.json()['run_id']}")).json()
    assert (replayed.status_code, new["replay_of"], new["trigger"]) == (202, one, "replay")
    assert (discarded.status_code, discarded.json()) == (200, {"deleted": True, "run_id": two})
    assert (await api.get("dead-letters")).json()["dead_letters"] == []
    assert_problem(await api.post(f"dead-letters/{two}/replay"), 409, "discarded")
    assert_problem(await api.delete(f"dead-letters/{one}"), 409, "replayed")
    assert_problem(await api.delete("dead-letters/nobody"), 404, "not_found")


async def test_logs_are_text_and_can_be_followed_to_the_end(api: Api, world: World, store: Store):
    await create(api)
    run = await run_now(api)
    claimed = await world.claim()
    texts = [f"line {number}\n" for number in range(450)]
    await store.add_logs([LogChunk(run, 1, number, text) for number, text in enumerate(texts)])
    await store.add_logs([LogChunk(run, 2, 1, "second ✓\n")])

    following = asyncio.create_task(api.get(f"runs/{run}/logs?follow=true"))
    await asyncio.sleep(0.1)
    assert not following.done()
    await end(store, claimed)

    events = await following
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.text.count("event: log\n") == 451
    assert events.text.endswith(f'event: end\ndata: {{"run_id":"{run}","status":"SUCCEEDED"}}\n\n')
    whole = await api.get(f"runs/{run}/logs")
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.text == "".join(texts) + "second ✓\n"
    assert (await api.get(f"runs/{run}/logs?attempt=2")).text == "second ✓\n"
    assert (await api.get(f"runs/{run}/logs?attempt=1")).text == "".join(texts)
    rest = await api.get(f"runs/{run}/logs?follow=1", headers={"Last-Event-ID": "1-448"})
    assert rest.text.startswith(
        ': still here\n\nid: 1-449\nevent: log\ndata: {"attempt_number":1,"text":"line 449\\n"}'
    )


@on_one_store
async def test_a_stream_ends_when_the_process_wants_to_leave(store: Store, world: World):
    job = await world.job()
    run = await world.run_now(job)
    async with client_of(app_over(store, is_stopping=lambda: True)) as client:
        async with asyncio.timeout(2):
            assert (await client.get(f"/v1/runs/{run}/logs?follow=true")).text == ": still here\n\n"


async def test_workers_are_listed(api: Api, world: World, clock: StoreClock):
    await world.worker("w1")

    (worker,) = (await api.get("workers")).json()["workers"]

    assert (worker["worker_id"], worker["state"], worker["slots"], worker["queues"]) == (
        "w1",
        "active",
        100,
        ["default"],
    )
    await clock.advance(60)
    assert (await api.get("workers")).json()["workers"][0]["state"] == "lost"


@on_one_store
async def test_explain_is_asked_with_the_instant(api: Api):
    assert (await api.get("jobs/report/explain?at=2027-01-15T08:00:00Z")).json() == {
        "tenant": "default",
        "word": "report",
        "at_us": START_US,
    }
    assert (await api.get("jobs/report/explain")).json()["at_us"] is None


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


# Previews


@on_one_store
async def test_a_preview_tells_in_words_and_in_times(api: Api):
    document = {"schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "count": 2, "from": "2027-01-15T08:00:00Z"}

    answer = (await api.post("schedules/preview", json=document)).json()

    assert answer["description"] == "Every weekday (Monday to Friday) at 09:00, Europe/Berlin time"
    assert answer["next"] == [
        {"at": "2027-01-15T08:00:00Z", "local": "2027-01-15T09:00:00+01:00"},
        {"at": "2027-01-18T08:00:00Z", "local": "2027-01-18T09:00:00+01:00"},
    ]
    assert any("minute 0" in warning for warning in answer["warnings"])
    assert len((await api.post("schedules/preview", json={"schedule": "@hourly"})).json()["next"]) == 5
    assert (await api.post("schedules/preview", json={"schedule": "@manual"})).json()["next"] == []


@on_one_store
@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({}, ["/schedule"]),
        ({"schedule": "61 9 * * *"}, ["/schedule"]),
        ({"schedule": ["@daily", "nope"]}, ["/schedule/1"]),
        ({"schedule": {"cron": "@daily"}}, ["/schedule"]),
        ({"schedule": "@daily", "timezone": "Mars"}, ["/timezone"]),
        ({"schedule": "@daily", "timezone": 5, "count": 101, "from": "now"}, ["/timezone", "/count", "/from"]),
        ({"schedul": "@daily"}, ["/schedul"]),
    ],
)
async def test_a_preview_names_the_place_of_a_mistake(api: Api, document: Any, where: list[str]):
    assert pointers(await api.post("schedules/preview", json=document)) == where


# Who may come in


@on_one_store
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic c2VjcmV0"},
        {"Authorization": "Bearer"},
        {"Authorization": "secret"},
        {"X-API-Key": "secre"},
        {"X-API-Key": b"s\xe4cret"},
        {"X-API-Key": ""},
    ],
)
async def test_without_the_key_every_route_is_closed_with_the_same_words(store: Store, headers: Any):
    app = app_over(store, KeyAccess(key_hash("secret")))
    async with client_of(app, headers=headers) as client:
        details = set()
        for route in app.routes:
            if not route.path.startswith(("/api", "/v1")):
                assert (await client.get(route.path)).status_code == 200
                continue
            for method in route.methods - {"HEAD"}:
                answer = await client.request(method, route.path.replace("{", "").replace("}", ""))
                details.add(assert_problem(answer, 401, "unauthorized")["detail"])
                assert answer.headers["www-authenticate"] == "Bearer"
        assert len(details) == 1


@on_one_store
@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer secret"}, {"authorization": "bearer  secret"}, {"X-API-Key": "secret"}]
)
async def test_the_key_opens_and_names_a_tenant(store: Store, headers: dict[str, str]):
    async with client_of(app_over(store, KeyAccess(key_hash("secret"))), headers=headers) as client:
        assert (await client.get("/api/v1/jobs")).status_code == 200
        made = await client.post("/api/v1/jobs", json={"name": "a"}, headers={"X-Horae-Tenant": "acme"})
        assert made.json()["tenant"] == "acme"
        bad = await client.get("/api/v1/jobs", headers={"X-Horae-Tenant": "a b"})
        assert pointers(bad) == ["/headers/X-Horae-Tenant"]


@on_one_store
async def test_a_key_in_the_address_is_refused(store: Store):
    async with client_of(app_over(store, KeyAccess(key_hash("secret")))) as client:
        assert (await client.get("/v1/jobs?api_key=secret")).status_code == 401
        answer = await client.get("/v1/jobs?api_key=secret", headers={"X-API-Key": "secret"})
        assert pointers(answer) == ["/query/api_key"]
        assert "secret" not in answer.text


@on_one_store
async def test_an_empty_admin_key_opens_nothing(store: Store):
    async with client_of(app_over(store, KeyAccess(key_hash("")))) as client:
        for headers in ({}, {"Authorization": "Bearer "}, {"X-API-Key": ""}):
            assert (await client.get("/v1/jobs", headers=headers)).status_code == 401


@on_one_store
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8700"}, 200),
        ({"Host": "[::1]:8700"}, 200),
        ({"Host": "horae"}, 200),
        ({"Host": "app.localhost"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[bad"}, 403),
        ({"Origin": "http://127.0.0.1:8700"}, 200),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_pages_of_others_cannot_reach_an_open_horae(api: Api, headers: dict[str, str], status: int):
    answer = await api.post("/jobs:batch", json={"jobs": []}, headers=headers)

    assert answer.status_code == status


# Every answer


@on_one_store
async def test_an_unknown_path_and_a_wrong_method_are_problems_too(http: Api):
    for path in ("/", "/api/v1", "/api/v1/", "/api/v1/jobs/", "/api/v2/jobs", "/v1/jobs/a/b/c", "/v1/jobs/a%2Fb"):
        assert_problem(await http.get(path), 404, "not_found")
    for method, path, allowed in (
        ("DELETE", "/v1/jobs", "GET, HEAD, POST"),
        ("POST", "/v1/jobs/a", "DELETE, GET, HEAD, PATCH, PUT"),
        ("BREW", "/v1/runs", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ):
        answer = await http.request(method, path)
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed


@on_one_store
async def test_the_callers_request_id_comes_back_if_it_is_harmless(http: Api):
    for told, is_kept in (("abc-1", True), ("a b", False), ("x" * 101, False), ("<script>", False)):
        answer = await http.get("/healthz", headers={"X-Request-Id": told})
        assert (answer.headers["x-request-id"] == told) is is_kept
        assert answer.headers["x-content-type-options"] == "nosniff"


@on_one_store
async def test_when_the_store_is_away_the_answer_is_503_and_gives_nothing_away(store: Store):
    flaky = Flaky(store)
    flaky.answers = 0
    async with client_of(app_over(flaky)) as client:
        answer = await client.post("/v1/jobs", json={})

        problem = assert_problem(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert "10.0.0.5" not in answer.text
        assert problem["errors"] == []


@on_one_store
async def test_a_bug_of_ours_is_an_opaque_500(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    async def broken(*_: Any) -> None:
        raise KeyError("the secret of the store")

    monkeypatch.setattr(JobCommands, "delete", broken)
    async with client_of(app_over(store)) as client:
        answer = await client.delete("/v1/jobs/x")

    problem = assert_problem(answer, 500, "internal")
    assert "secret" not in answer.text
    assert problem["request_id"] in capsys.readouterr().out


@on_one_store
async def test_ready_says_why_not(store: Store):
    async def not_ready() -> list[str]:
        return ["The schema lacks 0002_pre_more: run `horae migrate`."]

    async def hangs() -> list[str]:
        raise TimeoutError

    async def away() -> list[str]:
        raise Unavailable("PostgreSQL cannot be reached: ConnectionRefusedError: ('10.1.2.3', 5432)")

    for ready, reason in ((not_ready, "0002_pre_more"), (hangs, "did not answer"), (away, "cannot be reached")):
        async with client_of(app_over(store, ready=ready)) as client:
            answer = await client.get("/readyz")
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert reason in answer.json()["reasons"][0]
            assert "10.1.2.3" not in answer.text
            assert (await client.get("/healthz")).status_code == 200


@on_one_store
async def test_metrics_count_answers_by_route_and_never_by_job(http: Api, api: Api):
    job = await create(api)
    await api.get(f"jobs/{job['job_id']}")
    await http.request("BREW", "/nowhere")

    answer = await http.get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    labels = [sample.labels for sample in families["horae_http_requests"].samples]
    assert {"method": "GET", "route": "/api/v1/jobs/{job}", "status": "200"} in labels
    assert {"method": "OTHER", "route": "none", "status": "404"} in labels
    assert job["job_id"] not in answer.text


@on_one_store
async def test_the_openapi_file_is_whole(http: Api, store: Store):
    document = (await http.get("/openapi.json")).json()

    assert document["openapi"].startswith("3.1")
    told = {
        (path if "servers" in item else f"/api/v1{path}", method.upper())
        for path, item in document["paths"].items()
        for method in item
        if method != "servers"
    }
    served = {(route.path, method) for route in app_over(store).routes for method in route.methods - {"HEAD"}}
    assert told == {(path, method) for path, method in served if not path.startswith("/v1/")}
    assert {(path.replace("/api", "", 1), method) for path, method in told if path.startswith("/api")} <= served
    operations = [item[method] for item in document["paths"].values() for method in item if method != "servers"]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert f"#/components/schemas/{name}" in str(document), name
    for reference in set(_references(document)):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


@on_one_store
async def test_every_request_and_most_answers_have_an_example_that_fits(http: Api):
    document = (await http.get("/openapi.json")).json()
    checked = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            bodies = [] if method == "servers" else [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                for media, content in body.get("content", {}).items():
                    if "example" in content:
                        schema = {**content["schema"], "components": document["components"]}
                        jsonschema_rs.validator_for(schema).validate(content["example"])
                        checked += 1
                    else:
                        assert body is not operation.get("requestBody"), (method, path, media)

    assert checked > 200


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["$ref"]] if "$ref" in value else [ref for item in value.values() for ref in _references(item)]
    return [ref for item in value for ref in _references(item)] if isinstance(value, list) else []


async def test_answers_fit_their_schemas(http: Api, api: Api, world: World, store: Store):
    await create(api, schedule="@daily", retries=0)
    run = await run_now(api)
    await world.worker()
    await end(store, await world.claim(), "failed", reason="exception", error="boom")
    await api.patch("jobs/report", json={"priority": "LOW"})
    await api.post("jobs/report/pause", json={"reason": "move"})
    document = (await http.get("/openapi.json")).json()
    paths = {
        "/jobs": "jobs", "/jobs/{job}": "jobs/report", "/jobs/{job}/status": "jobs/report/status",
        "/jobs/{job}/runs": "jobs/report/runs", "/jobs/{job}/versions": "jobs/report/versions", "/runs": "runs",
        "/runs/{run}": f"runs/{run}", "/dead-letters": "dead-letters", "/workers": "workers",
    }  # fmt: skip

    for path, real in paths.items():
        answer = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        schema = {**answer, "components": document["components"]}
        jsonschema_rs.validator_for(schema).validate((await api.get(real)).json())
    problem = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    jsonschema_rs.validator_for(problem).validate((await api.get("jobs/nobody")).json())

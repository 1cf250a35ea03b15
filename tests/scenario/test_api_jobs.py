"""Jobs over HTTP: made, changed, paused, deleted, listed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.asking import Api, assert_problem, create, end, on_one_store, pointers, run_now

JOB_FIELDS = {
    "name", "schedule", "timezone", "type", "target", "payload", "priority", "queue", "timeout", "retry", "misfire",
    "overlap", "max_concurrency", "jitter", "dst", "calendar", "start_at", "end_at", "max_runs", "delivery", "after",
    "notify", "labels", "description", "job_id", "tenant", "status", "schedule_type", "cron_expression", "max_retries",
    "next_fire_time", "last_run_status", "version", "created_at", "updated_at",
}  # fmt: skip


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
    assert problem["errors"][0]["pointer"] == "/name"

    assert "report" in problem["detail"]


async def test_the_past_of_a_deleted_job_is_found_by_the_id_that_its_name_leads_to(api: Api):
    made = await create(api)
    await api.delete("jobs/report")

    for path in ("jobs/report/history", "jobs/report/runs", "runs?job=report"):
        assert made["job_id"] in assert_problem(await api.get(path), 404, "not_found")["detail"]
    assert (await api.get(f"jobs/{made['job_id']}/runs")).status_code == 200


async def test_the_id_of_a_job_is_no_name_for_another(api: Api):
    made = await create(api)

    assert_problem(await api.post("jobs", json={"name": made["job_id"], "type": "noop"}), 409, "name_taken")
    await api.post("jobs", json={"name": "other", "type": "noop"})
    assert_problem(await api.patch("jobs/other", json={"name": made["job_id"]}), 409, "name_taken")


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


BODIES = {"backfillJob": {"from": "2027-01-14T00:00:00Z", "to": "2027-01-15T00:00:00Z"}}


async def test_every_write_on_a_job_of_an_older_version_is_refused_and_nothing_is_done(http: Api):
    """Whatever routes there are: those that the description gives an If-Match, which are all writes on one job."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    writes = [
        (method, path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if path.startswith("/jobs/{job}") and method != "get"
    ]
    await http.post("/v1/jobs", json={"name": "report", "type": "noop", "schedule": "0 9 * * *"})
    await http.patch("/v1/jobs/report", json={"priority": "HIGH"})
    before = (await http.get("/v1/jobs/report")).json()

    for method, path, operation in writes:
        assert any(each["name"] == "If-Match" for each in operation["parameters"]), path
        body = {"json": BODIES.get(operation["operationId"], {})} if "requestBody" in operation else {}
        answer = await http.request(
            method, f"/v1{path}".replace("{job}", "report"), headers={"If-Match": '"v1"'}, **body
        )
        assert_problem(answer, 412, "stale")

    assert len(writes) >= 8
    assert (await http.get("/v1/jobs/report")).json() == before
    assert (await http.get("/v1/jobs/report/runs")).json() == []
    for verb in ("pause", "resume", "run"):
        answer = await http.post(f"/v1/jobs/report/{verb}", headers={"If-Match": before_tag(before)})
        assert answer.status_code in (200, 202), answer.text


def before_tag(job: dict[str, Any]) -> str:
    return f'"v{job["version"]}"'


@on_one_store
async def test_a_version_that_is_none_is_refused(api: Api):
    await create(api)

    answer = await api.patch("jobs/report", json={"priority": "LOW"}, headers={"If-Match": '"abc"'})

    assert pointers(answer) == ["/headers/If-Match"]


async def test_of_many_who_want_one_name_at_once_all_but_one_are_told_that_it_is_taken(api: Api):
    for name in "abcdefgh":
        answers = await asyncio.gather(*(api.post("jobs", json={"name": name, "type": "noop"}) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
        for answer in answers:
            if answer.status_code == 409:
                (fault,) = assert_problem(answer, 409, "name_taken")["errors"]
                assert fault["pointer"] == "/name"


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


async def test_only_the_version_that_was_seen_is_deleted(api: Api):
    job = await create(api)
    await api.patch("jobs/report", json={"priority": "LOW"})

    for seen in ('"v1"', '"v999"'):
        stale = assert_problem(await api.delete("jobs/report", headers={"If-Match": seen}), 412, "stale")
        assert "is now version 2" in stale["detail"]
    assert pointers(await api.delete("jobs/report", headers={"If-Match": "abc"})) == ["/headers/If-Match"]
    assert (await api.get("jobs/report")).json()["status"] == "SCHEDULED"
    assert (await api.delete("jobs/report", headers={"If-Match": '"v2"'})).status_code == 200
    assert (await api.delete(f"jobs/{job['job_id']}", headers={"If-Match": "*"})).status_code == 200


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


async def test_an_answer_is_a_request_whatever_has_become_of_the_job_since(api: Api, world: World):
    job = await create(api, schedule="* * * * *")
    paused = (await api.post("jobs/report/pause", json={"reason": "rest", "until": "2027-01-16T00:00:00Z"})).json()

    assert (await api.put("jobs/report", json=paused)).json() == paused
    (fault,) = (await api.put("jobs/report", json=job)).json()["errors"]
    assert (fault["pointer"], fault["hint"]) == ("/status", f"POST /jobs/{job['job_id']}/resume.")

    await api.post("jobs/report/resume")
    await api.patch("jobs/report", json={"priority": "HIGH"})
    await world.run_now(job["job_id"])
    assert (await api.put("jobs/report", json=job)).json()["version"] == 3
    told = (await api.patch("jobs/report", json={"status": "PAUSED", "job_id": "zzz", "priority": "LOW"})).json()
    assert [fault["pointer"] for fault in told["errors"]] == ["/status", "/job_id"]
    assert (await api.get("jobs/report")).json()["priority"] == job["priority"]

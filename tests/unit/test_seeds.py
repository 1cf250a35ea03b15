"""Every request example of the five seed documents, word for word, but for the placeholders named beside each."""

from typing import Any

import pytest

from horae.core.answered import Standing
from horae.core.compiled import cron_expression, schedule_of, schedule_type
from horae.core.document import change_job, parse_job
from horae.core.errors import Invalid
from horae.core.job import Definition
from horae.core.schedule import next_after

NOW_US = 1_795_000_000_000_000  # 2026-11-18
JOB_ID = "a1b2c3d4-e5f6-7890-1234-567890abcdef"
STANDING = Standing(JOB_ID, "default", 1_758_700_800_000_000, 1)  # made 2025-09-24T08:00:00Z


def create(document: dict[str, Any]) -> Definition:
    return parse_job(document, job_id=JOB_ID, now_us=NOW_US, tenant="default")


def type_of(definition: Definition) -> str:
    return schedule_type(definition, schedule_of(definition, JOB_ID, NOW_US))


def test_the_job_definition_of_seed_0():
    # Its `"body": { ... }` needs some body.
    job = create(
        {
            "job_id": "UUID",
            "schedule": "0 9 * * *",
            "type": "HTTP/Script",
            "payload": {"url": "https://example.com/api", "method": "POST", "body": {"a": 1}},
            "retries": 3,
            "status": "SCHEDULED/FAILED/COMPLETED",
            "next_run": "2025-06-24T09:00:00Z",
            "created_at": "...",
            "updated_at": "...",
        }
    )

    assert job.type == "http"
    assert job.target["url"] == "https://example.com/api"
    assert job.target["method"] == "POST"
    assert job.target["body"] == {"a": 1}
    assert job.schedule == ("0 9 * * *",)
    assert job.retry.max_retries == 3
    assert job.name == f"job-{JOB_ID}"


@pytest.mark.parametrize("type_", ["HTTP", "http", "Http"])
def test_the_http_half_of_seed_0s_type(type_):
    job = create({"type": type_, "payload": {"url": "https://example.com/api", "method": "POST", "body": {}}})

    assert (job.type, job.target["url"]) == ("http", "https://example.com/api")


def test_the_script_half_of_seed_0s_type():
    job = create({"schedule": "0 9 * * *", "type": "Script", "payload": {"command": "./cleanup.sh"}})

    assert (job.type, job.target) == ("shell", {"command": "./cleanup.sh"})


def test_the_recurring_job_definition_of_seed_1_as_java_writes_it():
    job = create(
        {
            "id": None,
            "name": "nightly",
            "cronExpression": "0 0 2 * * ?",
            "scheduledTime": 0,
            "type": "ETL_TASK",
            "priority": "HIGH",
            "parameters": {"table": "orders"},
            "maxRetries": 5,
            "retryCount": 0,
            "status": "SCHEDULED",
        }
    )

    assert job.type == "custom"
    assert cron_expression(job) == "0 0 2 * * ?"
    assert job.priority == "HIGH"
    assert job.payload == {"table": "orders"}
    assert job.retry.max_retries == 5


def test_the_one_time_job_definition_of_seed_1_as_java_writes_it():
    job = create(
        {
            "id": "4711",
            "name": "once",
            "cronExpression": None,
            "scheduledTime": 1_800_000_000_000,
            "type": "HTTP_REQUEST",
            "priority": "LOW",
            "parameters": {"url": "https://example.com/api"},
            "maxRetries": 3,
            "retryCount": 0,
            "status": "SCHEDULED",
        }
    )

    assert type_of(job) == "FUTURE"
    assert next_after(schedule_of(job, JOB_ID, NOW_US), NOW_US) == 1_800_000_000_000_000
    assert job.target["url"] == "https://example.com/api"


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("DATABASE_QUERY", "custom"),
        ("ETL_TASK", "custom"),
        ("NOTIFICATION", "custom"),
        ("DATA_SYNC", "custom"),
        ("CUSTOM", "custom"),
    ],
)
def test_every_type_of_seed_1_that_a_handler_runs(type_, expected):
    assert create({"name": "x", "type": type_}).type == expected


def test_the_request_of_seed_2():
    # Its "https://..." names no host.
    job = create(
        {
            "name": "daily-report",
            "cron": "0 9 * * *",
            "callback_url": "https://example.com/cb",
            "priority": "HIGH",
            "payload": {},
        }
    )

    assert (job.type, job.target["url"]) == ("http", "https://example.com/cb")
    assert (job.schedule, job.priority, job.payload) == (("0 9 * * *",), "HIGH", {})


def test_the_request_of_seed_3():
    # Its "URL" stands for one.
    job = create({"cron": "*/5 * * * *", "target": "https://example.com/cb", "payload": "{}"})

    assert (job.type, job.target["url"]) == ("http", "https://example.com/cb")
    assert job.payload == {}
    assert type_of(job) == "CRON"


CLEANUP = {
    "name": "Daily Data Cleanup",
    "schedule_type": "CRON",
    "cron_expression": "0 0 * * *",
    "payload": {"cleanup_target": "old_logs", "retention_days": 30},
    "max_retries": 2,
}


def test_the_creation_of_seed_4():
    job = create(CLEANUP)

    assert job.name == "Daily Data Cleanup"
    assert job.type == "custom"
    assert job.payload == {"cleanup_target": "old_logs", "retention_days": 30}
    assert job.retry.max_retries == 2
    assert type_of(job) == "CRON"


def test_the_future_form_of_seed_4():
    future = {key: value for key, value in CLEANUP.items() if key != "cron_expression"}
    job = create(future | {"schedule_type": "FUTURE", "schedule_time": "2027-09-25T10:00:00Z"})

    assert type_of(job) == "FUTURE"
    assert job.schedule == ("2027-09-25T10:00:00Z",)


def test_the_immediate_form_of_seed_4():
    now = {key: value for key, value in CLEANUP.items() if key != "cron_expression"}
    job = create(now | {"schedule_type": "IMMEDIATE"})

    assert type_of(job) == "IMMEDIATE"
    assert job.schedule == ("@now",)


def test_the_update_of_seed_4_whose_time_is_past():
    document = {"name": "Updated Data Cleanup", "schedule_time": "2025-09-25T10:00:00Z"}

    job = change_job(create(CLEANUP), document, standing=STANDING, now_us=NOW_US)

    assert job.name == "Updated Data Cleanup"
    assert job.schedule == ("2025-09-25T10:00:00Z",)
    assert job.retry.max_retries == 2
    assert next_after(schedule_of(job, JOB_ID, NOW_US), NOW_US) is None


def test_the_answer_of_seed_4_sent_back():
    job = create(CLEANUP)
    answer = {
        **CLEANUP,
        "job_id": JOB_ID,
        "status": "SCHEDULED",
        "created_at": "2025-09-24T08:00:00Z",
        "updated_at": "2025-09-24T08:00:00Z",
    }

    assert change_job(job, answer, standing=STANDING, now_us=NOW_US) == job


@pytest.mark.parametrize("target", ["https://...", "URL"])
def test_the_two_placeholders_are_no_urls_and_are_refused(target):
    with pytest.raises(Invalid) as caught:
        create({"cron": "*/5 * * * *", "target": target})

    assert [fault.pointer for fault in caught.value.faults] == ["/target"]

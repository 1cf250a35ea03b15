"""Documents, and what becomes of them."""

from typing import Any

import pytest
from hypothesis import strategies as st

from horae.core.answered import Standing
from horae.core.document import change_job, parse_job
from horae.core.errors import Fault, Invalid
from horae.core.job import Definition

NOW_US = 1_795_000_000_000_000  # 2026-11-18T11:06:40Z
SECOND_US = 1_000_000
JOB_ID = "0198abcd-1234-7000-8000-000000000001"
URL = "https://example.com/hook"
STANDING = Standing(JOB_ID, "default", NOW_US - SECOND_US, 3)


def create(document: Any, **fields: Any) -> Definition:
    return parse_job(document, job_id=JOB_ID, now_us=NOW_US, tenant="default", **fields)


def change(current: Definition, document: Any) -> Definition:
    return change_job(current, document, standing=STANDING, now_us=NOW_US)


def faults_of(document: Any, **fields: Any) -> list[Fault]:
    with pytest.raises(Invalid) as caught:
        create(document, **fields)
    return caught.value.faults


def pointers_of(document: Any) -> list[str]:
    return [fault.pointer for fault in faults_of(document)]


CONTRACT = {
    "name": "daily-report",
    "schedule": "0 9 * * 1-5",
    "timezone": "Europe/Berlin",
    "type": "http",
    "target": {"url": URL, "method": "POST", "headers": {}, "body": {}, "expect": "2xx"},
    "payload": {},
    "priority": "HIGH",
    "queue": "default",
    "timeout": "30s",
    "retry": {
        "max_retries": 3,
        "backoff": "exponential",
        "delay": "2s",
        "factor": 2,
        "max_delay": "1h",
        "jitter": 0.0,
    },
    "misfire": {"policy": "run_once", "window": "1h", "max": 10},
    "overlap": "allow",
    "max_concurrency": None,
    "concurrency_key": None,
    "jitter": "0s",
    "dst": {"gap": "shift", "fold": "first"},
    "calendar": None,
    "start_at": None,
    "end_at": None,
    "max_runs": None,
    "delivery": "at_least_once",
    "after": None,
    "notify": [],
    "labels": {"team": "billing"},
    "description": "",
}

FULL = {
    **CONTRACT,
    "schedule": ["0 9 * * 1-5", "@every 30m", "2030-01-01T09:00:00Z"],
    "payload": {"region": "eu"},
    "priority": "LOW",
    "queue": "reports",
    "timeout": "1h30m",
    "retry": {"max_retries": 7, "backoff": "linear", "delay": "1s", "factor": 1.5, "max_delay": "2h", "jitter": 0.25},
    "misfire": {"policy": "catch_up", "window": "2h", "max": 5},
    "overlap": "queue",
    "max_concurrency": 4,
    "concurrency_key": "billing",
    "jitter": "30s",
    "dst": {"gap": "skip", "fold": "both"},
    "calendar": {"exclude": ["2026-12-25"]},
    "start_at": "2027-01-01T00:00:00Z",
    "end_at": "2028-01-01T00:00:00Z",
    "max_runs": 100,
    "delivery": "at_most_once",
    "after": [{"job": "extract", "on": "success"}, {"job": "load", "on": "always"}],
    "notify": [{"url": URL, "on": ["failure", "success"]}, {"channel": "ops", "on": ["failure"]}],
    "description": "The morning report.\nIn two lines.",
}

# Whatever comes

texts = st.text(st.characters(exclude_categories=()), max_size=20)

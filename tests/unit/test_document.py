"""Job documents: every rule, every other name, every fault where the user wrote it, and the way back."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horae.core import aliases, checks
from horae.core.document import (
    LATE_US,
    change_job,
    cron_expression,
    first_due,
    parse_job,
    render_definition,
    schedule_of,
    schedule_type,
)
from horae.core.duration import format_instant
from horae.core.egress import allow_ranges
from horae.core.errors import Fault, Invalid
from horae.core.job import After, Definition, DstPolicy, Misfire, Retry
from horae.core.schedule import next_after

NOW_US = 1_795_000_000_000_000  # 2026-11-18T11:06:40Z
SECOND_US = 1_000_000
JOB_ID = "0198abcd-1234-7000-8000-000000000001"
URL = "https://example.com/hook"


def create(document: Any, **fields: Any) -> Definition:
    return parse_job(document, job_id=JOB_ID, now_us=NOW_US, tenant="default", **fields)


def change(current: Definition, document: Any) -> Definition:
    return change_job(current, document, job_id=JOB_ID, now_us=NOW_US, created_us=NOW_US - SECOND_US)


def faults_of(document: Any, **fields: Any) -> list[Fault]:
    with pytest.raises(Invalid) as caught:
        create(document, **fields)
    return caught.value.faults


def pointers_of(document: Any) -> list[str]:
    return [fault.pointer for fault in faults_of(document)]


def type_of(definition: Definition) -> str:
    return schedule_type(definition, schedule_of(definition, JOB_ID, NOW_US))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


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


# What a document means


def test_the_document_of_the_contract_is_answered_as_it_was_written():
    assert render_definition(create(CONTRACT)) == CONTRACT


def test_a_document_without_a_default_is_answered_as_it_was_written():
    job = create(FULL)

    assert render_definition(job) == FULL
    assert job.retry == Retry(7, "linear", 1_000_000, 1.5, 7_200_000_000, 0.25)
    assert job.misfire == Misfire("catch_up", 7_200_000_000, 5)
    assert job.dst == DstPolicy("skip", "both")
    assert job.after == (After("extract"), After("load", "always"))


def test_an_empty_document_is_a_manual_custom_job_with_a_name_of_its_own():
    job = create({})

    assert job == Definition(name=f"job-{JOB_ID}", type="custom")
    assert type_of(job) == "MANUAL"
    assert render_definition(job)["schedule"] == "@manual"


def test_null_is_the_default():
    assert create(dict.fromkeys(CONTRACT)) == create({})


def test_a_definition_survives_its_storage():
    job = create(FULL)

    assert msgspec.json.decode(msgspec.json.encode(job), type=Definition) == job


@pytest.mark.parametrize(
    ("schedule", "texts", "type_"),
    [
        ("0 9 * * *", ("0 9 * * *",), "CRON"),
        ("  0 9 * * *  ", ("0 9 * * *",), "CRON"),
        ("*/5 * * * * *", ("*/5 * * * * *",), "CRON"),
        ("@daily", ("@daily",), "CRON"),
        ("@every 30s", ("@every 30s",), "INTERVAL"),
        ("@now", ("@now",), "IMMEDIATE"),
        ("@NOW", ("@now",), "IMMEDIATE"),
        ("@manual", (), "MANUAL"),
        ("2030-01-01T09:00:00+01:00", ("2030-01-01T09:00:00+01:00",), "FUTURE"),
        (["0 9 * * *"], ("0 9 * * *",), "CRON"),
        (["0 9 * * *", "0 12 * * *"], ("0 9 * * *", "0 12 * * *"), "CRON"),
        (["@manual", "@every 1h"], ("@every 1h",), "INTERVAL"),
    ],
)
def test_schedules(schedule, texts, type_):
    job = create({"schedule": schedule})

    assert job.schedule == texts
    assert type_of(job) == type_


def test_the_cron_expression_is_the_first_cron_line():
    assert cron_expression(create({"schedule": ["@every 1h", "@hourly", "0 9 * * *"]})) == "@hourly"
    assert cron_expression(create({"schedule": "2030-01-01T09:00:00Z"})) is None
    assert cron_expression(create({})) is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, ()),
        ("load", (After("load"),)),
        ({"job": "load"}, (After("load"),)),
        ({"job_id": "load", "on": "failure"}, (After("load", "failure"),)),
        ({"job": "load", "on": "succeeded"}, (After("load"),)),
        ({"job": "load", "on": "failed"}, (After("load", "failure"),)),
        (["a", {"job": "b", "on": "always"}, "a"], (After("a"), After("b", "always"))),
    ],
)
def test_after(after, expected):
    job = create({"after": after})

    assert job.after == expected
    assert type_of(job) == ("AFTER" if expected else "MANUAL")


def test_a_schedule_beside_after_gives_the_type():
    assert type_of(create({"after": "load", "schedule": "@hourly"})) == "CRON"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("high", "HIGH"), ("Medium", "MEDIUM"), ("normal", "MEDIUM"), (1, "HIGH"), (2, "MEDIUM"), (3, "LOW")],
)
def test_priorities(given, expected):
    assert create({"priority": given}).priority == expected


@pytest.mark.parametrize("value", ["90s", "1m30s", 90, 90.0, "90"])
def test_a_duration_is_a_text_or_seconds(value):
    assert create({"timeout": value}).timeout_us == 90_000_000


def test_groups_in_one_word():
    job = create({"retry": 0, "misfire": "skip"})

    assert job.retry == Retry(max_retries=0)
    assert job.misfire == Misfire(policy="skip")


def test_start_and_end_without_an_offset_are_on_the_clock_of_the_zone():
    job = create({"timezone": "Europe/Berlin", "start_at": "2027-01-01T00:00:00", "end_at": "2027-02-01T00:00:00Z"})

    assert render_definition(job)["start_at"] == "2026-12-31T23:00:00Z"
    assert render_definition(job)["end_at"] == "2027-02-01T00:00:00Z"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (URL, {"url": URL, "on": ["failure"]}),
        ({"url": URL, "on": "succeeded"}, {"url": URL, "on": ["success"]}),
        ({"channel": "ops", "on": ["failed", "skipped"]}, {"channel": "ops", "on": ["failure", "skipped"]}),
    ],
)
def test_notify(rule, expected):
    assert create({"notify": [rule]}).notify == (expected,)


def test_retries_of_an_at_most_once_job_are_accepted():
    assert create({"delivery": "at_most_once", "max_retries": 5}).retry.max_retries == 5


# Types and targets


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("HTTP", "http"),
        ("http_request", "http"),
        ("SHELL", "shell"),
        ("Script", "shell"),
        ("python", "python"),
        ("NOOP", "noop"),
        ("database_query", "custom"),
        ("Custom", "custom"),
    ],
)
def test_types_in_any_case(type_, expected):
    targets = {"http": {"url": URL}, "shell": {"command": "true"}, "python": {"handler": "f"}}

    assert create({"type": type_, "target": targets.get(expected, {})}).type == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (URL, "http"),
        ({"url": URL}, "http"),
        ({"command": ["true"]}, "shell"),
        ({"handler": "f"}, "python"),
        ({"sleep": "1s"}, "noop"),
        ({}, "custom"),
    ],
)
def test_a_target_shows_its_type(target, expected):
    assert create({"target": target}).type == expected


def test_a_target_that_shows_no_type_needs_one():
    assert pointers_of({"target": {"query": "select 1"}}) == ["/type"]


def test_a_callback_url_completes_a_target():
    job = create({"target": {"method": "PUT"}, "callback_url": URL})

    assert (job.target["url"], job.target["method"]) == (URL, "PUT")


def test_a_payload_may_hold_the_request():
    document = {"type": "HTTP", "payload": {"url": URL, "method": "put", "body": [1], "headers": {"A": "b"}}}

    job = create(document)

    assert job.target == {"url": URL, "method": "PUT", "body": [1], "headers": {"A": "b"}, "expect": "2xx"}
    assert job.payload == document["payload"]


@pytest.mark.parametrize("key", ["command", "script"])
def test_a_payload_may_hold_the_command(key):
    assert create({"type": "SCRIPT", "payload": {key: "./run.sh"}}).target == {"command": "./run.sh"}


def test_the_url_of_a_custom_jobs_payload_is_only_data():
    assert create({"payload": {"url": "no url"}}).target == {}


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"type": "http"}, "/target/url"),
        ({"type": "shell"}, "/target/command"),
        ({"target": "ftp://example.com"}, "/target"),
        ({"target": {"url": "ftp://example.com"}}, "/target/url"),
        ({"callback_url": "ftp://example.com"}, "/callback_url"),
        ({"callback_url": 5}, "/callback_url"),
        ({"type": "http", "payload": {"url": "ftp://example.com"}}, "/payload/url"),
        ({"type": "http", "parameters": {"url": "ftp://example.com"}}, "/parameters/url"),
        ({"type": "http", "payload": '{"url": "ftp://example.com"}'}, "/payload"),
        ({"type": "http", "payload": {"url": URL, "headers": {"Host": "x"}}}, "/payload/headers/Host"),
        ({"type": "script", "payload": {"script": 5}}, "/payload/script"),
        ({"type": "shell", "target": "echo"}, "/target"),
        ({"type": "custom", "callback_url": URL}, "/callback_url"),
        ({"target": 5}, "/target"),
        ({"target": [URL]}, "/target"),
    ],
)
def test_a_fault_of_a_target_is_told_where_it_was_written(document, pointer):
    assert pointers_of(document) == [pointer]


def test_a_fault_speaks_of_the_field_that_was_written():
    (fault,) = faults_of({"type": "http", "payload": {"url": URL, "method": "FETCH"}})

    assert fault.detail.startswith('"payload.method" must be one of GET')
    assert fault.hint == 'Write "payload": {"method": "POST"}.'


def test_an_inner_address_is_refused_unless_allowed():
    document = {"target": "http://127.0.0.1:9000/", "notify": ["http://127.0.0.1:9000/"]}

    assert pointers_of(document) == ["/target", "/notify/0/url"]
    assert create(document, allow=allow_ranges("127.0.0.0/8")).type == "http"


# Other names


@pytest.mark.parametrize("name", ["schedule", "cron", "cron_expression", "cronExpression"])
def test_names_of_the_schedule(name):
    assert create({name: "0 9 * * *"}).schedule == ("0 9 * * *",)
    assert pointers_of({name: "61 9 * * *"}) == [f"/{name}"]
    assert pointers_of({name: ["0 9 * * *", "61 9 * * *"]}) == [f"/{name}/1"]


@pytest.mark.parametrize("name", ["schedule_time", "scheduledTime"])
def test_names_of_a_time(name):
    assert create({name: 1_800_000_000_000}).schedule == ("2027-01-15T08:00:00Z",)
    assert create({name: "2027-01-15T08:00:00Z"}).schedule == ("2027-01-15T08:00:00Z",)
    assert create({name: 0}).schedule == ()
    for wrong in ("0 9 * * *", True, 1.5, [], "1800000000000", -1):
        assert pointers_of({name: wrong}) == [f"/{name}"]


def test_a_time_in_seconds_is_told_from_milliseconds():
    (fault,) = faults_of({"scheduledTime": 1_800_000_000})

    assert fault.hint == 'Write "scheduledTime": 1800000000000.'


@pytest.mark.parametrize(("interval", "text"), [(90, "@every 1m30s"), ("5m", "@every 5m"), (3600.0, "@every 1h")])
def test_interval(interval, text):
    assert create({"interval": interval}).schedule == (text,)
    assert create({"schedule_type": "INTERVAL", "interval": interval}).schedule == (text,)


@pytest.mark.parametrize("interval", [0, True, "often", -1, 0.5, 1e300, []])
def test_a_wrong_interval_is_told_at_its_name(interval):
    assert pointers_of({"interval": interval}) == ["/interval"]


@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ({"schedule_type": "CRON", "cron": "0 9 * * *"}, ("0 9 * * *",)),
        ({"schedule_type": "cron", "schedule": "@hourly"}, ("@hourly",)),
        ({"schedule_type": "FUTURE", "schedule_time": "2030-01-01T00:00:00Z"}, ("2030-01-01T00:00:00Z",)),
        ({"schedule_type": "IMMEDIATE"}, ("@now",)),
        ({"schedule_type": "IMMEDIATE", "cron_expression": None, "schedule_time": None}, ("@now",)),
        ({"schedule_type": "MANUAL"}, ()),
        ({"schedule_type": "AFTER", "after": "load"}, ()),
        ({"schedule_type": None, "schedule": "@hourly"}, ("@hourly",)),
    ],
)
def test_schedule_type(document, texts):
    assert create(document).schedule == texts


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [("CRON", "cron_expression"), ("FUTURE", "schedule_time"), ("INTERVAL", "interval"), ("AFTER", "after")],
)
def test_a_schedule_type_says_what_it_needs(type_, wanted):
    (fault,) = faults_of({"schedule_type": type_})

    assert fault.pointer == "/schedule_type"
    assert f'"{wanted}"' in fault.detail
    assert json.loads("{" + fault.hint.removeprefix("Add ").removesuffix(".") + "}").keys() == {wanted}


@pytest.mark.parametrize("name", ["retries", "maxRetries", "max_retries"])
def test_names_of_the_retries(name):
    assert create({name: 5}).retry == Retry(max_retries=5)
    assert create({name: 5, "retry": {"delay": "1s"}}).retry == Retry(max_retries=5, delay_us=SECOND_US)
    assert pointers_of({name: 101}) == [f"/{name}"]


@pytest.mark.parametrize("name", ["payload", "parameters"])
def test_names_of_the_payload(name):
    assert create({name: {"a": 1}}).payload == {"a": 1}


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("{}", {}),
        (' {"a": [1]} ', {"a": [1]}),
        ("[1, 2]", [1, 2]),
        ("{not json", "{not json"),
        ("hello", "hello"),
        ("5", "5"),
        ('"quoted"', '"quoted"'),
        ("", ""),
    ],
)
def test_a_payload_text_that_holds_an_object_or_a_list_is_opened(text, payload):
    assert create({"payload": text}).payload == payload


@pytest.mark.parametrize("text", ['{"a": "\\u0000"}', "[" * 70 + "]" * 70, "[" * 100_000 + "]" * 100_000])
def test_what_a_payload_text_holds_is_checked_too(text):
    assert set(pointers_of({"payload": text})) == {"/payload"}


@pytest.mark.parametrize(
    "document",
    [
        {"schedule": "0 9 * * *", "cron": "0  9 * * *", "cron_expression": "0 9 * * *"},
        {"schedule": ["0 9 * * *", "0 10 * * *"], "cron_expression": "0 9 * * *"},
        {"max_retries": 2, "retries": 2, "retry": {"max_retries": 2}},
        {"payload": "{}", "parameters": {}},
        {"target": {"url": URL}, "callback_url": URL},
        {"target": URL, "callback_url": URL},
        {"schedule": "2027-01-15T08:00:00Z", "scheduledTime": 1_800_000_000_000},
        {"cron": None, "schedule": "0 9 * * *"},
    ],
)
def test_two_names_that_agree(document):
    assert create(document)


@pytest.mark.parametrize(
    ("document", "first", "second"),
    [
        ({"schedule": "0 9 * * *", "cron": "0 8 * * *"}, "schedule", "cron"),
        ({"cron": "0 9 * * *", "schedule_time": "2030-01-01T00:00:00Z"}, "cron", "schedule_time"),
        ({"schedule_type": "FUTURE", "cron": "0 9 * * *"}, "cron", "schedule_type"),
        ({"schedule_type": "MANUAL", "interval": 5}, "interval", "schedule_type"),
        ({"retries": 1, "max_retries": 2}, "max_retries", "retries"),
        ({"retry": 1, "max_retries": 2}, "retry", "max_retries"),
        ({"retry": {"max_retries": 1}, "maxRetries": 2}, "retry.max_retries", "maxRetries"),
        ({"payload": {}, "parameters": {"a": 1}}, "payload", "parameters"),
        ({"target": URL, "callback_url": URL + "2"}, "target", "callback_url"),
        ({"target": {"url": URL}, "callback_url": URL + "2"}, "target.url", "callback_url"),
    ],
)
def test_two_names_that_disagree_are_both_named(document, first, second):
    (fault,) = faults_of(document)

    assert fault.pointer == f"/{second}"
    assert f'"{first}"' in fault.detail
    assert f'"{second}"' in fault.detail
    assert fault.hint == f'Leave out "{second}".'


# What is refused


WRONG: dict[str, list[Any]] = {
    "name": ["", "   ", "a/b", "..", "a\nb", "x" * 201, 5],
    "timezone": ["Europe/Berln", 5],
    "type": ["ftp", 5],
    "priority": ["urgent", 0, 4, "1", True, 1.0],
    "queue": ["", "a b", "x" * 65, "*"],
    "timeout": [0, "0.5ms", "25h", "soon", True, 1e300, []],
    "jitter": ["25h", "-1s"],
    "max_concurrency": [0, 10_001, "5", True],
    "concurrency_key": ["", "x" * 201],
    "max_runs": [0, 1.0],
    "overlap": ["forbid", ["skip"]],
    "delivery": ["exactly_once"],
    "calendar": [5],
    "start_at": [5, "tomorrow", "1969-01-01T00:00:00Z"],
    "end_at": ["9999-01-01T00:00:00Z"],
    "schedule": ["", [], 5, 0, False, "@every 10ms", "0 0 30 2 *", ["@hourly"] * 21],
    "retry": ["3", True, -1, []],
    "misfire": ["later", 5],
    "dst": ["shift"],
    "after": [5, "", ["x"] * 21],
    "notify": [URL, [URL] * 21],
    "labels": [[], {str(number): "x" for number in range(33)}],
    "description": ["x" * 4001, 5],
    "payload": ["x" * 300_000, {"a": "x" * 300_000}, list(range(100_000))],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named(field, value):
    (fault,) = faults_of({field: value})

    assert fault.pointer == f"/{field}"
    assert fault.detail


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"schedule": ["@hourly", 5]}, "/schedule/1"),
        ({"retry": {"max_retries": 101}}, "/retry/max_retries"),
        ({"retry": {"max_retries": True}}, "/retry/max_retries"),
        ({"retry": {"max_retries": "3"}}, "/retry/max_retries"),
        ({"retry": {"max_retries": 3.0}}, "/retry/max_retries"),
        ({"retry": {"backoff": "quadratic"}}, "/retry/backoff"),
        ({"retry": {"delay": "-1s"}}, "/retry/delay"),
        ({"retry": {"factor": 0.5}}, "/retry/factor"),
        ({"retry": {"factor": 101}}, "/retry/factor"),
        ({"retry": {"factor": True}}, "/retry/factor"),
        ({"retry": {"jitter": 1.1}}, "/retry/jitter"),
        ({"retry": {"jitter": "0.5"}}, "/retry/jitter"),
        ({"retry": {"delai": "1s"}}, "/retry/delai"),
        ({"misfire": {"policy": "all"}}, "/misfire/policy"),
        ({"misfire": {"max": 0}}, "/misfire/max"),
        ({"misfire": {"max": 1001}}, "/misfire/max"),
        ({"misfire": {"window": "367d"}}, "/misfire/window"),
        ({"dst": {"gap": "jump"}}, "/dst/gap"),
        ({"dst": {"fold": "twice"}}, "/dst/fold"),
        ({"labels": {"a b": "x"}}, "/labels/a b"),
        ({"labels": {"a/b~": "x"}}, "/labels/a~1b~0"),
        ({"labels": {"team": 5}}, "/labels/team"),
        ({"labels": {"team": None}}, "/labels/team"),
        ({"labels": {"team": "x" * 256}}, "/labels/team"),
        ({"after": {"job": "x", "on": "sometimes"}}, "/after/on"),
        ({"after": {"on": "success"}}, "/after/job"),
        ({"after": {"job": "x", "when": 1}}, "/after/when"),
        ({"after": ["x", {"job": 5}]}, "/after/1/job"),
        ({"notify": [{}]}, "/notify/0"),
        ({"notify": [{"url": URL, "channel": "ops"}]}, "/notify/0"),
        ({"notify": [{"url": URL, "on": "monday"}]}, "/notify/0/on"),
        ({"notify": [{"url": URL, "on": []}]}, "/notify/0/on"),
        ({"notify": [{"url": "ftp://x"}]}, "/notify/0/url"),
        ({"notify": [{"url": URL, "secret": "x"}]}, "/notify/0/secret"),
        ({"calendar": {"exclude": ["Christmas"]}}, "/calendar/exclude/0"),
        ({"start_at": "2027-01-02T00:00:00Z", "end_at": "2027-01-01T00:00:00Z"}, "/end_at"),
    ],
)
def test_a_wrong_part_is_named(document, pointer):
    assert pointers_of(document) == [pointer]


def test_all_faults_come_at_once_in_the_order_of_the_fields():
    document = {
        "retrys": 3,
        "name": "a/b",
        "cron": "61 9 * * *",
        "timezone": "Europe/Berln",
        "overlap": "forbid",
        "retry": {"max_retries": True, "backoff": "slow"},
        "target": "ftp://example.com",
        "labels": {"a b": 5},
    }

    assert pointers_of(document) == [
        "/retrys",
        "/name",
        "/timezone",
        "/overlap",
        "/labels/a b",
        "/labels/a b",
        "/retry/max_retries",
        "/retry/backoff",
        "/target",
        "/cron",
    ]


@pytest.mark.parametrize(
    ("unknown", "near"),
    [
        ("retrys", "retry"),
        ("Schedule", "schedule"),
        ("time_zone", "timezone"),
        ("cronexpression", "cronExpression"),
        ("callbackUrl", "callback_url"),
        ("max_retrys", "max_retries"),
        ("tags", "labels"),
        ("tz", "timezone"),
        ("depends_on", "after"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_one(unknown, near):
    (fault,) = faults_of({unknown: 1})

    assert fault.pointer == f"/{unknown}"
    assert fault.detail == f'"{unknown}" is not a field of a job; did you mean "{near}"?'


def test_a_field_like_no_other_is_answered_with_the_list():
    (fault,) = faults_of({"xyzzy": 1})

    assert fault.detail == '"xyzzy" is not a field of a job.'
    assert "name, schedule" in fault.hint


@pytest.mark.parametrize("field", ["tenant_id", "state", "attempt", "lease_token", "owner"])
def test_what_belongs_to_horae_cannot_be_assigned(field):
    assert pointers_of({field: "x"}) == [f"/{field}"]


@pytest.mark.parametrize("field", sorted(aliases.READ_ONLY - {"tenant"}))
def test_what_an_answer_adds_is_taken_and_changes_nothing(field):
    assert create({field: "anything"}) == create({})
    assert change(create({}), {field: "anything"}) == create({})


def test_a_new_job_cannot_name_another_tenant():
    assert create({"tenant": "default"}) == create({})
    assert pointers_of({"tenant": "other"}) == ["/tenant"]


def test_a_wrong_word_of_a_closed_list_names_the_list_and_the_nearest():
    (fault,) = faults_of({"retry": {"backoff": "exponental"}})

    assert fault.detail == '"retry.backoff" must be one of exponential, linear, fixed; got "exponental".'
    assert fault.hint == 'Did you mean "retry": {"backoff": "exponential"}?'


def test_a_job_cannot_run_after_itself():
    assert pointers_of({"name": "load", "after": "load"}) == ["/after"]
    assert pointers_of({"after": [JOB_ID]}) == ["/after"]


def test_the_largest_part_of_a_large_payload_is_named():
    (fault,) = faults_of({"payload": {"small": 1, "rows": "x" * 300_000}})

    assert "262,144" in fault.detail
    assert '"rows"' in fault.hint


@pytest.mark.parametrize("document", [None, [], "x", 5, True, [{}]])
def test_a_job_is_an_object(document):
    assert pointers_of(document) == [""]


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"name": "a\0"}, "/name"),
        ({"payload": {"a": ["\0"]}}, "/payload/a/0"),
        ({"payload": {"a/b": "\ud800"}}, "/payload/a~1b"),
        ({"payload": {"\0": 1}}, "/payload"),
        ({"payload": {"\udfff": 1}}, "/payload"),
        ({"\0": 1}, ""),
        ({"payload": float("nan")}, "/payload"),
        ({"payload": [float("-inf")]}, "/payload/0"),
        ({"payload": 2**64}, "/payload"),
        ({"payload": -(2**64)}, "/payload"),
        ({"timeout": float("inf")}, "/timeout"),
        ({"description": "\ud83d"}, "/description"),
        ({"status": "\0"}, "/status"),
        ({"payload": {1: 2}}, "/payload"),
        ({"payload": b"x"}, "/payload"),
        ({"payload": nested(64)}, "/payload" + "/0" * 63),
    ],
)
def test_what_cannot_be_stored_is_refused_where_it_stands(document, pointer):
    assert pointers_of(document) == [pointer]


def test_what_just_can_be_stored_is_taken():
    payload = {"deep": nested(61), "large": 2**64 - 1, "smile": "\U0001f600", "tiny": 5e-324}

    assert create({"payload": payload}).payload == payload


def test_many_faults_are_cut_short():
    assert len(faults_of({"payload": ["\0"] * 1000})) == checks.MOST_FAULTS
    assert len(faults_of({f"unknown-{number}": 1 for number in range(1000)})) == aliases.MOST_UNKNOWN


# Past times


@pytest.mark.parametrize("name", ["schedule", "schedule_time", "scheduledTime"])
def test_a_new_one_time_job_needs_a_future_time(name):
    past = format_instant(NOW_US - 33_600 * SECOND_US)

    (fault,) = faults_of({name: past})

    assert fault.pointer == f"/{name}"
    assert fault.detail == f'"{past}" was 9 h 20 m ago. A one-time job needs a future time.'
    assert fault.hint == 'To start it now write "schedule": "@now".'


def test_each_past_time_of_a_list_is_named():
    assert pointers_of({"schedule": ["2020-01-01T00:00:00Z", "@hourly", "2021-01-01T00:00:00Z"]}) == [
        "/schedule/0",
        "/schedule/2",
    ]


def test_a_new_one_time_job_that_is_just_late_is_due_at_once():
    late_us = NOW_US - LATE_US
    job = create({"schedule": format_instant(late_us)})

    assert first_due(job, schedule_of(job, JOB_ID, NOW_US), NOW_US) == late_us
    assert pointers_of({"schedule": format_instant(late_us - 1)}) == ["/schedule"]


def test_beside_other_lines_a_late_time_would_be_lost_and_is_refused():
    assert pointers_of({"schedule": ["@hourly", format_instant(NOW_US - SECOND_US)]}) == ["/schedule/1"]


@pytest.mark.parametrize(
    ("schedule", "due_us"),
    [
        ("@now", NOW_US),
        ("@manual", None),
        ("@every 30s", NOW_US + 30 * SECOND_US),
        ("0 * * * *", 1_795_003_200_000_000),
    ],
)
def test_the_first_due_time(schedule, due_us):
    job = create({"schedule": schedule})

    assert first_due(job, schedule_of(job, JOB_ID, NOW_US), NOW_US) == due_us


def test_a_change_may_bring_a_past_time_and_never_fires_it():
    job = change(create({"schedule": "@hourly"}), {"schedule": "2020-01-01T00:00:00Z"})

    assert next_after(schedule_of(job, JOB_ID, NOW_US), NOW_US) is None


def test_a_change_to_now_runs_now():
    job = change(create({"schedule": "@hourly"}), {"schedule": "@now"})
    due_us = next_after(schedule_of(job, JOB_ID, NOW_US - SECOND_US), NOW_US)

    assert due_us is not None
    assert 0 < due_us - NOW_US <= 1000


def test_now_said_again_does_not_run_again():
    job = create({"schedule": "@now"})

    assert change(job, {"schedule": "@now", "timeout": "1s"}).schedule == ("@now",)


# Changes


def test_only_the_fields_given_change():
    job = create(FULL)

    changed = change(
        job, {"timeout": "1s", "retry": {"max_retries": 1}, "misfire": {"max": 1}, "dst": {"gap": "shift"}}
    )

    assert changed.timeout_us == SECOND_US
    assert changed.retry == msgspec.structs.replace(job.retry, max_retries=1)
    assert changed.misfire == msgspec.structs.replace(job.misfire, max=1)
    assert changed.dst == msgspec.structs.replace(job.dst, gap="shift")
    assert render_definition(changed) | {key: FULL[key] for key in ("timeout", "retry", "misfire", "dst")} == FULL


@pytest.mark.parametrize("field", sorted(FULL.keys() - {"type", "target"}))
def test_null_resets_a_field(field):
    default = render_definition(create({"type": "http", "target": URL}))
    if field == "schedule":
        default["schedule"] = None  # `after` is left

    changed = render_definition(change(create(FULL), {field: None}))

    assert changed[field] == default[field]
    assert {key: changed[key] for key in changed if key != field} == {key: FULL[key] for key in FULL if key != field}


def test_null_resets_one_key_of_a_group():
    assert change(create(FULL), {"retry": {"delay": None}}).retry.delay_us == Retry().delay_us
    assert change(create(FULL), {"max_retries": None}).retry.max_retries == Retry().max_retries


def test_a_change_names_its_faults_where_they_were_written():
    with pytest.raises(Invalid) as caught:
        change(
            create(FULL), {"cron": "61 * * * *", "maxRetries": -1, "state": "paused", "end_at": "2020-01-01T00:00:00Z"}
        )

    assert [fault.pointer for fault in caught.value.faults] == ["/state", "/maxRetries", "/end_at", "/cron"]


@pytest.mark.parametrize("document", [{}, FULL, {"schedule": "@hourly"}, {"after": "load"}, {"target": URL}])
def test_an_answer_sent_back_changes_nothing(document):
    job = create(document)
    schedule = schedule_of(job, JOB_ID, NOW_US)
    answer = render_definition(job) | {
        "job_id": JOB_ID,
        "tenant": "default",
        "status": "SCHEDULED",
        "schedule_type": schedule_type(job, schedule),
        "cron_expression": cron_expression(job),
        "max_retries": job.retry.max_retries,
        "next_fire_time": None,
        "last_run_status": None,
        "version": 3,
        "created_at": format_instant(NOW_US),
        "updated_at": format_instant(NOW_US),
    }

    assert change(job, answer) == job
    assert create(answer) == job


@pytest.mark.parametrize(
    ("edit", "texts"),
    [
        ({"schedule": "@every 5m"}, ("@every 5m",)),
        ({"schedule": "0 10 * * *"}, ("0 10 * * *",)),
        ({"schedule": "@manual"}, ()),
        ({"cron_expression": "0 10 * * *"}, ("0 10 * * *",)),
        ({"cron": "0 10 * * *"}, ("0 10 * * *",)),
    ],
)
def test_an_answer_may_be_edited_at_either_name_and_sent_back(edit, texts):
    job = create({"schedule": "0 9 * * *"})
    answer = render_definition(job) | {"schedule_type": "CRON", "cron_expression": "0 9 * * *", "max_retries": 3}

    assert change(job, answer | edit).schedule == texts


def test_an_edited_answer_may_still_contradict_itself():
    job = create({"schedule": "0 9 * * *"})

    with pytest.raises(Invalid, match="disagree"):
        change(job, {"schedule": "0 10 * * *", "cron_expression": "0 11 * * *"})


def test_retries_may_be_edited_at_either_name():
    job = create({})
    answer = render_definition(job) | {"max_retries": 3}

    assert change(job, answer | {"max_retries": 9}).retry.max_retries == 9
    assert change(job, answer | {"retry": {"max_retries": 9}}).retry.max_retries == 9


def test_a_schedule_type_alone_changes_the_schedule():
    job = create({"schedule": "0 9 * * *"})

    assert change(job, {"schedule_type": "CRON"}) == job
    assert change(job, {"schedule_type": "MANUAL"}).schedule == ()
    with pytest.raises(Invalid, match="schedule_time"):
        change(job, {"schedule_type": "FUTURE"})


def test_a_callback_url_changes_the_url_alone():
    job = create({"target": {"url": URL, "method": "PUT"}})

    changed = change(job, {"callback_url": "https://example.com/other"})

    assert changed.target == job.target | {"url": "https://example.com/other"}


def test_a_target_is_replaced_as_a_whole():
    job = create({"target": {"url": URL, "method": "PUT"}})

    assert change(job, {"target": {"url": URL}}).target["method"] == "POST"
    assert change(job, {"target": URL + "2"}).target["url"] == URL + "2"


def test_a_plain_url_makes_any_job_an_http_job():
    assert change(create({"type": "noop"}), {"target": URL}).type == "http"


def test_another_type_needs_its_own_target():
    job = create({"target": URL})

    with pytest.raises(Invalid, match=r"target\.command"):
        change(job, {"type": "shell"})
    assert change(job, {"type": "shell", "target": {"command": "true"}}).target == {"command": "true"}
    assert change(job, {"type": "custom"}).target == {}
    assert change(job, {"type": None, "target": None}).type == "custom"
    assert change(job, {"type": "HTTP_REQUEST"}) == job
    assert change(job, {"type": None}) == job


def test_a_target_told_in_the_payload_follows_it():
    job = create({"type": "http", "payload": {"url": URL}})

    assert change(job, {"payload": {"url": URL + "2"}}).target["url"] == URL + "2"
    assert change(job, {"payload": {"rows": 5}}).target["url"] == URL


def test_a_target_told_elsewhere_does_not_follow_the_payload():
    job = create({"target": URL, "payload": {"url": "data"}})

    assert change(job, {"payload": {"url": URL + "2"}}).target["url"] == URL


def test_an_unchanged_target_is_not_judged_again():
    job = create({"target": "http://127.0.0.1:9000/"}, allow=allow_ranges("127.0.0.0/8"))

    assert change(job, render_definition(job) | {"timeout": "1s"}).target == job.target


# Compiled schedules


def test_jobs_that_share_a_line_share_one_schedule():
    one, other = create({"schedule": "0 9 * * *"}), create({"name": "other", "schedule": "0 9 * * *"})

    assert schedule_of(one, "a", 1) is schedule_of(other, "b", 2)
    for difference in (
        {"timezone": "Asia/Tokyo"},
        {"dst": {"gap": "skip"}},
        {"start_at": "2030-01-01T00:00:00Z"},
        {"calendar": {"exclude": ["2026-12-25"]}},
    ):
        assert schedule_of(change(one, difference), "a", 1) is not schedule_of(one, "a", 1)


def test_an_interval_counts_from_creation_or_start():
    job = create({"schedule": "@every 60s"})

    assert next_after(schedule_of(job, "a", 7), 7) == 7 + 60 * SECOND_US
    assert next_after(schedule_of(job, "b", 9), 9) == 9 + 60 * SECOND_US

    started = change(job, {"start_at": "2030-01-01T00:00:30Z"})
    assert (next_after(schedule_of(started, "a", 7), 7) or 0) // SECOND_US % 60 == 30


def test_now_with_a_start_waits_for_it_and_one_without_does_not():
    later = create({"schedule": "@now", "start_at": "2030-01-01T00:00:00Z"})
    earlier = create({"schedule": "@now", "start_at": "2020-01-01T00:00:00Z"})

    assert first_due(later, schedule_of(later, JOB_ID, NOW_US), NOW_US) == later.start_us
    assert first_due(earlier, schedule_of(earlier, JOB_ID, NOW_US), NOW_US) == NOW_US


def test_a_hashed_line_is_each_jobs_own_and_always_the_same():
    job = create({"schedule": "H H * * *"})
    times = {next_after(schedule_of(job, f"job-{number}", 0), NOW_US) for number in range(50)}

    assert len(times) > 25
    assert schedule_of(job, "a", 1) is schedule_of(job, "a", 2)


def test_a_letter_in_a_name_is_no_hash():
    job = create({"schedule": "0 9 * * THU"})

    assert schedule_of(job, "a", 1) is schedule_of(job, "b", 1)


# Whatever comes

texts = st.text(st.characters(exclude_categories=()), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=8
)
words = st.sampled_from(
    ["0 9 * * *", "H * * * *", "@every 5s", "@now", "@manual", "2030-01-01T00:00:00Z", "2030-02-31T00:00:00", "1h",
     "skip", "success", "http", "shell", "Script", "noop", "UTC", "Europe/Berlin", URL, "http://[::1", "{}", "[[1]]",
     "CRON", "INTERVAL", "AFTER", "FUTURE", "DE", "high", "both"]
)  # fmt: skip
names = st.sampled_from(sorted(aliases._KNOWN))
inner_names = st.sampled_from(
    ["max_retries", "delay", "factor", "policy", "window", "gap", "fold", "url", "method", "headers", "body", "command",
     "env", "handler", "args", "sleep", "fail", "job", "on", "exclude", "include", "holidays", "expect", "team"]
)  # fmt: skip
likely = st.recursive(
    scalars | words | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(inner_names, inner, max_size=4),
    max_leaves=6,
)
unlikely = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@unlikely
@given(anything)
def test_anything_is_a_job_or_invalid(document):
    try_all(document)


@unlikely
@given(st.dictionaries(names | texts, likely | anything, max_size=8))
def test_any_object_is_a_job_or_invalid(document):
    try_all(document)


@unlikely
@given(st.dictionaries(names, likely, max_size=5))
def test_any_change_of_a_full_job_gives_a_job_or_invalid(document):
    try_all(FULL | document)


def try_all(document: Any) -> None:
    """New or as a change, it is refused with faults that can be sent, or gives a job that comes back as itself."""
    for result in (
        attempt(create, document),
        attempt(change, FULL_JOB, document),
        attempt(change, EMPTY_JOB, document),
    ):
        if isinstance(result, Definition):
            assert_comes_back(result)
        else:
            assert result
            assert json.dumps(
                [[fault.pointer, fault.detail, fault.hint] for fault in result], ensure_ascii=False
            ).encode()
            assert all(fault.pointer == "" or fault.pointer[0] == "/" for fault in result)


def attempt(read: Callable[..., Definition], *arguments: Any) -> Definition | list[Fault]:
    try:
        return read(*arguments)
    except Invalid as error:
        return error.faults


FULL_JOB, EMPTY_JOB = create(FULL), create({})


def assert_comes_back(job: Definition) -> None:
    answer = json.loads(json.dumps(render_definition(job), allow_nan=False).encode())
    assert change(job, answer) == job
    assert msgspec.json.decode(msgspec.json.encode(job), type=Definition) == job


durations = st.integers(min_value=1000, max_value=86_400 * SECOND_US).map(lambda us: f"{us}us")
plain_texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="/"), min_size=1)
payloads = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_texts, inner, max_size=3),
    max_leaves=8,
)
lines = st.sampled_from(
    ["0 9 * * 1-5", "H * * * *", "@daily", "@every 30s", "@every 90m", "2030-06-01T12:00:00.5+02:00", "@now"]
)
good = st.fixed_dictionaries(
    {},
    optional={
        "name": plain_texts.filter(lambda name: name.strip() and name not in (".", "..") and len(name) <= 200),
        "schedule": lines | st.lists(lines, min_size=1, max_size=4),
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
        "target": st.sampled_from(
            [URL, {"url": URL, "method": "put", "headers": {"X": 5}, "expect": [200, "3xx"]}, {"command": ["a", "b"]},
             {"command": "a", "env": {"A": "b"}, "cwd": "/"}, {"handler": "f", "args": {"a": 1}}, {"sleep": 1}, {}]
        ),
        "payload": payloads,
        "priority": st.sampled_from(["high", "LOW", "normal", 1, 2, 3]),
        "queue": st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True),
        "timeout": durations,
        "retry": st.fixed_dictionaries(
            {},
            optional={
                "max_retries": st.integers(0, 100),
                "backoff": st.sampled_from(["exponential", "linear", "fixed"]),
                "delay": durations,
                "factor": st.floats(1, 100) | st.integers(1, 100),
                "max_delay": durations,
                "jitter": st.floats(0, 1),
            },
        ),
        "misfire": st.sampled_from(["skip", "catch_up", {"window": "90m", "max": 1000}, {}]),
        "overlap": st.sampled_from(["allow", "skip", "queue", "replace"]),
        "max_concurrency": st.none() | st.integers(1, 10_000),
        "concurrency_key": st.none() | st.just("key"),
        "jitter": durations,
        "dst": st.sampled_from([{}, {"gap": "skip"}, {"fold": "both"}, {"gap": "shift", "fold": "last"}]),
        "calendar": st.sampled_from([None, {"exclude": ["2026-12-25"]}, {"holidays": "DE", "subdivision": "BY"}]),
        "start_at": st.sampled_from([None, "2026-01-01T00:00:00", "2027-03-28T02:30:00", "2027-01-01T00:00:00.1Z"]),
        "end_at": st.sampled_from([None, "2031-01-01T00:00:00-05:00"]),
        "max_runs": st.none() | st.integers(1, 10**6),
        "delivery": st.sampled_from(["at_least_once", "at_most_once"]),
        "after": st.sampled_from([None, "up", {"job": "up", "on": "failed"}, ["up", {"job": "other", "on": "always"}]]),
        "notify": st.sampled_from([[], [URL], [{"channel": "ops", "on": "always"}, URL]]),
        "labels": st.dictionaries(st.from_regex(r"[A-Za-z0-9._/-]{1,63}", fullmatch=True), plain_texts, max_size=3),
        "description": plain_texts,
    },
)  # fmt: skip


@unlikely
@given(good)
def test_a_rendered_job_is_read_back_as_itself(document):
    job = create(document)

    assert create(render_definition(job)) == job
    assert_comes_back(job)


@unlikely
@given(good, good)
def test_a_change_gives_what_the_document_says(before, document):
    document.pop("target", None)
    document.pop("payload", None)
    if "@now" in str(document.get("schedule")):
        document.pop("schedule")
    fresh, changed = render_definition(create(document)), render_definition(change(create(before), document))

    for field in document.keys() - {"retry", "misfire", "dst", "start_at"}:
        assert changed[field] == fresh[field]

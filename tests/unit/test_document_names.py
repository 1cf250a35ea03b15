"""One thing under several names."""

import json

import pytest

from horae.core.job import Retry
from tests.unit.documents import SECOND_US, URL, create, faults_of, pointers_of

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

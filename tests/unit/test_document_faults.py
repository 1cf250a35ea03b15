"""What is wrong with a document, and where."""

from dataclasses import replace
from typing import Any

import pytest

from horae.core import aliases, checks
from horae.core.answered import READ_ONLY, RESTLESS
from horae.core.document import change_job
from horae.core.duration import format_instant
from horae.core.errors import Invalid
from tests.unit.documents import JOB_ID, NOW_US, SECOND_US, STANDING, URL, change, create, faults_of, pointers_of


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


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


@pytest.mark.parametrize("field", sorted(RESTLESS))
def test_what_changes_by_itself_may_be_sent_back_and_changes_nothing(field):
    assert change(create({}), {field: "anything"}) == create({})


@pytest.mark.parametrize("field", sorted(READ_ONLY))
def test_what_an_answer_adds_says_nothing_as_null(field):
    assert create({field: None}) == create({})
    assert change(create({}), {field: None}) == create({})


@pytest.mark.parametrize("field", sorted(READ_ONLY - {"id", "next_run"}))
def test_a_new_job_cannot_say_what_only_an_answer_does(field):
    (fault,) = faults_of({field: "anything"})

    assert (fault.pointer, bool(fault.hint)) == (f"/{field}", True)


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("status", "PAUSED", f"POST /jobs/{JOB_ID}/pause."),
        ("status", "CANCELLED", "Leave it out."),
        ("status", "running", "Leave it out."),
        ("status", ["SCHEDULED"], "Leave it out."),
        ("job_id", "zzz", "Leave it out."),
        ("id", 5, "Leave it out."),
        ("tenant", "acme", "Leave it out; an admin names another tenant with the X-Horae-Tenant header."),
        ("version", 77, "Leave it out."),
        ("version", "3", "Leave it out."),
        ("version", True, "Leave it out."),
        ("created_at", "x", "Leave it out."),
        ("created_at", format_instant(NOW_US), "Leave it out."),
        ("paused_until", "2030-01-01T00:00:00Z", f"POST /jobs/{JOB_ID}/pause {{"),
        ("pause_reason", "rest", f"POST /jobs/{JOB_ID}/pause {{"),
    ],
)
def test_a_field_that_only_answers_have_must_say_what_is_so(field, value, hint):
    with pytest.raises(Invalid) as caught:
        change(create({}), {field: value, "priority": "HIGH"})

    (fault,) = caught.value.faults
    assert fault.pointer == f"/{field}"
    assert fault.hint.startswith(hint)


def test_a_paused_job_is_sent_back_as_it_was_read():
    job, until_us = create({}), NOW_US + 60 * SECOND_US
    paused = replace(STANDING, is_paused=True, pause_until_us=until_us, pause_reason="rest")
    answer = {"status": "PAUSED", "paused_until": format_instant(until_us), "pause_reason": "rest", "version": 2}

    assert change_job(job, answer, standing=paused, now_us=NOW_US) == job
    with pytest.raises(Invalid) as caught:
        change_job(job, answer | {"status": "SCHEDULED"}, standing=paused, now_us=NOW_US)
    assert [fault.hint for fault in caught.value.faults] == [f"POST /jobs/{JOB_ID}/resume."]


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

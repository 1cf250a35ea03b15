"""Documents into definitions: what is read, and as what."""

import msgspec
import pytest

from horae.core.compiled import cron_expression, schedule_of, schedule_type
from horae.core.document import render_definition
from horae.core.egress import allow_ranges
from horae.core.job import After, Definition, DstPolicy, Misfire, Retry, Rules, Timing, Work
from tests.unit.documents import CONTRACT, FULL, JOB_ID, NOW_US, URL, create, faults_of, pointers_of


def type_of(definition: Definition) -> str:
    return schedule_type(definition, schedule_of(definition, JOB_ID, NOW_US))


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


@pytest.mark.parametrize("part", [Rules, Timing, Work])
def test_a_part_of_a_definition_has_the_fields_and_defaults_of_the_whole(part: type[msgspec.Struct]) -> None:
    whole = {field.name: field for field in msgspec.structs.fields(Definition)}
    for field in msgspec.structs.fields(part):
        assert field.type == whole[field.name].type
        assert (field.default, field.default_factory) == (whole[field.name].default, whole[field.name].default_factory)

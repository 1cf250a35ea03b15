"""Properties of any document at all."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horae.core import aliases
from horae.core.document import render_definition
from horae.core.errors import Fault, Invalid
from horae.core.job import Definition
from tests.unit.documents import FULL, SECOND_US, URL, change, create, texts

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
        "queue": st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True).filter(lambda name: name.strip(".")),
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

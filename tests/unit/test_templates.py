"""A job that is read by a template is the job that `parse_job` reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.document import parse_job
from horae.core.errors import Invalid
from horae.core.job import Definition
from horae.core.templates import Templates

NOW_US = 1_800_000_000_000_000


def read(parse: Any, document: object) -> Definition | list[Any]:
    try:
        return parse(document, job_id="j", now_us=NOW_US, tenant="default")
    except Invalid as error:
        return error.faults


urls = st.sampled_from(
    ["https://example.com/a", "https://example.com/b?x=1", "http://10.0.0.1/", "ftp://x", "", "https://a b", 5, None]
)
free = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "b", "", "x" * 300, "\ud800", 5, None]),
        "payload": st.sampled_from(
            [{}, {"n": 1}, [1], 5, None, "text", '{"a": 1}', {"url": "https://z.example/"}, {"x": "\0"}]
        ),
        "labels": st.sampled_from([{}, {"team": "a"}, {"team": "b"}, {"te am": "x"}, [], None]),
        "description": st.sampled_from(["", "one", "two", 5, None, "x" * 5000]),
    },
)
common = st.fixed_dictionaries(
    {"type": st.sampled_from(["http", "HTTP", "noop", "shell", "custom", "python", None])},
    optional={
        "target": st.sampled_from([{}, {"method": "PUT"}, {"fail": 1}, {"command": "ls"}, {"handler": "h"}, "x"]),
        "url": urls,
        "schedule": st.sampled_from(
            ["0 9 * * *", "@every 1h", "@now", "@manual", "2030-01-01T00:00:00Z", "H * * * *", "x"]
        ),
        "retry": st.sampled_from([{"max_retries": 1}, 3, None]),
        "retries": st.just(2),
        "timeout": st.sampled_from(["5s", 5, "x"]),
        "priority": st.sampled_from(["HIGH", "low", 1, 9]),
    },
)


def made(shared: dict[str, Any], own: dict[str, Any], url: Any) -> dict[str, Any]:
    document = {**shared, **own}
    if "url" in document:
        document.pop("url")
        target = document.get("target", {})
        document["target"] = {**target, "url": url} if isinstance(target, dict) else target
    return document


@settings(max_examples=400, deadline=None)
@given(shared=common, owns=st.lists(st.tuples(free, urls), min_size=2, max_size=4))
def test_a_template_reads_what_parse_job_reads(shared: dict[str, Any], owns: list[tuple[dict[str, Any], Any]]) -> None:
    templates = Templates()

    for own, url in owns:
        document = made(shared, own, url)
        assert read(templates.parse, document) == read(parse_job, document)


def test_a_crowd_is_read_by_one_template(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0

    def counting(*args: Any, **more: Any) -> Definition:
        nonlocal parsed
        parsed += 1
        return parse_job(*args, **more)

    monkeypatch.setattr("horae.core.templates.parse_job", counting)
    templates = Templates()

    for number in range(100):
        document = {
            "name": f"job-{number}",
            "type": "http",
            "schedule": "0 9 * * *",
            "target": {"url": f"https://example.com/{number}"},
            "payload": {"n": number},
        }
        assert read(templates.parse, document) == read(parse_job, document)

    assert parsed == 1


def test_templates_are_forgotten() -> None:
    templates = Templates()
    for number in range(3000):
        document = {"name": "a", "type": "noop", "target": {}, "queue": f"q{number}"}
        templates.parse(document, job_id="j", now_us=NOW_US, tenant="default")

    assert len(templates._known) == 2048

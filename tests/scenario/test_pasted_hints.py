"""Whoever pastes a hint of the API into what they sent is not refused again for the same."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from horae.store.store import Store
from tests.conformance.world import World
from tests.scenario.asking import Api, assert_problem, create, end, on_one_store, run_now

JOB = {"name": "a", "type": "noop"}
SHELL = {"name": "a", "type": "shell"}
HTTP = {"name": "a", "type": "http"}
CLAIM = {"worker": "w", "handlers": ["a"], "holds": []}
# Up to where words go on after what is to be pasted.
PASTED = re.compile(r'(?:Write|Did you mean) (".*?["\]}0-9])(?:[.?]|: [a-z].*|,? (?:when|with|or|"failed").*)$')


def faults_of(answer: Any) -> dict[str, str]:
    return {fault["pointer"]: fault["hint"] for fault in assert_problem(answer, 422, "invalid")["errors"]}


@on_one_store
@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("jobs", {**JOB, "notify": [{"url": "https://example.com/", "on": ["fail"]}]}, "/notify/0/on"),
        ("jobs", {**JOB, "notify": [{"url": "https://example.com/", "on": []}]}, "/notify/0/on"),
        ("jobs", {**JOB, "notify": [{"on": "failure"}]}, "/notify/0"),
        ("jobs", {**JOB, "notify": "https://example.com/"}, "/notify"),
        ("jobs", {**JOB, "after": {"job": "report", "on": "succes"}}, "/after/on"),
        ("jobs", {**JOB, "after": [{"job": "report", "on": "never"}]}, "/after/0/on"),
        ("jobs", {**JOB, "priority": "HIHG"}, "/priority"),
        ("jobs", {**JOB, "retry": {"delay": "-1s"}}, "/retry/delay"),
        ("jobs", {**JOB, "retry": {"factor": 1e308}}, "/retry/factor"),
        ("jobs", {**SHELL, "target": {"command": "true", "env": {"a": 1}}}, "/target/env/a"),
        ("jobs", {**SHELL, "target": {"command": "true", "env": {"": "x"}}}, "/target/env/"),
        ("jobs", {**HTTP, "target": {"url": "https://example.com/", "headers": {"": "x"}}}, "/target/headers/"),
        ("jobs", {**HTTP, "target": {"url": "https://example.com/", "headers": {"A": "a\r\nb"}}}, "/target/headers/A"),
        ("webhooks", {"name": "w", "url": "https://example.com/", "events": ["run.faild"]}, "/events/0"),
        ("webhooks", {"name": "w", "url": "https://example.com/", "events": "run.failed"}, "/events"),
        ("keys", {"name": "k", "role": "viewer", "scopes": ["jobs", "job"]}, "/scopes/1"),
        ("keys", {"name": "k", "role": "viewer", "expires_in": "-1s"}, "/expires_in"),
        ("runs:batch", {"job": "report", "runs": [{}, {}, {"priority": "URGENT"}]}, "/runs/2/priority"),
        ("workers/claim", {**CLAIM, "handlers": ["a", 1]}, "/handlers/1"),
        ("workers/claim", {**CLAIM, "handlers": "a"}, "/handlers"),
        ("workers/claim", {**CLAIM, "handlers": []}, "/handlers"),
        ("workers/claim", {**CLAIM, "holds": [1]}, "/holds/0"),
        ("workers/claim", {**CLAIM, "holds": "a"}, "/holds"),
        ("workers/claim", {**CLAIM, "queues": ["*"]}, "/queues/0"),
        ("workers/claim", {"worker": "w", "holds": []}, "/handlers"),
        ("workers/w/heartbeat", {"runs": [{"run_id": "x", "fence": "1"}]}, "/runs/0/fence"),
        ("workers/w/heartbeat", {"runs": [{"run_id": "x"}]}, "/runs/0/fence"),
        ("workers/w/heartbeat", {"runs": [{"fence": 7}]}, "/runs/0/run_id"),
        ("workers/w/heartbeat", {"runs": ["x"]}, "/runs/0"),
        ("workers/w/heartbeat", {}, "/runs"),
        ("runs/r/log", {"fence": 1, "seq": 1}, "/text"),
        ("runs/r/log", {"fence": 1, "text": "x"}, "/seq"),
        ("runs/r/complete", {"fence": 1}, "/status"),
    ],
)
async def test_a_hint_that_is_pasted_mends_the_document(api: Api, path: str, body: dict[str, Any], pointer: str):
    await create(api)
    hint = faults_of(await api.post(f"/{path}", json=body))[pointer]
    text = PASTED.match(hint)
    assert text, hint
    pasted = json.loads("{" + text[1] + "}")

    again = await api.post(f"/{path}", json=_merged(body, pasted))

    assert again.status_code != 422, (hint, again.text)


def _merged(body: dict[str, Any], pasted: dict[str, Any]) -> dict[str, Any]:
    """In place of what stood there; of an object, beside what else is in it."""
    ((name, new),) = pasted.items()
    old = body.get(name)
    return body | {name: old | new if isinstance(old, dict) and isinstance(new, dict) else new}


@on_one_store
async def test_unknown_names_are_answered_with_the_nearest_however_deep(api: Api):
    body = {
        "retry": {"max_retrys": 1},
        "misfire": {"polcy": "skip"},
        "dst": {"gp": 1},
        "notify": [{"chanel": "x"}, {"ur": "x"}],
        "after": {"jb": "x"},
        "calendar": {"exlude": []},
        "target": {"slep": 1},
    }

    hints = faults_of(await api.post("jobs", json=JOB | body))

    assert hints == {
        "/retry/max_retrys": 'Write "max_retries".',
        "/misfire/polcy": 'Write "policy".',
        "/dst/gp": 'Write "gap".',
        "/notify/0/chanel": 'Write "channel".',
        "/notify/1/ur": 'Write "url".',
        "/after/jb": 'Write "job".',
        "/calendar/exlude": 'Did you mean "exclude"?',
        "/target/slep": 'Did you mean "sleep"?',
    }


@on_one_store
async def test_a_header_is_told_as_a_header(api: Api):
    tenant = await api.get("jobs", headers={"X-Horae-Tenant": "a b"})
    packed = await api.post("jobs", content=b"{}", headers={"Content-Encoding": "gzip"})

    assert faults_of(tenant) == {"/headers/X-Horae-Tenant": "Write X-Horae-Tenant: default."}
    (fault,) = assert_problem(packed, 415, "unsupported_media_type")["errors"]
    assert fault["pointer"] == "/headers/Content-Encoding"
    assert '"gzip"' in fault["detail"]


async def test_a_run_that_is_over_is_answered_with_what_can_be_done(api: Api, store: Store, world: World):
    await create(api, name="a job")
    good = await run_now(api, "a job")
    await end(store, await world.claim())
    bad = await run_now(api, "a job")
    await end(store, await world.claim(), "failed", reason="exception", error="boom")

    cancelled = [assert_problem(await api.post(f"runs/{run}/cancel"), 409, "run_is_over") for run in (good, bad)]
    retried = assert_problem(await api.post(f"runs/{good}/retry"), 409, "wrong_state")

    hints = [problem["errors"][0]["hint"] for problem in (*cancelled, retried)]
    assert hints == [
        "There is nothing left to cancel. To run the job once more: POST /jobs/a%20job/run.",
        f"There is nothing left to cancel. POST /runs/{bad}/retry runs it again.",
        "To run the job once more: POST /jobs/a%20job/run.",
    ]
    assert (await api.post("jobs/a%20job/run")).status_code == 202
    assert (await api.post(f"runs/{bad}/retry")).status_code == 202


async def test_a_dead_letter_that_is_over_is_answered_with_what_came_of_it(api: Api, store: Store, world: World):
    await create(api)
    await run_now(api)
    await end(store, claimed := await world.claim(), "failed", reason="exception", error="boom")
    dead = claimed[0].run_id
    new = (await api.post(f"dead-letters/{dead}/replay")).json()["run_id"]

    replayed = [await api.post(f"runs/{dead}/retry"), await api.delete(f"dead-letters/{dead}")]
    missing = [await api.post("dead-letters/nope/replay"), await api.delete("dead-letters/nope")]

    for answer in replayed:
        fault = assert_problem(answer, 409, "replayed")["errors"][0]
        assert fault["hint"] == f"Look at the new run: GET /runs/{new}."
    for answer in missing:
        assert assert_problem(answer, 404, "not_found")["errors"][0]["hint"] == "GET /dead-letters shows them all."


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"after": "nope"}, ["/after"]),
        ({"after": {"job": "nope"}}, ["/after/job"]),
        ({"after": {"job_id": "nope", "on": "failure"}}, ["/after/job_id"]),
        ({"after": ["nope"]}, ["/after/0"]),
        ({"after": ["report", {"job": "nope"}, "neither"]}, ["/after/1", "/after/2"]),
        (
            {"notify": [{"url": "https://example.com/"}, {"channel": "nope"}, {"channel": "neither"}]},
            ["/notify/1/channel", "/notify/2/channel"],
        ),
    ],
)
async def test_a_name_that_is_not_there_is_pointed_at_where_it_stands(
    api: Api, fields: dict[str, Any], wrong: list[str]
):
    await create(api)
    await create(api, name="other")

    made = await api.post("jobs", json={**JOB, **fields})
    changed = await api.patch("jobs/other", json=fields)
    batch = await api.post("/jobs:batch", json={"jobs": [{**JOB, **fields}]})

    assert list(faults_of(made)) == wrong
    assert list(faults_of(changed)) == wrong
    assert [fault["pointer"] for fault in batch.json()["results"][0]["error"]["errors"]] == wrong

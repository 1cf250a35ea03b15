"""Whatever is sent, the answer is a 2xx or a 4xx that says why, and it comes at once."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horae.api import body as body_module
from horae.core.explain import explain
from horae.store.store import Store, open_store
from tests.scenario.asking import Api, create
from tests.scenario.conftest import app_over, client_of
from tests.services import on_server, with_database

Send = Callable[..., httpx2.Response]


async def _description() -> Any:
    async with client_of(app_over(None)) as client:
        return (await client.get("/openapi.json")).json()


# Every operation there is, so that a new one is tested without a word here.
OPERATIONS = [
    (method.upper(), f"/v1{path}", operation)
    for path, item in asyncio.run(_description())["paths"].items()
    if "servers" not in item
    for method, operation in item.items()
]
ENDLESS = "/v1/events"  # a good request to it has no end
WITH_BODY = [(method, path) for method, path, operation in OPERATIONS if "requestBody" in operation]
NEEDS_BODY = [(m, p) for m, p, operation in OPERATIONS if operation.get("requestBody", {}).get("required")]
WITH_WORD = [(method, path) for method, path, _ in OPERATIONS if "{" in path]
GETS = [path for method, path, _ in OPERATIONS if method == "GET" and path != ENDLESS]


def known(path: str) -> str:
    """The path with the names of things that are there, or at least could be."""
    return path.replace("{job}", "known").replace("{run}", "x").replace("{worker}", "w")


SECOND = 1.0  # of our own work, which a busy machine does not lengthen
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def send(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    """One store for the whole file: it must stand all of it."""
    if request.param == "sqlite":
        yield from _sender(f"sqlite:///{tmp_path_factory.mktemp('bad')}/horae.db")
        return
    server = request.getfixturevalue("postgres_url")
    name = f"horae_test_{secrets.token_hex(8)}"
    on_server(server, f"CREATE DATABASE {name}")
    yield from _sender(with_database(server, name))
    on_server(server, f"DROP DATABASE {name} WITH (FORCE)")


def _sender(url: str) -> Iterator[Send]:
    with asyncio.Runner() as runner:
        store, client = runner.run(_open(url))

        def send(method: str, path: str, **more: Any) -> httpx2.Response:
            began = time.process_time()
            answer = runner.run(client.request(method, path, **more))
            assert answer.status_code < 500, answer.text
            assert time.process_time() - began < SECOND
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["request_id"] == answer.headers["x-request-id"]
            return answer

        yield send
        runner.run(client.aclose())
        runner.run(store.close())


async def _open(url: str) -> tuple[Store, httpx2.AsyncClient]:
    store = open_store(url)
    await store.migrate()

    async def why(tenant: str, word: str, at_us: int | None) -> dict[str, Any]:
        return explain(await store.explain_facts(tenant, word, at_us), 10**15)

    client = client_of(app_over(store, explain=why))
    for name in ("known", "other"):
        assert (await client.post("/v1/jobs", json={"name": name, "type": "noop"})).status_code == 201
    return store, client


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "it is empty"),
        (b"   ", 400, "it is empty"),
        (b"{", 400, "line 1, column 2"),
        (b'{"a": 1,\n "b": }', 400, "line 2, column 7"),
        (b"{'name': 'x'}", 400, "double quotes"),
        (b'{"a": 1} x', 400, "Extra data"),
        (b'{"name": "a", "name": "b"}', 400, '"name" comes twice'),
        (b'{"payload": {"x": [{"k": 1, "k": 1}]}}', 400, '"k" comes twice'),
        (b'{"\\ud800": 1, "\\ud800": 1}', 400, "comes twice"),
        (b'{"payload": NaN}', 400, "NaN is not a number of JSON"),
        (b'{"payload": [-Infinity]}', 400, "-Infinity"),
        (b'{"payload": 1e999}', 422, "not a finite number"),
        (b'{"payload": ' + b"9" * 5000 + b"}", 400, "digits"),
        (b'{"payload": ' + b"9" * 30 + b"}", 422, "64 bits"),
        (b'{"payload": 18446744073709551616}', 422, "64 bits"),
        (b'{"payload": "\\u0000"}', 422, "NUL"),
        (b'{"\\u0000": 1}', 422, "NUL"),
        (b'{"payload": "\\ud800"}', 422, "surrogate"),
        (b'{"name": "\xff"}', 400, "byte 11 is not UTF-8"),
        (b"\xff\xfe{\x00}\x00", 400, "not UTF-8"),
        (b'{"payload": ' + b"[" * 70 + b"]" * 70 + b"}", 422, "64 levels"),
        (b"[" * 10_000, 400, "nested too deeply"),
        (b'{"a":' * 10_000, 400, "nested too deeply"),
        (b"[" * 10_000 + b"]" * 10_000, 400, "nested too deeply"),
        (b'{"type": "noop", "target": {"sleep": 1e308}}', 422, "10 years at most"),
        (b'{"timeout": 1e308}', 422, "a duration from 1ms to 1d"),
        (b"null", 422, "JSON object"),
        (b"[]", 422, "JSON object"),
        (b'"x"', 422, "JSON object"),
        (b"5", 422, "JSON object"),
        (b'{"payload": "' + b"x" * 300_000 + b'"}', 422, "limit"),
        (b'{"payload": "' + b"x" * 1_100_000 + b'"}', 413, "1,048,576"),
        (b"[" + b"[]," * 340_000 + b"[]]", 422, "JSON object"),
        (b'{"tenant_id": "x", "state": "queued", "attempt": 1, "lease_token": 7, "owner": "x"}', 422, "lease_token"),
        (b"\x80\x04\x95.", 400, "not UTF-8"),
        (b"!!python/object/apply:os.system [ls]", 400, "not JSON"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/jobs"), ("PUT", "/v1/jobs/known"), ("PATCH", "/v1/jobs/known")]
)
def test_a_bad_job_is_refused_in_words(send: Send, method: str, path: str, body: bytes, status: int, words: str):
    answer = send(method, path, content=body, headers=JSON)

    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


BAD_BODIES = [
    b"{",
    b"{'name': 'x'}",
    b'{"a": 1} x',
    b'{"name": "a", "name": "a"}',
    b'{"payload": NaN}',
    b'{"payload": ' + b"9" * 5000 + b"}",
    b'{"name": "\\u0000"}',
    b'{"\\u0000": 1}',
    b'{"name": "\\ud800"}',
    b'{"job": "\\ud800", "runs": []}',
    b'{"job": "\\ud800", "runs": [{}]}',
    b'{"job": "nobody", "runs": []}',
    b'{"name": "\xff"}',
    b"\xff\xfe{\x00}\x00",
    b'{"payload": ' + b"[" * 70 + b"]" * 70 + b"}",
    b"[" * 10_000,
    b'{"a":' * 10_000,
    b"[]",
    b'"x"',
    b"5",
    b'{"nobody knows this": 1}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_every_route_refuses_a_bad_body_and_keeps_nothing_of_it(send: Send, method: str, path: str, body: bytes):
    before = send("GET", "/v1/jobs").json(), send("GET", "/v1/runs").json()

    answer = send(method, known(path), content=body, headers=JSON)

    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["detail"]
    if answer.status_code in (400, 422):
        assert answer.json()["errors"]
        assert all(fault["detail"] and fault["hint"] for fault in answer.json()["errors"]), answer.text
    assert (send("GET", "/v1/jobs").json(), send("GET", "/v1/runs").json()) == before


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_every_route_refuses_ten_megabytes(send: Send, method: str, path: str):
    body = b'{"payload": "' + b"x" * 10_000_000 + b'"}'

    assert send(method, known(path), content=body, headers=JSON).status_code in (413, 422)


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
def test_every_route_gives_a_slow_body_up(send: Send, monkeypatch: pytest.MonkeyPatch, method: str, path: str):
    monkeypatch.setattr(body_module, "BODY_SECONDS", 0.05)

    async def slow() -> Any:
        yield b"{"
        await asyncio.sleep(10)

    assert send(method, known(path), content=slow(), headers=JSON).status_code == 408


@pytest.mark.parametrize(("method", "path"), NEEDS_BODY)
def test_a_route_that_needs_a_body_says_so(send: Send, method: str, path: str):
    assert send(method, known(path), content=b"").status_code == 400


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in OPERATIONS])
def test_every_route_names_an_unknown_parameter(send: Send, method: str, path: str):
    answer = send(method, f"{known(path)}?nobody%20knows=1", content=b"{}", headers=JSON)

    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/query/nobody knows"]


def test_a_byte_order_mark_and_a_missing_content_type_are_forgiven(send: Send):
    assert send("PATCH", "/v1/jobs/known", content=b'\xef\xbb\xbf{"priority": "LOW"}').status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-ndjson"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/x-pickle"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
@pytest.mark.parametrize("path", [known(path) for method, path in WITH_BODY if path != "/v1/jobs:batch"])
def test_what_is_not_json_by_its_name_is_415(send: Send, path: str, headers: dict[str, str]):
    method = next(method for method, each in WITH_BODY if known(each) == path)
    answer = send(method, path, content=b"{}", headers=headers)

    assert answer.status_code == 415
    assert answer.json()["errors"][0]["pointer"] == f"/headers/{list(headers)[-1]}"


@pytest.mark.parametrize("length", ["40000000", "9" * 30])
def test_a_large_body_is_refused_before_it_is_read(send: Send, length: str):
    async def never() -> Any:
        raise AssertionError("was read")
        yield b""

    answer = send("POST", "/v1/jobs", content=never(), headers={**JSON, "Content-Length": length})

    assert answer.status_code == 413


def test_a_large_body_without_a_length_is_refused_while_it_is_read(send: Send):
    async def endless() -> Any:
        for _ in range(20):
            yield b" " * 100_000

    assert send("POST", "/v1/jobs", content=endless(), headers=JSON).status_code == 413


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"[" + b"1," * 2_100_000 + b"1]", JSON, 413),
        (b'{"jobs": [' + b"{}," * 10_000 + b"{}]}", JSON, 422),
        (b"\n" * 5_000_000, {"Content-Type": "application/x-ndjson"}, 200),
        (b'{"jobs": {}}', JSON, 422),
        (b'{"job": []}', JSON, 422),
        (b'{"jobs": [null, [], 5, "x"]}', JSON, 200),
        (b'{"a": "' + b"x" * 1_048_576 + b'"}', {"Content-Type": "application/x-ndjson"}, 200),
        (b'{"\\ud800": 1, "\\ud800": 1}', {"Content-Type": "application/x-ndjson"}, 200),
    ],
)  # fmt: skip
def test_a_bad_batch_is_refused_or_told_item_by_item(send: Send, body: bytes, headers: dict[str, str], status: int):
    answer = send("POST", "/v1/jobs:batch", content=body, headers=headers)

    assert answer.status_code == status
    assert answer.json().get("created", 0) == 0


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=1001", "/query/limit"),
        ("limit=-1", "/query/limit"),
        ("limit=%D9%A3", "/query/limit"),
        ("limit=1e3", "/query/limit"),
        ("limit=5&limit=6", "/query/limit"),
        ("limt=5", "/query/limt"),
        ("sort=owner", "/query/sort"),
        ("sort=name;DROP TABLE jobs", "/query/sort"),
        ("status=BROKEN", "/query/status"),
        ("priority=URGENT", "/query/priority"),
        ("priority=4", "/query/priority"),
        ("type=magic", "/query/type"),
        ("label=team", "/query/label"),
        ("due_before=tomorrow", "/query/due_before"),
        ("due_before=2027-01-01T00:00:00+01:00", "/query/due_before"),
        ("due_before=9999-01-01T00:00:00Z", "/query/due_before"),
        ("q=%00", "/query/q"),
        ("queue=" + "x" * 400, "/query/queue"),
        ("cursor=x", "/query/cursor"),
        ("cursor=%F0%9F%92%A9", "/query/cursor"),
        ("cursor=W10", "/query/cursor"),
        ("cursor=WyJuYW1lIiw1LCJ4Il0", "/query/cursor"),
        ("cursor=WyJuYW1lIixudWxsLCJ4Il0", "/query/cursor"),
        ("cursor=WyJuYW1lIiwiXHUwMDAwIiwieCJd", "/query/cursor"),
        ("sort=updated_at&cursor=WyJ1cGRhdGVkX2F0Iiw5OTk5OTk5OTk5OTk5OTk5OTk5OSwieCJd", "/query/cursor"),
        ("sort=updated_at&cursor=WyJ1cGRhdGVkX2F0IiwxODQ0Njc0NDA3MzcwOTU1MTYxNSwieCJd", "/query/cursor"),
        ("tenant=other", "/query/tenant"),
        ("a/b~c=1", "/query/a~1b~0c"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(send: Send, query: str, pointer: str):
    answer = send("GET", f"/v1/jobs?{query}")

    assert answer.status_code == 422, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


def test_the_nearest_right_parameter_is_named(send: Send):
    assert send("GET", "/v1/runs?state=x&dew_after=x").json()["detail"] == (
        '"state" is not a parameter here; did you mean "status"?; '
        '"dew_after" is not a parameter here; did you mean "due_after"?'
    )
    assert send("GET", "/v1/runs?" + "&".join(f"p{number}=1" for number in range(5000))).status_code == 422


INJECTIONS = ["'", "' OR 1=1 --", '"; DROP TABLE jobs; --', "%", "\\", "${jndi:x}", "{{7*7}}", "$1", ":tenant", "💣"]


@pytest.mark.parametrize("text", INJECTIONS)
def test_filters_and_names_are_never_a_language(send: Send, text: str):
    for name in ("q", "queue"):
        answer = send("GET", "/v1/jobs", params={name: text})
        assert (answer.status_code, answer.json()["jobs"]) == (200, [])
    for name in ("queue", "worker"):
        assert send("GET", "/v1/runs", params={name: text}).json()["runs"] == []
    assert send("GET", "/v1/jobs", params={"label": f"a:{text}"}).json()["jobs"] == []
    assert send("GET", f"/v1/jobs/{httpx2.URL('/', params={'x': text}).query.decode()[2:]}").status_code == 404
    made = send("POST", "/v1/jobs", json={"name": text, "description": text, "payload": {text: text}})
    assert made.json()["name"] == made.json()["description"] == text
    assert send("DELETE", f"/v1/jobs/{made.json()['job_id']}").status_code == 200


@pytest.mark.parametrize("word", ["%00", "a%00b", "%ff", "%ed%a0%80", "x" * 5000, "%F0%9F%92%A9", "..%2f", "%20"])
@pytest.mark.parametrize(("method", "path"), WITH_WORD)
def test_a_word_that_is_nobodys_is_not_found(send: Send, method: str, path: str, word: str):
    body = {"content": BODIES.get(path, b"{}"), "headers": JSON} if (method, path) in WITH_BODY else {}

    refusals = (404, 405, 422) if path.removeprefix("/v1") in MAKERS else (404, 405)
    assert send(method, re.sub(r"\{\w+\}", word, path), **body).status_code in refusals


# These make what is not there, unless its name cannot be one.
MAKERS = (
    "/workers/{worker}",
    "/workers/{worker}/heartbeat",
    "/calendars/{calendar}",
    "/secrets/{secret}",
    "/queues/{queue}",
    "/queues/{queue}/pause",
    "/queues/{queue}/resume",
)
# What a route wants to see before it looks for the thing that the path names.
BODIES = {
    "/v1/jobs/{job}/backfill": b'{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}',
    "/v1/runs/{run}/log": b'{"fence": 1, "seq": 1, "text": "x"}',
    "/v1/runs/{run}/complete": b'{"fence": 1, "status": "succeeded"}',
}


@pytest.mark.parametrize(
    "schedule",
    [
        "*/0 * * * *",
        ",".join(["0-59/1"] * 1000) + " * * * *",
        "x" * 10_000,
        "* " * 10_000,
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "@every 1ns",
        "@every 0s",
        "@every " + "9" * 400 + "d",
        "9" * 5000 + " * * * *",
        "0 0 29 2 1#5",
        ["@daily"] * 1000,
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/schedules/preview"])
def test_a_cron_bomb_does_not_go_off(send: Send, path: str, schedule: Any):
    answer = send("POST", path, json={"schedule": schedule, **({"count": 100} if "preview" in path else {})})

    assert answer.status_code in (200, 201, 422)


texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from(
    ["name", "schedule", "timezone", "type", "target", "payload", "priority", "queue", "timeout", "retry", "misfire",
     "overlap", "max_concurrency", "concurrency_key", "jitter", "dst", "calendar", "start_at", "end_at", "max_runs",
     "delivery", "after", "notify", "labels", "description", "cron", "cron_expression", "schedule_type", "retries",
     "schedule_time", "scheduledTime", "callback_url", "parameters", "interval", "tenant", "version", "until",
     "reason", "run_at", "jobs", "job", "runs", "count", "from", "to", "max", "dry_run", "filter", "expected_count",
     "rate", "due_after", "due_before"]
)  # fmt: skip
words = st.sampled_from(
    ["@daily", "@now", "0 9 * * *", "UTC", "Europe/Berlin", "http", "shell", "noop", "HIGH", "30s", "1h", "skip",
     "CRON", "2030-01-01T00:00:00Z", "https://example.com", "known", 0, 1, -1, 3, True, {"job": "known"}, {"url": "x"}]
)  # fmt: skip
documents = st.dictionaries(field_names, words | values, max_size=8)
routes = st.sampled_from(
    [(method, known(path)) for method, path in WITH_BODY]
    + [("PUT", "/v1/jobs/new"), ("POST", "/v1/jobs:batch?atomic=true")]
)
often = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@often
@given(route=routes, document=values | documents | st.fixed_dictionaries({"jobs": st.lists(documents | values)}))
def test_any_json_is_answered(send: Send, route: tuple[str, str], document: Any):
    send(*route, content=json.dumps(document).encode(), headers=JSON)


@often
@given(route=routes, body=st.binary(max_size=200))
def test_any_bytes_are_answered(send: Send, route: tuple[str, str], body: bytes):
    send(*route, content=body, headers=JSON)


@often
@given(lines=st.lists(st.binary(max_size=40) | documents.map(lambda document: json.dumps(document).encode())))
def test_any_lines_are_answered(send: Send, lines: list[bytes]):
    send("POST", "/v1/jobs:batch", content=b"\n".join(lines), headers={"Content-Type": "application/x-ndjson"})


paths = st.sampled_from([known(path) for path in GETS])
parameters = st.sampled_from(
    sorted(
        {each["name"] for _, _, operation in OPERATIONS for each in operation["parameters"] if each["in"] == "query"}
    )
)


@often
@given(
    path=paths,
    query=st.lists(st.tuples(parameters | texts, texts | st.integers().map(str) | words.map(str)), max_size=4),
)
def test_any_query_is_answered(send: Send, path: str, query: list[tuple[str, str]]):
    pairs = [(name.encode("utf-8", "replace"), text.encode("utf-8", "replace")) for name, text in query]

    send("GET", path, params=[(name.decode(), text.decode()) for name, text in pairs])


@often
@given(
    name=st.sampled_from(["If-Match", "Idempotency-Key", "X-Horae-Tenant", "Content-Type", "X-Request-Id", "Origin"]),
    value=st.binary(max_size=40),
)
def test_any_header_is_answered(send: Send, name: str, value: bytes):
    send("PATCH", "/v1/jobs/known", content=b"{}", headers={name: value})
    send("POST", "/v1/jobs/known/pause", content=b"{}", headers={name: value})


@pytest.mark.parametrize("query", ["dry_run", "dry_run=", "dry_run=yes"])
async def test_a_dry_run_that_is_not_said_clearly_changes_nothing(api: Api, query: str):
    await create(api)

    answer = await api.delete(f"jobs/report?{query}")

    assert answer.status_code == 422
    assert (await api.get("jobs/report")).status_code == 200


async def test_a_body_where_none_is_taken_is_not_dropped_in_silence(api: Api):
    await create(api)

    refused = await api.request("DELETE", "jobs/report", json={"dry_run": True})
    assert refused.status_code == 422
    assert "?dry_run=true" in refused.text
    assert (await api.request("DELETE", "jobs/report", json={})).status_code == 200


async def test_lines_after_one_that_is_far_too_long_are_read(api: Api):
    lines = [{"name": "first"}, {"name": "long", "payload": "x" * 3_000_000}, {"name": "third"}, {"name": "fourth"}]
    body = "\n".join(json.dumps(line) for line in lines)

    answer = await api.post("/jobs:batch", content=body, headers={"Content-Type": "application/x-ndjson"})

    told = answer.json()
    assert (told["created"], told["failed"]) == (3, 1)
    assert (await api.get("jobs/fourth")).status_code == 200

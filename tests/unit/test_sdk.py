"""The SDK without a server: what is sent, what is sent again, what an answer becomes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx2
import pytest

from horae.remote_worker import RemoteSettings, run_remote
from horae.sdk import ApiError, App, AsyncClient, Client, Context
from horae.sdk.aio import AsyncRun
from horae.sdk.app import Misdeclared
from horae.sdk.client import Run
from horae.sdk.errors import Conflict, Denied, Invalid, NotFound, Stale, Unauthorized, Unavailable, WaitTimeout
from horae.sdk.wire import EventReader, plain
from horae.testing import fake_context

Answer = httpx2.Response | Exception


class Server:
    """Answers one request after the other, and remembers them."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.seen: list[httpx2.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **more: Any) -> Client:
        client = Client("http://horae.test", "a-key", transport=httpx2.MockTransport(self), **more)
        client._sleep = self.slept.append
        return client


def ok(document: Any, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, json=document)


def problem(status: int, code: str = "some_code", **more: Any) -> httpx2.Response:
    document = {"code": code, "detail": "no", "status": status, "request_id": "req_1", "errors": [], **more}
    return httpx2.Response(status, json=document, headers={"content-type": "application/problem+json"})


def test_a_post_whose_answer_is_lost_is_sent_again_with_the_same_key() -> None:
    server = Server(httpx2.ReadError("gone"), httpx2.ConnectError("down"), ok({"job_id": "1", "name": "report"}, 201))

    job = server.client().jobs.create("report", schedule="@manual")

    assert job.name == "report"
    keys = {request.headers["idempotency-key"] for request in server.seen}
    assert (len(server.seen), len(keys)) == (3, 1)
    assert server.seen[0].headers["authorization"] == "Bearer a-key"
    assert 0 < server.slept[0] <= 0.2
    assert 0.2 <= server.slept[1] <= 0.4


def test_every_post_has_a_key_of_its_own_unless_one_is_given() -> None:
    server = Server(*(ok({"run_id": "1", "status": "QUEUED"}) for _ in range(6)))
    client = server.client()
    client.jobs.run("report")
    client.jobs.run("report")
    client.jobs.run("report", idempotency_key="mine")

    keys = [request.headers["idempotency-key"] for request in server.seen if request.method == "POST"]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_429_and_503_are_waited_out_as_long_as_they_ask() -> None:
    answers = [problem(429), problem(503)]
    answers[0].headers["Retry-After"] = "7"
    answers[1].headers["Retry-After"] = "2"
    server = Server(*answers, ok({"job_id": "1"}))

    server.client().jobs.get("report")

    assert server.slept == [7, 2]


def test_the_last_try_raises_what_it_met() -> None:
    server = Server(*(problem(503, "unavailable") for _ in range(3)))
    with pytest.raises(Unavailable) as refused:
        server.client(retries=2).jobs.get("report")
    assert (refused.value.status, refused.value.code, len(server.seen)) == (503, "unavailable", 3)

    server = Server(*(httpx2.ConnectError("down") for _ in range(2)))
    with pytest.raises(Unavailable, match="got no answer"):
        server.client(retries=1).jobs.get("report")


def test_a_refusal_is_not_repeated() -> None:
    server = Server(problem(409, "name_taken"))

    with pytest.raises(Conflict):
        server.client().jobs.create("report")

    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Unauthorized), (403, Denied), (404, NotFound), (412, Stale), (422, Invalid)]
)
def test_an_error_carries_code_pointer_and_hint(status: int, kind: type[Exception]) -> None:
    faults = [{"pointer": "/schedule", "detail": "Minute 61.", "hint": 'Write "1 10 * * *".'}]
    server = Server(problem(status, "schedule_invalid", errors=faults))

    with pytest.raises(kind) as refused:
        server.client().jobs.get("report")

    error: Any = refused.value
    assert (error.code, error.pointer, error.hint) == ("schedule_invalid", "/schedule", 'Write "1 10 * * *".')
    assert error.request_id == "req_1"
    assert "Minute 61." in str(error)


def test_an_answer_from_something_in_between_is_an_error_too() -> None:
    server = Server(httpx2.Response(418, text="<html>teapot"))

    with pytest.raises(Exception, match="418") as refused:
        server.client().jobs.get("report")

    assert type(refused.value).__name__ == "ApiError"


def test_a_delete_that_was_done_by_a_lost_try_is_done() -> None:
    server = Server(httpx2.ReadError("gone"), problem(404, "not_found"))
    server.client().jobs.delete("report")

    with pytest.raises(NotFound):
        Server(problem(404, "not_found")).client().jobs.delete("report")


def test_lists_go_on_over_pages_as_they_are_asked_for() -> None:
    pages = [
        ok({"jobs": [{"name": "a"}, {"name": "b"}], "next_cursor": "x"}),
        ok({"jobs": [{"name": "c"}], "next_cursor": None}),
    ]
    server = Server(*pages)
    jobs = server.client().jobs.list(limit=2, status="PAUSED", due_before=datetime(2030, 1, 1, tzinfo=UTC))
    assert server.seen == []

    assert next(jobs).name == "a"
    assert len(server.seen) == 1
    assert [job.name for job in jobs] == ["b", "c"]
    assert dict(server.seen[0].url.params) == {"limit": "2", "status": "PAUSED", "due_before": "2030-01-01T00:00:00Z"}
    assert server.seen[1].url.params["cursor"] == "x"


def test_waiting_for_a_run_looks_until_it_is_over_or_the_time_is_up() -> None:
    states = [ok({"run_id": "1", "status": status}) for status in ("QUEUED", "RUNNING", "RUNNING", "SUCCEEDED")]
    server = Server(*states)
    run = server.client().runs.wait("1")
    assert run.succeeded
    assert server.slept == sorted(server.slept)

    with pytest.raises(WaitTimeout):
        Server(ok({"run_id": "1", "status": "RUNNING"})).client().runs.wait("1", timeout_seconds=0.01)


def test_names_are_one_part_of_a_path() -> None:
    server = Server(ok({}))

    server.client().jobs.get("a b/../c?d")

    assert server.seen[0].url.raw_path == b"/api/v1/jobs/a%20b%2F..%2Fc%3Fd"


def test_times_of_a_record_are_datetimes_and_unknown_fields_are_there() -> None:
    run = Run(Server().client(), {"run_id": "1", "scheduled_for": "2030-01-01T00:00:00Z", "end_time": None, "new": 3})

    assert run.scheduled_for == datetime(2030, 1, 1, tzinfo=UTC)
    assert run.end_time is None
    assert run.new == run["new"] == 3
    with pytest.raises(AttributeError, match="no field 'status'"):
        _ = run.status


def test_python_values_become_what_the_api_reads() -> None:
    given = {"timeout": timedelta(minutes=1), "at": datetime(2030, 1, 1, 12, tzinfo=UTC), "labels": ("a", {"b": 1})}

    assert plain(given) == {"timeout": 60.0, "at": "2030-01-01T12:00:00Z", "labels": ["a", {"b": 1}]}
    with pytest.raises(ValueError, match="time zone"):
        plain(datetime(2030, 1, 1))  # noqa: DTZ001


def test_events_are_read_line_by_line() -> None:
    reader = EventReader()
    lines = [": still here", "", "id: 1-2", "event: log", 'data: {"text": "a"}', "", "event: end", "data: {}", ""]

    events = [event for line in lines if (event := reader.feed(line))]

    assert events == [("log", {"text": "a"}), ("end", {})]
    assert reader.last_id == "1-2"


def shape(kind: type) -> dict[str, Any]:
    return {
        name: list(inspect.signature(value).parameters)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def test_both_clients_have_one_shape() -> None:
    plain_client, other = Client("http://a"), AsyncClient("http://a")
    parts = [name for name, value in vars(plain_client).items() if not name.startswith("_") and value is not None]

    assert len(parts) == 7
    assert shape(Client) == shape(AsyncClient)
    assert shape(Run) == shape(AsyncRun)
    for part in parts:
        assert shape(type(getattr(plain_client, part))) == shape(type(getattr(other, part))), part


def test_importing_the_sdk_is_light() -> None:
    script = "import sys, horae.sdk; print(sorted(set(sys.modules) & {'httpx2', 'aiohttp', 'starlette', 'asyncpg'}))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


# Jobs as functions


def test_a_decorated_function_stays_what_it_was() -> None:
    app = App()

    def add(a: int, b: int = 1) -> int:
        """Adds.

        More than that is not told.
        """
        return a + b

    decorated = app.job(schedule="0 9 * * *", args={"a": 1}, timeout=timedelta(minutes=5), secrets=["TOKEN"])(add)

    assert decorated is add
    assert decorated(2) == 3
    assert app.handlers == {"add": add}
    assert app.jobs["add"].document == {
        "schedule": "0 9 * * *",
        "timeout": 300.0,
        "type": "python",
        "target": {"handler": "add", "args": {"a": 1}, "secrets": {"TOKEN": "{{ secret.TOKEN }}"}},
        "description": "Adds.",
    }
    assert app.jobs["add"].place.startswith(__file__)


def test_the_name_of_a_job_is_the_functions_with_dashes_or_the_one_given() -> None:
    app = App()

    @app.job()
    def daily_report() -> None: ...

    @app.job("weekly")
    def other() -> None: ...

    @app.handler()
    def on_demand() -> None: ...

    assert list(app.handlers) == ["daily-report", "weekly", "on-demand"]
    assert list(app.jobs) == ["daily-report", "weekly"]


def test_two_handlers_of_one_name_are_refused_with_both_places() -> None:
    app = App()
    app.handler("a")(lambda: None)

    with pytest.raises(ValueError, match=f"{__file__}:.* and {__file__}:"):
        app.handler("a")(lambda: None)


def test_a_decorator_without_parentheses_is_a_job_that_runs_on_request() -> None:
    app = App()

    @app.job
    def daily_report(region: str = "eu") -> str:
        """Builds it."""
        return region

    @app.handler
    def on_demand() -> int:
        return 1

    assert (daily_report(), on_demand()) == ("eu", 1)
    assert app.handlers == {"daily-report": daily_report, "on-demand": on_demand}
    assert app.jobs["daily-report"].document == {
        "description": "Builds it.",
        "type": "python",
        "target": {"handler": "daily-report"},
    }


def test_a_single_secret_may_stand_alone() -> None:
    app = App()
    app.job("a", secrets="TOK")(lambda: None)

    assert app.jobs["a"].document["target"]["secrets"] == {"TOK": "{{ secret.TOK }}"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"args": 5}, "args is 5. Write the arguments by name"),
        ({"args": {"nope": 1}}, "args has 'nope', and the function has no such parameter. It has region."),
        ({"args": {"first": 1}}, "no such parameter"),
        ({"args": {"ctx": 1}}, "ctx is given by horae"),
        ({"args": {"region": object()}}, "kept as JSON"),
        ({"args": {"region": float("nan")}}, "kept as JSON"),
        ({"start_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"secrets": 5}, "secrets is 5. Write the names of secrets"),
        ({"secrets": [5]}, "secrets is [5]"),
        ({"secrets": {"TOKEN": "correct horse"}}, "Write the names of secrets"),
        ({"type": "http"}, "type='http' is not for @app.job"),
        ({"target": {"url": "http://a"}}, "target={'url': 'http://a'} is not for @app.job"),
    ],
)
def test_a_declaration_that_makes_no_sense_fails_at_import_with_its_place(fields: Any, says: str) -> None:
    app = App()

    def report(first: int = 0, /, region: str = "eu", *, ctx: Context) -> None: ...

    with pytest.raises(Misdeclared) as refused:
        app.job(schedule="@daily", **fields)(report)

    assert says in str(refused.value)
    assert str(refused.value).startswith(f"{__file__}:")
    assert (app.jobs, app.handlers) == ({}, {})


@pytest.mark.parametrize("given", [5, object(), partial(print)], ids=["number", "object", "no name"])
def test_what_is_no_function_with_a_name_is_refused(given: Any) -> None:
    for decorator in (App().job, App().handler):
        with pytest.raises(Misdeclared, match="no function with a name"):
            decorator(given)


def test_args_of_a_function_that_takes_any_are_taken() -> None:
    app = App()

    @app.job(args={"region": "eu"})
    def report(**more: str) -> None: ...

    assert app.jobs["report"].document["target"]["args"] == {"region": "eu"}


async def test_a_worker_over_http_must_name_its_queues() -> None:
    with pytest.raises(ApiError, match="names its queues"):
        await run_remote(App(), "http://127.0.0.1:9", "", RemoteSettings(("*",)), registers=False)


def test_a_handler_can_be_called_with_a_context_made_for_a_test() -> None:
    def handler(*, ctx: Context) -> str:
        ctx.log("for %s", ctx.due_at.year)
        return f"{ctx.job} {ctx.attempt} {ctx.idempotency_key == ctx.run_id} {ctx.secrets['TOKEN']} {ctx.cancelled}"

    ctx = fake_context(job="report", attempt=2, secrets={"TOKEN": "x"})

    assert handler(ctx=ctx) == "report 2 True x False"
    assert ctx.log.lines == ["for 2027"]
    check: Callable[[], None] = ctx.cancel
    check()
    assert ctx.cancelled


@pytest.mark.parametrize("payload", [{"ids": {3, 1}}, [frozenset("ab")]])
def test_a_set_in_a_payload_is_refused_and_not_put_in_some_order(payload: Any) -> None:
    with pytest.raises(TypeError, match="JSON has no sets"):
        plain(payload)

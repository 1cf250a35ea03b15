"""The http executor against real servers on loopback, honest and hostile ones."""

import asyncio
import gzip
import re
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from horae import __version__
from horae.core.egress import allow_ranges, literal_address
from horae.core.secrets import fill
from horae.executors.breaker import FAILURES_TO_OPEN, Breaker
from horae.executors.http import HttpExecutor
from tests.conformance.attempts import DUE, Lines, request_for
from tests.conformance.talker import certificate_for
from tests.unit.test_egress import REFUSED_HOSTS

LOOPBACK = allow_ranges("127.0.0.0/8,::1")


class Names:
    """The phone book of a test: every name has the same addresses."""

    def __init__(self, *addresses):
        self.addresses = addresses
        self.asked = 0

    async def __call__(self, host, port):
        self.asked += 1
        return [
            (socket.AF_INET6, (each, port, 0, 0)) if ":" in each else (socket.AF_INET, (each, port))
            for each in self.addresses
        ]


class Site:
    """A server that answers as it is told and remembers what it was asked."""

    def __init__(self):
        self.seen = []
        self.answer = lambda: web.json_response({"ok": True})
        self.connections = set()

    async def serve(self, request):
        body = await request.read()
        self.connections.add(request.transport)
        seen = SimpleNamespace(
            method=request.method, headers=request.headers, body=body, path=request.path_qs, request=request
        )
        self.seen.append(seen)
        return self.answer()

    def url(self, path="/hook"):
        return str(self.server.make_url(path))


@pytest.fixture
async def site():
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.serve)
    async with TestServer(app) as made.server:
        yield made


@pytest.fixture
async def new_executor():
    made = []

    def make(allow=LOOPBACK, breaker=None, *addresses):
        names = Names(*addresses) if addresses else None
        made.append(HttpExecutor(allow, breaker or Breaker(), resolve=names))
        return made[-1]

    yield make
    for executor in made:
        await executor.close()


@pytest.fixture
def executor(new_executor):
    return new_executor()


@asynccontextmanager
async def raw_server(talk):
    """A server that speaks bytes; `talk` gets a reader and a writer for each connection."""

    async def serve(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def call(target, **changes):
    fields = target if isinstance(target, dict) else {"url": target}
    return request_for("http", fields, allow=LOOPBACK, **changes)


async def test_the_request_says_which_attempt_it_is(executor, site):
    await executor.run(call(site.url("/a?b=c"), payload={"x": 1}, attempt=3), Lines())

    (seen,) = site.seen
    run = "019a8f2c-1b00-8abc-adef-0123456789ab"
    assert (seen.method, seen.path, seen.body) == ("POST", "/a?b=c", b'{"x":1}')
    assert seen.headers["Idempotency-Key"] == run
    assert seen.headers["X-Horae-Run"] == run
    assert seen.headers["X-Horae-Job"] == "daily-report"
    assert seen.headers["X-Horae-Attempt"] == "3"
    assert seen.headers["X-Horae-Fence"] == "7"
    assert seen.headers["X-Horae-Scheduled-For"] == DUE
    assert seen.headers["User-Agent"] == f"horae/{__version__}"
    assert seen.headers["Content-Type"] == "application/json"
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", seen.headers["traceparent"])


async def test_attempts_of_a_run_share_its_trace_and_key_but_not_the_span(executor, site):
    for attempt in (1, 1, 2):
        await executor.run(call(site.url(), attempt=attempt), Lines())

    first, again, second = (seen.headers["traceparent"].split("-") for seen in site.seen)
    assert first == again
    assert first[1] == second[1] == "019a8f2c1b008abcadef0123456789ab"
    assert first[2] != second[2]
    assert len({seen.headers["Idempotency-Key"] for seen in site.seen}) == 1


async def test_a_run_id_that_is_no_uuid_still_makes_a_valid_trace(executor, site):
    await executor.run(call(site.url(), run_id="run 1"), Lines())

    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", site.seen[0].headers["traceparent"])


@pytest.mark.parametrize("name", ["日報", "naïve", "100% sure", "a\r\nX-Evil: 1", "\udcff"])
async def test_any_job_name_fits_a_header_and_can_be_read_back(executor, site, name):
    outcome = await executor.run(call(site.url(), job_name=name), Lines())

    assert outcome.succeeded
    assert "X-Evil" not in site.seen[0].headers
    assert unquote(site.seen[0].headers["X-Horae-Job"]) == name.replace("\udcff", "?")


@pytest.mark.parametrize(
    ("target", "changes", "body", "content_type"),
    [
        ({}, {"payload": {"a": "ü"}}, '{"a":"ü"}'.encode(), "application/json"),
        ({}, {"payload": None}, b"", None),
        ({}, {"payload": [1]}, b"[1]", "application/json"),
        ({}, {"payload": {}, "upstream": {"j": 1}}, b'{"upstream":{"j":1}}', "application/json"),
        ({}, {"payload": {"upstream": 0}, "upstream": {"j": 1}}, b'{"upstream":0}', "application/json"),
        ({}, {"payload": [1], "upstream": {"j": 1}}, b"[1]", "application/json"),
        ({"body": {"b": 2}}, {"payload": {"a": 1}}, b'{"b":2}', "application/json"),
        ({"body": "plain"}, {}, b"plain", "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, {}, b"<a/>", "text/xml"),
        ({"method": "GET"}, {"payload": {"a": 1}}, b"", None),
        ({"method": "PUT"}, {"payload": {"a": 1}}, b'{"a":1}', "application/json"),
        ({"method": "DELETE"}, {"payload": None}, b"", None),
    ],
)
async def test_the_body_is_the_targets_or_the_payload(executor, site, target, changes, body, content_type):
    outcome = await executor.run(call({"url": site.url(), **target}, **changes), Lines())

    assert outcome.succeeded
    assert site.seen[0].body == body
    if content_type:
        assert site.seen[0].headers.getall("Content-Type") == [content_type]


async def test_the_jobs_own_headers_are_sent(executor, site):
    headers = {"Authorization": "Bearer KEY", "X-Team": "Zürich", "User-Agent": "mine"}
    await executor.run(call({"url": site.url(), "headers": headers}), Lines())

    assert {name: site.seen[0].headers[name] for name in headers} == headers


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (lambda: web.json_response({"a": [1, None]}), {"a": [1, None]}),
        (lambda: web.Response(text="hello"), "hello"),
        (
            lambda: web.Response(
                body="grün".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"}
            ),
            "grün",
        ),
        (lambda: web.Response(body=b"\xff\x00x"), "\ufffd\ufffdx"),
        (lambda: web.Response(body=b"x", headers={"Content-Type": "text/plain; charset=punycode"}), "x"),
        (lambda: web.Response(status=204), None),
        (lambda: web.Response(body=b"{broken", content_type="application/json"), "{broken"),
        (lambda: web.Response(body=b'["\\u0000"]', content_type="application/json"), '["\\u0000"]'),
        (lambda: web.Response(body=b'["\\ud800"]', content_type="application/json"), '["\\ud800"]'),
        (lambda: web.Response(body=b"[1e999]", content_type="application/json"), "[1e999]"),
        (
            lambda: web.Response(body=b"[" * 5000 + b"]" * 5000, content_type="application/json"),
            "[" * 5000 + "]" * 5000,
        ),
        (lambda: web.Response(body=b"[" * 500 + b"]" * 500, content_type="application/json"), "[" * 500 + "]" * 500),
    ],
)
async def test_the_result_keeps_the_answer_in_a_form_that_can_be_stored(executor, site, answer, body):
    site.answer = answer

    outcome = await executor.run(call(site.url()), Lines())

    assert outcome.succeeded
    assert outcome.result == {"status": answer().status, "body": body, "truncated": False}


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(executor, site, status):
    site.answer = lambda: web.Response(status=status, headers={"Location": site.url("/elsewhere")})

    outcome = await executor.run(call(site.url()), Lines())

    assert (outcome.succeeded, outcome.reason) == (False, "http_status")
    assert f"HTTP {status}" in outcome.error
    assert [seen.path for seen in site.seen] == ["/hook"]


@pytest.mark.parametrize(
    ("status", "expect", "is_good"),
    [
        (200, None, True),
        (404, None, False),
        (404, "2xx,404", True),
        (302, [200, "3xx"], True),
        (200, "201", False),
        (500, {"status": "5xx"}, True),
    ],
)
async def test_expect_decides_what_is_a_success(executor, site, status, expect, is_good):
    site.answer = lambda: web.Response(status=status)

    outcome = await executor.run(call({"url": site.url(), "expect": expect}), Lines())

    assert outcome.succeeded is is_good
    assert outcome.is_retryable


async def test_expect_can_ask_for_a_text_far_down_in_the_body(executor, site):
    site.answer = lambda: web.Response(text="x" * 200_000 + "needle")
    found = await executor.run(call({"url": site.url(), "expect": {"body_contains": "needle"}}), Lines())
    missed = await executor.run(call({"url": site.url(), "expect": {"body_contains": "haystack"}}), Lines())

    assert found.succeeded
    assert len(found.result["body"]) == 64 * 1024
    assert (missed.succeeded, missed.reason) == (False, "http_status")
    assert "haystack" in missed.error


async def test_a_failure_tells_the_status_and_the_beginning_of_the_body(executor, site):
    site.answer = lambda: web.Response(status=503, text="down for repair " * 1000)
    lines = Lines()

    outcome = await executor.run(call(site.url()), lines)

    assert outcome.reason == "http_status"
    assert outcome.error.startswith("HTTP 503 from 127.0.0.1\ndown for repair")
    assert len(outcome.error) < 1200
    assert re.fullmatch(r"POST http://127\.0\.0\.1:\d+: HTTP 503 .* \(\d+ ms, 16000 bytes\)\n", lines.text)


async def test_a_success_writes_no_log(executor, site):
    lines = Lines()
    await executor.run(call(site.url()), lines)

    assert lines.pieces == []


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"Retry-After": "7"}, 7),
        (503, {"Retry-After": "99999999999999999999999"}, 3600),
        (503, {"Retry-After": "Sun, 15 Nov 2026 00:00:30 GMT", "Date": "Sun, 15 Nov 2026 00:00:00 GMT"}, 30),
        (503, {"Retry-After": "Sun, 15 Nov 2020 00:00:30 GMT"}, 0),
        (503, {"Retry-After": "soon"}, None),
        (503, {}, None),
        (500, {"Retry-After": "7"}, None),
    ],
)
async def test_retry_after_is_heard(executor, site, status, headers, seconds):
    site.answer = lambda: web.Response(status=status, headers=headers)

    outcome = await executor.run(call(site.url()), Lines())

    assert outcome.retry_after_seconds == seconds


async def test_connections_are_kept_and_cookies_are_not(executor, site):
    def answer():
        made = web.Response()
        made.set_cookie("session", "secret")
        return made

    site.answer = answer
    for _ in range(5):
        await executor.run(call(site.url()), Lines())

    assert len(site.connections) == 1
    assert not any("Cookie" in seen.headers for seen in site.seen)


async def test_proxies_and_passwords_of_the_environment_are_ignored(executor, site, monkeypatch, tmp_path):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login us password ours\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    assert (await executor.run(call(site.url()), Lines())).succeeded
    assert "Authorization" not in site.seen[0].headers


@pytest.mark.parametrize("host", ["localhost", *filter(literal_address, REFUSED_HOSTS)])
async def test_every_private_host_is_refused_at_the_connection_too(host, site, new_executor):
    """As if the check at creation had not been there."""
    executor = new_executor(())
    request = call("http://127.0.0.1/")
    request.target["url"] = f"http://{host}:{site.server.port}/"

    outcome = await executor.run(request, Lines())

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "payload_rejected", False)
    assert site.seen == []


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["2606:4700::1111", "::ffff:10.0.0.1"]])
async def test_a_name_with_a_private_address_among_others_is_refused(addresses, new_executor):
    executor = new_executor((), None, *addresses)

    outcome = await executor.run(call("http://hook.example/"), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("payload_rejected", False)
    assert "HORAE_EGRESS_ALLOW" in outcome.error
    assert not any(address in outcome.error for address in addresses)


async def test_what_was_checked_is_what_is_called_and_nobody_asks_for_the_name_again(site, new_executor):
    """A name that has another address a moment later is no way around the guard."""
    names = Names("127.0.0.1")
    executor = HttpExecutor(LOOPBACK, Breaker(), resolve=names)
    for _ in range(3):
        site.answer = lambda: web.Response(headers={"Connection": "close"})
        assert (await executor.run(call(f"http://rebind.example:{site.server.port}/"), Lines())).succeeded
    await executor.close()
    assert (len(site.connections), names.asked) == (3, 1)

    names.addresses = ("169.254.169.254",)
    later = HttpExecutor(LOOPBACK, Breaker(), resolve=names)
    outcome = await later.run(call(f"http://rebind.example:{site.server.port}/"), Lines())
    assert outcome.reason == "payload_rejected"


async def test_an_allowed_name_keeps_its_host_header(site, new_executor):
    executor = new_executor(LOOPBACK, None, "127.0.0.1")

    outcome = await executor.run(call(f"http://hook.example:{site.server.port}/"), Lines())

    assert outcome.succeeded
    assert site.seen[0].headers["Host"] == f"hook.example:{site.server.port}"


async def test_the_ports_of_other_services_are_refused(new_executor):
    executor = new_executor((), None, "8.8.8.8")

    outcome = await executor.run(call("http://mail.example:25/"), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("payload_rejected", False)
    assert "port 25" in outcome.error


async def test_a_closed_port_is_told_in_full_only_for_an_allowed_address(unused_tcp_port, new_executor):
    executor = new_executor(LOOPBACK, None, "127.0.0.1")

    plain = await executor.run(call(f"http://127.0.0.1:{unused_tcp_port}/"), Lines())
    named = await executor.run(call(f"http://hook.example:{unused_tcp_port}/"), Lines())

    assert (plain.reason, plain.is_retryable) == ("exception", True)
    assert "refused" in plain.error.lower()
    assert named.error == f"could not connect to http://hook.example:{unused_tcp_port}"


async def test_a_name_that_cannot_be_resolved_is_a_failure_to_try_again(executor):
    outcome = await executor.run(call("http://no-such-name.invalid/"), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("exception", True)
    assert "could not be resolved" in outcome.error


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_a_lost_connection_is_one_failed_request_and_never_sent_again(executor, method):
    count = 0

    async def hang_up(reader, writer):
        nonlocal count
        count += 1

    async with raw_server(hang_up) as url:
        outcome = await executor.run(call({"url": url, "method": method}), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("exception", True)
    assert "lost" in outcome.error
    assert count == 1


async def test_a_gzip_bomb_is_cut_off(executor, site):
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    site.answer = lambda: web.Response(body=bomb, headers=headers)

    outcome = await executor.run(call(site.url()), Lines())

    assert outcome.result["truncated"] is True
    assert len(outcome.result["body"].encode()) <= 64 * 1024


async def test_an_endless_body_is_cut_off_and_the_connection_dropped(executor):
    gone = asyncio.Event()

    async def pour(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
                await writer.drain()
        finally:
            gone.set()

    async with raw_server(pour) as url:
        outcome = await executor.run(call(url), Lines())
        await asyncio.wait_for(gone.wait(), 5)

    assert outcome.succeeded
    assert outcome.result["truncated"] is True
    assert len(outcome.result["body"]) == 64 * 1024


async def test_a_body_that_drips_runs_into_the_timeout(executor):
    async def drip(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with raw_server(drip) as url:
        outcome = await executor.run(call(url, timeout_seconds=0.4), Lines())

    assert outcome.reason == "timeout"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 65536 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(5000)) + b"\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nnogzi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["long header", "many headers", "not http", "short body", "not gzip", "bad chunk"],
)
async def test_an_answer_that_is_no_http_is_a_failure(executor, answer):
    async def speak(reader, writer):
        writer.write(answer)
        await writer.drain()

    async with raw_server(speak) as url:
        outcome = await executor.run(call(url), Lines())

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "exception", True)
    assert len(outcome.error) < 9000


async def test_a_certificate_that_nobody_vouches_for_is_a_failure(executor, tmp_path):
    _, context = certificate_for(tmp_path)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)

    async with server:
        port = server.sockets[0].getsockname()[1]
        outcome = await executor.run(call(f"https://127.0.0.1:{port}/"), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("exception", True)
    assert "certificate" in outcome.error


async def test_a_destination_that_fails_is_left_alone(executor, site):
    site.answer = lambda: web.Response(status=500)
    for _ in range(FAILURES_TO_OPEN):
        await executor.run(call(site.url()), Lines())

    outcome = await executor.run(call(site.url("/other-job")), Lines())

    assert (outcome.succeeded, outcome.reason, outcome.is_unsent) == (False, "rate_limited", True)
    assert 0 < outcome.retry_after_seconds <= 10
    assert len(site.seen) == FAILURES_TO_OPEN


async def test_one_tenants_failures_do_not_shut_the_destination_for_another(executor, site):
    site.answer = lambda: web.Response(status=500)
    for _ in range(FAILURES_TO_OPEN):
        await executor.run(call(site.url(), tenant="noisy"), Lines())
    site.answer = web.Response

    assert (await executor.run(call(site.url(), tenant="quiet"), Lines())).succeeded


async def test_refusals_and_client_errors_do_not_open_the_circuit(executor, site):
    site.answer = lambda: web.Response(status=404)
    for _ in range(3 * FAILURES_TO_OPEN):
        outcome = await executor.run(call(site.url()), Lines())

    assert outcome.reason == "http_status"


async def test_a_cancelled_probe_gives_its_place_back(new_executor):
    async def hang(reader, writer):
        await reader.read()

    breaker = Breaker()
    async with raw_server(hang) as url:
        circuit = f"default {url[:-1]}"
        for _ in range(FAILURES_TO_OPEN):
            breaker.settle(circuit, breaker.admit(circuit, -1000.0), -1000.0, is_healthy=False)
        task = asyncio.create_task(new_executor(LOOPBACK, breaker).run(call(url), Lines()))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert breaker.admit(circuit, asyncio.get_running_loop().time()).is_probe


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({"headers": {"X-Key": "Bearer {{ secret.KEY }}"}}, "the header 'X-Key' holds a line break"),
        ({"headers": {"Content-Type": "{{ secret.KEY }}"}}, "the header 'Content-Type' holds a line break"),
        ({"url": "?key={{ secret.KEY }}"}, "control character"),
    ],
)
@pytest.mark.parametrize("secret", ["line\r\nX-Evil: 1", "two\nlines", "two\rlines"])
async def test_a_secret_with_lines_never_leaves_its_header_or_url(executor, site, target, why, secret):
    request = call({**target, "url": site.url("/hook") + target.get("url", "")})
    outcome = await executor.run(replace(request, target=fill(request.target, {"KEY": secret})), Lines())

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "payload_rejected", False)
    assert why in outcome.error
    assert "Evil" not in outcome.error
    assert "lines" not in outcome.error
    assert site.seen == []


async def test_a_secret_with_lines_is_sent_whole_in_a_body(executor, site):
    request = call({"url": site.url(), "body": "{{ secret.KEY }}"})
    await executor.run(replace(request, target=fill(request.target, {"KEY": "two\r\nlines\n"})), Lines())

    assert site.seen[0].body == b"two\r\nlines\n"

"""What comes over a real socket before anybody is known: heads that are too large or too slow, two requests that look
like one, and bodies whose sender reads no answer before it has sent all.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from horae.api import intake
from horae.app import Server, _server_config
from horae.dashboard.static import Page
from horae.store.store import Store
from tests.scenario.asking import assert_helpful
from tests.scenario.conftest import app_over

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"])


@pytest.fixture
async def port(store: Store) -> AsyncIterator[int]:
    server = Server(_server_config(Page(app_over(store))))
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving


async def answers(port: int, data: bytes, seconds: float = 5) -> list[tuple[int, Any]]:
    """Status and body of every answer until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(seconds):
            await writer.drain()
            text = await reader.read()
    finally:
        writer.close()
    found = []
    while text:
        head, _, rest = text.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        (length,) = (int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        found.append((int(head.split(b" ")[1]), json.loads(rest[:length])))
        text = rest[length:]
    return found


HOST = b"Host: localhost\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length : 4\r\n",
        b"X-Folded: a\r\n b\r\n",
    ],
)
async def test_a_request_that_can_be_read_in_two_ways_is_none(port: int, headers: bytes):
    hidden = b"0\r\n\r\nGET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"

    ((status, problem),) = await answers(port, b"POST /v1/jobs HTTP/1.1\r\n" + HOST + headers + b"\r\n" + hidden)

    assert (status, problem["code"]) == (400, "not_http")
    assert_helpful(problem)


@pytest.mark.parametrize("line", [b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1"])
async def test_an_address_that_is_no_path_is_not_found(port: int, line: bytes):
    ((status, problem),) = await answers(port, line + b"\r\n" + HOST + b"\r\n")

    assert (status, problem["code"]) in [(404, "not_found"), (405, "method_not_allowed")]


@pytest.mark.parametrize(
    "head",
    [
        b"X-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"".join(b"X-%d: a\r\n" % number for number in range(8_000)) + b"\r\n",
        b"X-Endless: " + b"a" * 100_000,
    ],
    ids=["long", "many", "endless"],
)
async def test_a_head_has_its_limit(port: int, head: bytes):
    ((status, problem),) = await answers(port, b"GET /healthz HTTP/1.1\r\n" + HOST + head)

    assert (status, problem["code"]) == (431, "head_too_large")
    assert_helpful(problem)


async def test_a_head_that_does_not_come_is_given_up(port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "HEAD_SECONDS", 0.2)

    ((status, problem),) = await answers(port, b"GET /healthz HTTP/1.1\r\nX-Slow: ")

    assert (status, problem["code"]) == (408, "slow_head")
    assert_helpful(problem)
    assert await answers(port, b"") == []


async def test_a_body_that_drips_on_after_its_answer_keeps_no_connection(port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "HEAD_SECONDS", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
    everything = asyncio.create_task(reader.read())

    async with asyncio.timeout(5):
        while not (await asyncio.wait([everything], timeout=0.05))[0]:
            writer.write(b"x")

    writer.close()
    assert everything.exception() or everything.result().startswith(b"HTTP/1.1 200")


async def test_who_sends_ten_megabytes_is_told_that_they_are_too_many(port: int):
    body = b" " * 10_000_000
    head = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)

    ((status, problem),) = await answers(port, b"POST /v1/jobs HTTP/1.1\r\n" + HOST + head + body)

    assert (status, problem["code"]) == (413, "too_large")

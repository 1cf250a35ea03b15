"""The command line's own HTTP, over real sockets: every shape of an answer, and what is none."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from horae.cli.exchange import MOST_HEADERS, BrokenAnswer, Connection
from tests.conformance.talker import certificate_for, talking

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = (
    OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n6;x=1\r\ntwo\nth\r\n4\r\nree\n\r\n0\r\nTrailer: t\r\n\r\n"
)


@contextmanager
def answering(*connections: list[bytes]) -> Iterator[tuple[Connection, list[bytes]]]:
    """A server that gives these answers, a list for each connection, and closes; and what it was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        for answers in connections:
            talk, _ = server.accept()
            with talk:
                for answer in answers:
                    asked.append(talk.recv(65_536))
                    talk.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        connection = Connection("http", "127.0.0.1", server.getsockname()[1], 5.0)
        try:
            yield connection, asked
        finally:
            connection.close()
            thread.join(10)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (OK + b"content-length:0\r\n\r\n", b""),
        (OK + b"\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi", b"hi"),
        (CHUNKS, b"one\ntwo\nthree\n"),
        (b"HTTP/1.0 200\nContent-Length: 2\n\nhi", b"hi"),
    ],
)
def test_an_answer_is_read_in_every_shape(answer: bytes, body: bytes) -> None:
    with answering([answer]) as (connection, _):
        assert connection.request("GET", "/x", None, {}).read() == body


def test_lines_are_read_across_pieces_as_they_come() -> None:
    with answering([CHUNKS]) as (connection, _):
        assert list(connection.request("GET", "/x", None, {})) == [b"one\n", b"two\n", b"three\n"]


def test_headers_are_found_whatever_their_case_and_shown_as_they_came() -> None:
    with answering([OK + b"X-Request-Id: req_1\r\nContent-Length: 0\r\n\r\n"]) as (connection, _):
        answer = connection.request("GET", "/x", None, {})

    assert (answer.status, answer.reason, answer.header("x-request-id"), answer.header("etag")) == (
        200,
        "OK",
        "req_1",
        "",
    )
    assert answer.headers[0] == ("X-Request-Id", "req_1")


def test_what_is_sent_says_how_long_it_is() -> None:
    short = OK + b"Content-Length: 0\r\n\r\n"
    with answering([short, short, short]) as (connection, asked):
        for method, body in (("POST", b"{}"), ("DELETE", None), ("GET", None)):
            connection.request(method, "/x?a=1", body, {"If-Match": '"v1"'}).read()

    assert asked[0].startswith(b"POST /x?a=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b'\r\nIf-Match: "v1"\r\n' in asked[0]
    assert asked[0].endswith(b"Content-Length: 2\r\n\r\n{}")
    assert [b"Content-Length: 0\r\n" in text for text in asked[1:]] == [True, False]


@pytest.mark.parametrize(
    "last",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        OK + b"\r\nhi",
    ],
)
def test_an_answer_that_ends_the_connection_is_followed_by_a_new_one(last: bytes) -> None:
    with answering([last], [last]) as (connection, asked):
        assert [connection.request("GET", "/x", None, {}).read() for _ in range(2)] == [b"hi", b"hi"]

    assert len(asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        OK,
        OK + b"Content-Length: 5\r\n\r\nhell",
        OK + b"Content-Length: -5\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        OK + b"a: b\r\n" * (MOST_HEADERS + 1) + b"\r\n",
        OK + b"a: " + b"b" * 70_000,
    ],
)
def test_what_is_no_whole_answer_is_an_error_and_never_half_of_one(answer: bytes) -> None:
    with answering([answer]) as (connection, _), pytest.raises(ConnectionError):
        connection.request("GET", "/x", None, {}).read()


@pytest.mark.parametrize(
    ("target", "headers"), [("/a b", {}), ("/ä", {}), ("/a\r\nX: y", {}), ("/a", {"Key": "x\r\nX: y"})]
)
def test_nothing_is_slipped_into_a_request(target: str, headers: dict[str, str]) -> None:
    with pytest.raises(BrokenAnswer, match="cannot be sent"):
        Connection("http", "127.0.0.1", 1, 1.0).request("GET", target, None, headers)


def test_a_silent_server_is_waited_for_only_so_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        connection = Connection("http", "127.0.0.1", mute.getsockname()[1], 60.0)
        connection.limit_wait(0.05)
        with pytest.raises(TimeoutError):
            connection.request("GET", "/x", None, {})
        connection.close()


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_certificate_must_be_vouched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ours: bool
) -> None:
    path, context = certificate_for(tmp_path)
    if is_ours:
        monkeypatch.setenv("SSL_CERT_FILE", str(path))

    async with talking(context=context) as server:
        connection = Connection("https", "127.0.0.1", server.port, 5.0)
        asked = asyncio.to_thread(lambda: connection.request("GET", "/", None, {}).read())
        if is_ours:
            assert await asked == b"ok"
        else:
            with pytest.raises(OSError, match="certificate verify failed"):
                await asked
        connection.close()

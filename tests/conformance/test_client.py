"""The HTTP client against servers that speak bytes: what it keeps, what it drops, and that it comes to an end."""

import asyncio
import gzip
import socket
import zlib

import pytest

from horae.executors import client as client_module
from horae.executors.client import Client
from horae.executors.exchange import HEAD_BYTES, BadAnswer, Exchange, Lost
from tests.conformance.attempts import until
from tests.conformance.talker import LOOPBACK, OK, ask, talking


@pytest.fixture
async def client():
    made = Client(LOOPBACK, limit=2)
    yield made
    await made.close()


async def test_one_connection_serves_one_request_after_another(client):
    async with talking() as server:
        for _ in range(5):
            assert (await ask(client, server.url)).body == b"ok"

    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\n\r\nok",
    ],
    ids=["asked to close", "of old", "an answer too many", "to the end of the connection"],
)
async def test_a_connection_that_cannot_be_trusted_again_is_not_used_again(client, answer):
    async with talking(answer) as server:
        first = await ask(client, server.url)
        second = await ask(client, server.url)

    assert (first.body, second.body, server.connections) == (b"ok", b"ok", 2)


async def test_bytes_that_nobody_asked_for_close_the_connection(client):
    async with talking() as server:
        await ask(client, server.url)
        (kept,) = next(iter(client._origins.values())).idle
        kept.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

        assert (await ask(client, server.url)).body == b"ok"
    assert server.connections == 2


async def test_hints_and_leave_to_go_on_are_not_the_answer(client):
    before = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Of: hint\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    async with talking(before + OK) as server:
        answer = await ask(client, server.url)

    assert (answer.status, answer.body) == (200, b"ok")
    assert "x-of" not in answer.headers


async def test_an_endless_row_of_hints_comes_to_an_end(client):
    async with talking(b"HTTP/1.1 103 Early Hints\r\n\r\n" * (HEAD_BYTES // 10) + OK) as server:
        with pytest.raises(BadAnswer):
            await ask(client, server.url)


async def test_a_head_tells_of_a_body_that_does_not_come(client):
    async with talking(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as server:
        answer = await ask(client, server.url, method="HEAD")

    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "1000", b"")


async def test_a_server_that_would_rather_speak_something_else_has_answered(client):
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00"
    async with talking(upgrade) as server:
        assert (await ask(client, server.url)).status == 101
        assert (await ask(client, server.url)).body == b"ok"

    assert server.connections == 2


@pytest.mark.parametrize("code", ["gzip", "deflate", "bare deflate"])
async def test_a_packed_body_is_unpacked_up_to_the_cap(client, code):
    window = {"gzip": 31, "deflate": 15, "bare deflate": -15}[code]
    packer = zlib.compressobj(wbits=window)
    body = packer.compress(b"x" * 5000) + packer.flush()
    name = code.rpartition(" ")[2].encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (name, len(body))
    async with talking(head + body, head + body) as server:
        whole = await ask(client, server.url, most=10_000)
        cut = await ask(client, server.url, most=100)

    assert (whole.body, whole.size_bytes) == (b"x" * 5000, 5000)
    assert (cut.body, cut.size_bytes) == (b"x" * 100, 101)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", Lost),
        (b"HTTP/1.1 200 OK\r\nContent-Le", Lost),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhel", Lost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", BadAnswer),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok", BadAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", BadAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 100)[:-9], BadAnswer),
    ],
    ids=["nothing", "half a head", "half a chunk", "two lengths", "a length and chunks", "half a gzip", "to the end"],
)
async def test_what_is_no_whole_answer_is_told(client, answer, error):
    async with talking(answer) as server:
        with pytest.raises(error):
            await ask(client, server.url)
        assert (await ask(client, server.url)).body == b"ok"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("beginning", "more", "body"),
    [
        (CHUNKED + b"Content-Encoding: gzip\r\n\r\n16\r\n" + gzip.compress(b"hi")[:22] + b"\r\n", b"1\r\nx\r\n", b"hi"),
        (CHUNKED + b"Content-Encoding: gzip\r\n\r\n", b"14\r\n" + gzip.compress(b"") + b"\r\n", None),
        (CHUNKED + b"\r\n2\r\nhi\r\n0\r\nX-T: ", b"a", None),
        (CHUNKED + b"X-T: ", b"a", None),
    ],
    ids=["behind the end of a gzip", "gzips of nothing", "trailer", "header"],
)
async def test_what_never_ends_ends_and_is_not_kept(client, beginning, more, body):
    sent = 0

    async def pour(reader, writer):
        nonlocal sent
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(beginning)
            while sent < 50_000_000:
                writer.write(more * 60_000)
                await writer.drain()
                sent += len(more) * 60_000
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    async with server:
        asked = ask(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        if body is None:
            with pytest.raises(BadAnswer):
                await asked
        else:
            assert (await asked).body == body

    assert sent < 20_000_000


async def test_two_gzips_in_a_row_are_one_body(client):
    body = gzip.compress(b"one, ") + gzip.compress(b"two")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with talking(head + body) as server:
        assert (await ask(client, server.url)).body == b"one, two"


async def test_a_connection_whose_request_was_not_taken_whole_is_not_used_again(client):
    done = asyncio.Event()

    async def answer_early(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()
        writer.write(OK)
        await done.wait()
        writer.close()

    server = await asyncio.start_server(answer_early, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        assert (await ask(client, url, method="POST", body=b"x" * 20_000_000)).body == b"ok"
        assert client._origins == {}
        done.set()


async def test_no_more_connections_than_the_limit_and_everybody_has_a_turn(client):
    async with talking() as server:
        answers = await asyncio.gather(*(ask(client, server.url) for _ in range(20)))

    assert [answer.body for answer in answers] == [b"ok"] * 20
    assert server.connections == 2


async def test_whoever_waits_for_a_turn_waits_no_longer_than_their_time(client):
    async with talking(None, None) as server:
        stuck = [asyncio.create_task(ask(client, server.url)) for _ in range(2)]
        await until(lambda: len(server.heads) == 2)
        with pytest.raises(TimeoutError):
            await ask(client, server.url, seconds=0.05)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)

        assert (await ask(client, server.url)).body == b"ok"  # the places came back
    assert client._origins == {} or not any(origin.busy for origin in client._origins.values())


async def test_a_request_that_is_given_up_closes_its_connection(client):
    async with talking(None) as server:
        with pytest.raises(TimeoutError):
            await ask(client, server.url, seconds=0.1)
        await until(lambda: server.gone)

    assert client._origins == {}


async def test_a_connection_that_rested_too_long_is_dropped(client, monkeypatch):
    monkeypatch.setattr(client_module, "KEEP_ALIVE_SECONDS", 0.05)
    async with talking() as server:
        await ask(client, server.url)
        await until(lambda: not client._origins)
        await until(lambda: server.gone)


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used(client):
    async with talking() as server:
        await ask(client, server.url)
        (kept,) = next(iter(client._origins.values())).idle
        kept.connection_lost(None)

        assert (await ask(client, server.url)).body == b"ok"
    assert server.connections == 2


async def test_a_connection_that_the_server_closed_in_silence_is_not_used(client):
    """The loop has not heard of it yet: nothing was awaited between the close and the next request."""
    left, right = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, exchange = await loop.create_connection(Exchange, sock=left)
    right.close()

    assert not exchange.is_quiet()
    exchange.close()


async def test_the_request_is_written_as_it_should_be(client):
    async with talking() as server:
        await ask(client, f"{server.url}a b".replace(" ", "%20") + "/ü?q=€#part", method="POST", headers={"X-A": "ö"})
        await ask(client, server.url, method="DELETE")
        await ask(client, server.url, method="PUT", body=b"12345")

    post, delete, put = server.heads
    assert post.split("\r\n") == [
        "POST /a%20b/%C3%BC?q=%E2%82%AC HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "X-A: ö",
        "Content-Length: 0",
        "",
        "",
    ]
    assert "Content-Length" not in delete
    assert (put.endswith("Content-Length: 5\r\n\r\n"), server.bodies[-1]) == (True, b"12345")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_no_line_gets_into_a_head(client, value):
    async with talking() as server:
        with pytest.raises(ValueError, match="control character"):
            await ask(client, server.url, headers={"X-A": value})

    assert server.heads == []

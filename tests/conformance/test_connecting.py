"""How the HTTP client gets to a server: its addresses, its certificate, a proxy between."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest

from horae.core.egress import read_proxy
from horae.core.errors import Invalid
from horae.executors import connecting
from horae.executors.client import Client
from horae.executors.connecting import NotConnected, NotTrusted, ProxyRefused, Refused
from tests.conformance.talker import LOOPBACK, OK, ask, certificate_for, talking


@pytest.fixture
async def client():
    made = Client(LOOPBACK, limit=2)
    yield made
    await made.close()


async def test_an_ipv6_address_is_an_address():
    client = Client(LOOPBACK)
    try:
        async with talking(host="::1") as server:
            assert (await ask(client, server.url)).body == b"ok"
    except OSError:
        pytest.skip("this machine has no IPv6")
    finally:
        await client.close()
    assert f"Host: [::1]:{server.port}" in server.heads[0]


async def test_an_address_that_does_not_answer_does_not_keep_the_others_waiting(monkeypatch):
    tried = []
    open_ = connecting._open

    async def slow(endpoint, *others):
        tried.append(endpoint[1][0])
        if endpoint[1][0] == "127.0.0.9":
            await asyncio.Event().wait()
        return await open_(endpoint, *others)

    monkeypatch.setattr(connecting, "_open", slow)
    async with talking() as server:
        places = [(socket.AF_INET, (each, server.port)) for each in ("127.0.0.9", "127.0.0.1")]

        async def resolve(host, port):
            return places

        client = Client(LOOPBACK, resolve)
        assert (await ask(client, f"http://two.example:{server.port}/")).body == b"ok"
        await client.close()

    assert tried == ["127.0.0.9", "127.0.0.1"]


async def test_when_no_address_answers_it_is_told_which_trouble_there_was(unused_tcp_port):
    async def resolve(host, port):
        return [(socket.AF_INET, (each, port)) for each in ("127.0.0.1", "127.0.0.2")]

    client = Client(LOOPBACK, resolve)
    with pytest.raises(NotConnected, match="refused"):
        await ask(client, f"http://two.example:{unused_tcp_port}/")

    assert client._origins == {}


@pytest.mark.parametrize(("address", "is_ours"), [("127.0.0.1", True), ("127.0.0.2", False)])
async def test_a_certificate_must_be_vouched_for_and_be_of_that_host(tmp_path, monkeypatch, client, address, is_ours):
    path, context = certificate_for(tmp_path, address)
    monkeypatch.setattr(connecting, "_trusted", lambda: ssl.create_default_context(cafile=path))
    async with talking(context=context) as server:
        if is_ours:
            for _ in range(2):
                assert (await ask(client, server.url)).body == b"ok"
            assert server.connections == 1
        else:
            with pytest.raises(NotTrusted, match="certificate"):
                await ask(client, server.url)


async def test_what_speaks_no_tls_is_told(client):
    def serve(_, writer):
        writer.write(OK)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(NotTrusted, match="TLS"):
            await ask(client, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


class Middleman:
    """A proxy of a test: passes everything on to one place, and remembers what it was told."""

    def __init__(self, port, refusal=b""):
        self.port = port
        self.refusal = refusal
        self.heads = []

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        if self.refusal:
            writer.write(self.refusal)
            writer.close()
            return
        there, out = await asyncio.open_connection("127.0.0.1", self.port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            out.write(head)
        await asyncio.gather(self.pass_on(reader, out), self.pass_on(there, writer))

    async def pass_on(self, source, sink):
        try:
            while piece := await source.read(65536):
                sink.write(piece)
        except ConnectionError:
            pass
        finally:
            sink.close()


@asynccontextmanager
async def by_proxy(port, refusal=b"", login="us:s%20cret@"):
    middleman = Middleman(port, refusal)
    server = await asyncio.start_server(middleman.serve, "127.0.0.1", 0)
    proxy = read_proxy(f"http://{login}127.0.0.1:{server.sockets[0].getsockname()[1]}")
    middleman.client = Client(LOOPBACK, proxy=proxy)
    try:
        yield middleman
    finally:
        await middleman.client.close()
        server.close()


async def test_s34_everything_goes_by_the_proxy_when_there_is_one():
    async with talking() as server, by_proxy(server.port) as proxy:
        answer = await ask(proxy.client, "http://nobody-knows-me.example/a?b=c")

    assert answer.body == b"ok"
    first, host, login = proxy.heads[0].split("\r\n")[:3]
    assert (first, host) == ("GET http://nobody-knows-me.example/a?b=c HTTP/1.1", "Host: nobody-knows-me.example")
    assert login == "Proxy-Authorization: Basic dXM6cyBjcmV0"


async def test_s34_a_proxy_sees_nothing_of_what_is_sent_by_tls(tmp_path, monkeypatch):
    path, context = certificate_for(tmp_path)
    monkeypatch.setattr(connecting, "_trusted", lambda: ssl.create_default_context(cafile=path))
    async with talking(context=context) as server, by_proxy(server.port) as proxy:
        answer = await ask(proxy.client, f"https://127.0.0.1:{server.port}/a", headers={"Authorization": "Bearer KEY"})

    assert answer.body == b"ok"
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nProxy-Auth")
    assert "KEY" not in head
    assert "Proxy-" not in server.heads[0]


async def test_s34_an_address_is_refused_by_us_and_a_name_by_the_proxy():
    async with talking() as server, by_proxy(server.port, b"HTTP/1.1 403 Not here\r\n\r\n", login="") as proxy:
        with pytest.raises(ProxyRefused, match="403 Not here"):
            await ask(proxy.client, "https://inner.example/")
        for url in ("http://10.0.0.1/", "http://metadata.google.internal/", "http://redis.example:6379/"):
            with pytest.raises(Refused):
                await ask(proxy.client, url)

    assert len(proxy.heads) == 1


@pytest.mark.parametrize(
    "url",
    [
        "proxy:3128",
        "https://proxy:3128",
        "http://proxy",
        "http://proxy:99999",
        "http://p:1/x",
        "http://p:1?a",
        "http://u%0a:p@h:1",
    ],
)
def test_a_proxy_that_cannot_be_one_is_refused_at_the_start(url):
    with pytest.raises(Invalid, match="proxy"):
        read_proxy(url)


def test_the_password_of_a_proxy_is_not_shown():
    assert "cret" not in repr(read_proxy("http://us:secret@proxy:3128"))

"""New connections, each to an address that was checked; or by a proxy of the operator, which looks up names itself."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from horae.core.egress import Allow, Destination, Proxy, refusal, refused_unseen
from horae.executors.exchange import HEAD_BYTES, Exchange, NoAnswer

CONNECT_SECONDS = 10.0
NAMES_SECONDS = 10.0  # how long the addresses of a name are taken as known
MOST_NAMES = 1000
# The next address of a name is tried beside one that takes longer.
STAGGER_SECONDS = 0.25

Endpoint = tuple[int, Any]  # a family and a socket address
Resolve = Callable[[str, int], Awaitable[list[Endpoint]]]


class Refused(NoAnswer):
    """The guard, not the network, said no."""


class NotFound(NoAnswer):
    """The name has no address."""


class NotConnected(NoAnswer):
    """Nobody answered at the address; the text is what the system said."""


class NotTrusted(NoAnswer):
    """No TLS connection."""


class ProxyRefused(NoAnswer):
    """The proxy would not let us through."""


class Connector:
    def __init__(self, allow: Allow, resolve: Resolve | None = None, proxy: Proxy | None = None) -> None:
        self._allow = allow
        self._resolve = resolve or _look_up
        self._proxy = proxy
        self._names: dict[tuple[str, int], tuple[float, list[Endpoint]]] = {}

    async def open(self, destination: Destination) -> Exchange:
        endpoints = await self._endpoints(destination)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await _first(endpoints, destination, self._proxy)
        except TimeoutError:
            raise NotConnected("timed out") from None

    def for_proxy(self, destination: Destination) -> Proxy | None:
        """The proxy that must be told where a request goes: inside TLS it does not see it."""
        return self._proxy if destination.scheme == "http" else None

    async def _endpoints(self, destination: Destination) -> list[Endpoint]:
        """Where to connect. A proxy looks up names itself; what can be told without that is checked here."""
        port = destination.port
        try:
            if self._proxy is not None:
                whys = [refused_unseen(destination, self._allow, is_final=True)]
                found = await self._known(self._proxy.host, self._proxy.port)
            else:
                found = await self._known(destination.host.strip("[]").replace("%25", "%"), port)
                # One private address among public ones is an attack: none of them is tried.
                whys = [refusal(str(address[0]), port, self._allow) for _, address in found]
        except (OSError, UnicodeError) as error:
            raise NotFound(str(error)) from error
        for why in filter(None, whys):
            raise Refused(why)
        return found

    async def _known(self, host: str, port: int) -> list[Endpoint]:
        now = asyncio.get_running_loop().time()
        until, found = self._names.get((host, port), (0.0, []))
        if until <= now:
            found = _literal(host, port) or await self._resolve(host, port)
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            self._names[host, port] = now + NAMES_SECONDS, found
        return found


def _literal(host: str, port: int) -> list[Endpoint]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        return []
    return [(family, place) for family, _, _, _, place in found]


async def _look_up(host: str, port: int) -> list[Endpoint]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, place) for family, _, _, _, place in found]


async def _first(endpoints: list[Endpoint], destination: Destination, proxy: Proxy | None) -> Exchange:
    """The first of the addresses that answers; each is given a moment before the next is tried beside it."""
    if len(endpoints) == 1:
        return await _open(endpoints[0], destination, proxy)
    tasks: set[asyncio.Task[Exchange]] = set()
    trouble: NoAnswer = NotFound("no address")
    left = list(endpoints)
    try:
        while left or tasks:
            if left:
                tasks.add(asyncio.create_task(_open(left.pop(0), destination, proxy)))
            pause = STAGGER_SECONDS if left else None
            done, tasks = await asyncio.wait(tasks, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                try:
                    return task.result()
                except NoAnswer as error:
                    trouble = error
        raise trouble
    finally:
        for task in tasks:
            task.cancel()
            task.add_done_callback(_put_away)


def _put_away(task: asyncio.Task[Exchange]) -> None:
    """A connection that came second."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _open(endpoint: Endpoint, destination: Destination, proxy: Proxy | None) -> Exchange:
    loop = asyncio.get_running_loop()
    family, address = endpoint
    raw = socket.socket(family, socket.SOCK_STREAM)
    raw.setblocking(False)  # noqa: FBT003 its only parameter
    is_tls = destination.scheme == "https"
    name = destination.host.strip("[]").removesuffix(".") if is_tls else None
    try:
        await loop.sock_connect(raw, address)
        if proxy is not None and is_tls:
            await _tunnel(raw, destination, proxy)
        _, exchange = await loop.create_connection(
            Exchange, sock=raw, ssl=_trusted() if is_tls else None, server_hostname=name
        )
    except BaseException as error:
        raw.close()
        match error:
            case ssl.SSLCertVerificationError():
                raise NotTrusted(f"the certificate is not valid: {error.verify_message}") from error
            case ssl.SSLError():
                raise NotTrusted(f"no TLS connection: {error.reason or error}") from error
            case OSError():
                raise NotConnected(os.strerror(error.errno) if error.errno else str(error)) from error
        raise
    return exchange


async def _tunnel(raw: socket.socket, destination: Destination, proxy: Proxy) -> None:
    loop = asyncio.get_running_loop()
    there = f"{destination.host}:{destination.port}"
    await loop.sock_sendall(
        raw, "\r\n".join([f"CONNECT {there} HTTP/1.1", f"Host: {there}", *proxy.lines, "", ""]).encode()
    )
    head = b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES:
        piece = await loop.sock_recv(raw, HEAD_BYTES)
        if not piece:
            raise ProxyRefused("the proxy hung up")
        head += piece
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[1].startswith(b"2"):
        raise ProxyRefused(f"the proxy answered {b' '.join(words[1:]).decode(errors='replace')[:100]}")


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context

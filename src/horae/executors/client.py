"""The HTTP client of jobs, webhooks and key sets: connections are kept and used again, redirects are not followed.

The address of every connection is checked when it is made, not only when a URL was saved. A request is sent once.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from horae import __version__
from horae.core.egress import Allow, Destination, is_listed, read_url, refusal
from horae.executors.exchange import Exchange, Lost, NoAnswer, Received

CONNECT_SECONDS = 10.0
# Shorter than the 5 s of common servers: a request sent into a closing connection is a failed attempt.
KEEP_ALIVE_SECONDS = 4.0
NAMES_SECONDS = 10.0  # how long the addresses of a name are taken as known
MOST_NAMES = 1000
# The next address of a name is tried beside one that takes longer.
STAGGER_SECONDS = 0.25
AGENT = f"horae/{__version__}"
WITH_LENGTH = frozenset({"POST", "PUT", "PATCH"})

_NOT_IN_PATHS = re.compile("[^!-~]+")

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


class Way(NamedTuple):
    """Where a URL leads, and what the request says of it."""

    destination: Destination
    path: str
    host: str


@lru_cache(maxsize=4096)
def locate(url: str) -> Way:
    """ValueError for a URL that could be read in two ways."""
    destination, parts = read_url(url), urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = 443 if destination.scheme == "https" else 80
    host = destination.host if destination.port == usual else f"{destination.host}:{destination.port}"
    return Way(destination, _NOT_IN_PATHS.sub(lambda found: quote(found[0]), path), host)


class Client:
    """`limit` is how many connections one origin gets at a time; 0 for as many as are asked for."""

    def __init__(self, allow: Allow, resolve: Resolve | None = None, limit: int = 0) -> None:
        self._allow = allow
        self._resolve = resolve or _look_up
        self._limit = limit
        self._origins: dict[str, _Origin] = {}
        self._names: dict[tuple[str, int], tuple[float, list[Endpoint]]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def request(
        self, method: str, way: Way, headers: Mapping[str, str], body: bytes | None, seconds: float, most_bytes: int
    ) -> Received:
        """The answer, its body up to `most_bytes`. TimeoutError when it takes longer, NoAnswer when there is none."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        request = _written(method, way, headers, body)
        origin = self._origin(way.destination)
        exchange = await self._take(origin, way.destination, deadline)
        try:
            return await exchange.ask(request, deadline, most_bytes, is_head=method == "HEAD")
        finally:
            exchange.idle_since = loop.time()
            self._give_back(origin, exchange)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for origin in self._origins.values():
            for exchange in origin.idle:
                exchange.close()
            origin.idle.clear()

    # Connections that are there

    def _origin(self, destination: Destination) -> _Origin:
        origin = self._origins.get(destination.origin)
        if origin is None:
            origin = self._origins[destination.origin] = _Origin(destination.origin)
        return origin

    async def _take(self, origin: _Origin, destination: Destination, deadline: float) -> Exchange:
        if self._limit and origin.busy >= self._limit:
            await self._turn(origin, deadline)
        else:
            origin.busy += 1
        exchange = origin.kept()
        if exchange is not None:
            return exchange
        try:
            async with asyncio.timeout_at(deadline):
                return await self._connect(destination)
        except BaseException:
            self._give_back(origin, None)
            raise

    async def _turn(self, origin: _Origin, deadline: float) -> None:
        """Wait for somebody's place."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        origin.waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except BaseException:
            if not waiter.cancelled():
                self._give_back(origin, None)  # it came in the same moment
            raise

    def _give_back(self, origin: _Origin, exchange: Exchange | None) -> None:
        """The place goes to whoever waits longest; a connection that can be used again is kept."""
        if exchange is not None and exchange.is_reusable:
            origin.idle.append(exchange)
            if self._sweep is None:
                self._sweep = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._drop_idle)
        if not origin.pass_on():
            origin.busy -= 1
            self._forget(origin)

    def _forget(self, origin: _Origin) -> None:
        if not origin.busy and not origin.idle and self._origins.get(origin.name) is origin:
            del self._origins[origin.name]

    def _drop_idle(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEEP_ALIVE_SECONDS
        for origin in list(self._origins.values()):
            while origin.idle and (origin.idle[0].idle_since <= oldest or not origin.idle[0].is_reusable):
                origin.idle.popleft().close()
            self._forget(origin)
        is_needed = any(origin.idle for origin in self._origins.values())
        self._sweep = loop.call_later(KEEP_ALIVE_SECONDS / 4, self._drop_idle) if is_needed else None

    # New ones

    async def _connect(self, destination: Destination) -> Exchange:
        try:
            places = await self._places(destination)
        except (OSError, UnicodeError) as error:
            raise NotFound(str(error)) from error
        # One private address among public ones is an attack: none of them is tried.
        for why in (refusal(str(place[0]), destination.port, self._allow) for _, place in places):
            if why:
                raise Refused(why)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await _first(places, destination)
        except TimeoutError:
            raise NotConnected("timed out") from None

    async def _places(self, destination: Destination) -> list[Endpoint]:
        host, port = destination.host.strip("[]").replace("%25", "%"), destination.port
        if destination.address is not None:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            return [(family, place) for family, _, _, _, place in found]
        now = asyncio.get_running_loop().time()
        until, places = self._names.get((host, port), (0.0, []))
        if until <= now:
            places = await self._resolve(host, port)
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            self._names[host, port] = now + NAMES_SECONDS, places
        return places


class _Origin:
    """Connections to one place: those in use are counted, those that rest are kept, the freshest taken first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.busy = 0
        self.idle: deque[Exchange] = deque()
        self.waiters: deque[asyncio.Future[None]] = deque()

    def kept(self) -> Exchange | None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_SECONDS
        while self.idle:
            exchange = self.idle.pop()
            if exchange.is_reusable and exchange.idle_since > oldest:
                return exchange
            exchange.close()
        return None

    def pass_on(self) -> bool:
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False


async def _look_up(host: str, port: int) -> list[Endpoint]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, place) for family, _, _, _, place in found]


async def _first(places: list[Endpoint], destination: Destination) -> Exchange:
    """The first of the addresses that answers; each is given a moment before the next is tried beside it."""
    if len(places) == 1:
        return await _open(places[0], destination)
    tasks: set[asyncio.Task[Exchange]] = set()
    trouble: NoAnswer = NotFound("no address")
    left = list(places)
    try:
        while left or tasks:
            if left:
                tasks.add(asyncio.create_task(_open(left.pop(0), destination)))
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


async def _open(place: Endpoint, destination: Destination) -> Exchange:
    loop = asyncio.get_running_loop()
    raw = socket.socket(place[0], socket.SOCK_STREAM)
    raw.setblocking(False)  # noqa: FBT003 its only parameter
    is_tls = destination.scheme == "https"
    name = destination.host.strip("[]").removesuffix(".") if is_tls else None
    try:
        await loop.sock_connect(raw, place[1])
        _, exchange = await loop.create_connection(
            Exchange, sock=raw, ssl=_trusted() if is_tls else None, server_hostname=name
        )
    except ssl.SSLCertVerificationError as error:
        raw.close()
        raise NotTrusted(f"the certificate is not valid: {error.verify_message}") from error
    except ssl.SSLError as error:
        raw.close()
        raise NotTrusted(f"no TLS connection: {error.reason or error}") from error
    except OSError as error:
        raw.close()
        raise NotConnected(os.strerror(error.errno or 0) if error.errno else str(error)) from error
    except BaseException:
        raw.close()
        raise
    return exchange


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _written(method: str, way: Way, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [f"{method} {way.path} HTTP/1.1", f"Host: {way.host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None or method in WITH_LENGTH:
        lines.append(f"Content-Length: {len(body or b'')}")
    head = "\r\n".join(lines)
    # Whoever made the headers has seen to this; a line more would be another request.
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
        raise ValueError("a header holds a line break or another control character")
    return f"{head}\r\n\r\n".encode() + (body or b"")


def trouble(destination: Destination, allow: Allow, error: Exception) -> str:
    """Why there was no answer, in words that tell nothing of a network that the caller cannot see."""
    host = destination.host
    match error:
        case NotFound():
            return f"the name {host} could not be resolved"
        case NotConnected():
            return _unreached(destination, allow, str(error))
        case Lost():
            return f"{host}: {error}" if str(error) else f"{host}: the connection was lost before an answer"
        case _:
            return f"{host}: {error or type(error).__name__}"


def _unreached(destination: Destination, allow: Allow, detail: str) -> str:
    """One message for closed, filtered and unreachable: a job must not serve as a port scanner."""
    address = destination.address
    is_open = address is not None and is_listed(address, allow)
    return f"could not connect to {destination.origin}" + (f": {detail}" if is_open else "")

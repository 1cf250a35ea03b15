"""The HTTP client of jobs, webhooks and key sets: connections are kept and used again, redirects are not followed.

The address of every connection is checked when it is made, not only when a URL was saved. A request is sent once.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from horae import __version__
from horae.core.egress import Allow, Destination, Proxy, is_listed, read_url
from horae.executors.connecting import Connector, NotConnected, NotFound, Resolve
from horae.executors.exchange import Exchange, Lost, Received

# Shorter than the 5 s of common servers: a request sent into a closing connection is a failed attempt.
KEEP_ALIVE_SECONDS = 4.0
AGENT = f"horae/{__version__}"
WITH_LENGTH = frozenset({"POST", "PUT", "PATCH"})

_NOT_IN_PATHS = re.compile("[^!-~]+")


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

    def __init__(
        self, allow: Allow, resolve: Resolve | None = None, limit: int = 0, proxy: Proxy | None = None
    ) -> None:
        self._connector = Connector(allow, resolve, proxy)
        self._limit = limit
        self._origins: dict[str, _Origin] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def request(
        self, method: str, way: Way, headers: Mapping[str, str], body: bytes | None, seconds: float, most_bytes: int
    ) -> Received:
        """The answer, its body up to `most_bytes`. TimeoutError when it takes longer, NoAnswer when there is none."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        request = _written(method, way, self._connector.for_proxy(way.destination), headers, body)
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
                return await self._connector.open(destination)
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
            if exchange.is_reusable and exchange.idle_since > oldest and exchange.is_quiet():
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


def _written(method: str, way: Way, proxy: Proxy | None, headers: Mapping[str, str], body: bytes | None) -> bytes:
    if proxy is None:
        lines = [f"{method} {way.path} HTTP/1.1", f"Host: {way.host}"]
    else:
        lines = [
            f"{method} {way.destination.scheme}://{way.host}{way.path} HTTP/1.1",
            f"Host: {way.host}",
            *proxy.lines,
        ]
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

"""Calls a URL. The address of every connection is checked when it is made, not only when the job was saved."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from hashlib import blake2b
from math import inf
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from horae.core.egress import Allow, Destination, is_listed, literal_address, read_url, refusal
from horae.core.targets import BODILESS, BROKEN_HEADER, NOT_IN_HEADERS, Expect, read_expect
from horae.executors.answer import Answer, read_answer
from horae.executors.breaker import Breaker
from horae.executors.wire import clean, due_text, failed, input_of, rejected, timed_out, to_json
from horae.ports import Log, Outcome, Request

CONNECT_SECONDS = 10.0
# Shorter than the 5 s of common servers: a request sent into a closing connection is a failed attempt.
KEEP_ALIVE_SECONDS = 4.0
LONGEST_RETRY_AFTER_SECONDS = 3600.0
EXCERPT_IN_ERROR = 1000

_LOST = "the connection was lost before an answer"
_TRACE = re.compile("[0-9a-f]{32}")
_PLAIN = re.compile("[ !-$&-~]*")


class _Call(NamedTuple):
    destination: Destination
    url: URL
    method: str
    headers: dict[str, str]
    body: bytes | None
    expect: Expect


class _End(NamedTuple):
    """How a call ended, and whether the destination is well; None when the call does not tell."""

    outcome: Outcome
    is_healthy: bool | None = False
    size_bytes: int = 0


_CUT_SHORT = _End(failed("exception", "stopped before it ended"), is_healthy=None)


class HttpExecutor:
    """One session for all jobs: connections are kept and reused, cookies and redirects are not followed."""

    def __init__(
        self,
        allow: Allow,
        breaker: Breaker,
        *,
        limit_per_host: int = 100,
        body_cap: int = 64 * 1024,
        read_cap: int = 1024 * 1024,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._allow = allow
        self._breaker = breaker
        self._limit_per_host = limit_per_host
        self._body_cap = body_cap
        self._read_cap = read_cap
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def run(self, request: Request, log: Log) -> Outcome:
        try:
            call = _call_of(request)
        except ValueError as error:
            return rejected(str(error))
        clock = asyncio.get_running_loop().time
        started, origin = clock(), call.destination.origin
        # A circuit for each tenant: one that makes a shared host fail must not shut it for the others.
        circuit = f"{request.tenant} {origin}"
        admission = self._breaker.admit(circuit, started)
        if admission.wait_seconds:
            waiting = failed("rate_limited", f"{origin} failed too often of late", admission.wait_seconds)
            return replace(waiting, is_unsent=True)
        end = _CUT_SHORT
        try:
            end = await self._attempt(call, request)
        finally:
            self._breaker.settle(circuit, admission, clock(), is_healthy=end.is_healthy)
        if not end.outcome.succeeded:
            line = (end.outcome.error or "").partition("\n")[0]
            took_ms = (clock() - started) * 1000
            await log(f"{call.method} {origin}: {line} ({took_ms:.0f} ms, {end.size_bytes} bytes)\n")
        return end.outcome

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _attempt(self, call: _Call, request: Request) -> _End:
        session = self._session or self._open()
        try:
            async with session.request(
                call.method,
                call.url,
                headers=call.headers,
                data=call.body,
                allow_redirects=False,
                timeout=_limits(request.timeout_seconds),
                middlewares=None if call.method == "POST" else (_send_once,),
            ) as response:
                answer = await read_answer(response, self._body_cap, self._read_cap)
        except aiohttp.ConnectionTimeoutError as error:
            return self._explain(call, error)
        except TimeoutError:
            return _End(timed_out(request))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return self._explain(call, error)
        return _End(_judge(call, answer), answer.status < 500, answer.size_bytes)

    def _open(self) -> aiohttp.ClientSession:
        self._session = guarded_session(self._allow, self._resolver, self._limit_per_host)
        return self._session

    def _explain(self, call: _Call, error: Exception) -> _End:
        told = trouble(call.destination, self._allow, error)
        if is_refused(error) or (isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError)):
            return _End(rejected(told), is_healthy=None)
        return _End(failed("exception", told))


def is_refused(error: Exception) -> bool:
    """Whether the guard, not the network, said no."""
    return isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno == errno.EACCES


def trouble(destination: Destination, allow: Allow, error: Exception) -> str:
    """Why there was no answer, in words that tell nothing of a network that the caller cannot see."""
    host = destination.host
    match error:
        case aiohttp.ClientConnectorError() if is_refused(error):
            return f"{host}: {error.os_error.strerror}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name {host} could not be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return f"{host}: the certificate is not valid: {error.certificate_error}"
        case aiohttp.ClientSSLError():
            return f"{host}: no TLS connection: {error.os_error}"
        case aiohttp.ConnectionTimeoutError():
            return _unreached(destination, allow, "timed out")
        case aiohttp.ClientConnectorError():
            return _unreached(destination, allow, os.strerror(error.os_error.errno or 0))
        case aiohttp.ClientOSError() | aiohttp.ServerDisconnectedError():
            return f"{host}: {_LOST}"
        case ValueError():
            return str(error)
        case _:
            return f"{host}: {error or type(error).__name__}"


def _unreached(destination: Destination, allow: Allow, detail: str) -> str:
    """One message for closed, filtered and unreachable: a job must not serve as a port scanner."""
    address = destination.address
    is_open = address is not None and is_listed(address, allow)
    return f"could not connect to {destination.origin}" + (f": {detail}" if is_open else "")


def guarded_session(
    allow: Allow, resolver: AbstractResolver | None = None, limit_per_host: int = 0
) -> aiohttp.ClientSession:
    """A session that connects to no address but public ones and those allowed, whatever a name resolves to."""
    from horae import __version__

    def open_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        """Sees the real address of every connection, those of literals too, which no resolver sees."""
        family, kind, protocol, _, address = info
        why = refusal(str(address[0]), int(address[1]), allow)
        if why:
            raise OSError(errno.EACCES, why)
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        limit=0,
        limit_per_host=limit_per_host,
        resolver=_CheckedResolver(resolver or aiohttp.DefaultResolver(), allow),
        socket_factory=open_socket,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"horae/{__version__}"},
        trust_env=False,
    )


class _CheckedResolver(AbstractResolver):
    """Refuses a name when any of its addresses is refused: one private record among public ones is an attack."""

    def __init__(self, inner: AbstractResolver, allow: Allow) -> None:
        self._inner = inner
        self._allow = allow

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for each in found:
            why = refusal(each["host"], port, self._allow)
            if why:
                raise OSError(errno.EACCES, why)
        return found

    async def close(self) -> None:
        await self._inner.close()


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending all but POST again when the connection drops: an attempt is one request."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientError(_LOST) from error


@lru_cache(maxsize=256)
def _limits(timeout_seconds: float) -> aiohttp.ClientTimeout:
    """The deadline of the whole exchange, body included. `asyncio.timeout` around it costs 17 µs more of 80."""
    # aiohttp takes a total of 0 for none at all.
    return aiohttp.ClientTimeout(total=max(timeout_seconds, 0.001), sock_connect=CONNECT_SECONDS, ceil_threshold=inf)


def _call_of(request: Request) -> _Call:
    target = request.target
    destination, url = locate(target["url"])
    method = target.get("method") or "POST"
    headers = own_headers(request)
    body, content_type = (None, "") if method in BODILESS else _body_of(request, target)
    if body is not None:
        headers["Content-Type"] = content_type
    for name, value in (target.get("headers") or {}).items():
        if NOT_IN_HEADERS.search(value):
            # The target had none when it was saved: it came with a secret, which may have lines.
            raise ValueError(f"the header {name!r} {BROKEN_HEADER}")
        headers["Content-Type" if name.lower() == "content-type" else name] = value
    return _Call(destination, url, method, headers, body, read_expect(target.get("expect")))


@lru_cache(maxsize=4096)
def locate(text: str) -> tuple[Destination, URL]:
    """The URL as it was checked and as aiohttp will read it; ValueError if they should ever disagree."""
    destination, url = read_url(text), URL(text)
    host = url.raw_host or ""
    same_host = (
        literal_address(host) == destination.address if destination.address else host.lower() == destination.host
    )
    if not same_host or url.port != destination.port or url.scheme != destination.scheme:
        raise ValueError(f"{text!r} can be read in two ways")
    return destination, url


def own_headers(request: Request) -> dict[str, str]:
    run = _header_text(request.run_id)
    return {
        "Idempotency-Key": run,
        "X-Horae-Job": _header_text(request.job_name),
        "X-Horae-Run": run,
        "X-Horae-Attempt": str(request.attempt),
        "X-Horae-Scheduled-For": due_text(request.scheduled_for_us),
        "X-Horae-Fence": str(request.fence),
        "traceparent": _traceparent(request.run_id, request.attempt),
    }


def _header_text(text: str) -> str:
    """As it is when plain; otherwise percent-encoded, so that any name fits and can be read back."""
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe=" !#$&'()*+,/:;=?@[]~", errors="replace")


def _traceparent(run_id: str, attempt: int) -> str:
    """One trace for a run and one span for each attempt, the same whoever computes them."""
    trace = run_id.replace("-", "")
    if not _TRACE.fullmatch(trace):
        trace = blake2b(run_id.encode(errors="replace"), digest_size=16).hexdigest()
    span = blake2b(f"{trace}{attempt}".encode(), digest_size=8).hexdigest()
    return f"00-{trace}-{span}-01"


def _body_of(request: Request, target: Mapping[str, Any]) -> tuple[bytes | None, str]:
    body = target.get("body")
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    content = input_of(request) if body is None else body
    return (None if content is None else to_json(content)), "application/json"


def _judge(call: _Call, answer: Answer) -> Outcome:
    contains, is_right = call.expect.body_contains, call.expect.takes_status(answer.status)
    if is_right and (contains is None or contains in answer.text):
        return Outcome(succeeded=True, result=answer.result())
    error = f"HTTP {answer.status} from {call.destination.host}"
    if is_right:
        error += f", but the body does not contain {contains!r}"
    if 300 <= answer.status < 400:
        error += "; redirects are not followed"
    excerpt = clean(answer.text[:EXCERPT_IN_ERROR]).strip()
    return failed("http_status", f"{error}\n{excerpt}" if excerpt else error, _retry_after(answer))


def _retry_after(answer: Answer) -> float | None:
    text = answer.headers.get("Retry-After", "")
    if answer.status not in {429, 503} or not text:
        return None
    if text.isdecimal():
        # Ten digits are as good as the cap; a thousand would be no number at all.
        return min(float(text[:10]), LONGEST_RETRY_AFTER_SECONDS)
    try:
        # Against the server's own clock, so that neither of the two clocks has to be right.
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(answer.headers.get("Date", ""))
    except (ValueError, TypeError):
        return None
    return min(max(wait.total_seconds(), 0.0), LONGEST_RETRY_AFTER_SECONDS)

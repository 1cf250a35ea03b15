"""Calls a URL, by the guarded client."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from horae.core.egress import Allow, Proxy
from horae.core.targets import BODILESS, BROKEN_HEADER, NOT_IN_HEADERS, Expect, read_expect
from horae.executors.answer import Answer
from horae.executors.breaker import Breaker
from horae.executors.client import AGENT, Client, Way, locate, trouble
from horae.executors.connecting import Refused, Resolve
from horae.executors.exchange import NoAnswer
from horae.executors.wire import clean, due_text, failed, input_of, rejected, timed_out, to_json
from horae.ports import Log, Outcome, Request

LONGEST_RETRY_AFTER_SECONDS = 3600.0
EXCERPT_IN_ERROR = 1000
LIMIT_PER_HOST = 100

_TRACE = re.compile("[0-9a-f]{32}")
_PLAIN = re.compile("[ !-$&-~]*")
# A job may say these in its own words; each is sent once, however it is spelled.
_OURS = {"user-agent": "User-Agent", "accept": "Accept", "content-type": "Content-Type"}


class _Call(NamedTuple):
    way: Way
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
    """One client for all jobs."""

    def __init__(
        self,
        allow: Allow,
        breaker: Breaker,
        *,
        body_cap: int = 64 * 1024,
        read_cap: int = 1024 * 1024,
        resolve: Resolve | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._allow = allow
        self._breaker = breaker
        self._body_cap = body_cap
        self._read_cap = read_cap
        self._client = Client(allow, resolve, LIMIT_PER_HOST, proxy)

    async def run(self, request: Request, log: Log) -> Outcome:
        try:
            call = _call_of(request)
        except ValueError as error:
            return rejected(str(error))
        clock = asyncio.get_running_loop().time
        started, origin = clock(), call.way.destination.origin
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
        await self._client.close()

    async def _attempt(self, call: _Call, request: Request) -> _End:
        seconds = request.timeout_seconds
        try:
            got = await self._client.request(call.method, call.way, call.headers, call.body, seconds, self._read_cap)
        except TimeoutError:
            return _End(timed_out(request))
        except Refused as error:
            return _End(rejected(trouble(call.way.destination, self._allow, error)), is_healthy=None)
        except (NoAnswer, OSError) as error:
            return _End(failed("exception", trouble(call.way.destination, self._allow, error)))
        except ValueError as error:
            return _End(rejected(str(error)), is_healthy=None)
        answer = Answer(got.status, got.headers, got.body, got.size_bytes, self._body_cap)
        return _End(_judge(call, answer), answer.status < 500, answer.size_bytes)


def _call_of(request: Request) -> _Call:
    target = request.target
    way = locate(target["url"])
    method = target.get("method") or "POST"
    headers = own_headers(request)
    body, content_type = (None, "") if method in BODILESS else _body_of(request, target)
    if body is not None:
        headers["Content-Type"] = content_type
    for name, value in (target.get("headers") or {}).items():
        if NOT_IN_HEADERS.search(value):
            # The target had none when it was saved: it came with a secret, which may have lines.
            raise ValueError(f"the header {name!r} {BROKEN_HEADER}")
        headers[_OURS.get(name.lower(), name)] = value
    return _Call(way, method, headers, body, read_expect(target.get("expect")))


def own_headers(request: Request) -> dict[str, str]:
    run = _header_text(request.run_id)
    return {
        "User-Agent": AGENT,
        "Accept": "*/*",
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
    error = f"HTTP {answer.status} from {call.way.destination.host}"
    if is_right:
        error += f", but the body does not contain {contains!r}"
    if 300 <= answer.status < 400:
        error += "; redirects are not followed"
    excerpt = clean(answer.text[:EXCERPT_IN_ERROR]).strip()
    return failed("http_status", f"{error}\n{excerpt}" if excerpt else error, _retry_after(answer))


def _retry_after(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "")
    if answer.status not in {429, 503} or not text:
        return None
    if text.isdecimal():
        # Ten digits are as good as the cap; a thousand would be no number at all.
        return min(float(text[:10]), LONGEST_RETRY_AFTER_SECONDS)
    try:
        # Against the server's own clock, so that neither of the two clocks has to be right.
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(answer.headers.get("date", ""))
    except (ValueError, TypeError):
        return None
    return min(max(wait.total_seconds(), 0.0), LONGEST_RETRY_AFTER_SECONDS)

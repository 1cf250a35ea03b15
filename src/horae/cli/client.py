"""Speaks HTTP with a horae: one connection, safe repeats, problems as failures with exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from socket import gaierror
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

from horae.cli.exchange import Answer, Connection
from horae.cli.failure import CONFLICT, DENIED, FAILED, NOT_FOUND, REJECTED, UNREACHABLE, USAGE, Failure, Rehearsed

EXIT_OF_STATUS = {400: REJECTED, 401: DENIED, 403: DENIED, 404: NOT_FOUND, 409: CONFLICT, 412: CONFLICT}
EXIT_OF_STATUS |= {413: REJECTED, 422: REJECTED, 503: UNREACHABLE}

TIMEOUT_SECONDS = 30.0
# Waits before a request is sent again; only those that are safe to repeat are.
WAITS_SECONDS = (0.3, 1.0)
MOST_WAIT_SECONDS = 10.0


class Client:
    def __init__(
        self,
        url: str,
        key: str | None,
        tenant: str | None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        trace: Callable[[str], None] | None = None,
        is_dry: bool = False,
    ) -> None:
        split = _split(url)
        if split is None:
            hint = "Such as http://127.0.0.1:8700; in --url, HORAE_URL or a context."
            raise Failure(USAGE, f'"{url}" is no address of a horae.', code="url", hint=hint)
        self.url = url.rstrip("/")
        self._address = split
        for name, value in (("key", key), ("tenant", tenant)):
            if value and not (value.isascii() and value.isprintable()):
                raise Failure(USAGE, f"The {name} has characters that cannot be sent.", code=name)
        self._headers = {"Accept": "application/json", "User-Agent": "horae-cli"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        if tenant:
            self._headers["X-Horae-Tenant"] = tenant
        self._timeout = timeout
        self._trace = trace
        self._is_dry = is_dry
        self._open: Connection | None = None
        self.has_more = False

    def get(self, where: str, /, **query: Any) -> Any:
        return self.call("GET", where, query=query)

    def post(self, where: str, body: Any = None, *, key: str | None = None) -> Any:
        """Sent with a key of its own, so that a repeat after a lost answer does nothing twice."""
        from uuid import uuid4

        return self.call("POST", where, body, headers={"Idempotency-Key": key or str(uuid4())})

    def change(self, where: str, document: Any, version: int | None) -> Any:
        """PATCH; with a version, only if it still is that one."""
        headers = {"If-Match": f'"v{version}"'} if version else {}
        return self.call("PATCH", where, document, headers=headers)

    def call(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        answer, data = self.exchange(method, f"/api/v1{where}", body, query=query, headers=headers)
        if answer.status >= 300:
            raise _for_people(problem_of(answer, data))
        if answer.header("content-type").startswith("application/json"):
            document = json.loads(data)
            if self._is_tried(method, body):
                raise Rehearsed(document)
            return document
        return data.decode(errors="replace")

    def exchange(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Answer, bytes]:
        """Any answer, whatever its status. In a dry run a change is only tried."""
        sent = dict(headers or {})
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        if self._is_tried(method, body):
            query = {**(query or {}), "dry_run": "true"}
        is_safe = method == "GET" or "Idempotency-Key" in sent
        for wait in (*WAITS_SECONDS, None):
            last = not is_safe or wait is None
            try:
                answer = self._send(method, where, data, query, sent)
                content = answer.read()
            except OSError as error:
                self.close()
                # A server that is silent for so long will be silent again.
                if last or isinstance(error, ConnectionRefusedError | TimeoutError):
                    raise self.unreachable(error, is_unsure=method != "GET") from error
            else:
                if last or answer.status not in (429, 503) or where == "/readyz":
                    return answer, content
                time.sleep(min(_retry_after(answer), MOST_WAIT_SECONDS))
            time.sleep(wait or 0)
        raise AssertionError

    def _is_tried(self, method: str, body: Any) -> bool:
        """What says it in its body is tried by that, and answers more."""
        says_it = isinstance(body, dict) and body.get("dry_run")
        return self._is_dry and method != "GET" and not says_it

    def pages(self, where: str, key: str, most: int | None, /, **query: Any) -> Iterator[Any]:
        """Items of a list, page by page, up to `most` of them; `has_more` says whether some were left."""
        cursor = None
        while most is None or most > 0:
            size = 1000 if most is None else min(most, 1000)
            page = self.get(where, **query, limit=size, cursor=cursor)
            yield from page[key]
            most = None if most is None else most - len(page[key])
            cursor = page["next_cursor"]
            if cursor is None:
                return
        self.has_more = True

    def lines(self, where: str) -> Iterator[bytes]:
        """A long answer, line by line."""
        yield from self._stream(where, {}, {})

    def events(self, where: str, last_id: str | None = None, **query: Any) -> Iterator[tuple[str, str, Any]]:
        """Server-sent events as id, name and data, and (`""`, `""`, None) now and then while nothing happens."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        fields: dict[str, str] = {}
        for line in self._stream(where, query, headers):
            text = line.decode(errors="replace").rstrip("\r\n")
            if text:
                name, _, value = text.partition(":")
                fields[name] = value.removeprefix(" ")
                continue
            data = fields.get("data")
            yield fields.get("id", ""), fields.get("event", ""), None if data is None else json.loads(data)
            fields = {}

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def unreachable(self, error: Exception, *, is_unsure: bool = False) -> Failure:
        """`is_unsure`: what was asked for may have been done all the same."""
        hint = "Start one with `horae dev`, or name another with --url, HORAE_URL or `horae context use`."
        if isinstance(error, ConnectionRefusedError):
            return Failure(
                UNREACHABLE, f"{self.url} cannot be reached: nobody listens there.", code="unreachable", hint=hint
            )
        words = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        if isinstance(error, gaierror):
            return Failure(UNREACHABLE, f"{self.url} cannot be reached: {words}.", code="unreachable", hint=hint)
        if is_unsure:
            words += "; it may have been done"
        hint = "Look before you repeat it." if is_unsure else "horae doctor looks what is wrong with it."
        return Failure(UNREACHABLE, f"{self.url} did not answer: {words}.", code="unreachable", hint=hint)

    def limit_wait(self, seconds: float) -> None:
        """From now on, no answer within this time is a `TimeoutError`."""
        self._timeout = seconds
        if self._open is not None:
            self._open.limit_wait(seconds)

    def _stream(self, where: str, query: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[bytes]:
        try:
            answer = self._send("GET", f"/api/v1{where}", None, query, headers)
            if answer.status >= 300:
                raise _for_people(problem_of(answer, answer.read()))
            yield from answer
        finally:
            self.close()

    def _send(
        self,
        method: str,
        where: str,
        data: bytes | None,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> Answer:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self._address.path.rstrip('/')}{where}"
        if given:
            target += f"{'&' if '?' in where else '?'}{urlencode(given)}"
        if self._open is None:
            where_to = self._address
            self._open = Connection(where_to.scheme, where_to.hostname or "", where_to.port, self._timeout)
        started = time.monotonic()
        answer = self._open.request(method, target, data, self._headers | dict(headers))
        if self._trace is not None:
            took, number = time.monotonic() - started, answer.header("x-request-id") or "-"
            self._trace(f"{method} {target} -> {answer.status} in {took * 1000:.0f} ms, request {number}")
        return answer


def _split(url: str) -> SplitResult | None:
    try:
        split = urlsplit(url)
        is_good = split.scheme in ("http", "https") and bool(split.hostname) and url.isascii() and url.isprintable()
        return split if is_good and split.port != 0 else None
    except ValueError:
        return None


def _retry_after(answer: Answer) -> float:
    told = answer.header("retry-after")
    return float(told) if told.isdigit() else 0.0


def _for_people(failure: Failure) -> Failure:
    """The server speaks of its API; who uses commands hears of commands."""
    from horae.cli.commanded import in_commands

    failure.detail = in_commands(failure.detail)
    for fault in failure.faults:
        fault |= {part: in_commands(fault[part]) for part in ("detail", "hint") if fault.get(part)}
    return failure


def problem_of(answer: Answer, data: bytes) -> Failure:
    try:
        document = json.loads(data)
        detail, code = document["detail"], document["code"]
    except (ValueError, KeyError, TypeError):
        detail, code, document = f"The server answered {answer.status} {answer.reason}.", "unexpected", {}
    hint = ""
    if answer.status == 401:
        hint = "horae login --url URL keeps a key; HORAE_API_KEY sets one."
    return Failure(
        EXIT_OF_STATUS.get(answer.status, FAILED),
        detail,
        code=code,
        faults=[] if hint else document.get("errors", []),
        hint=hint,
        request_id=document.get("request_id", ""),
        status=answer.status,
    )

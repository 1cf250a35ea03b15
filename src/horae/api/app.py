"""The assembly of the HTTP door: every route, and what is the same for all of them.

A request gets an id, shows who it is from, has its parameters read, is answered once for each idempotency key, and
whatever goes wrong becomes a problem document.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horae.api.access import Access, check_role
from horae.api.audit import Audit
from horae.api.body import is_ndjson, read_body, refuse_body
from horae.api.calendars import Calendars
from horae.api.conditions import refuse_conditions
from horae.api.dead_letters import DeadLetters
from horae.api.events import Events
from horae.api.fleet import Fleet
from horae.api.forecast import Forecasts
from horae.api.hints import unknown_path
from horae.api.history import Export, Records
from horae.api.jobs import Explain, Jobs
from horae.api.keys import Keys
from horae.api.limiter import Limiter
from horae.api.openapi import describe_api
from horae.api.operation import Call, Operation, Reply
from horae.api.problems import Broken, Refused, problem_answer, status_of
from horae.api.query import read_query
from horae.api.rehearsal import DRY_BY_BODY, rehearsal, with_dry_runs
from horae.api.remote import Remote
from horae.api.roles import with_roles
from horae.api.runs import Runs
from horae.api.secrets import Secrets
from horae.api.tenants import Tenants
from horae.api.tools import Health, Previews, Ready
from horae.api.webhooks import Webhooks
from horae.commands import Caller, Commands
from horae.core.errors import Fault, HoraeError, Invalid, NotFound, Unavailable
from horae.failpoints import hit
from horae.ports import Answer, Once, Rehearsed, RemoteWorkers, ViewStore
from horae.telemetry import answered, oops, warn

BASES = ("/api/v1", "/v1")
KEY_HEADER = "Idempotency-Key"
REQUEST_ID = "horae.request_id"
# Headers about the limits of the caller, for every answer of the request but the one that tells them itself.
TOLD = "horae.told"

_KEY = re.compile("[!-~]([ -~]{0,253}[!-~])?")
_OUR_ID = re.compile("[A-Za-z0-9._-]{1,100}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Around:
    """What routes ask of the process they run in. `is_stopping` ends open event streams, which would otherwise keep a
    server from leaving.
    """

    explain: Explain
    export: Export
    ready: Ready
    remote: RemoteWorkers
    is_stopping: Callable[[], bool] = lambda: False


def make_app(
    *, commands: Commands, views: ViewStore, access: Access, around: Around, limiter: Limiter | None = None
) -> Starlette:
    operations = with_dry_runs(
        with_roles(
            [
                *Jobs(commands, views, around.explain).operations(),
                *Runs(commands, views, around.is_stopping).operations(),
                *DeadLetters(commands, views).operations(),
                *Fleet(commands, views).operations(),
                *Events(views, around.is_stopping).operations(),
                *Calendars(commands, views).operations(),
                *Secrets(commands, views).operations(),
                *Webhooks(commands, views).operations(),
                *Previews(views).operations(),
                *Forecasts(views).operations(),
                *Keys(commands, views).operations(),
                *Tenants(commands, views).operations(),
                *Audit(views).operations(),
                *Records(around.export).operations(),
                *Remote(around.remote, around.is_stopping).operations(),
            ]
        )
    )
    limiter = limiter or Limiter(views)
    health = Health(around.ready)
    description = Reply(describe_api(operations, BASES)).body
    by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in operations:
        by_path[operation.path][operation.method] = operation

    async def openapi(_: Request) -> Response:
        return Response(description, media_type="application/json")

    app = Starlette(
        routes=[
            *(
                Route(base + path, Door(base, methods, access, limiter, views), methods=list(methods))
                for base in BASES
                for path, methods in by_path.items()
            ),
            Route("/healthz", health.healthz),
            Route("/readyz", health.readyz),
            Route("/metrics", health.metrics),
            Route("/openapi.json", openapi),
        ],
        middleware=[Middleware(Envelope)],
        exception_handlers={HoraeError: _refuse, HTTPException: _refuse_path},
    )
    app.router.redirect_slashes = False
    return app


def make_waiting_app(ready: Ready) -> Starlette:
    """Before the store is there: alive, not ready, and the reason."""

    async def not_yet() -> list[str]:
        return await ready() or ["horae is starting."]

    return make_health_app(not_yet, Unavailable("The store is not there yet; /readyz says why."))


def make_health_app(ready: Ready, elsewhere: HoraeError) -> Starlette:
    """Alive, ready and metrics; to all else `elsewhere`."""

    async def refuse(request: Request) -> Response:
        return await _refuse(request, elsewhere)

    health = Health(ready)
    methods = sorted(_METHODS)
    return Starlette(
        routes=[
            Route("/healthz", health.healthz),
            Route("/readyz", health.readyz),
            Route("/metrics", health.metrics),
            Route("/{path:path}", refuse, methods=methods),
        ],
        middleware=[Middleware(Envelope)],
    )


class Door:
    """One path: lets a request in, hands it to the operation of its method, and sends the reply."""

    def __init__(
        self, base: str, methods: Mapping[str, Operation], access: Access, limiter: Limiter, views: ViewStore
    ) -> None:
        self._base = base
        self._methods = methods
        self._access = access
        self._limiter = limiter
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self._methods["GET" if request.method == "HEAD" else request.method]
        response = await self._serve(request, operation)
        await response(scope, receive, send)

    async def _serve(self, request: Request, operation: Operation) -> Response:
        address = request.client.host if request.client else ""
        caller = await self._access.caller(request.headers, address)
        check_role(operation, caller)
        caller, told = await self._limiter.admit(replace(caller, request_id=request.scope[REQUEST_ID]))
        request.scope[TOLD] = told
        query = read_query(request, operation.query, is_dry_by_body=operation.name in DRY_BY_BODY)
        if is_dry := query.pop("dry_run", False):
            caller = replace(caller, is_dry=True)
        is_streamed = _is_streamed(request, operation)
        if operation.method == "DELETE" and not operation.takes:
            await refuse_body(request)
        body = await read_body(request, operation.takes.most_bytes) if operation.takes and not is_streamed else b""
        once = _once(request, caller, body, self._base) if operation.method == "POST" else None
        if once is not None and (answer := await self._views.recall(once)) is not None:
            if is_dry:
                return self._send(rehearsal([]))
            document = msgspec.json.decode(answer.body)
            return self._send(Reply(document, answer.status, {"Idempotency-Replayed": "true"}))
        is_welcome = partial(self._is_welcome, request, operation, caller)
        call = Call(request, request.scope[REQUEST_ID], self._base, caller, query, body, once, is_welcome, is_streamed)
        refuse_conditions(call, operation)
        if is_dry:
            return self._send(await _rehearse(operation, replace(call, once=None)))
        is_change = operation.method != "GET"
        if is_change:
            hit("change.before_commit")
        reply = await operation.serve(call)
        if is_change:
            hit("change.after_commit")
        if isinstance(reply, Response):
            return reply
        if once is not None and not operation.is_secret:
            # It is done, and a repeat would find that out; the full answer is only a courtesy.
            with suppress(Unavailable):
                await self._views.remember(once, Answer(reply.status, reply.body.decode()))
        return self._send(reply)

    async def _is_welcome(self, request: Request, operation: Operation, caller: Caller) -> bool:
        try:
            again = await self._access.caller(request.headers, caller.address or "")
            check_role(operation, again)
        except HoraeError as error:
            # What cannot be found out now will be soon.
            return status_of(error) not in (401, 403)
        return again.tenant == caller.tenant

    def _send(self, reply: Reply) -> Response:
        headers = dict(reply.headers)
        document = reply.document
        if isinstance(document, dict) and "job_id" in document and "version" in document:
            headers["ETag"] = f'"v{document["version"]}"'
            if reply.status == 201:
                headers["Location"] = f"{self._base}/jobs/{document['job_id']}"
        return Response(reply.body, reply.status, headers, "application/json")


class Envelope:
    """Around every request: its id, the headers of every answer, the counters, and the last net for our own bugs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = _request_id(scope)
        began = time.perf_counter()
        status = 0

        async def send_ours(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                told = [(name.lower().encode(), value.encode()) for name, value in scope.get(TOLD, {}).items()]
                message["headers"] = [*message["headers"], *_SAME, (b"x-request-id", request_id.encode()), *told]
            await send(message)

        try:
            await self._app(scope, receive, send_ours)
        except ClientDisconnect:
            pass
        except Exception as error:
            oops("api.broken", error, request=request_id, method=scope["method"], route=_route(scope))
            if status:
                raise
            await problem_answer(Broken(), request_id)(scope, receive, send_ours)
        finally:
            _count(scope, status, time.perf_counter() - began)


_SAME = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


def _request_id(scope: Scope) -> str:
    """The caller's own, so that both logs can be put side by side, if it is harmless."""
    told = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
    return told if _OUR_ID.fullmatch(told) else f"req_{secrets.token_hex(8)}"


def _count(scope: Scope, status: int, seconds: float) -> None:
    method = scope["method"] if scope["method"] in _METHODS else "OTHER"
    answered(method, _route(scope), status or 499, seconds)


def _route(scope: Scope) -> str:
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "none"


def _once(request: Request, caller: Caller, body: bytes, base: str) -> Once | None:
    keys = dict.fromkeys(request.headers.getlist(KEY_HEADER))
    if not keys:
        return None
    if len(keys) > 1:
        detail = f"There are {len(keys)} different headers {KEY_HEADER}; a request has one."
        raise Invalid([Fault(f"/headers/{KEY_HEADER}", detail, "Send the one that you will repeat it with.")])
    (key,) = keys
    if not _KEY.fullmatch(key):
        detail = f"{KEY_HEADER} must have 1 to 255 printable ASCII characters."
        raise Invalid([Fault(f"/headers/{KEY_HEADER}", detail, "Use a new UUID for each request.")])
    path = request.url.path.removeprefix(base)
    # A dry run is about the real request, which may have been done by now.
    query = "&".join(part for part in request.url.query.split("&") if not part.startswith("dry_run="))
    digest = sha256(f"{request.method} {path}?{query}\n".encode())
    digest.update(body)
    return Once(caller.tenant, key, digest.hexdigest())


async def _rehearse(operation: Operation, call: Call) -> Reply:
    """What would go wrong is raised as ever."""
    try:
        await operation.serve(call)
    except Rehearsed as done:
        return rehearsal(done.changes)
    return rehearsal([])


def _is_streamed(request: Request, operation: Operation) -> bool:
    """Lines are served as they come, unless a key or all-or-none asks for the whole body first."""
    is_whole = KEY_HEADER in request.headers or request.query_params.get("atomic")
    return operation.takes is not None and operation.takes.is_streamed and is_ndjson(request) and not is_whole


async def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, Unavailable):
        warn("api.store_away", request=request.scope[REQUEST_ID], why=error.detail)
    known = error if isinstance(error, HoraeError) else Broken()
    return problem_answer(known, request.scope[REQUEST_ID], request.path_params)


async def _refuse_path(request: Request, error: Exception) -> Response:
    """What the router says: there is no such path, or it has no such method."""
    path = request.url.path[:200]
    detail = f'There is nothing at "{path}". The API is under /api/v1; /openapi.json describes it.'
    known = (route.path for route in request.app.routes)
    refusal: HoraeError = NotFound(detail, hint=unknown_path(path, known), pointer="/path")
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        detail = f"{request.method[:20]} is not a method of this path; it has {allowed}."
        fault = Fault("/method", detail, f"Use {allowed.replace(', ', ' or ')}.")
        refusal = Refused(405, "method_not_allowed", detail, [fault], {"Allow": allowed})
    return problem_answer(refusal, request.scope[REQUEST_ID])

"""The OpenAPI 3.1 file: paths from the operations, shapes and examples from schemas.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from horae.api.access import TENANT_HEADER
from horae.api.admin_schemas import ADMIN_EXAMPLES, ADMIN_SCHEMAS
from horae.api.conditions import IF_MATCH, IF_NONE_MATCH
from horae.api.examples import example_of
from horae.api.history import NDJSON
from horae.api.operation import Operation
from horae.api.query import DRY_RUN, Parameter
from horae.api.rehearsal import REHEARSAL, REHEARSAL_SCHEMAS
from horae.api.remote_schemas import REMOTE_EXAMPLES, REMOTE_SCHEMAS
from horae.api.schema_words import ANY, TEXT, ref
from horae.api.schemas import EXAMPLES, SCHEMAS
from horae.api.side_schemas import SIDE_EXAMPLES, SIDE_SCHEMAS
from horae.api.standing import STANDING_EXAMPLES, STANDING_SCHEMAS

_ERRORS = {
    "400": "Not JSON",
    "401": "No key, or not a known one",
    "403": "Not allowed: the role or scope that is missing is named",
    "404": "Not there",
    "405": "The path has no such method; Allow names those that it has",
    "408": "The body came too slowly",
    "409": "A taken name, or a wrong state",
    "412": "Changed since the version of If-Match",
    "413": "Too large",
    "415": "Not JSON by its Content-Type",
    "422": "Breaks a rule; each fault is named",
    "429": "Too much at this moment; Retry-After says how long to wait",
    "431": "More headers than are read",
    "503": "The store is away",
}
_SCHEMAS = SCHEMAS | STANDING_SCHEMAS | SIDE_SCHEMAS | ADMIN_SCHEMAS | REMOTE_SCHEMAS | REHEARSAL_SCHEMAS
_EXAMPLES = EXAMPLES | STANDING_EXAMPLES | SIDE_EXAMPLES | ADMIN_EXAMPLES | REMOTE_EXAMPLES
_BODY_ERRORS = frozenset({"400", "408", "413", "415"})
_WRITE_ERRORS = frozenset({"409"})
_WORD = re.compile(r"\{(\w+)\}")


def describe_api(operations: Iterable[Operation], bases: Sequence[str]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "horae", "version": _version(), "summary": "A distributed job scheduler."},
        "servers": [{"url": base} for base in bases],
        "security": [{"bearer": []}, {"key": []}, {}],
        "paths": paths | _open_paths(),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
            "schemas": _SCHEMAS,
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Least role: {operation.role}.{_KEEPER if operation.is_global else ''}",
        "x-horae-role": operation.role,
        "x-horae-scope": operation.scope,
        "parameters": [*_path_parameters(operation), *map(_parameter, operation.query), *_headers(operation)],
        "responses": _responses(operation),
    }
    if (takes := operation.takes) is not None:
        content = {media: _content(takes.schema, media) for media in takes.media_types}
        told["requestBody"] = {"required": not takes.is_optional, "content": content}
    return told


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": TEXT, "description": _WORDS[name]}
        for name in _WORD.findall(operation.path)
    ]


_WORDS = {
    "job": "The id or the name of a job",
    "run": "The id of a run",
    "worker": "The id of a worker",
    "calendar": "The name of a calendar",
    "secret": "The name of a secret",
    "webhook": "The id or the name of a webhook",
    "delivery": "The id of a delivery",
    "key": "The id of a key",
    "tenant": "The name of a tenant",
    "queue": "The name of a queue",
}
_EMPTY = {"type": "string", "maxLength": 0}
_KEEPER = " For admins of the tenant default alone."


def _parameter(parameter: Parameter) -> dict[str, Any]:
    """An empty one counts as not given."""
    schema = parameter.schema if parameter.schema == TEXT else {"anyOf": [parameter.schema, _EMPTY]}
    return {"name": parameter.name, "in": "query", "schema": schema, "description": parameter.about}


def _headers(operation: Operation) -> list[dict[str, Any]]:
    told = [_header(TENANT_HEADER, "An admin acts for this tenant", "[A-Za-z0-9._-]{1,64}")]
    if operation.method == "POST":
        told.append(_header("Idempotency-Key", "The same key and request: done once, answered alike", "[!-~]{1,255}"))
    if operation.gives in ("Text", "Stream"):
        told.append(_header("Last-Event-ID", "Go on after this event of an earlier stream", "[0-9]{1,16}"))
    if operation.takes_condition(IF_MATCH):
        told.append(_header(IF_MATCH, "The ETag of the version that was seen; 412 if there is a newer", '"v[0-9]+"'))
    if operation.takes_condition(IF_NONE_MATCH):
        told.append(_header(IF_NONE_MATCH, "Make it, unless there is one already; then 412", "\\*"))
    return told


def _header(name: str, about: str, pattern: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return {"name": name, "in": "header", "schema": schema, "description": about}


def _responses(operation: Operation) -> dict[str, Any]:
    is_write = operation.method != "GET"
    left_out = (
        (frozenset() if operation.takes else _BODY_ERRORS)
        | (frozenset() if is_write else _WRITE_ERRORS)
        | (frozenset() if operation.takes_condition(IF_MATCH) else frozenset({"412"}))
    )
    good = {str(operation.status): _response(operation.gives)}
    if DRY_RUN in operation.query:
        good["200"] = _or_rehearsal(good.get("200"))
    good |= {str(status): _response(gives) for status, gives in operation.also.items()}
    return good | {status: _problem(status) for status in _ERRORS if status not in left_out}


def _problem(status: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": ref("Problem"), "example": _EXAMPLES["Problem"]}}
    return {"description": _ERRORS[status], "content": content}


def _response(name: str) -> dict[str, Any]:
    if name in ("Text", "Stream"):
        media = ("text/plain", "text/event-stream") if name == "Text" else ("text/event-stream",)
        content = {each: {"schema": _EVENT if each == "text/event-stream" else TEXT} for each in media}
    elif name == "Lines":
        content = {NDJSON: {"schema": TEXT}}
    else:
        content = {"application/json": _content(name, "application/json")}
    return {"description": "Done", "content": content}


def _or_rehearsal(answer: dict[str, Any] | None) -> dict[str, Any]:
    """What 200 also means, with dry_run=true."""
    if answer is None:
        return _response(REHEARSAL)
    told = answer["content"]["application/json"]
    either = {**told, "schema": {"anyOf": [told["schema"], ref(REHEARSAL)]}}
    return {**answer, "content": {"application/json": either}}


# Of a stream each event is described, as readers of such files understand it.
_EVENT = {"type": "object", "properties": dict.fromkeys(("id", "event", "data"), TEXT)}


def _content(name: str, media: str) -> dict[str, Any]:
    """What a body looks like, with an example. Of lines JSON Schema can say nothing: each is answered for itself."""
    if not media.endswith("/json"):
        return {"schema": ANY, "example": '{"name": "one", "type": "noop"}\n{"name": "two", "type": "noop"}\n'}
    return {"schema": ref(name), "example": example_of(ref(name), _SCHEMAS, _EXAMPLES)}


def _open_paths() -> dict[str, Any]:
    """Beside the API, at the root, and for everybody."""
    always = {status: _problem(status) for status in ("405", "431")}
    told = {
        "/healthz": ("getHealth", "Whether the process is alive", "application/json", {}),
        "/readyz": ("getReadiness", "Whether it can serve", "application/json", {"503": _problem("503")}),
        "/metrics": ("getMetrics", "Figures for Prometheus", "text/plain", {}),
        "/openapi.json": ("getDescription", "This file", "application/json", {}),
    }
    return {
        path: {
            "servers": [{"url": "/"}],
            "get": {
                "operationId": name,
                "summary": summary,
                "security": [],
                "responses": {"200": {"description": "Done", "content": {media: {"schema": ANY}}}, **bad, **always},
            },
        }
        for path, (name, summary, media, bad) in told.items()
    }


def _version() -> str:
    try:
        return version("horae")
    except PackageNotFoundError:
        return "0"

"""Errors on the wire: whatever went wrong becomes one problem document (RFC 9457), and only here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from types import MappingProxyType
from typing import Any

from starlette.responses import Response

from horae.api.hints import faults_of
from horae.core.errors import Conflict, Denied, Fault, HoraeError, Invalid, Limited, NotFound, Stale, Unavailable

MEDIA_TYPE = "application/problem+json"


class Unauthorized(HoraeError):
    """Nobody we know. Of what was sent it tells no more than that, or that its time is over."""

    code = "unauthorized"

    def __init__(self, detail: str = "", *, hint: str = "") -> None:
        super().__init__(detail or "This needs a key: send Authorization: Bearer KEY, or X-API-Key: KEY.", hint=hint)
        self.is_told = bool(detail)


class Refused(HoraeError):
    """A request that cannot be read, whatever it asks for. `status` is the HTTP one."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        faults: list[Fault] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.faults = faults or []
        self.headers = headers or {}


class Broken(HoraeError):
    """A bug of ours, as much as a caller may know of it."""

    code = "internal"

    def __init__(self) -> None:
        super().__init__("Something broke on our side. It is in the log under this request id.")


_STATUSES: dict[type[HoraeError], int] = {
    Invalid: 422,
    NotFound: 404,
    Conflict: 409,
    Stale: 412,
    Denied: 403,
    Unauthorized: 401,
    Limited: 429,
    Unavailable: 503,
}
_TITLES = {
    400: "The request cannot be read",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "This path has no such method",
    409: "In conflict with how things are",
    412: "Changed by somebody else",
    408: "Too slow",
    413: "Too large",
    415: "Not a kind of content that is read here",
    422: "The input breaks a rule",
    429: "Too much at this moment",
    431: "Too large a head",
    500: "Something broke on our side",
    503: "Not available now",
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}

# What the store says about itself (addresses, constraints) is for the log.
_UNAVAILABLE = (
    "The store did not answer, so it is not known whether this was done. Repeat it; an Idempotency-Key makes that safe."
)
_DUPLICATE = "Another request took the same name or id at this moment. Nothing was done."


def problem_of(error: HoraeError, request_id: str, words: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """`words` are the parts of the path that were filled in."""
    status, detail = status_of(error), _detail(error)
    return {
        "type": f"urn:horae:problem:{error.code}",
        "title": _TITLES.get(status, "Refused"),
        "status": status,
        "detail": detail,
        "code": error.code,
        "errors": [
            {"pointer": fault.pointer, "detail": fault.detail, "hint": fault.hint}
            for fault in faults_of(error, detail, words)
        ],
        "request_id": request_id,
    }


def problem_answer(
    error: HoraeError, request_id: str, words: Mapping[str, str] = MappingProxyType({}), **more: Any
) -> Response:
    """`more` are members beyond those of every problem."""
    document = problem_of(error, request_id, words) | more
    headers = dict(_HEADERS.get(document["status"], {}))
    if isinstance(error, Refused):
        headers |= error.headers
    if isinstance(error, Limited):
        headers |= {"Retry-After": str(max(1, ceil(error.retry_after_seconds))), **error.headers}
    # ASCII only: a fault may quote half a character, which is no UTF-8.
    return Response(json.dumps(document).encode(), document["status"], headers, MEDIA_TYPE)


def status_of(error: HoraeError) -> int:
    if isinstance(error, Refused):
        return error.status
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)


def _detail(error: HoraeError) -> str:
    if isinstance(error, Unavailable):
        return _UNAVAILABLE
    if isinstance(error, Conflict) and error.code == "duplicate":
        return _DUPLICATE
    return error.detail

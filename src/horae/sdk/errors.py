"""What the API refused, as exceptions: one class for each kind of answer, with code, pointer and hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """One thing wrong with what was sent: where, what, and a fix to paste."""

    pointer: str
    detail: str
    hint: str


class ApiError(Exception):
    """Anything that went wrong. `code` is the API's word for it; `pointer` and `hint` are those of the first fault."""

    def __init__(
        self, detail: str, *, status: int = 0, code: str = "error", faults: tuple[Fault, ...] = (), request_id: str = ""
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code
        self.faults = faults
        self.request_id = request_id

    @property
    def pointer(self) -> str | None:
        return self.faults[0].pointer if self.faults else None

    @property
    def hint(self) -> str | None:
        return (self.faults[0].hint or None) if self.faults else None

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.detail}"]
        lines += [f"  {fault.pointer}: {fault.detail} {fault.hint}".rstrip() for fault in self.faults]
        return "\n".join(lines)


class Invalid(ApiError):
    """422: the input breaks a rule; every fault is listed."""


class Unauthorized(ApiError):
    """401: no key, or not a known one."""


class Denied(ApiError):
    """403: the key may not do this."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: a taken name, a wrong state, a fence that is no longer current (`code` is then `stale_fence`)."""


class Stale(ApiError):
    """412: changed by somebody else since the version that was seen."""


class Limited(ApiError):
    """429: too much, also after waiting as long as was asked for."""


class Unavailable(ApiError):
    """No answer, or 503: whether it was done is not known. A repeat with the same idempotency key is safe."""


class WaitTimeout(ApiError):
    """The run was not over in the time given for it. It goes on."""


_KINDS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Denied,
    404: NotFound,
    409: Conflict,
    412: Stale,
    422: Invalid,
    429: Limited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, problem: Any) -> ApiError:
    """The exception for an answer; an answer that is no problem document came from something in between."""
    if not isinstance(problem, Mapping) or "code" not in problem:
        text = problem if isinstance(problem, str) else ""
        return _KINDS.get(status, ApiError)(f"The answer was {status}. {text[:200]}".rstrip(), status=status)
    faults = tuple(
        Fault(str(fault.get("pointer", "")), str(fault.get("detail", "")), str(fault.get("hint", "")))
        for fault in problem.get("errors") or ()
    )
    return _KINDS.get(status, ApiError)(
        str(problem.get("detail", "")),
        status=status,
        code=str(problem["code"]),
        faults=faults,
        request_id=str(problem.get("request_id", "")),
    )

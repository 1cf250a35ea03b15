"""What can go wrong, in words a caller can act on. The API maps each to a status code in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input: where, what was seen and wanted, and a fix to paste."""

    pointer: str
    detail: str
    hint: str = ""


class HoraeError(Exception):
    """Something a caller can answer for; everything else is our bug. `hint` is a fix to paste, `pointer` where it is
    wrong; the API has words of its own for errors that say neither.
    """

    code = "error"

    def __init__(self, detail: str, *, hint: str = "", pointer: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.pointer = pointer


class Invalid(HoraeError):
    """The input breaks a rule; every fault found is listed."""

    code = "invalid"

    def __init__(self, faults: list[Fault], code: str = "invalid") -> None:
        super().__init__("; ".join(fault.detail for fault in faults))
        self.faults = faults
        self.code = code


class NotFound(HoraeError):
    code = "not_found"


class Conflict(HoraeError):
    """The request is fine, the state it meets is not: a taken name, a finished run."""

    code = "conflict"

    def __init__(self, detail: str, code: str = "conflict", *, hint: str = "", pointer: str | None = None) -> None:
        super().__init__(detail, hint=hint, pointer=pointer)
        self.code = code


class Stale(HoraeError):
    """Somebody else changed it first (`If-Match`)."""

    code = "stale"


class Denied(HoraeError):
    code = "denied"

    def __init__(self, detail: str, code: str = "denied", *, hint: str = "", pointer: str | None = None) -> None:
        super().__init__(detail, hint=hint, pointer=pointer)
        self.code = code


class Limited(HoraeError):
    """Too much at this moment; the same request may pass in a while."""

    def __init__(
        self,
        detail: str,
        code: str,
        retry_after_seconds: float,
        headers: dict[str, str] | None = None,
        *,
        hint: str = "",
    ) -> None:
        super().__init__(detail, hint=hint)
        self.code = code
        self.retry_after_seconds = retry_after_seconds
        self.headers = headers or {}


class Unavailable(HoraeError):
    """The store did not answer: whether it did what was asked is unknown."""

    code = "unavailable"

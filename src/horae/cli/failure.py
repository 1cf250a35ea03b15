"""How commands end that do not go well; apart from the client, which takes a fifth of the time of a start to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from horae.core.errors import Invalid

FAILED, USAGE, ENDED_BADLY, NOT_FOUND, DENIED, CONFLICT, REJECTED, GAVE_UP, UNREACHABLE, PARTLY = range(1, 11)
INTERRUPTED = 130


class Failure(Exception):
    """Ends the command, in words and with an exit code."""

    def __init__(
        self,
        exit_code: int,
        detail: str,
        *,
        code: str = "",
        faults: list[dict[str, str]] | None = None,
        hint: str = "",
        request_id: str = "",
        status: int = 0,
    ) -> None:
        super().__init__(detail)
        self.exit_code = exit_code
        self.detail = detail
        self.code = code
        self.faults = faults or []
        self.hint = hint
        self.request_id = request_id
        self.status = status


class Rehearsed(Exception):
    """Ends a dry run that would go well: `answer` says what it would change."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("A dry run ends here.")
        self.answer = answer


def refused(error: Invalid) -> Failure:
    """What breaks a rule that needs no server."""
    faults = [{"pointer": each.pointer, "detail": each.detail, "hint": each.hint} for each in error.faults]
    return Failure(REJECTED, error.detail, code=error.code, faults=faults)


def unreadable(error: Exception) -> str:
    """Why a file cannot be read, without the number of the error and the name of the file."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def path(*parts: str) -> str:
    """`/jobs/a%2Fb/run`: every part is data."""
    return "".join(f"/{quote(part, safe=':')}" for part in parts)

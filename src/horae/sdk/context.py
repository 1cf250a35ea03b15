"""What a handler that has a parameter `ctx` gets to know of its attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


class LogLike(Protocol):
    """Takes a line of output; with more arguments the text is a %-format, as in `logging`."""

    def __call__(self, text: object, *args: object) -> None: ...

    def debug(self, text: object, *args: object) -> None: ...

    def info(self, text: object, *args: object) -> None: ...

    def warning(self, text: object, *args: object) -> None: ...

    def error(self, text: object, *args: object) -> None: ...


@dataclass(slots=True)
class Context:
    """`due_at` is the time the schedule said; `fence` only grows from one attempt to the next, so that what the code
    touches can refuse an attempt that was given up; `secrets` are those that the job names.
    """

    run_id: str
    job: str
    tenant: str
    attempt: int
    due_at: datetime
    fence: int
    payload: Any
    upstream: Mapping[str, Any] | None
    log: LogLike
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    _is_cancelled: bool = field(default=False, repr=False)

    @property
    def idempotency_key(self) -> str:
        """The same on every attempt."""
        return self.run_id

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the result: a thread cannot be stopped, so a long loop should look."""
        return self._is_cancelled

    def cancel(self) -> None:
        """For whoever runs the handler, and for tests."""
        self._is_cancelled = True

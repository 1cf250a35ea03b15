"""What a worker asks of an executor, and a node of everything that moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, final

from msgspec import Struct


class Request(Struct, frozen=True):
    """One attempt of one run, as an executor sees it. `target` and `payload` are already validated."""

    run_id: str
    job_id: str
    job_name: str
    tenant: str
    attempt: int
    fence: int
    scheduled_for_us: int
    timeout_seconds: float
    target: Mapping[str, Any]
    payload: Any
    upstream: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """Without what may hold a secret."""
        return f"Request(run_id={self.run_id!r}, job_name={self.job_name!r}, attempt={self.attempt})"


@final
class Outcome(Struct, frozen=True):
    """How one attempt ended. `reason` is a code of the closed list when it did not succeed. `is_unsent`: nothing was
    done at all, so it does not count as an attempt.
    """

    succeeded: bool
    reason: str | None = None
    error: str | None = None
    result: Any = None
    is_retryable: bool = True
    retry_after_seconds: float | None = None
    is_unsent: bool = False


Log = Callable[[str], Awaitable[None]]


class Executor(Protocol):
    """Runs one attempt. A failing job is an Outcome; an exception is our bug.

    Cancelling the task that awaits `run` stops the work: nothing of it is left when the task has ended.
    """

    async def run(self, request: Request, log: Log) -> Outcome: ...

    async def close(self) -> None: ...


class Mover(Protocol):
    """Moves what is ready and says in how many seconds it wants to be asked again; 0 is at once."""

    async def tick(self) -> float: ...

"""Signs of life of the workers."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WorkerState:
    id: str
    node: str
    state: str
    slots: int
    running: int
    queues: list[str]
    needs: list[str]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat brings back: whether the fleet still counts on this worker, and whether it should drain."""

    is_known: bool
    should_drain: bool


class FleetStore(Protocol):
    def beat(self, worker: WorkerState, ttl_us: int) -> Awaitable[Beat]: ...

    def cancelled(self, worker: str) -> Awaitable[dict[str, str]]: ...

    def running_of(self, worker: str, older_than_us: int) -> Awaitable[dict[str, int]]: ...

    def leave(self, worker: str) -> Awaitable[None]: ...

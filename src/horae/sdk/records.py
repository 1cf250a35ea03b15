"""Answers of the API as objects: `run.status` and `run["status"]` are the same; times are datetimes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

OVER = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "UNKNOWN"})

_TIMES = frozenset(
    {
        "created_at", "end_at", "end_time", "last_run", "modified_time", "next_fire_time", "next_run", "queued_at",
        "run_at", "scheduled_for", "seen_at", "start_at", "start_time", "started_at", "updated_at",
    }
)  # fmt: skip


class Record:
    """`data` is the document as the API gave it; a field that this class does not name is there too."""

    __slots__ = ("data",)
    data: Mapping[str, Any]

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        try:
            value = self.data[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}") from None
        return datetime.fromisoformat(value) if name in _TIMES and isinstance(value, str) else value

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.data == self.data

    def __hash__(self) -> int:
        return hash(str(self.data))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.data)!r})"


class Job(Record):
    __slots__ = ()

    job_id: str
    name: str
    tenant: str
    status: str
    type: str
    target: dict[str, Any]
    schedule: Any
    timezone: str
    payload: Any
    priority: str
    queue: str
    next_fire_time: datetime | None
    last_run_status: str | None
    version: int
    created_at: datetime
    updated_at: datetime


class RunRecord(Record):
    __slots__ = ()

    run_id: str
    job_id: str
    job_name: str
    tenant: str
    status: str
    trigger: str
    reason: str | None
    result: Any
    error_message: str | None
    scheduled_for: datetime
    run_at: datetime
    start_time: datetime | None
    end_time: datetime | None
    duration_ms: int | None
    attempt_number: int
    max_attempts: int
    replay_of: str | None
    lateness_ms: int | None

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @property
    def succeeded(self) -> bool:
        return self.status == "SUCCEEDED"


def records_of(answer: Mapping[str, Any], name: str) -> list[Record]:
    """The items of a list that has no pages."""
    return [Record(item) for item in answer[name]]

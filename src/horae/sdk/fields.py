"""The fields of a job, typed. Their names are those of the API, of YAML files and of flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

Json: TypeAlias = Any
Duration: TypeAlias = str | int | float | timedelta
Instant: TypeAlias = str | datetime


class CommonFields(TypedDict, total=False):
    """What can be said of every job, whatever it does."""

    schedule: str | Sequence[str] | datetime
    timezone: str
    payload: Json
    priority: Literal["HIGH", "MEDIUM", "LOW"]
    queue: str
    timeout: Duration
    retry: int | Mapping[str, Any]
    misfire: Mapping[str, Any]
    overlap: Literal["allow", "skip", "queue", "replace"]
    max_concurrency: int | None
    concurrency_key: str | None
    jitter: Duration
    dst: Mapping[str, Any]
    calendar: str | Mapping[str, Any] | None
    start_at: Instant | None
    end_at: Instant | None
    max_runs: int | None
    delivery: Literal["at_least_once", "at_most_once"]
    after: Json
    notify: Sequence[Mapping[str, Any]]
    labels: Mapping[str, str]
    description: str


class JobFields(CommonFields, total=False):
    type: Literal["http", "shell", "python", "custom", "noop"]
    target: str | Mapping[str, Any]


class JobFilters(TypedDict, total=False):
    status: str
    q: str
    label: str
    type: str
    queue: str
    priority: str
    due_before: Instant
    sort: str


class RunFilters(TypedDict, total=False):
    job: str
    status: str
    queue: str
    priority: str
    due_after: Instant
    due_before: Instant
    worker: str
    reason: str


class DeadFilters(TypedDict, total=False):
    job: str
    queue: str
    priority: str
    due_after: Instant
    due_before: Instant
    reason: str

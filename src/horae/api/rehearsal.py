"""Dry runs: which changes can be tried, and how it is told what they would change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from horae.api.operation import Operation, Reply
from horae.api.query import DRY_RUN
from horae.api.schema_words import ANY, TEXT, TRUE, array, record

# These say it in their body, and tell more; a batch is answered job by job.
DRY_BY_BODY = frozenset({"backfillJob", "replayRuns", "discardRuns"})
OTHERWISE = DRY_BY_BODY | {"createJobs", "runJobManyTimes"}
REHEARSAL = "Rehearsal"
REHEARSAL_SCHEMAS = {
    REHEARSAL: record(
        {
            "dry_run": TRUE,
            "changes": array(record({"action": TEXT, "target": TEXT, "before": ANY, "after": ANY})),
        }
    )
}


def with_dry_runs(operations: Iterable[Operation]) -> list[Operation]:
    return [replace(each, query=(*each.query, DRY_RUN)) if _is_tried(each) else each for each in operations]


def rehearsal(changes: list[dict[str, Any]]) -> Reply:
    return Reply({"dry_run": True, "changes": changes})


def _is_tried(operation: Operation) -> bool:
    """What a viewer may ask for changes nothing, and what a worker reports has happened."""
    is_change = operation.method != "GET" and operation.role not in ("viewer", "worker")
    return is_change and operation.name not in OTHERWISE

"""Rows of the store in the shape of answers. Times are RFC 3339, the words those of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from horae.core.compiled import cron_expression
from horae.core.document import render_definition
from horae.core.duration import format_instant
from horae.core.job import PRIORITY_NAME, Definition
from horae.core.run import ENDED, QUEUED, RUNNING, SKIPPED, SUCCEEDED
from horae.ports import StoredRow

_definition = msgspec.json.Decoder(Definition).decode


def job_answer(row: StoredRow) -> dict[str, Any]:
    definition = _definition(row["spec"])
    status, latest = row["status"], row["latest"]
    answer = {
        "job_id": row["id"],
        "tenant": row["tenant"],
        **render_definition(definition),
        "status": status,
        "schedule_type": row["kind"],
        "cron_expression": cron_expression(definition),
        "max_retries": definition.retry.max_retries,
        "next_fire_time": _time(_next_us(row)) if status == "SCHEDULED" else None,
        "last_run_status": None if latest is None else run_status(latest),
        "version": row["version"],
        "created_at": _time(row["created_us"]),
        "updated_at": _time(row["updated_us"]),
    }
    if status == "PAUSED":
        answer |= {"paused_until": _time(row["pause_until_us"]), "pause_reason": row["pause_reason"]}
    return answer


def status_answer(row: StoredRow) -> dict[str, Any]:
    job, latest = row["status"], row["latest"]
    run = None if latest is None else run_answer(latest)
    return {
        "job_id": row["id"],
        "status": job if run is None else run["status"],
        "last_run": None if run is None else run["start_time"] or run["scheduled_for"],
        "next_run": _time(_next_us(row)) if job == "SCHEDULED" else None,
        "retry_count": 0 if run is None else run["retry_count"],
        "latest_run": run,
    }


def run_answer(row: StoredRow, earlier: Sequence[StoredRow] = ()) -> dict[str, Any]:
    """`earlier` are the attempts before the current one: between two attempts, the last of them is the current one."""
    started_us, ended_us = row["started_us"], row["ended_us"]
    last_us = earlier[-1]["ended_us"] if earlier else None
    if started_us is None and earlier:
        started_us = earlier[-1]["started_us"]
    touched_us = max(us for us in (row["queued_us"], started_us, ended_us, last_us) if us is not None)
    answer = {
        "run_id": row["id"],
        "job_id": row["job_id"],
        "job_name": row["job_name"],
        "tenant": row["tenant"],
        "status": run_status(row),
        "trigger": row["cause"],
        "scheduled_for": _time(row["due_us"]),
        "run_at": _time(row["run_at_us"]),
        "queued_at": _time(row["queued_us"]),
        "start_time": _time(started_us),
        "end_time": _time(ended_us),
        "modified_time": _time(touched_us),
        "duration_ms": _ms(started_us, ended_us),
        "attempt_number": max(1, row["attempt"]),
        "retry_count": max(0, row["attempt"] - 1),
        "max_attempts": row["max_attempts"],
        "priority": PRIORITY_NAME[row["priority"]],
        "queue": row["queue"],
        "executor_id": row["worker"],
        "result": _json(row["result"]),
        "error_message": row["error"],
        "reason": row["reason"],
        "log_url": f"/api/v1/runs/{row['id']}/logs",
        "job_version": row["version"],
        "replay_of": row["parent_id"] if row["cause"] == "replay" else None,
        # Of the first attempt: how late the others were says nothing about the scheduler.
        "lateness_ms": _ms(row["run_at_us"], started_us) if row["attempt"] <= 1 else None,
    }
    if row["status"] == SKIPPED and (row["skip_count"] or 0) > 1:
        answer |= {"skipped_until": _time(row["skip_until_us"]), "skipped_count": row["skip_count"]}
    return answer


def run_status(row: StoredRow) -> str:
    """What waits is told apart by what it waits for: its time, a worker, or its next attempt."""
    if row["status"] != QUEUED:
        return str(row["status"]).upper()
    if row["attempt"] > 0:
        return "RETRYING"
    return "PENDING" if row["run_at_us"] > row["now_us"] else "QUEUED"


def state_answer(row: StoredRow) -> dict[str, Any]:
    """How a run stands that is not over. `reason` is what it waits for, or why its last attempt failed."""
    return {
        "run_id": row["id"],
        "status": run_status(row),
        "reason": row["reason"],
        "attempt_number": max(1, row["attempt"]),
        "max_attempts": row["max_attempts"],
        "executor_id": row["worker"],
        "available_at": _time(row["available_us"]),
    }


def is_over(row: StoredRow) -> bool:
    return row["status"] in ENDED


def attempts_answer(row: StoredRow, earlier: Sequence[StoredRow]) -> list[dict[str, Any]]:
    """Every attempt, oldest first: those that came to nothing, then the one that runs or was the last."""
    attempts = [
        _attempt(attempt["attempt"], "FAILED", attempt["worker"], attempt["started_us"], attempt["ended_us"])
        | {"reason": attempt["reason"], "error_message": attempt["error"]}
        for attempt in earlier
    ]
    if row["started_us"] is not None:
        last = _attempt(row["attempt"], run_status(row), row["worker"], row["started_us"], row["ended_us"])
        is_told = row["status"] not in (RUNNING, SUCCEEDED)
        last |= {"reason": row["reason"] if is_told else None, "error_message": row["error"] if is_told else None}
        attempts.append(last)
    return attempts


def _attempt(number: int, status: str, worker: str | None, started_us: int, ended_us: int | None) -> dict[str, Any]:
    return {
        "attempt_number": number,
        "status": status,
        "executor_id": worker,
        "start_time": _time(started_us),
        "end_time": _time(ended_us),
        "duration_ms": _ms(started_us, ended_us),
    }


def versions_answer(rows: Sequence[StoredRow]) -> list[dict[str, Any]]:
    """Newest first, each with what it changed in the one before."""
    rendered = [render_definition(_definition(row["spec"])) for row in rows]
    return [
        {
            "version": row["version"],
            "created_at": _time(row["created_us"]),
            "actor": row["actor"],
            "diff": [] if before is None else _diff(before, after),
        }
        for row, after, before in zip_longest(rows, rendered, rendered[1:])
    ]


def _diff(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"field": name, "before": before[name], "after": value}
        for name, value in after.items()
        if before[name] != value
    ]


def worker_answer(row: StoredRow, *, is_host_told: bool = True) -> dict[str, Any]:
    return {
        "worker_id": row["id"],
        "node": row["node"] if is_host_told else "shared",
        "state": _worker_state(row),
        "slots": row["slots"],
        "running": row["running"],
        "queues": _json(row["queues"]),
        "needs": _json(row["needs"]),
        "started_at": _time(row["started_us"]),
        "seen_at": _time(row["seen_us"]),
    }


def key_answer(row: StoredRow) -> dict[str, Any]:
    """Without the key itself, which nobody has."""
    is_expired = row["expires_us"] is not None and row["expires_us"] <= row["now_us"]
    status = "revoked" if row["revoked_us"] is not None else "expired" if is_expired else "active"
    return {
        "key_id": row["id"],
        "name": row["name"],
        "tenant": row["tenant"],
        "role": row["role"],
        "scopes": _json(row["scopes"]),
        "prefix": row["prefix"],
        "requests_per_second": row["requests_per_second"],
        "status": status,
        "created_at": _time(row["created_us"]),
        "created_by": row["created_by"],
        "expires_at": _time(row["expires_us"]),
        "last_used_at": _time(row["last_used_us"]),
        "revoked_at": _time(row["revoked_us"]),
    }


def tenant_answer(row: StoredRow) -> dict[str, Any]:
    """`usage` is counted for tenants with the quota that asks for it."""
    jobs = row["jobs"] if row["jobs"] is not None and row["jobs"] >= 0 else None
    return {
        "tenant": row["tenant"],
        "description": row["description"],
        "max_jobs": row["max_jobs"],
        "max_queued_runs": row["max_queued"],
        "max_running_runs": row["max_running"],
        "requests_per_second": row["requests_per_second"],
        "max_payload_bytes": row["max_payload_bytes"],
        "weight": row["weight"],
        "paused": bool(row["is_paused"]),
        "usage": {"jobs": jobs if row["max_jobs"] is not None else None},
        "created_at": _time(row["created_us"]),
        "updated_at": _time(row["updated_us"]),
    }


def queue_answer(queue: dict[str, Any]) -> dict[str, Any]:
    parts = {
        word: {"queued": part["queued"], "oldest_age_ms": _ms(0, part["oldest_us"])}
        for word, part in queue["by_priority"].items()
    }
    ages = [part["oldest_age_ms"] for part in parts.values() if part["oldest_age_ms"] is not None]
    return {
        "queue": queue["queue"],
        "queued": sum(part["queued"] for part in parts.values()),
        "queued_is_exact": queue["is_exact"],
        "running": queue["running"],
        "oldest_age_ms": max(ages, default=None),
        "by_priority": parts,
        "paused": queue["is_paused"],
        "max_running": queue["max_running"],
    }


def audit_answer(row: StoredRow) -> dict[str, Any]:
    return {
        "id": row["id"],
        "tenant": row["tenant"],
        "at": _time(row["at_us"]),
        "actor": row["actor"],
        "key_id": row["key_id"],
        "address": row["address"],
        "request_id": row["request_id"],
        "action": row["action"],
        "target": row["target"],
        "before": _json(row["before"]),
        "after": _json(row["after"]),
        "seq": row["seq"],
        "hash": row["hash"],
    }


def _worker_state(row: StoredRow) -> str:
    if row["expires_us"] <= row["now_us"]:
        return "lost"
    return "draining" if row["state"] == "drain" else str(row["state"])


def changed_job(row: StoredRow) -> dict[str, Any]:
    """A job that changed: `change` is created, changed, paused or deleted; resumed counts as changed."""
    change = "created" if row["created_us"] == row["at_us"] else {"active": "changed"}.get(row["state"], row["state"])
    return {
        "job_id": row["id"],
        "name": row["name"],
        "version": row["version"],
        "change": change,
        "at": _time(row["at_us"]),
    }


def changed_run(row: StoredRow) -> dict[str, Any]:
    return {
        "run_id": row["id"],
        "job_id": row["job_id"],
        "status": row["status"].upper(),
        "scheduled_for": _time(row["due_us"]),
        "attempt_number": max(1, row["attempt"]),
        "executor_id": row["worker"],
        "reason": row["reason"],
        "at": _time(row["at_us"]),
    }


def _next_us(row: StoredRow) -> int | None:
    return min((us for us in (row["staged_us"], row["due_us"]) if us is not None), default=None)


def _time(us: int | None) -> str | None:
    return None if us is None else format_instant(us)


def _ms(from_us: int | None, to_us: int | None) -> int | None:
    if from_us is None or to_us is None:
        return None
    return (to_us - from_us) // 1000


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text

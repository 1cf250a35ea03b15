"""Every request by what it asks for: its path and its body. Both clients send these; nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from horae.sdk.fields import Instant, JobFields, Json
from horae.sdk.wire import Ask, delete, get, given, part, patch, post, put


def stats() -> Ask:
    return get("/stats")


def forecast(from_: Instant | None, to: Instant | None, bucket: str | None) -> Ask:
    return get("/forecast", from_=from_, to=to, bucket=bucket)


def create_job(name: str, fields: JobFields, key: str | None) -> Ask:
    return post("/jobs", {"name": name, **fields}, key)


def create_jobs(jobs: Sequence[Mapping[str, Any]], *, atomic: bool) -> Ask:
    return post("/jobs:batch", {"jobs": jobs}, query=given(atomic=atomic or None))


def upsert_job(name: str, fields: JobFields) -> Ask:
    return put(f"/jobs/{part(name)}", fields)


def update_job(job: str, fields: JobFields, version: int | None) -> Ask:
    return patch(f"/jobs/{part(job)}", fields, version)


def read_job(job: str) -> Ask:
    return get(f"/jobs/{part(job)}")


def delete_job(job: str) -> Ask:
    return delete(f"/jobs/{part(job)}")


def pause_job(job: str, until: Instant | None, reason: str | None) -> Ask:
    return post(f"/jobs/{part(job)}/pause", given(until=until, reason=reason))


def resume_job(job: str) -> Ask:
    return post(f"/jobs/{part(job)}/resume")


def run_job(job: str, payload: Json, priority: str | None, run_at: Instant | None, key: str | None) -> Ask:
    return post(f"/jobs/{part(job)}/run", given(payload=payload, priority=priority, run_at=run_at), key)


def job_status(job: str) -> Ask:
    return get(f"/jobs/{part(job)}/status")


def explain_job(job: str, at: Instant | None) -> Ask:
    return get(f"/jobs/{part(job)}/explain", at=at)


def job_versions(job: str) -> Ask:
    return get(f"/jobs/{part(job)}/versions")


def backfill(job: str, from_: Instant, to: Instant, max_: int | None, *, dry_run: bool) -> Ask:
    return post(f"/jobs/{part(job)}/backfill", given(to=to, max=max_, dry_run=dry_run or None) | {"from": from_})


def read_run(run: str) -> Ask:
    return get(f"/runs/{part(run)}")


def cancel_run(run: str) -> Ask:
    return post(f"/runs/{part(run)}/cancel")


def retry_run(run: str) -> Ask:
    return post(f"/runs/{part(run)}/retry")


def read_logs(run: str, attempt: int | None) -> Ask:
    return get(f"/runs/{part(run)}/logs", attempt=attempt)


def log_stream(run: str) -> str:
    return f"/runs/{part(run)}/logs?follow=true"


def replay(run: str) -> Ask:
    return post(f"/dead-letters/{part(run)}/replay")


def replay_many(
    filter_: Mapping[str, Any] | None, expected_count: int | None, rate: float | None, *, dry_run: bool
) -> Ask:
    body = given(filter=filter_, dry_run=dry_run or None, expected_count=expected_count, rate=rate)
    return post("/dead-letters:replay", body)


def discard_many(filter_: Mapping[str, Any] | None, expected_count: int | None, *, dry_run: bool) -> Ask:
    body = given(filter=filter_, dry_run=dry_run or None, expected_count=expected_count)
    return post("/dead-letters:discard", body)


def discard(run: str) -> Ask:
    return delete(f"/dead-letters/{part(run)}")


def preview(schedule: str | Sequence[str], timezone: str | None, count: int | None) -> Ask:
    return post("/schedules/preview", given(schedule=schedule, timezone=timezone, count=count))


def put_secret(name: str, value: str) -> Ask:
    return put(f"/secrets/{part(name)}", {"value": value})


def list_secrets() -> Ask:
    return get("/secrets")


def delete_secret(name: str) -> Ask:
    return delete(f"/secrets/{part(name)}")


def list_queues() -> Ask:
    return get("/queues")


def pause_queue(queue: str) -> Ask:
    return post(f"/queues/{part(queue)}/pause")


def resume_queue(queue: str) -> Ask:
    return post(f"/queues/{part(queue)}/resume")


def list_workers() -> Ask:
    return get("/workers")


def drain_worker(worker: str) -> Ask:
    return post(f"/workers/{part(worker)}/drain")


def claim(
    worker: str,
    handlers: Sequence[str],
    holds: Sequence[str],
    queues: Sequence[str],
    slots: int,
    wait: float,
    node: str | None,
) -> Ask:
    lists = {"handlers": [*handlers], "holds": [*holds], "queues": [*queues]}
    return post("/workers/claim", given(worker=worker, node=node, slots=slots, wait=wait) | lists)


def heartbeat(worker: str, runs: Mapping[str, int], *, is_draining: bool = False) -> Ask:
    held = [{"run_id": run_id, "fence": fence} for run_id, fence in runs.items()]
    return post(f"/workers/{part(worker)}/heartbeat", {"runs": held} | ({"is_draining": True} if is_draining else {}))


def log(run: str, fence: int, seq: int, text: str) -> Ask:
    return post(f"/runs/{part(run)}/log", {"fence": fence, "seq": seq, "text": text})


def complete(run: str, fence: int, status: str, fields: Mapping[str, Json]) -> Ask:
    return post(f"/runs/{part(run)}/complete", {"fence": fence, "status": status, **given(**fields)})


def leave(worker: str) -> Ask:
    return delete(f"/workers/{part(worker)}")

"""`horae upcoming`: what is due next, worked out from the schedules as the server would."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from horae.cli.completion import job_names
from horae.cli.failure import USAGE, Failure, path
from horae.cli.filters import filter_option, read_filter
from horae.cli.output import Column
from horae.cli.session import Command, Session
from horae.cli.times import read_length, read_time
from horae.core.compiled import schedule_of
from horae.core.document import parse_job
from horae.core.duration import format_instant, parse_instant
from horae.core.egress import allow_ranges
from horae.core.schedule import Schedule, next_after

if TYPE_CHECKING:
    from horae.cli.client import Client

GROUPS = ("minute", "hour", "job", "queue", "priority")
MOST_GROUPED = 200_000
CHOSEN = ("label", "type", "queue", "priority")
EVERYWHERE = allow_ranges("0.0.0.0/0,::/0")
SPEC = (
    "name", "schedule", "timezone", "type", "target", "priority", "queue", "dst", "calendar", "start_at", "end_at",
    "after", "max_runs",
)  # fmt: skip


@click.command(cls=Command)
@click.argument("job_name", metavar="[JOB]", required=False, shell_complete=job_names)
@click.option("--at", help="In the minute of this time: 09:00, 'tomorrow 9:00'.")
@click.option("--from", "start", help="From this time on: 09:00, +2h. Default: now.")
@click.option("--for", "length", help="Over this length of time: 1h, 7d.")
@click.option("--group", type=click.Choice(GROUPS), help="How many runs of each; of the next hour without --for.")
@filter_option("queue:billing label:team:ads words")
@click.option("--queue", help="In this queue.")
@click.option("--label", help="With this label, NAME:VALUE.")
@click.option("--count", type=click.IntRange(1, 100_000), default=20, show_default=True, help="At most so many.")
@click.pass_obj
def upcoming(
    session: Session,
    /,
    job_name: str | None,
    start: str | None,
    length: str | None,
    *,
    at: str | None,
    group: str | None,
    count: int,
    filtered: str | None,
    **flags: Any,
) -> None:
    """What is due next, of all jobs or of one.

    \b
    horae upcoming --from 09:00 --for 1h
    horae upcoming --at 09:00
    horae upcoming --for 1d --group hour
    """
    if at and start:
        raise Failure(USAGE, "Both --at and --from are given.", code="usage", hint="--at is --from with --for 1m.")
    client = session.client
    now_us = _us(client.get("/stats")["at"])
    begin = at or start
    from_us = max(now_us, _us(read_time(begin, "--at" if at else "--from", is_future=True))) if begin else now_us
    length = length or ("1m" if at else "1h" if group else None)
    until_us = None if length is None else from_us + int(read_length(length, "--for") * 1_000_000)
    query = read_filter(filtered, CHOSEN) | {name: value for name, value in flags.items() if value is not None}
    jobs = _one(session, job_name) if job_name else _waiting(client, until_us, query)
    if group:
        _show_groups(session, _merged(jobs, from_us, until_us, MOST_GROUPED), group, count)
        return
    found = list(_merged(jobs, from_us, until_us, count + 1))
    columns: list[Column] = [
        ("due", "due_at"), ("job", "job"), ("queue", "queue"), ("priority", "priority"), ("schedule", "schedule"),
    ]  # fmt: skip
    session.out.rows(found[:count], columns, "job", "Nothing is due.")
    if len(found) > count:
        session.out.say(f"… and more; --count shows them.{_load(client, from_us, until_us)}")


def _show_groups(session: Session, found: Iterator[dict[str, Any]], group: str, count: int) -> None:
    """Times in their order, others by size."""
    groups: dict[str, dict[str, Any]] = {}
    for item in found:
        name = _cut(item["due_at"], group) if group in CUTS else item[group]
        made = groups.setdefault(name, {group: name, "runs": 0, "first_at": item["due_at"], "jobs": set()})
        made["runs"] += 1
        made["jobs"].add(item["job"])
    told = [each | {"jobs": len(each["jobs"])} for each in groups.values()]
    if group not in CUTS:
        told.sort(key=lambda each: -each["runs"])
    columns: list[Column] = [(group, group), ("runs", "runs"), ("jobs", "jobs"), ("first", "first_at")]
    if group == "job":
        del columns[2]
    session.out.rows(told[:count], columns[:3] if group in CUTS else columns, group, "Nothing is due.")
    if len(told) > count:
        session.out.say(f"… and {len(told) - count} more; --count shows them.")
    runs = sum(each["runs"] for each in told)
    session.out.say(f"{runs}{'+' if runs >= MOST_GROUPED else ''} runs in all.")


CUTS = {"minute": 60_000_000, "hour": 3_600_000_000}


def _cut(at: str, group: str) -> str:
    size = CUTS[group]
    return format_instant(_us(at) // size * size)


def due_times(job: dict[str, Any], from_us: int, until_us: int | None) -> Iterator[int]:
    """The due times of a job as the API describes it, exactly as the scheduler finds them."""
    schedule = compiled(job)
    at_us = next_after(schedule, from_us - 1)
    while at_us is not None and (until_us is None or at_us < until_us):
        yield at_us
        at_us = next_after(schedule, at_us)


def compiled(job: dict[str, Any]) -> Schedule:
    document = {field: job[field] for field in SPEC}
    definition = parse_job(document, job_id=job["job_id"], now_us=0, tenant="", allow=EVERYWHERE)
    return schedule_of(definition, job["job_id"], _us(job["created_at"]))


def _one(session: Session, name: str) -> Iterator[dict[str, Any]]:
    job = session.client.get(path("jobs", name))
    if job["status"] == "SCHEDULED":
        yield job
    else:
        session.out.say(f"{job['name']} is {job['status'].lower()}.")


def _waiting(client: Client, until_us: int | None, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    before = None if until_us is None else format_instant(until_us)
    return client.pages("/jobs", "jobs", None, status="SCHEDULED", sort="next_fire_time", due_before=before, **query)


def _merged(jobs: Iterator[dict[str, Any]], from_us: int, until_us: int | None, count: int) -> Iterator[dict[str, Any]]:
    """Due times of all jobs in order. Jobs come by their next one, so that only those that matter are read."""
    heap: list[tuple[int, int, Iterator[int], dict[str, Any]]] = []
    ahead = next(jobs, None)
    number = 0
    for _ in range(count):
        while ahead is not None and (not heap or _next_us(ahead) <= heap[0][0]):
            times = due_times(ahead, from_us, until_us)
            first = next(times, None)
            if first is not None:
                heapq.heappush(heap, (first, number, times, ahead))
            number += 1
            ahead = next((job for job in jobs if job["next_fire_time"]), None)
        if not heap:
            return
        due_us, order, times, job = heapq.heappop(heap)
        yield _item(job, due_us)
        following = next(times, None)
        if following is not None:
            heapq.heappush(heap, (following, order, times, job))


def _next_us(job: dict[str, Any]) -> int:
    return _us(job["next_fire_time"]) if job["next_fire_time"] else 0


def _item(job: dict[str, Any], due_us: int) -> dict[str, Any]:
    from horae.cli.jobs import shown_schedule

    told = {field: job[field] for field in ("queue", "priority", "timezone", "job_id")}
    return {"due_at": format_instant(due_us), "job": job["name"], "schedule": shown_schedule(job)} | told


def _load(client: Client, from_us: int, until_us: int | None) -> str:
    if until_us is None:
        return ""
    length = (until_us - from_us) // 1_000_000
    bucket = "1m" if length <= 86_400 else "1h"
    answer = client.get(
        "/forecast", **{"from": format_instant(from_us), "to": format_instant(until_us), "bucket": bucket}
    )
    if not answer["buckets"]:
        return ""
    peak = max(answer["buckets"], key=lambda each: each["runs"])
    unit = "minute" if bucket == "1m" else "hour"
    return f" {answer['runs']} runs in all, {peak['runs']} in the busiest {unit}, {peak['at']}."


def _us(text: str) -> int:
    return parse_instant(text, "")

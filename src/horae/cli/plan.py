"""`horae plan`: which due times and how much load an edit changes, before it is applied."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from horae.cli.apply import FILES, PATHS, PRUNE, Change, find_changes
from horae.cli.completion import job_names
from horae.cli.failure import USAGE, Failure, path
from horae.cli.files import checked
from horae.cli.output import Column, shown_length
from horae.cli.session import Command, Session
from horae.cli.times import read_length, shown_time
from horae.cli.upcoming import due_times
from horae.core.duration import format_duration, format_instant, parse_instant

if TYPE_CHECKING:
    from horae.cli.client import Client

MOST = 50_000
MINUTE_US = 60_000_000
DUE_FIELDS = ("schedule", "timezone", "calendar", "dst", "start_at", "end_at", "after")


class Effect(NamedTuple):
    """What becomes of one job's due times in the window."""

    change: Change
    before: list[int]
    after: list[int]
    mean_ms: float | None

    def told(self) -> dict[str, Any]:
        gone, fresh = set(self.before) - set(self.after), set(self.after) - set(self.before)
        return {
            "name": self.change.name,
            "change": self.change.verb,
            "runs_before": len(self.before),
            "runs_after": len(self.after),
            "next_before": format_instant(self.before[0]) if self.before else None,
            "next_after": format_instant(self.after[0]) if self.after else None,
            "due_times_gone": len(gone),
            "due_times_new": len(fresh),
            "first_gone": [format_instant(us) for us in sorted(gone)[:5]],
            "first_new": [format_instant(us) for us in sorted(fresh)[:5]],
            "busy_before_ms": None if self.mean_ms is None else int(self.mean_ms * len(self.before)),
            "busy_after_ms": None if self.mean_ms is None else int(self.mean_ms * len(self.after)),
            "is_cut": max(len(self.before), len(self.after)) >= MOST,
            "is_paused": bool(self.change.current and self.change.current["status"] == "PAUSED"),
        }


@click.command(cls=Command)
@PATHS
@FILES
@PRUNE
@click.option("--job", "job_name", help="Instead of files: this job, with the flags below.", shell_complete=job_names)
@click.option("--schedule", "--cron", multiple=True, help="With --job: its new schedule; repeatable.")
@click.option("--timezone", "--tz", help="With --job: its new zone.")
@click.option("--calendar", help="With --job: its new calendar.")
@click.option("--for", "length", default="24h", show_default=True, help="Over this length of time to come.")
@click.pass_obj
def plan(
    session: Session, /, file: tuple[str, ...], files: tuple[str, ...], prune: str | None, length: str, **edit: Any
) -> None:
    """Which due times come and go, and how the load changes, if these files or this edit are applied. Changes nothing.

    \b
    horae plan jobs/
    horae plan --job report --schedule '*/5 * * * *' --for 7d
    """
    client = session.client
    if edit["job_name"]:
        changes = [_edit(client, edit)]
    elif file or files:
        changes = [each for each in find_changes(client, [*file, *files], prune) if each.verb != "unchanged"]
    else:
        raise Failure(USAGE, "Plan what?", code="usage", hint="Name files, or --job JOB with --schedule.")
    from_us = parse_instant(client.get("/stats")["at"], "")
    until_us = from_us + int(read_length(length, "--for") * 1_000_000)
    effects = [_effect(client, each, from_us, until_us) for each in session.out.track(changes, "Working it out")]
    load = _load(client, effects, from_us, until_us)
    if session.out.is_for_people:
        _show(session, effects, load, length)
    else:
        session.out.one({"jobs": [each.told() for each in effects], "load": load}, "load")


def _edit(client: Client, edit: dict[str, Any]) -> Change:
    job = client.get(path("jobs", edit["job_name"]))
    given: dict[str, Any] = {field: edit[field] for field in ("timezone", "calendar") if edit[field]}
    if edit["schedule"]:
        given["schedule"] = list(edit["schedule"]) if len(edit["schedule"]) > 1 else edit["schedule"][0]
    # Without the fields that say the same once more, such as cron_expression.
    spec = checked({field: job[field] for field in checked({"name": job["name"]})} | given)
    fields = [{"field": name, "before": job[name], "after": spec[name]} for name in given]
    return Change("updated", job["name"], fields, spec, job)


def _effect(client: Client, change: Change, from_us: int, until_us: int) -> Effect:
    current = change.current
    before = [] if current is None else list(islice(due_times(current, from_us, until_us), MOST))
    if change.verb == "deleted":
        after = []
    elif current is not None and not any(each["field"] in DUE_FIELDS for each in change.fields):
        after = before
    else:
        born = {"job_id": "new", "created_at": format_instant(from_us)}
        kept = born if current is None else {field: current[field] for field in born}
        wanted = change.spec | kept | {"calendar": _calendar(client, change.spec["calendar"])}
        after = list(islice(due_times(wanted, from_us, until_us), MOST))
    return Effect(change, before, after, _mean_ms(client, current))


def _calendar(client: Client, calendar: Any) -> Any:
    if not calendar or "name" not in calendar:
        return calendar
    days = client.get(path("calendars", calendar["name"]))
    return {key: value for key, value in days.items() if key != "updated_at"}


def _mean_ms(client: Client, job: dict[str, Any] | None) -> float | None:
    """How long its latest runs took."""
    if job is None:
        return None
    runs = client.get("/runs", job=job["job_id"], status="SUCCEEDED", limit=20)["runs"]
    took = [run["duration_ms"] for run in runs if run["duration_ms"] is not None]
    return sum(took) / len(took) if took else None


def _load(client: Client, effects: list[Effect], from_us: int, until_us: int) -> dict[str, Any]:
    """The whole tenant's runs in the window and in its busiest stretch, now and then."""
    bucket_us = MINUTE_US if until_us - from_us <= 1440 * MINUTE_US else 60 * MINUTE_US
    query = {"from": format_instant(from_us), "to": format_instant(until_us), "bucket": format_duration(bucket_us)}
    forecast = client.get("/forecast", **query)
    now = Counter({parse_instant(each["at"], "") // bucket_us: each["runs"] for each in forecast["buckets"]})
    then = Counter(now)
    for each in effects:
        if each.change.current is not None and each.change.current["status"] != "SCHEDULED":
            continue
        then.subtract(us // bucket_us for us in each.before)
        then.update(us // bucket_us for us in each.after)
    peaks = [max(counts.items(), key=lambda each: each[1], default=(0, 0)) for counts in (now, then)]
    return {
        "runs_before": now.total(),
        "runs_after": max(then.total(), 0),
        "bucket": format_duration(bucket_us),
        "peak_before": peaks[0][1],
        "peak_after": peaks[1][1],
        "peak_after_at": format_instant(peaks[1][0] * bucket_us) if peaks[1][1] else None,
    }


def _show(session: Session, effects: list[Effect], load: dict[str, Any], length: str) -> None:
    columns: list[Column] = [
        ("name", "name"),
        ("change", "change"),
        ("runs", lambda each: f"{each['runs_before']} → {each['runs_after']}"),
        ("next before", "next_before"),
        ("next after", "next_after"),
        ("gone", "due_times_gone"),
        ("new", "due_times_new"),
        ("busy before", "busy_before_ms"),
        ("busy after", "busy_after_ms"),
    ]
    told = [each.told() for each in effects]
    session.out.rows(told, columns, "name", "Nothing would change.")
    for each in told:
        for word, times in (("gone", each["first_gone"]), ("new", each["first_new"])):
            if times:
                session.out.say(
                    f"{each['name']}: {word}: {', '.join(times)}{' …' if each[f'due_times_{word}'] > 5 else ''}"
                )
        if each["is_paused"]:
            session.out.say(f"{each['name']} is paused: none of these until it is resumed.")
        if each["is_cut"]:
            session.out.say(f"{each['name']}: only the first {MOST:,} due times were looked at.")
    unit = shown_length(60 if load["bucket"] == "1m" else 3600)
    session.out.say(
        f"All jobs, next {length}: {load['runs_before']} → {load['runs_after']} runs; "
        f"busiest {unit}: {load['peak_before']} → {load['peak_after']}"
        + (f" at {shown_time(load['peak_after_at'])}." if load["peak_after_at"] else ".")
    )
    session.out.say("Nothing was changed.")

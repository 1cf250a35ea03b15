"""`horae status`: one screen of how things stand, and what needs attention with what to do about it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from horae.cli.doctor import BAD, COLOURS, GOOD, SIGNS, WARNING, Finding, examine
from horae.cli.failure import FAILED
from horae.cli.output import shown_length, visible
from horae.cli.session import Command, Session

if TYPE_CHECKING:
    from horae.cli.client import Client

MOST_SHOWN = 10


@click.command(cls=Command)
@click.option("--watch", is_flag=True, help="Look again every two seconds, until Ctrl+C.")
@click.option("--exit-code", is_flag=True, help="Exit code 1 if something needs attention.")
@click.pass_obj
def status(session: Session, watch: bool, exit_code: bool) -> None:
    """Scheduler, queues, workers, and what needs attention, on one screen.

    \b
    horae status --watch
    horae status --exit-code -q || page-somebody
    """
    while True:
        look = _look(session.client)
        if watch and session.out.form == "table":
            click.clear()
        _show(session, look)
        if not watch:
            break
        time.sleep(2)
    if exit_code and look["attention"]:
        sys.exit(FAILED)


def _look(client: Client) -> dict[str, Any]:
    stats = client.get("/stats")
    queues = client.get("/queues")["queues"]
    workers = client.get("/workers")["workers"]
    found = [each for each in examine(client) if each.state != GOOD]
    found += _late(client, stats) + _paused_jobs(client)
    order = {BAD: 0, WARNING: 1}
    return {
        "at": stats["at"],
        "jobs": stats["jobs"],
        "runs": stats["runs"],
        "recent": stats["recent"],
        "dead_letters": stats["dead_letters"],
        "queues": queues,
        "workers": workers,
        "attention": [each._asdict() for each in sorted(found, key=lambda each: order[each.state])],
    }


def _late(client: Client, stats: dict[str, Any]) -> list[Finding]:
    """Does the scheduler keep up? A job whose next due time has passed by more than a lease is nobody's."""
    from datetime import datetime

    now = datetime.fromisoformat(stats["at"])
    first = client.get("/jobs", status="SCHEDULED", sort="next_fire_time", limit=1)["jobs"]
    due = first[0]["next_fire_time"] if first else None
    behind = 0.0 if due is None else (now - datetime.fromisoformat(due)).total_seconds()
    if behind > 30:
        fact = f"behind by {shown_length(behind)}: {first[0]['name']} was due and has not been decided"
        return [Finding("scheduler", BAD, fact, "Start one: horae serve --roles scheduler")]
    p95 = stats["recent"]["lateness_ms"]["p95"]
    if p95 is not None and p95 > 5000:
        fix = "horae queue list shows where; more workers or slots help."
        return [Finding("lateness", WARNING, f"runs start {shown_length(p95 / 1000)} late (p95)", fix)]
    return []


def _paused_jobs(client: Client) -> list[Finding]:
    page = client.get("/jobs", status="PAUSED", limit=100)
    names = [each["name"] for each in page["jobs"]]
    if not names:
        return []
    more = "+" if page["next_cursor"] else ""
    told = f"{len(names)}{more} paused: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
    return [Finding("jobs", WARNING, told, "horae job list --status paused")]


def _show(session: Session, look: dict[str, Any]) -> None:
    out = session.out
    if out.form == "name":
        click.echo(
            "\n".join(f"{each['check']}: {each['fact']}" for each in look["attention"]), nl=bool(look["attention"])
        )
    elif out.form == "tsv":
        fields = ("check", "state", "fact", "fix")
        out.rows(look["attention"], [(name, name) for name in fields], "check")
    elif out.form != "table":
        out.one(look, "at")
    else:
        _screen(look, session.client.url)


def _screen(look: dict[str, Any], url: str) -> None:
    from horae.cli.times import now

    runs, recent = look["runs"], look["recent"]
    p95 = recent["lateness_ms"]["p95"]
    late = "" if p95 is None else f", p95 {shown_length(p95 / 1000)} late"
    alive = [each for each in look["workers"] if each["state"] != "lost"]
    slots, busy = (sum(each[field] for each in alive) for field in ("slots", "running"))
    click.secho(f"horae {url}   {now().astimezone():%H:%M:%S %Z}", bold=True)
    click.echo(f"  Jobs       {look['jobs']}, {look['dead_letters']} dead letters")
    click.echo(f"  Runs       {runs['running']} running, {runs['queued']} queued, {runs['pending']} staged")
    window = shown_length(recent["window_seconds"])
    click.echo(f"  Last {window:5} {recent['succeeded']} succeeded, {recent['failed']} failed{late}")
    click.echo(f"  Workers    {len(alive)} alive, {busy} of {slots} slots busy")
    for each in look["queues"][:MOST_SHOWN]:
        oldest = "" if each["oldest_age_ms"] is None else f", oldest {shown_length(each['oldest_age_ms'] / 1000)}"
        state = ", paused" if each["paused"] else ""
        told = f"{each['queued']} waiting, {each['running']} running{oldest}{state}"
        click.echo(f"  Queue      {visible(each['queue'])}: {told}")
    click.echo("")
    if not look["attention"]:
        click.secho("✓ nothing needs attention", fg="green")
    for each in look["attention"]:
        click.secho(f"{SIGNS[each['state']]} {each['check']:9} {visible(each['fact'])}", fg=COLOURS[each["state"]])
        if each["fix"]:
            click.echo(f"            {each['fix']}")

"""`horae schedule`: what a schedule means. Needs no server."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.session import Group, Session
from horae.cli.times import now, read_time


@click.group(cls=Group)
def schedule() -> None:
    """Schedules in words; no server needed."""


@schedule.command("explain")
@click.argument("line", metavar="LINE...", nargs=-1, required=True)
@click.option("--timezone", "--tz", help="The zone of the schedule; default: UTC.")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many due times.")
@click.option("--from", "start", help="From this time on: 2030-03-30, tomorrow 00:00.")
@click.pass_obj
def explain(session: Session, line: tuple[str, ...], timezone: str | None, count: int, start: str | None) -> None:
    """Say what LINE means, when it is due next, and what may surprise.

    \b
    horae schedule explain '0 9 * * 1-5' --tz Europe/Berlin
    horae schedule explain '@every 90s'
    """
    from horae.core.duration import format_instant, parse_instant
    from horae.core.schedule import parse_schedule, upcoming, warnings
    from horae.core.words import describe
    from horae.core.zone import local

    zone = timezone or "UTC"
    from_us = (
        parse_instant(read_time(start, "--from", timezone), "--from") if start else int(now().timestamp()) * 1_000_000
    )
    found = parse_schedule(list(line) if len(line) > 1 else line[0], zone=zone, anchor_us=from_us, seed="explain")
    due = upcoming(found, from_us - 1, count)
    answer: dict[str, Any] = {
        "description": describe(found),
        "next": [{"at": format_instant(us), "local": local(us, zone)} for us in due],
        "warnings": warnings(found, from_us),
    }
    if session.out.form == "name":
        click.echo("\n".join(each["at"] for each in answer["next"]))
    elif session.out.form != "table":
        if session.out.form == "tsv":
            session.out.rows(answer["next"], [("at", "at"), ("local", "local")], "at")
            session.out.say("\n".join([answer["description"], *(f"note: {each}" for each in answer["warnings"])]))
        else:
            session.out.one(answer, "description")
    else:
        _tell(answer, zone)


def _tell(answer: dict[str, Any], zone: str) -> None:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from horae.cli.times import distance

    click.secho(answer["description"], bold=True)
    for each in answer["next"]:
        at = datetime.fromisoformat(each["at"]).astimezone(ZoneInfo(zone))
        click.echo(f"  {at:%a %Y-%m-%d %H:%M:%S %Z}   {distance(each['at'])}")
    if not answer["next"]:
        click.echo("  Never by itself.")
    for warning in answer["warnings"]:
        click.secho(f"note: {warning}", fg="yellow")

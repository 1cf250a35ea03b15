"""`horae schedule`: what a schedule means. Needs no server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from horae.cli.failure import REJECTED, USAGE, Failure
from horae.cli.output import Column
from horae.cli.session import Group, Session
from horae.cli.times import now, read_time

if TYPE_CHECKING:
    from horae.core.schedule import Schedule

TIMES: list[Column] = [("at", "at"), ("local", "local")]


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
    from horae.core.schedule import upcoming, warnings
    from horae.core.words import describe

    zone = timezone or "UTC"
    from_us = _instant(start, "--from", timezone)
    found = _read(line, zone, from_us)
    answer: dict[str, Any] = {
        "description": describe(found),
        "next": _shown(upcoming(found, from_us - 1, count), zone),
        "warnings": warnings(found, from_us),
    }
    if session.out.form == "name":
        click.echo("\n".join(each["at"] for each in answer["next"]))
    elif session.out.form == "tsv" and not session.out.has_fields:
        _print_lines(answer)
    elif session.out.form != "table":
        session.out.one(answer, "description")
    else:
        _tell(answer, zone)


@schedule.command("next")
@click.argument("line", metavar="LINE...", nargs=-1, required=True)
@click.option("-n", "--count", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many.")
@click.option("--timezone", "--tz", help="The zone of the schedule; default: UTC.")
@click.option("--from", "start", help="From this time on: 2030-03-30, tomorrow 00:00.")
@click.pass_obj
def next_(session: Session, line: tuple[str, ...], count: int, timezone: str | None, start: str | None) -> None:
    """The next due times of LINE.

    \b
    horae schedule next '0 9 * * 1-5' -n 3 --tz Europe/Berlin
    """
    from horae.core.schedule import upcoming

    from_us = _instant(start, "--from", timezone)
    found = _read(line, timezone or "UTC", from_us)
    session.out.rows(_shown(upcoming(found, from_us - 1, count), timezone or "UTC"), TIMES, "at", "Never by itself.")


@schedule.command("between")
@click.argument("line", metavar="LINE...", nargs=-1, required=True)
@click.option("--from", "start", required=True, help="From this time on.")
@click.option("--to", "end", required=True, help="Up to this time, which is left out.")
@click.option("--timezone", "--tz", help="The zone of the schedule; default: UTC.")
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="At most so many.")
@click.pass_obj
def between(session: Session, line: tuple[str, ...], start: str, end: str, timezone: str | None, count: int) -> None:
    """Every due time of LINE from one time to another.

    \b
    horae schedule between '0 9 * * 1-5' --from 2030-01-01 --to 2030-02-01 --tz Europe/Berlin
    """
    from horae.core.schedule import next_after

    zone = timezone or "UTC"
    from_us, to_us = _instant(start, "--from", timezone), _instant(end, "--to", timezone)
    if to_us <= from_us:
        raise Failure(USAGE, "--to must come after --from.", code="usage", hint="Swap them.")
    found = _read(line, zone, from_us)
    due: list[int] = []
    at_us = next_after(found, from_us - 1)
    while at_us is not None and at_us < to_us and len(due) <= count:
        due.append(at_us)
        at_us = next_after(found, at_us)
    session.out.rows(_shown(due[:count], zone), TIMES, "at", "None.")
    if len(due) > count:
        session.out.say("… and more; --count shows them.")


@schedule.command("check")
@click.argument("lines", metavar="LINE|FILE...", nargs=-1, required=True)
@click.option("--timezone", "--tz", help="The zone of the schedules; default: UTC.")
@click.pass_obj
def check(session: Session, lines: tuple[str, ...], timezone: str | None) -> None:
    """Whether each schedule can be read: one an argument, or one a line of a file. Exit code 7 if one cannot."""
    from horae.core.errors import Invalid
    from horae.core.words import describe

    rows = []
    for line in _lines(lines):
        try:
            told, is_good = describe(_read((line,), timezone or "UTC", _instant(None, "", None))), True
        except Invalid as error:
            told, is_good = " ".join(f"{fault.detail} {fault.hint}".strip() for fault in error.faults), False
        rows.append({"schedule": line, "is_good": is_good, "means": told})
    columns: list[Column] = [("is good", "is_good"), ("schedule", "schedule"), ("means", "means")]
    session.out.rows(rows, columns, "schedule")
    if not all(row["is_good"] for row in rows):
        sys.exit(REJECTED)


def _lines(words: tuple[str, ...]) -> Iterator[str]:
    for word in words:
        if os.path.isfile(word):  # noqa: PTH113 Path asks the system, which may find a schedule too long for a name
            lines = (line.strip() for line in Path(word).read_text(errors="replace").splitlines())
            yield from (line for line in lines if line and not line.startswith("#"))
        else:
            yield word


def _read(line: tuple[str, ...], zone: str, from_us: int) -> Schedule:
    from horae.core.schedule import parse_schedule

    return parse_schedule(list(line) if len(line) > 1 else line[0], zone=zone, anchor_us=from_us, seed="explain")


def _instant(text: str | None, flag: str, timezone: str | None) -> int:
    from horae.core.duration import parse_instant

    return parse_instant(read_time(text, flag, timezone), flag) if text else int(now().timestamp()) * 1_000_000


def _shown(due: Sequence[int], zone: str) -> list[dict[str, str]]:
    from horae.core.duration import format_instant
    from horae.core.zone import local

    return [{"at": format_instant(us), "local": local(us, zone)} for us in due]


def _print_lines(answer: dict[str, Any]) -> None:
    """For a pipe: all of it, each line with what it is about in front."""
    click.echo(f"means\t{answer['description']}")
    for each in answer["next"]:
        click.echo(f"next\t{each['at']}\t{each['local']}")
    for warning in answer["warnings"]:
        click.echo(f"note\t{warning}")


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

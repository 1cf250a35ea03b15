"""`horae calendar`: days under a name, which jobs may follow."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.each import delete_each
from horae.cli.failure import path
from horae.cli.fields import read_json
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing

COLUMNS: list[Column] = [
    ("name", "name"),
    ("version", "version"),
    ("excluded", lambda each: len(each.get("exclude") or [])),
    ("included", lambda each: len(each.get("include") or [])),
    ("holidays", lambda each: "-".join(filter(None, (each.get("holidays"), each.get("subdivision"))))),
    ("changed", "updated_at"),
]


@click.group(cls=Group)
def calendar() -> None:
    """Named calendars: days on which jobs do not run, or only run."""


@calendar.command("list")
@click.pass_obj
def list_calendars(session: Session) -> None:
    """All of them."""
    session.out.rows(session.client.get("/calendars")["calendars"], COLUMNS, "name", "No calendars.")


@calendar.command("show")
@click.argument("name")
@click.pass_obj
def show(session: Session, name: str) -> None:
    """One calendar with its days."""
    session.out.one(session.client.get(path("calendars", name)), "name")


@calendar.command("set")
@click.argument("name")
@click.option("--exclude", multiple=True, metavar="DAY", help="Not on this day, such as 2030-12-24; repeatable.")
@click.option("--include", multiple=True, metavar="DAY", help="Only on this day; repeatable.")
@click.option("--holidays", metavar="COUNTRY[-PART]", help="Not on public holidays: DE, US-CA.")
@click.option("--document", metavar="JSON", help="All of it as JSON, @file or - for standard input.")
@changing
@click.pass_obj
def set_calendar(session: Session, /, name: str, document: str | None, **flags: Any) -> None:
    """Define a calendar, or change it for every job that names it."""
    body = read_json(document, "--document") if document else {}
    body |= {word: list(flags[word]) for word in ("exclude", "include") if flags[word]}
    if flags["holidays"]:
        country, _, part = flags["holidays"].partition("-")
        body |= {"holidays": country} | ({"subdivision": part} if part else {})
    made = session.client.call("PUT", path("calendars", name), body)
    session.out.done(made, "name", f"{name} is now version {made['version']}")


@calendar.command("delete")
@click.argument("name", metavar="NAME...", nargs=-1, required=True)
@changing
@click.pass_obj
def delete(session: Session, name: tuple[str, ...]) -> None:
    """Forget a calendar that no job names."""
    delete_each(session, name, "calendars", "name")

"""`horae top`: how things stand, live."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from horae.cli.failure import Failure
from horae.cli.output import pretty, shown_length
from horae.cli.session import Command, Session
from horae.cli.times import now

if TYPE_CHECKING:
    from horae.cli.client import Client


@click.command(cls=Command)
@click.option(
    "--every", type=click.FloatRange(0.5, 3600), default=2.0, show_default=True, help="Seconds between looks."
)
@click.option("--once", is_flag=True, help="Look once and end; also when piped.")
@click.pass_obj
def top(session: Session, every: float, once: bool) -> None:
    """Runs, queues, workers and what is due next, on one screen. q or Ctrl+C ends it."""
    if session.out.form != "table" or not session.out.is_terminal or once:
        look = _look(session.client)
        if session.out.form == "table":
            from horae.cli.output import console

            console().print(_screen(look, session.client.url))
        elif session.out.form == "tsv":
            session.out.one(look["stats"] | look["stats"]["runs"], "jobs", [(name, name) for name in SUMMARY])
        else:
            session.out.one(look, "stats")
        return
    _live(session, every)


Fields = list[tuple[str, str]]
QUEUES: Fields = [("queue", "queue"), ("waiting", "queued"), ("running", "running"), ("oldest", "oldest_age_ms")]
QUEUES += [("paused", "paused")]
WORKERS: Fields = [("node", "node"), ("state", "state"), ("running", "running"), ("slots", "slots")]
RUNNING: Fields = [("job", "job_name"), ("since", "start_time"), ("attempt", "attempt_number"), ("queue", "queue")]
DUE: Fields = [("job", "name"), ("due", "next_fire_time"), ("queue", "queue")]
DEAD: Fields = [("job", "job_name"), ("when", "end_time"), ("reason", "reason")]
SUMMARY = ("at", "jobs", "running", "queued", "pending", "dead_letters")


def _live(session: Session, every: float) -> None:
    from rich.live import Live

    shown = _screen(_look(session.client), session.client.url)
    with _keys(), Live(shown, screen=True, auto_refresh=False) as live:
        live.refresh()
        while not _is_ended(every):
            try:
                shown = _screen(_look(session.client), session.client.url)
            except Failure as error:
                from rich.console import Group

                live.update(Group(f"[bold red]{error.detail}[/] Trying again …", shown), refresh=True)
                continue
            live.update(shown, refresh=True)


def _is_ended(seconds: float) -> bool:
    """Whether somebody pressed q meanwhile."""
    import select
    import sys

    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if not sys.stdin.isatty():
            time.sleep(left)
        elif select.select([sys.stdin], [], [], left)[0]:
            key = os.read(sys.stdin.fileno(), 1)
            if key in (b"q", b"Q", b""):
                return True
    return False


@contextmanager
def _keys() -> Iterator[None]:
    """Keys come as they are pressed, and are not shown."""
    import sys
    import termios
    import tty

    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _look(client: Client) -> dict[str, Any]:
    return {
        "stats": client.get("/stats"),
        "queues": client.get("/queues")["queues"],
        "workers": client.get("/workers")["workers"],
        "running": client.get("/runs", status="RUNNING", limit=10)["runs"],
        "next": client.get("/jobs", status="SCHEDULED", sort="next_fire_time", limit=10)["jobs"],
        "failed": client.get("/dead-letters", limit=5)["dead_letters"],
    }


def _screen(look: dict[str, Any], url: str) -> Any:
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    stats = look["stats"]
    runs, recent = stats["runs"], stats["recent"]
    late = recent["lateness_ms"]["p95"]
    head = Text.assemble(
        ("horae ", "bold"), (url, "dim"), f"   {now().astimezone():%H:%M:%S %Z}\n",
        f"{stats['jobs']} jobs   ", (f"{runs['running']} running   ", "blue"),
        (f"{runs['queued']} queued   ", "yellow"),
        f"{runs['pending']} staged   ", (f"{stats['dead_letters']} dead   ", "red" if stats["dead_letters"] else "dim"),
        f"{recent['per_second']:g} runs/s   ", f"late p95 {'-' if late is None else shown_length(late / 1000)}",
    )  # fmt: skip
    due = [job for job in look["next"] if job["next_fire_time"]]
    queues = _table("Queues", look["queues"], QUEUES)
    workers = _table("Workers", _alive_first(look["workers"])[:10], WORKERS)
    running = _table("Running", look["running"], RUNNING)
    upper = Columns([queues, workers], padding=(0, 4))
    lower = Columns([running, _table("Due next", due, DUE)], padding=(0, 4))
    return Group(head, "", upper, lower, _table("Dead, newest", look["failed"], DEAD))


def _alive_first(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(workers, key=lambda each: each["state"] == "lost")


def _table(title: str, items: list[dict[str, Any]], fields: Fields) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False)
    for head, _ in fields:
        table.add_column(head)
    for item in items:
        table.add_row(*(pretty(item.get(field), field, is_short=True) for _, field in fields))
    if not items:
        table.add_row("-", *[""] * (len(fields) - 1))
    return table

"""`horae open`: the dashboard in a browser, or its address where there is none."""

from __future__ import annotations

import os
import sys

import click

from horae.cli.completion import job_names
from horae.cli.failure import path
from horae.cli.runs import is_run_id
from horae.cli.session import Command, Session

PAGES = ("jobs", "runs", "dead-letters", "queues", "workers", "forecast", "alerts", "audit", "settings")


@click.command("open", cls=Command)
@click.argument("name", metavar="[JOB|RUN|PAGE]", required=False, shell_complete=job_names)
@click.option("--print", "is_printed", is_flag=True, help="Print the address; open nothing.")
@click.pass_obj
def open_page(session: Session, name: str | None, is_printed: bool) -> None:
    """The dashboard: its overview, a page of it (jobs, runs, forecast, …), a job or a run.

    Without a terminal or a display the address is printed.
    """
    address = session.client.url + _page(session, name)
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or sys.platform == "darwin"
    if is_printed or not session.out.is_terminal or not has_screen:
        click.echo(address)
        return
    click.launch(address)
    session.out.say(f"Opened {address}")


def _page(session: Session, name: str | None) -> str:
    if not name:
        return "/"
    if name in PAGES:
        return f"/{name}"
    if is_run_id(name):
        return path("runs", session.client.get(path("runs", name))["run_id"])
    return path("jobs", session.client.get(path("jobs", name))["name"])

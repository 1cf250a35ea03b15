"""`horae run`: what became of each due time."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.client import path
from horae.cli.completion import job_names
from horae.cli.each import post_each
from horae.cli.output import Column
from horae.cli.session import Group, Session, paged
from horae.cli.times import read_time

COLUMNS: list[Column] = [
    ("run", "run_id"),
    ("job", "job_name"),
    ("status", "status"),
    ("due", "scheduled_for"),
    ("took", "duration_ms"),
    ("attempt", lambda run: f"{run['attempt_number']}/{run['max_attempts']}"),
    ("trigger", "trigger"),
    ("reason", "reason"),
]
RUN = click.argument("run_id", metavar="RUN")
RUNS = click.argument("run_id", metavar="RUN...", nargs=-1, required=True)


def run_filters(command: Any) -> Any:
    """The flags that choose runs."""
    for option in reversed(
        [
            click.option("--job", help="Of this job.", shell_complete=job_names),
            click.option("--queue", help="In this queue."),
            click.option("--priority", help="high, medium or low."),
            click.option("--since", help="Due after this time: -2h, 09:00."),
            click.option("--until", help="Due before this time."),
            click.option("--reason", help="With this reason, such as timeout."),
        ]
    ):
        command = option(command)
    return command


def filter_query(flags: dict[str, Any]) -> dict[str, Any]:
    """Those flags as parameters of the API."""
    since, until = (flags.pop(name) for name in ("since", "until"))
    times = {"due_after": since and read_time(since, "--since"), "due_before": until and read_time(until, "--until")}
    return {name: value for name, value in (flags | times).items() if value is not None}


@click.group(cls=Group)
def run() -> None:
    """Runs: one due time, or one request, and what became of it.

    \b
    horae run list --job report --since -24h --status failed
    horae run logs -f RUN
    """


@run.command("list")
@run_filters
@click.option("--status", help="queued, running, retrying, succeeded, failed, cancelled, skipped, …")
@click.option("--worker", help="On this worker.")
@paged(50)
@click.pass_obj
def list_runs(session: Session, /, most: int | None, **flags: Any) -> None:
    """Runs, newest first."""
    found = session.client.pages("/runs", "runs", most, **filter_query(flags))
    session.show(found, COLUMNS, "run_id", "No runs match.")


@run.command("show")
@RUN
@click.pass_obj
def show(session: Session, run_id: str) -> None:
    """Everything about a run, with its attempts."""
    session.out.one(session.client.get(path("runs", run_id)), "run_id")


@run.command("logs")
@RUN
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends; exit code 3 if badly.")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt.")
@click.pass_obj
def logs(session: Session, run_id: str, follow: bool, attempt: int | None) -> None:
    """What it printed."""
    if follow:
        from horae.cli.waiting import wait_for_run

        wait_for_run(session, run_id, has_log=True, timeout=None)
        return
    text = session.client.get(path("runs", run_id, "logs"), attempt=attempt)
    if session.out.form in ("json", "jsonl", "yaml"):
        session.out.one({"run_id": run_id, "text": text}, "run_id")
    else:
        click.echo(text, nl=False)


@run.command("wait")
@RUN
@click.option("--timeout", help="Give up after this long, with exit code 8.")
@click.pass_obj
def wait(session: Session, run_id: str, timeout: str | None) -> None:
    """Until it ended; exit code 3 if badly."""
    from horae.cli.waiting import wait_for_run

    wait_for_run(session, run_id, has_log=False, timeout=timeout)


@run.command("cancel")
@RUNS
@click.pass_obj
def cancel(session: Session, run_id: tuple[str, ...]) -> None:
    """End it, or stop it if it is running. RUN may be - for ids on standard input."""
    post_each(session, run_id, ("runs", "cancel"), "run_id", "Cancelled")


@run.command("retry")
@RUNS
@click.option("--wait", "is_waited", is_flag=True, help="Until it ended; exit code 3 if badly.")
@click.option("--follow", is_flag=True, help="Show its log meanwhile; waits as well.")
@click.option("--timeout", help="Stop waiting after this long, with exit code 8.")
@click.pass_obj
def retry(session: Session, run_id: tuple[str, ...], is_waited: bool, follow: bool, timeout: str | None) -> None:
    """One more attempt of the same run."""
    done = post_each(session, run_id, ("runs", "retry"), "run_id", "Once more:")
    if is_waited or follow:
        from horae.cli.waiting import wait_for_run

        for each in done:
            wait_for_run(session, each["run_id"], has_log=follow, timeout=timeout)

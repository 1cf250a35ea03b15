"""`horae backfill`: runs for past due times that have none."""

from __future__ import annotations

import sys
from typing import Any

import click

from horae.cli.completion import job_names
from horae.cli.failure import path
from horae.cli.output import is_terminal
from horae.cli.session import Command, Session
from horae.cli.times import read_time


@click.command(cls=Command)
@click.argument("job_name", metavar="JOB", shell_complete=job_names)
@click.option("--from", "start", required=True, help="From this time on: -2d, 2030-01-01.")
@click.option("--to", "end", default="now", show_default=True, help="Up to this time.")
@click.option("--max", "most", type=click.IntRange(1), help="At most so many runs.")
@click.option("--priority", help="high, medium or low; so that it does not push others aside.")
@click.option("--dry-run", is_flag=True, help="List the due times; start nothing.")
@click.option("--wait", is_flag=True, help="Until they ended; exit code 3 if one did badly.")
@click.option("--timezone", "--tz", help="The zone of the times; default: this machine's.")
@click.pass_obj
def backfill(
    session: Session, /, job_name: str, start: str, end: str, most: int | None, priority: str | None, **flags: Any
) -> None:
    """One run for each past due time that has none. A repeat starts nothing twice.

    \b
    horae backfill report --from 2030-01-01 --to 2030-01-31 --dry-run
    """
    zone = flags["timezone"]
    body: dict[str, Any] = {"from": read_time(start, "--from", zone), "to": read_time(end, "--to", zone)}
    if priority:
        body["priority"] = priority
    if flags["dry_run"]:
        _list(session, job_name, body | {"dry_run": True}, most)
        return
    since = session.client.get("/stats")["at"]
    runs = _start(session, job_name, body, most)
    session.out.done({"runs": runs}, "runs", f"{runs} runs started")
    if flags["wait"] and runs:
        _wait(session, job_name, body, since, runs)


def _list(session: Session, name: str, body: dict[str, Any], most: int | None) -> None:
    times: list[str] = []
    for answer in _pages(session, name, body, most):
        times += answer["times"]
    session.out.rows([{"due_at": at} for at in times], [("due", "due_at")], "due_at", "Every due time has a run.")
    session.out.say(f"{len(times)} runs would start. Nothing was started.")


def _start(session: Session, name: str, body: dict[str, Any], most: int | None) -> int:
    return sum(answer["runs"] for answer in _pages(session, name, body, most))


def _pages(session: Session, name: str, body: dict[str, Any], most: int | None) -> Any:
    """The server takes so many at a time; it says where to go on."""
    while most is None or most > 0:
        answer = session.client.post(path("jobs", name, "backfill"), body | ({"max": min(most, 1000)} if most else {}))
        yield answer
        most = None if most is None else most - answer["runs"]
        if answer["next_from"] is None:
            return
        body = body | {"from": answer["next_from"]}
        if is_terminal(sys.stderr):
            session.out.say(f"up to {answer['next_from']} …")


def _wait(session: Session, name: str, body: dict[str, Any], since: str, runs: int) -> None:
    import time

    from horae.cli.failure import ENDED_BADLY

    query = {"job": name, "due_after": body["from"], "due_before": body["to"]}
    while True:
        found = list(session.client.pages("/runs", "runs", None, **query))
        ours = [run for run in found if run["trigger"] == "backfill" and run["queued_at"] >= since]
        ended = [run for run in ours if run["end_time"] is not None]
        if len(ended) >= runs:
            break
        if is_terminal(sys.stderr):
            session.out.say(f"{len(ended)} of {runs} ended")
        time.sleep(1)
    bad = [run for run in ended if run["status"] != "SUCCEEDED"]
    session.out.say(
        f"{len(ended) - len(bad)} succeeded, {len(bad)} did not"
        + (f"; see: horae run list --job {name}" if bad else "")
    )
    if bad:
        sys.exit(ENDED_BADLY)

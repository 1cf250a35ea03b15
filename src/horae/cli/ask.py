"""`horae why`: the one question, answered with its reason and the facts behind it."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.completion import job_names
from horae.cli.failure import NOT_FOUND, Failure, path
from horae.cli.output import visible
from horae.cli.runs import is_run_id
from horae.cli.session import Command, Session
from horae.cli.times import read_time, shown_time

WORDS = {
    "ran": "ran",
    "running": "is running",
    "waiting": "is waiting",
    "skipped": "did not run",
    "missed": "was missed",
    "will_run": "will run",
    "will_not_run": "will not run",
}


@click.command(cls=Command)
@click.argument("name", metavar="JOB|RUN", shell_complete=job_names)
@click.option("--at", help="About this time: 09:00, 'yesterday 09:00', -2h. Default: the next due time.")
@click.option("--timezone", "--tz", help="The zone of --at; default: this machine's.")
@click.pass_obj
def why(session: Session, name: str, at: str | None, timezone: str | None) -> None:
    """Why a job did, did not, will or will not run.

    \b
    horae why report --at 'yesterday 09:00'
    horae why RUN
    """
    when = at and read_time(at, "--at", timezone)
    run = None if when else _run(session, name)
    if run is not None:
        name, when = run["job_id"], run["scheduled_for"]
    answer = session.client.get(path("jobs", name, "explain"), at=when)
    if not session.out.is_for_people:
        session.out.one(answer, "verdict")
        return
    _tell(answer, run["job_name"] if run else name)


def _run(session: Session, name: str) -> dict[str, Any] | None:
    if not is_run_id(name):
        return None
    try:
        found: dict[str, Any] = session.client.get(path("runs", name))
    except Failure as error:
        if error.exit_code != NOT_FOUND:
            raise
        return None
    return found


def _tell(answer: dict[str, Any], name: str) -> None:
    verdict = WORDS.get(answer["verdict"], answer["verdict"])
    at = f" at {shown_time(answer['at'])}" if answer.get("at") else ""
    click.secho(visible(f"{name} {verdict}{at}."), bold=True)
    # What a job printed may be in it, on lines of its own.
    lines = [visible(line) for line in answer["text"].split("\n")]
    click.echo(f"\n  Reason  {answer['reason']}: {lines[0]}" if answer["reason"] else f"\n  {lines[0]}")
    for line in lines[1:]:
        click.echo(f"          {line}")
    if answer.get("run_id"):
        click.echo(f"  Run     {answer['run_id']}")
    for fact in answer["facts"]:
        if fact.get("value", ...) is None:
            continue
        rest = ", ".join(f"{key} {value}" for key, value in fact.items() if key not in ("fact", "value") and value)
        told = f"{fact['fact'].replace('_', ' ')}: {fact.get('value', '')}{f' ({rest})' if rest else ''}"
        click.echo(f"  Fact    {visible(told)}")
    if answer.get("run_id") and answer["verdict"] in ("ran", "running"):
        click.echo(f"\nNext    horae logs {answer['run_id']}")
    elif answer["verdict"] in ("skipped", "missed"):
        click.echo(f"\nNext    horae run {name}")

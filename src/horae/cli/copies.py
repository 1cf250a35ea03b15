"""`horae job copy`, `rename` and `rollback`: a job made from a job, or from what it was."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.client import NOT_FOUND, path
from horae.cli.completion import JOB
from horae.cli.session import Command, Session, changing


@click.command(cls=Command)
@JOB
@click.argument("new_name", metavar="NEW")
@click.option("--paused", is_flag=True, help="It makes no runs until resumed.")
@changing
@click.pass_obj
def copy(session: Session, job_name: str, new_name: str, paused: bool) -> None:
    """A second job called NEW that says the same. Its history is its own."""
    from horae.cli.files import as_file

    found = session.client.get(path("jobs", job_name))
    document = as_file(session.client, found, {}) | {"name": new_name}
    made = session.client.post("/jobs", document)
    if paused:
        made = session.client.post(path("jobs", new_name, "pause"), {"reason": f"copied from {found['name']}"})
    session.out.done(made, "name", f"Created {new_name} as {found['name']} is{', paused' if paused else ''}.")


@click.command(cls=Command)
@JOB
@click.argument("new_name", metavar="NEW")
@changing
@click.pass_obj
def rename(session: Session, job_name: str, new_name: str) -> None:
    """Call it NEW from now on. Its id, its history and its due times stay."""
    made = session.client.call("PATCH", path("jobs", job_name), {"name": new_name})
    session.out.done(made, "name", f"{job_name} is now {new_name}. Files and scripts that name it need the new name.")


@click.command(cls=Command)
@JOB
@click.option("--to", "version", type=click.IntRange(1), required=True, help="The version to go back to.")
@changing
@click.pass_obj
def rollback(session: Session, job_name: str, version: int) -> None:
    """Make it say what it said in an earlier version, as a new version. Its name and a pause stay."""
    from horae.cli.client import Failure
    from horae.cli.jobs import shown_change

    current = session.client.get(path("jobs", job_name))
    versions = session.client.get(path("jobs", job_name, "versions"))["versions"]
    if version not in {each["version"] for each in versions}:
        hint = f"horae job history {job_name} lists them."
        raise Failure(NOT_FOUND, f"{job_name} has no version {version}.", code="no_version", hint=hint)
    document = _back(versions, version)
    changes = [
        {"field": field, "before": current[field], "after": value}
        for field, value in document.items()
        if current[field] != value
    ]
    if not changes:
        session.out.say("Nothing to change: it says the same now.")
        return
    told = "; ".join(shown_change(each) for each in changes)
    headers = {"If-Match": f'"v{current["version"]}"'}
    made = session.client.call("PATCH", path("jobs", job_name), document, headers=headers)
    session.out.done(made, "name", f"{made['name']} is now version {made['version']}, as in {version}: {told}")


def _back(versions: list[dict[str, Any]], version: int) -> dict[str, Any]:
    """The fields that later versions changed, as they were. Versions come newest first."""
    document: dict[str, Any] = {}
    for each in versions:
        if each["version"] > version:
            document |= {change["field"]: change["before"] for change in each["diff"]}
    # Whoever calls it by its name today must still find it.
    document.pop("name", None)
    return document

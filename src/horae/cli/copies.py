"""`horae job copy`, `rename`, `rollback` and `restore`: a job made from a job, or from what it was."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.completion import JOB
from horae.cli.failure import NOT_FOUND, path
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
    from horae.cli.failure import Failure
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


@click.command(cls=Command)
@JOB
@click.option("--paused", is_flag=True, help="It makes no runs until resumed.")
@changing
@click.pass_obj
def restore(session: Session, job_name: str, paused: bool) -> None:
    """A deleted job anew, as it was in the end. It gets an id of its own; the old runs stay with the old one."""
    from horae.cli.failure import Failure
    from horae.cli.files import as_file

    deleted = session.client.pages("/jobs", "jobs", None, status="CANCELLED", sort="-updated_at")
    found = next((each for each in deleted if job_name in (each["name"], each["job_id"])), None)
    if found is None:
        hint = "horae job list --status cancelled lists those that were."
        raise Failure(NOT_FOUND, f'No job "{job_name}" was deleted.', code="not_deleted", hint=hint)
    made = session.client.post("/jobs", as_file(session.client, found, {}))
    if paused:
        made = session.client.post(path("jobs", made["job_id"], "pause"), {"reason": "restored"})
    told = f"{made['name']} is back as in version {found['version']}{', paused' if paused else ''}."
    session.out.done(made, "name", f"{told} Its old runs: horae api GET /jobs/{found['job_id']}/runs")


def _back(versions: list[dict[str, Any]], version: int) -> dict[str, Any]:
    """The fields that later versions changed, as they were. Versions come newest first."""
    document: dict[str, Any] = {}
    for each in versions:
        if each["version"] > version:
            document |= {change["field"]: change["before"] for change in each["diff"]}
    # Whoever calls it by its name today must still find it.
    document.pop("name", None)
    return document

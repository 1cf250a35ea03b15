"""`horae job`: definitions and what is done with them."""

from __future__ import annotations

import json
from typing import Any

import click

from horae.cli import filters
from horae.cli.completion import JOB, job_names
from horae.cli.copies import copy, rename, restore, rollback
from horae.cli.each import delete_each, post_each
from horae.cli.failure import CONFLICT, FAILED, USAGE, Failure, path
from horae.cli.fields import HTTP_FLAGS, document_of, http_part, job_options
from horae.cli.filters import filter_option, read_filter
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing, paged
from horae.cli.start import start
from horae.cli.times import read_time


def shown_schedule(job: dict[str, Any]) -> str:
    schedule = job["schedule"]
    if schedule is None:
        return "after another" if job.get("after") else "@manual"
    text = ", ".join(schedule) if isinstance(schedule, list) else str(schedule)
    return text if job["timezone"] == "UTC" or text.startswith("@") else f"{text} ({job['timezone']})"


COLUMNS: list[Column] = [
    ("name", "name"),
    ("status", "status"),
    ("schedule", shown_schedule),
    ("next", "next_fire_time"),
    ("last", "last_run_status"),
    ("type", "type"),
    ("queue", "queue"),
    ("priority", "priority"),
]
JOBS = click.argument("job_name", metavar="JOB...", nargs=-1, required=True, shell_complete=job_names)


@click.group(cls=Group)
def job() -> None:
    """Jobs: what to do, when, by which rules. JOB is a name or an id.

    \b
    horae job create report --schedule '0 9 * * 1-5' --tz Europe/Berlin --http https://example.com/report
    horae run report --wait
    """


@job.command("create")
@click.argument("name")
@job_options
@click.option("--if-absent", is_flag=True, help="A job of this name may exist already; then it is left alone.")
@changing
@click.pass_obj
def create(session: Session, /, name: str, if_absent: bool, **flags: Any) -> None:
    """Create a job called NAME."""
    document = {"name": name} | document_of(flags)
    try:
        made = session.client.post("/jobs", document)
    except Failure as error:
        if not (if_absent and error.exit_code == CONFLICT):
            raise
        made = session.client.get(path("jobs", name))
        session.out.done(made, "name", f"{name} exists already; left alone.")
        return
    session.out.done(made, "name", f"Created {name}: {_when(made)}")


@job.command("list")
@filter_option("status:paused label:team:ads due:1h words")
@click.option("--status", help="SCHEDULED, PAUSED, COMPLETED or CANCELLED.")
@click.option("--health", help="failing, late or never_run.")
@click.option("--search", "q", help="Part of the name.")
@click.option("--label", help="NAME:VALUE.")
@click.option("--type", "type_", help="http, shell, python, custom or noop.")
@click.option("--queue", help="In this queue.")
@click.option("--priority", help="high, medium or low.")
@click.option("--due-before", help="Due before this time: +1h, 09:00.")
@click.option("--sort", help="name, next_fire_time or -updated_at.")
@paged(100)
@click.pass_obj
def list_jobs(
    session: Session,
    /,
    most: int | None,
    type_: str | None,
    due_before: str | None,
    filtered: str | None,
    **flags: Any,
) -> None:
    """Jobs, with when they are due and how they went."""
    flags |= {"type": type_, "due_before": due_before and read_time(due_before, "--due-before", is_future=True)}
    query = read_filter(filtered, filters.JOBS) | {name: value for name, value in flags.items() if value is not None}
    found = session.client.pages("/jobs", "jobs", most, **query)
    session.show(found, COLUMNS, "name", "No jobs. Create one: horae job create hello --every 1m --command 'echo hi'")


@job.command("show")
@JOB
@click.pass_obj
def show(session: Session, job_name: str) -> None:
    """Everything about a job."""
    found = session.client.get(path("jobs", job_name))
    first = (
        "name",
        "status",
        "pause_reason",
        "paused_until",
        "schedule",
        "timezone",
        "next_fire_time",
        "last_run_status",
    )
    ordered = {field: found[field] for field in first if found.get(field)} | found
    session.out.one(ordered if session.out.is_for_people else found, "name")


@job.command("edit")
@JOB
@job_options
@click.option("--if-version", type=int, help="Only if it still is this version.")
@changing
@click.pass_obj
def edit(session: Session, /, job_name: str, if_version: int | None, **flags: Any) -> None:
    """Change the fields given as flags; without any, open the job in $EDITOR."""
    if any(flags[name] for name in HTTP_FLAGS) and not flags["http"]:
        current = session.client.get(path("jobs", job_name))
        if current["type"] == "http":  # its call stays as it is, but for what the flags say
            call = {**current["target"], **http_part(flags)}
            flags |= {**dict.fromkeys(HTTP_FLAGS), "set_": (f"target={json.dumps(call)}", *flags["set_"])}
    document = document_of(flags)
    if not document:
        from horae.cli.editor import edit_here

        made = edit_here(session.client, job_name, if_version)
        if made is None:
            session.out.say("Nothing changed.")
            return
    else:
        made = session.client.change(path("jobs", job_name), document, if_version)
    session.out.done(made, "name", f"{made['name']} is now version {made['version']}: {_when(made)}")


@job.command("pause")
@JOBS
@click.option("--until", help="Until then: 09:00, +2h.")
@click.option("--reason", help="Why; shown to whoever asks.")
@changing
@click.pass_obj
def pause(session: Session, job_name: tuple[str, ...], until: str | None, reason: str | None) -> None:
    """Make no runs until resumed."""
    body = {"until": until and read_time(until, "--until", is_future=True), "reason": reason}
    given = {key: value for key, value in body.items() if value}
    post_each(session, job_name, ("jobs", "pause"), "name", "Paused", given)


@job.command("resume")
@JOBS
@changing
@click.pass_obj
def resume(session: Session, job_name: tuple[str, ...]) -> None:
    """Make runs again."""
    post_each(session, job_name, ("jobs", "resume"), "name", "Resumed")


job.add_command(start, "run")
for copying in (copy, rename, rollback, restore):
    job.add_command(copying)


@job.command("delete")
@JOBS
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@changing
@click.pass_obj
def delete(session: Session, job_name: tuple[str, ...], yes: bool) -> None:
    """No later run; waiting runs are cancelled, running ones told to stop. The history stays."""
    confirm(f"Delete {', '.join(job_name[:5])}{' …' if len(job_name) > 5 else ''}?", yes=yes or session.is_dry)
    delete_each(session, job_name, "jobs", "job_id")


@job.command("history")
@JOB
@click.pass_obj
def history(session: Session, job_name: str) -> None:
    """Every edit: who, when and what."""
    versions = session.client.get(path("jobs", job_name, "versions"))["versions"]
    columns: list[Column] = [
        ("version", "version"),
        ("changed", "created_at"),
        ("by", "actor"),
        ("what", lambda version: "; ".join(shown_change(each) for each in version["diff"]) or "created"),
    ]
    session.out.rows(versions, columns, "version")


@job.command("export")
@click.argument("job_name", metavar="[JOB]...", nargs=-1, shell_complete=job_names)
@click.option("--label", help="Only jobs with this label, NAME:VALUE.")
@click.option(
    "--crontab", "is_crontab", is_flag=True, help="As a crontab instead, with what it cannot say in comments."
)
@click.pass_obj
def export(session: Session, job_name: tuple[str, ...], label: str | None, is_crontab: bool) -> None:
    """Write jobs as YAML files for `horae apply`: what was said about them, not how they stand."""
    from horae.cli.files import as_file

    if job_name:
        found = [session.client.get(path("jobs", name)) for name in job_name]
    else:
        found = list(session.client.pages("/jobs", "jobs", None, label=label, sort="name"))
    if is_crontab:
        from horae.cli.crontab_out import as_crontab

        click.echo(as_crontab(found), nl=False)
        return
    names = {each["job_id"]: each["name"] for each in found}
    documents = [as_file(session.client, each, names) for each in session.out.track(found, "Reading jobs")]
    if session.out.form in ("json", "jsonl"):
        session.out.rows(documents, [], "name")
        return
    from horae.cli.output import as_yaml

    click.echo("---\n".join(as_yaml(each) for each in documents), nl=False)


def shown_change(change: dict[str, Any]) -> str:
    before, after = (json.dumps(change[side], ensure_ascii=False) for side in ("before", "after"))
    return f"{change['field']} {before} → {after}"


def confirm(question: str, *, yes: bool) -> None:
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(USAGE, "Nobody is there to be asked.", code="usage", hint="Add --yes.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was done.", err=True)
        sys.exit(FAILED)


def _when(made: dict[str, Any]) -> str:
    from horae.cli.times import shown_time

    if made["next_fire_time"] is None:
        return "on request" if made["schedule"] == "@manual" else shown_schedule(made)
    return f"{shown_schedule(made)}, next {shown_time(made['next_fire_time'])}"

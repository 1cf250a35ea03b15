"""`horae apply`, `diff` and `validate`: jobs as files say. An apply changes what a job is, not whether it is paused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from horae.cli.failure import CONFLICT, PARTLY, UNREACHABLE, USAGE, Failure, path
from horae.cli.output import Column
from horae.cli.session import Command, Session, tell

if TYPE_CHECKING:
    from horae.cli.client import Client

if TYPE_CHECKING:
    from horae.cli.files import Wanted

PATHS = click.argument("file", metavar="FILE|FOLDER...", nargs=-1)
FILES = click.option("-f", "--file", "files", multiple=True, help="The same as the argument; - is standard input.")
PRUNE = click.option("--prune", metavar="NAME:VALUE", help="Also delete jobs with this label that are in no file.")


class Change(NamedTuple):
    """What an apply would do with one job."""

    verb: str
    name: str
    fields: list[dict[str, Any]]
    spec: dict[str, Any]
    current: dict[str, Any] | None
    wanted: Wanted | None = None

    def told(self) -> dict[str, Any]:
        return {"name": self.name, "change": self.verb, "fields": self.fields}


@click.command(cls=Command)
@PATHS
@FILES
@click.pass_obj
def validate(session: Session, file: tuple[str, ...], files: tuple[str, ...]) -> None:
    """Check files of jobs; no server needed. Every mistake is told with its line."""
    from horae.cli.files import read_files

    found = read_files(_paths(file, files))
    items = [{"name": each.name, "place": each.place_of(), "schedule": each.spec["schedule"]} for each in found]
    columns: list[Column] = [("name", "name"), ("place", "place"), ("schedule", "schedule")]
    session.out.rows(items, columns, "name")
    session.out.say(f"{len(found)} jobs, nothing wrong.")


@click.command(cls=Command)
@PATHS
@FILES
@PRUNE
@click.pass_obj
def diff(session: Session, file: tuple[str, ...], files: tuple[str, ...], prune: str | None) -> None:
    """What an apply would change. Exit code 0: nothing, 1: something, more: an error."""
    changes = [each for each in find_changes(session.client, _paths(file, files), prune) if each.verb != "unchanged"]
    show_changes(session, changes)
    sys.exit(1 if changes else 0)


@click.command(cls=Command)
@PATHS
@FILES
@PRUNE
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before jobs are deleted.")
@click.pass_obj
def apply(
    session: Session, file: tuple[str, ...], files: tuple[str, ...], prune: str | None, dry_run: bool, yes: bool
) -> None:
    """Make the jobs be as these files say: create what is new, change what differs, leave the rest.

    A field that a file leaves out has its default. A paused job stays paused. A repeat changes nothing.
    """
    changes = find_changes(session.client, _paths(file, files), prune)
    if dry_run:
        show_changes(session, changes)
        session.out.say("Nothing was changed.")
        return
    lost = [each.name for each in changes if each.verb == "deleted"]
    if lost:
        from horae.cli.jobs import confirm

        confirm(f"Delete {len(lost)} jobs that are in no file: {', '.join(lost[:5])}?", yes=yes)
    results = [_carry_out(session, each) for each in session.out.track(in_order(changes), "Applying")]
    columns: list[Column] = [("name", "name"), ("result", "result"), ("version", "version")]
    session.out.rows(results, columns, "name", "The files have no jobs.")
    counts = {
        word: sum(each["result"] == word for each in results)
        for word in dict.fromkeys(each["result"] for each in results)
    }
    session.out.say(", ".join(f"{count} {word}" for word, count in counts.items()))
    failed = [each for each in results if each["result"] == "failed"]
    if failed:
        codes = {each["exit_code"] for each in failed}
        sys.exit(codes.pop() if len(failed) == len(results) and len(codes) == 1 else PARTLY)


def find_changes(client: Client, paths: list[str], prune: str | None) -> list[Change]:
    from horae.cli.files import differences, read_files, upstream_of

    if prune is not None and ":" not in prune:
        raise Failure(USAGE, f'--prune: "{prune}" is no label.', code="usage", hint="Write --prune managed:git.")
    wanted = read_files(paths)
    current = current_jobs(client, [each.name for each in wanted])
    upstream = {after["job"] for each in wanted for after in upstream_of(each.spec) if after["job"] not in current}
    ids = {name: job["job_id"] for name, job in (current | current_jobs(client, list(upstream))).items()}
    changes = []
    for each in wanted:
        job = current.get(each.name)
        fields = [] if job is None else differences(each.spec, job, ids)
        verb = "created" if job is None else "updated" if fields else "unchanged"
        changes.append(Change(verb, each.name, fields, each.spec, job, each))
    if prune:
        named = {each.name for each in wanted}
        labelled = client.pages("/jobs", "jobs", None, label=prune, sort="name")
        changes += [Change("deleted", job["name"], [], {}, job) for job in labelled if job["name"] not in named]
    return changes


def current_jobs(client: Client, names: list[str]) -> dict[str, dict[str, Any]]:
    """Those of the named jobs that exist: one by one if few, else by reading the list."""
    if len(names) > 50:
        wanted = set(names)
        return {job["name"]: job for job in client.pages("/jobs", "jobs", None) if job["name"] in wanted}
    found = {}
    for name in names:
        try:
            job = client.get(path("jobs", name))
        except Failure as error:
            if error.status != 404:
                raise
        else:
            if job["name"] == name and job["status"] != "CANCELLED":
                found[name] = job
    return found


def in_order(changes: list[Change]) -> list[Change]:
    """A job that another one runs after comes before it."""
    from horae.cli.files import upstream_of

    by_name = {each.name: each for each in changes}
    placed: dict[str, Change] = {}

    def place(change: Change, above: tuple[str, ...]) -> None:
        for after in upstream_of(change.spec):
            upstream = by_name.get(after["job"])
            if upstream is not None and upstream.name not in (*above, change.name, *placed):
                place(upstream, (*above, change.name))
        placed.setdefault(change.name, change)

    for each in changes:
        place(each, ())
    return list(placed.values())


def show_changes(session: Session, changes: list[Change]) -> None:
    if session.out.form != "table":
        columns: list[Column] = [("name", "name"), ("change", "change"), ("fields", "fields")]
        session.out.rows([each.told() for each in changes], columns, "name")
        return
    from horae.cli.jobs import shown_change, shown_schedule

    colours = {"created": "green", "updated": "yellow", "deleted": "red", "unchanged": "bright_black"}
    signs = {"created": "+", "updated": "~", "deleted": "-", "unchanged": " "}
    for each in changes:
        told = [shown_change(change) for change in each.fields]
        if each.verb == "created":
            told = [shown_schedule(each.spec)]
        for line in told or [""]:
            click.secho(f"{signs[each.verb]} {each.name}  {line}".rstrip(), fg=colours[each.verb])
    counts = {verb: sum(each.verb == verb for each in changes) for verb in signs}
    told = [f"{count} {verb}" for verb, count in counts.items() if count]
    session.out.say(", ".join(told) or "No differences.")


def _carry_out(session: Session, change: Change) -> dict[str, Any]:
    try:
        job = _save(session.client, change)
    except Failure as error:
        if error.exit_code == CONFLICT and error.status == 412:
            error.hint = "Somebody changed it meanwhile. Look with `horae diff`, then apply again."
        if error.exit_code == UNREACHABLE:
            raise
        if change.wanted is not None:
            # What the server pointed to stands in a line of a file.
            for fault in error.faults:
                fault["pointer"] = change.wanted.place_of(fault.get("pointer", ""))
        tell(error, change.name)
        return {
            "name": change.name,
            "result": "failed",
            "version": None,
            "error": "; ".join(fault["detail"] for fault in error.faults) or error.detail,
            "exit_code": error.exit_code,
        }
    return {"name": change.name, "result": change.verb, "version": job.get("version")}


def _save(client: Client, change: Change) -> dict[str, Any]:
    where = path("jobs", change.name)
    made: dict[str, Any]
    if change.verb == "created":
        made = client.post("/jobs", change.spec)
    elif change.verb == "deleted":
        made = client.call("DELETE", where)
    elif change.verb == "updated":
        # Only what differs, and only if it is still what was compared: the state of the job is not touched.
        version = (change.current or {})["version"]
        body = {each["field"]: change.spec[each["field"]] for each in change.fields}
        if "type" in body or "target" in body:
            body |= {field: change.spec[field] for field in ("type", "target")}
        made = client.call("PATCH", where, body, headers={"If-Match": f'"v{version}"'})
    else:
        made = change.current or {}
    return made


def _paths(*groups: tuple[str, ...]) -> list[str]:
    found = [each for group in groups for each in group]
    if not found:
        raise Failure(USAGE, "Which files?", code="usage", hint="Name files or folders, or - for standard input.")
    return found

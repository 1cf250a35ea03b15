"""`horae import`: jobs from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from horae.cli.client import CONFLICT, PARTLY, USAGE, Failure
from horae.cli.output import Column
from horae.cli.session import Group, Session, tell


@click.group(cls=Group)
def imports() -> None:
    """Jobs from elsewhere."""


@imports.command("crontab")
@click.argument("file")
@click.option("--system", is_flag=True, help="The sixth column names a user, as in /etc/crontab and /etc/cron.d.")
@click.option("--user", help="Take the lines of this user, to run as the user of the worker.")
@click.option("--timezone", "--tz", help="The zone of the table; default: this machine's.")
@click.option("--prefix", default="", help="Before every name.")
@click.option("--queue", help="The queue of all of them.")
@click.option("--dry-run", is_flag=True, help="Show the jobs; create none. With -o yaml: as files for `horae apply`.")
@click.pass_obj
def crontab(
    session: Session,
    /,
    file: str,
    system: bool,
    user: str | None,
    timezone: str | None,
    queue: str | None,
    **flags: Any,
) -> None:
    """Make jobs of a crontab; FILE may be - for standard input. What cannot be taken over says why.

    \b
    crontab -l | horae import crontab - --dry-run
    horae import crontab /etc/cron.d/backup --user root
    """
    from horae.cli.crontab import read_crontab
    from horae.cli.times import local_zone
    from horae.core.zone import check_zone

    zone = check_zone(timezone, "--tz") if timezone else local_zone() or "UTC"
    text = _text(file)
    is_system = system or user is not None or file == "/etc/crontab" or file.startswith("/etc/cron.d/")
    entries = read_crontab(text, zone=zone, has_user=is_system, user=user, prefix=flags["prefix"])
    if not is_system:
        _suspect_users(session, entries)
    jobs = [entry.job | ({"queue": queue} if queue else {}) for entry in entries if entry.job]
    if session.out.form == "yaml" and flags["dry_run"]:
        from horae.cli.output import as_yaml

        click.echo("---\n".join(as_yaml(job) for job in jobs), nl=False)
        return
    results = {} if flags["dry_run"] else _create(session, jobs)
    _show(session, entries, results)
    left = sum(bool(entry.refusal) for entry in entries)
    told = f"{len(jobs)} jobs would be created" if flags["dry_run"] else f"{_count(results, 'created')} jobs created"
    there = _count(results, "exists")
    also = f", {there} existed already" if there else ""
    whose = "" if timezone else " (of this machine; --tz changes it)"
    session.out.say(f"{told}{also}, {left} lines not imported. Zone: {zone}{whose}.")
    if flags["dry_run"]:
        session.out.say("Nothing was changed. Run again without --dry-run to create them.")
    elif _count(results, "failed"):
        sys.exit(PARTLY)
    elif _count(results, "created"):
        session.out.say("Now take these lines out of the crontab, or both will run them.")


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{file} cannot be read: {error}.", code="file") from None


def _suspect_users(session: Session, entries: list[Any]) -> None:
    names = {"root", "nobody", "daemon", "www-data", "postgres"}
    first = [
        entry.job["target"]["command"].split()[0]
        for entry in entries
        if entry.job and isinstance(entry.job["target"]["command"], str)
    ]
    if first and all(word in names for word in first):
        session.out.say(
            f'note: every command begins with a user ("{first[0]}"): is this a system table? Then add --system.'
        )


def _create(session: Session, jobs: list[dict[str, Any]]) -> dict[str, str]:
    """A job that exists is left alone: a second import makes nothing twice and overwrites nothing."""
    results = {}
    for job in session.out.track(jobs, "Creating jobs"):
        try:
            session.client.post("/jobs", job)
            results[job["name"]] = "created"
        except Failure as error:
            if error.exit_code == 9:
                raise
            results[job["name"]] = "exists" if error.exit_code == CONFLICT else "failed"
            if error.exit_code != CONFLICT:
                error.detail = f"{job['name']}: {error.detail}"
                tell(error)
    return results


def _count(results: dict[str, str], word: str) -> int:
    return sum(each == word for each in results.values())


def _show(session: Session, entries: list[Any], results: dict[str, str]) -> None:
    from horae.cli.times import now
    from horae.core.duration import format_instant
    from horae.core.schedule import next_after, parse_schedule
    from horae.core.words import describe

    items = []
    now_us = int(now().timestamp()) * 1_000_000
    for entry in entries:
        item: dict[str, Any] = {
            "line": entry.line,
            "name": None,
            "schedule": entry.text.split(None, 1)[0],
            "next_at": None,
        }
        if entry.job:
            schedule = parse_schedule(entry.job["schedule"], zone=entry.job["timezone"], anchor_us=now_us, seed="")
            # Where an H falls is known once the job has its id.
            due = None if "H" in entry.job["schedule"] else next_after(schedule, now_us)
            told = entry.job["schedule"] if due is None else describe(schedule)
            item |= {"name": entry.job["name"], "schedule": told, "next_at": due and format_instant(due)}
        word = "would create" if entry.job else "not imported" if entry.refusal else "setting"
        result = results.get(item["name"] or "", word)
        notes = [entry.refusal] if entry.refusal else entry.notes
        items.append(item | {"result": result, "notes": "; ".join(notes), "job": entry.job})
    columns: list[Column] = [
        ("line", "line"), ("name", "name"), ("schedule", "schedule"), ("next", "next_at"), ("result", "result"),
        ("notes", "notes"),
    ]  # fmt: skip
    session.out.rows(items, columns, "name")

"""`horae import`: jobs from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from horae.cli.failure import CONFLICT, PARTLY, REJECTED, UNREACHABLE, USAGE, Failure, unreadable
from horae.cli.output import Column
from horae.cli.session import Group, Session, tell

OTHER_NAMES = "--prefix gives other names."
LOOK_SECONDS = 5.0


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every import has."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the jobs; create none. With -o yaml: for `horae apply`."),
        click.option("--queue", help="The queue of all of them."),
        click.option("--prefix", default="", help="Before every name."),
    ):
        command = option(command)
    return command


@click.group(cls=Group)
def imports() -> None:
    """Jobs from elsewhere. What cannot be taken over says why; what changes its meaning is a note.

    With --dry-run no server is needed and nothing is created; -o yaml then writes files for `horae apply`.

    \b
    crontab -l | horae import crontab - --dry-run
    horae import systemd /etc/systemd/system --dry-run
    kubectl get cronjobs -A -o yaml | horae import k8s - --dry-run
    horae import celery proj/celeryconfig.py --dry-run -o yaml
    """


@imports.command("crontab")
@click.argument("file")
@click.option("--system", is_flag=True, help="The sixth column names a user, as in /etc/crontab and /etc/cron.d.")
@click.option("--user", help="Take the lines of this user, to run as the user of the worker.")
@click.option("--timezone", "--tz", help="The zone of the table; default: this machine's.")
@_common
@click.pass_obj
def crontab(
    session: Session,
    /,
    file: str,
    system: bool,
    user: str | None,
    timezone: str | None,
    **flags: Any,
) -> None:
    """Make jobs of a crontab; FILE may be - for standard input. What cannot be taken over says why.

    \b
    crontab -l | horae import crontab - --dry-run
    horae import crontab /etc/cron.d/backup --user root
    """
    from horae.cli.crontab import SUSPECT, read_crontab

    zone = _zone(timezone)
    text = _text(file)
    is_system = system or user is not None or file == "/etc/crontab" or file.startswith("/etc/cron.d/")
    entries = read_crontab(text, zone=zone, has_user=is_system, user=user, prefix=flags["prefix"])
    suspect = ", ".join(str(each.line) for each in entries if SUSPECT in each.notes)
    if suspect:
        session.out.say(f"note: line {suspect} {SUSPECT}.")
    origin = "" if timezone else " (of this machine; --tz changes it)"

    def now(done: list[Any]) -> str:
        lines = ", ".join(str(entry.line) for entry in done)
        return f"Now take line {lines} out of the crontab, or both will run them."

    _finish(session, entries, flags, "lines", f"Zone: {zone}{origin}.", now)


@imports.command("systemd")
@click.argument("place", metavar="FILE|FOLDER...", nargs=-1, required=True)
@click.option("--timezone", "--tz", help="The zone of timers that name none; default: this machine's.")
@_common
@click.pass_obj
def systemd(session: Session, /, place: tuple[str, ...], timezone: str | None, **flags: Any) -> None:
    """Make jobs of .timer units; the .service of each is looked for beside it."""
    from horae.cli.systemd import read_timers

    zone = _zone(timezone)
    try:
        entries = read_timers([Path(each) for each in place], zone=zone, prefix=flags["prefix"])
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"A unit cannot be read: {error}.", code="file") from None
    if not entries:
        raise Failure(USAGE, "There is no .timer.", code="file", hint="Such as /etc/systemd/system.")

    def now(done: list[Any]) -> str:
        return f"Now stop these, or both will run them: systemctl disable --now {' '.join(each.text for each in done)}"

    _finish(session, entries, flags, "timers", f"Zone: {zone}.", now)


@imports.command("k8s")
@click.argument("file", nargs=-1, required=True)
@click.option("--timezone", "--tz", default="UTC", show_default=True, help="The zone of CronJobs that name none.")
@_common
@click.pass_obj
def k8s(session: Session, /, file: tuple[str, ...], timezone: str, **flags: Any) -> None:
    """Make jobs of Kubernetes CronJobs: manifests, or the output of kubectl; FILE may be - for standard input."""
    from horae.cli.kubernetes import read_cronjobs

    zone, entries = _zone(timezone), []
    for each in file:
        try:
            entries += read_cronjobs(_text(each), zone=zone, prefix=flags["prefix"])
        except ValueError as error:
            line, told = error.args
            raise Failure(REJECTED, told, code="yaml", hint=f"In {each}, line {line}.") from None

    def now(done: list[Any]) -> str:
        return f"Now suspend these there, or both will run them: {', '.join(entry.name for entry in done)}"

    _finish(session, entries, flags, "CronJobs", f"Zone where none is named: {zone}.", now)


@imports.command("celery")
@click.argument("file")
@click.option("--timezone", "--tz", help="The zone of the schedule; default: what the module says, or UTC.")
@_common
@click.pass_obj
def celery(session: Session, /, file: str, timezone: str | None, **flags: Any) -> None:
    """Make jobs of a Celery beat schedule. FILE is the module that has it; it is read, not run."""
    from horae.cli.celery import read_beat

    zone = _zone(timezone) if timezone else None
    try:
        entries = read_beat(_text(file), zone=zone, prefix=flags["prefix"])
    except SyntaxError as error:
        raise Failure(REJECTED, f"{file} is no Python: {error.msg}, line {error.lineno}.", code="python") from None
    if not entries:
        hint = "It is looked for as beat_schedule = {…}, written out in the file itself."
        raise Failure(REJECTED, f"{file} has no beat schedule.", code="no_schedule", hint=hint)

    def now(done: list[Any]) -> str:
        return f"Now take these out of beat, or both will run them: {', '.join(entry.text for entry in done)}"

    session.out.say('A handler is a function with @app.handler("name") of a worker: horae worker module:app')
    _finish(session, entries, flags, "entries", "", now)


def _zone(given: str | None) -> str:
    from horae.cli.times import local_zone
    from horae.core.zone import check_zone

    return check_zone(given, "--tz") if given else local_zone() or "UTC"


def _finish(
    session: Session,
    entries: list[Any],
    flags: dict[str, Any],
    what: str,
    zone: str,
    now: Callable[[list[Any]], str],
) -> None:
    """Create them or show them. `now` says what is left to do where they come from, of those that are jobs by now."""
    is_dry = flags["dry_run"]
    jobs = _jobs(entries, flags["queue"])
    if session.out.form == "yaml" and is_dry:
        from horae.cli.output import as_yaml

        click.echo("---\n".join(as_yaml(job) for job in jobs), nl=False)
        for entry in entries:
            for note in [entry.refusal] if entry.refusal else entry.notes:
                session.out.say(f"{(entry.job or {}).get('name') or entry.name or f'line {entry.line}'}: {note}")
        return
    results = _compare(session, entries) if is_dry else _create(session, entries)
    _show(session, entries, results)
    left = sum(bool(entry.refusal) for entry in entries)
    new = len(jobs) - len(results) if is_dry else _count(results, "created")
    told = f"{new} jobs would be created" if is_dry else f"{new} jobs created"
    there, taken = _count(results, "exists"), _count(results, "taken")
    also = f", {there} existed already" if there else ""
    also += f", {taken} had a name that is taken by another job" if taken else ""
    failed = _count(results, "failed")
    also += f", {failed} failed" if failed else ""
    session.out.say(f"{told}{also}, {left} {what} not imported. {zone}".rstrip())
    if is_dry:
        if new:
            session.out.say("Nothing was changed. Run again without --dry-run to create them.")
        return
    if _count(results, "created"):
        is_job = ("created", "exists")
        session.out.say(now([each for each in entries if each.job and results[each.job["name"]].word in is_job]))
    _exit_if_not_all(results, is_left=any(entry.refusal and not entry.is_unwanted for entry in entries))


def _jobs(entries: list[Any], queue: str | None) -> list[dict[str, Any]]:
    """The jobs, each with a name of its own: CronJobs of two namespaces may have the same."""
    from horae.cli.crontab import unique
    from horae.cli.files import checked
    from horae.core.errors import Invalid

    names = set[str]()
    for entry in entries:
        if entry.job is None:
            continue
        entry.job |= {"name": unique(entry.job["name"], names)} | ({"queue": queue} if queue else {})
        try:
            checked(entry.job)
        except Invalid as error:
            entry.refusal = " ".join(f"{fault.detail} {fault.hint}".strip() for fault in error.faults)
            entry.job = None
    return [entry.job for entry in entries if entry.job]


def _exit_if_not_all(results: dict[str, Result], *, is_left: bool) -> None:
    """`is_left`: some became no job, so that no result tells of them."""
    codes = {each.exit_code for each in results.values() if each.exit_code} | ({REJECTED} if is_left else set())
    if codes:
        is_partly = _count(results, "created") or _count(results, "exists") or len(codes) > 1
        sys.exit(PARTLY if is_partly else codes.pop())


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{file} cannot be read: {unreadable(error)}.", code="file") from None


class Result(NamedTuple):
    """What became of a job: a word, more about it, and the exit code that it asks for."""

    word: str
    note: str = ""
    exit_code: int = 0


def _create(session: Session, entries: list[Any]) -> dict[str, Result]:
    """A job that exists is left alone: a second import makes nothing twice and overwrites nothing."""
    results = {}
    for entry in session.out.track([each for each in entries if each.job], "Creating jobs"):
        job = entry.job
        try:
            session.client.post("/jobs", job)
        except Failure as error:
            if error.exit_code == UNREACHABLE:
                raise
            results[job["name"]] = _refused(session, entry, error)
        else:
            results[job["name"]] = Result("created")
    return results


def _compare(session: Session, entries: list[Any]) -> dict[str, Result]:
    """Those that a server has already, if one answers: a dry run needs none."""
    from horae.cli.apply import current_jobs

    jobs = {entry.job["name"]: entry.job for entry in entries if entry.job}
    try:
        session.client.limit_wait(LOOK_SECONDS)
        there = current_jobs(session.client, list(jobs))
    except Failure:
        session.out.say("No server was asked which of them exist already.")
        return {}
    return {name: _existing(jobs[name], found) for name, found in there.items()}


def _existing(job: dict[str, Any], there: dict[str, Any]) -> Result:
    from horae.cli.files import checked, differences

    fields = ", ".join(each["field"] for each in differences(checked(job), there, {}))
    told = f"taken by another job: {fields} differ; {OTHER_NAMES}"
    return Result("taken", told, CONFLICT) if fields else Result("exists")


def _refused(session: Session, entry: Any, error: Failure) -> Result:
    from horae.cli.apply import current_jobs

    name = entry.job["name"]
    about = f"line {entry.line}, {name}"
    there = current_jobs(session.client, [name]).get(name) if error.exit_code == CONFLICT else None
    if there is None:
        tell(error, about)
        reason = "; ".join(fault["detail"] for fault in error.faults) or error.detail
        return Result("failed", reason, error.exit_code)
    result = _existing(entry.job, there)
    if result.exit_code:
        told = result.note.removesuffix(f"; {OTHER_NAMES}")
        tell(Failure(CONFLICT, f"{told}.", code="name_taken", hint=OTHER_NAMES), about)
    return result


def _count(results: dict[str, Result], word: str) -> int:
    return sum(each.word == word for each in results.values())


def _show(session: Session, entries: list[Any], results: dict[str, Result]) -> None:
    from horae.cli.times import now
    from horae.core.duration import format_instant
    from horae.core.schedule import next_after, parse_schedule
    from horae.core.words import describe

    items = []
    now_us = int(now().timestamp()) * 1_000_000
    for entry in entries:
        item: dict[str, Any] = {
            "line": entry.line,
            "name": entry.name or None,
            "schedule": entry.schedule or entry.text,
            "next_at": None,
        }
        if entry.job:
            line = entry.job["schedule"]
            schedule = parse_schedule(line, zone=entry.job["timezone"], anchor_us=now_us, seed="")
            # Where an H falls is known once the job has its id.
            due = None if "H" in line else next_after(schedule, now_us)
            told = line if due is None else describe(schedule)
            item |= {"name": entry.job["name"], "schedule": told, "next_at": due and format_instant(due)}
        word = "would create" if entry.job else "not imported" if entry.refusal else "setting"
        result = results.get(item["name"], Result(word)) if entry.job else Result(word)
        notes = [entry.refusal] if entry.refusal else entry.notes
        told = "; ".join([result.note, *notes] if result.note else notes)
        items.append(item | {"result": result.word, "notes": told, "job": entry.job})
    columns: list[Column] = [
        ("line", "line"), ("name", "name"), ("schedule", "schedule"), ("next", "next_at"), ("result", "result"),
        ("notes", "notes"),
    ]  # fmt: skip
    if session.out.form == "table":
        # On a narrow screen the last ones have no room, and the notes are what matters.
        columns = [columns[place] for place in (0, 1, 2, 5, 4, 3)]
    if session.out.form == "name":
        items = [each for each in items if each["job"]]
    session.out.rows(items, columns, "name")

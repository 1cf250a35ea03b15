"""`horae dead`: runs that failed for good, until somebody replays or discards them."""

from __future__ import annotations

from typing import Any

import click

from horae.cli import filters
from horae.cli.completion import dead_ids
from horae.cli.each import delete_each, post_each
from horae.cli.failure import USAGE, Failure, path
from horae.cli.output import Column
from horae.cli.runs import filter_query, run_filters
from horae.cli.session import Group, Session, changing, paged

COLUMNS: list[Column] = [
    ("run", "run_id"),
    ("job", "job_name"),
    ("reason", "reason"),
    ("error", lambda run: (run["error_message"] or "").partition("\n")[0]),
    ("ended", "end_time"),
    ("attempts", "attempt_number"),
]
FIELDS: list[Column] = [
    ("job", "job_name"), ("run", "run_id"), ("due", "scheduled_for"), ("ended", "end_time"), ("reason", "reason"),
    ("error", "error_message"), ("result", "result"),
]  # fmt: skip
ATTEMPTS: list[Column] = [
    ("attempt", "attempt_number"), ("started", "start_time"), ("took", "duration_ms"), ("reason", "reason"),
    ("error", lambda attempt: (attempt["error_message"] or "").partition("\n")[0]),
]  # fmt: skip


# Of dead letters alone: the groups of the dashboard are made by it, so one of them can be named here.
with_error = click.option("--error", metavar="TEXT", help="With this error, as the groups of dead letters tell it.")


@click.group(cls=Group)
def dead() -> None:
    """Dead letters: runs that used all their attempts.

    \b
    horae dead list --job report
    horae dead replay --job report --dry-run
    """


@dead.command("list")
@run_filters
@with_error
@paged(50)
@click.pass_obj
def list_dead(session: Session, /, most: int | None, **flags: Any) -> None:
    """What failed for good, newest first."""
    found = session.client.pages("/dead-letters", "dead_letters", most, **filter_query(flags, filters.DEAD))
    session.show(found, COLUMNS, "run_id", "Nothing is dead.")


@dead.command("show")
@click.argument("run_id", metavar="RUN", shell_complete=dead_ids)
@click.pass_obj
def show(session: Session, run_id: str) -> None:
    """What went wrong, attempt by attempt."""
    found = session.client.get(path("runs", run_id))
    if not session.out.is_for_people:
        session.out.one(found, "run_id")
        return
    session.out.one(found, "run_id", FIELDS)
    session.out.rows(found["attempts"], ATTEMPTS, "attempt_number")
    session.out.say(f"Next: horae logs {run_id}\n      horae replay {run_id}")


@dead.command("replay")
@click.argument("run_id", metavar="[RUN]...", nargs=-1, shell_complete=dead_ids)
@run_filters
@with_error
@click.option("--all", "is_all", is_flag=True, help="Every dead letter.")
@click.option("--rate", type=float, help="So many a second.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@changing
@click.pass_obj
def replay(
    session: Session,
    /,
    run_id: tuple[str, ...],
    is_all: bool,
    rate: float | None,
    yes: bool,
    **flags: Any,
) -> None:
    """Run anew: these, or all that match the flags. Each is a new run that names the old one."""
    if run_id:
        post_each(session, run_id, ("dead-letters", "replay"), "run_id", "Replayed")
        return
    more = {"rate": rate} if rate else {}
    _in_bulk(session, "replay", flags, more, is_all=is_all, yes=yes)


@dead.command("discard")
@click.argument("run_id", metavar="[RUN]...", nargs=-1, shell_complete=dead_ids)
@run_filters
@with_error
@click.option("--all", "is_all", is_flag=True, help="Every dead letter.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@changing
@click.pass_obj
def discard(session: Session, /, run_id: tuple[str, ...], is_all: bool, yes: bool, **flags: Any) -> None:
    """Out of the dead letters: these, or all that match the flags. The history stays."""
    if not run_id:
        _in_bulk(session, "discard", flags, {}, is_all=is_all, yes=yes)
        return
    from horae.cli.jobs import confirm

    confirm(f"Discard {len(run_id)} dead letters?", yes=yes or session.is_dry)
    delete_each(session, run_id, "dead-letters", "run_id", "Discarded")


def _in_bulk(
    session: Session,
    verb: str,
    flags: dict[str, Any],
    more: dict[str, Any],
    *,
    is_all: bool,
    yes: bool,
) -> None:
    """Counted first. The count that was seen goes along: if more or fewer match by then, nothing is done."""
    chosen, where = filter_query(flags, filters.DEAD), f"/dead-letters:{verb}"
    if not chosen and not is_all:
        raise Failure(USAGE, "Which ones?", code="usage", hint="Name runs, or --job and the like, or --all.")
    plan = session.client.post(where, {"filter": chosen, "dry_run": True})
    if session.is_dry:
        session.out.one(plan, "count", [(f"would {verb}", "count")])
        return
    if plan["count"] == 0:
        session.out.say("Nothing matches.")
        return
    from horae.cli.jobs import confirm

    confirm(f"{verb.capitalize()} {plan['count']} runs?", yes=yes)
    done = session.client.post(where, {"filter": chosen, "expected_count": plan["count"], **more})
    session.out.done(done, "count", f"{verb.capitalize()}ed {done['count']} runs")

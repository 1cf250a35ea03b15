"""`horae run`: what became of each due time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from horae.cli import filters
from horae.cli.completion import job_names, queue_names, run_ids
from horae.cli.each import names_of, post_each
from horae.cli.escapes import echo_output
from horae.cli.failure import NOT_FOUND, USAGE, Failure, path
from horae.cli.filters import filter_option, read_filter
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing, paged
from horae.cli.start import start
from horae.cli.times import read_time

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUN = click.argument("run_id", metavar="RUN", shell_complete=run_ids)
RUNS = click.argument("run_id", metavar="RUN...", nargs=-1, required=True, shell_complete=run_ids)


def run_filters(command: Any) -> Any:
    """The flags that choose runs."""
    for option in reversed(
        [
            filter_option("queue:billing due:24h words"),
            click.option("--job", help="Of this job.", shell_complete=job_names),
            click.option("--queue", help="In this queue.", shell_complete=queue_names),
            click.option("--priority", help="high, medium or low."),
            click.option("--since", help="Due after this time: -2h, 09:00."),
            click.option("--until", help="Due before this time."),
            click.option("--reason", help="With this reason, such as timeout."),
        ]
    ):
        command = option(command)
    return command


def filter_query(flags: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Those flags as parameters of the API, over what `-f` says."""
    since, until, filtered = (flags.pop(name) for name in ("since", "until", "filtered"))
    times = {"due_after": since and read_time(since, "--since"), "due_before": until and read_time(until, "--until")}
    given = {name: value for name, value in (flags | times).items() if value is not None}
    return read_filter(filtered, known) | given


class Runs(Group):
    """`horae run JOB` is `horae run start JOB`: what is no verb is a job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_own = not args or args[0] in ctx.help_option_names or self.get_command(ctx, args[0]) is not None
        return super().parse_args(ctx, args if is_own else ["start", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = job_names(ctx, self, incomplete)
        return [*super().shell_complete(ctx, incomplete), *(CompletionItem(name) for name in names)]


@click.group(cls=Runs)
def run() -> None:
    """Run a job now: `horae run JOB`. And runs: one due time, or one request, and what became of it.

    \b
    horae run report --wait
    horae run list --job report --since -24h --status failed
    horae logs -f RUN
    """


run.add_command(start)


@run.command("list")
@run_filters
@click.option("--status", help="queued, running, retrying, succeeded, failed, cancelled, skipped, …")
@click.option("--worker", help="On this worker.")
@paged(50)
@click.pass_obj
def list_runs(session: Session, /, most: int | None, **flags: Any) -> None:
    """Runs, newest first."""
    found = session.client.pages("/runs", "runs", most, **filter_query(flags, filters.RUNS))
    session.show(found, COLUMNS, "run_id", "No runs match.")


@run.command("show")
@RUN
@click.pass_obj
def show(session: Session, run_id: str) -> None:
    """Everything about a run, with its attempts."""
    session.out.one(session.client.get(path("runs", run_id)), "run_id")


@run.command("logs")
@click.argument("name", metavar="RUN|JOB", shell_complete=job_names)
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends; exit code 3 if badly.")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt.")
@click.option("--tail", type=click.IntRange(0), help="The last so many lines.")
@click.option("--grep", metavar="PATTERN", help="Lines that match this regular expression.")
@click.pass_obj
def logs(session: Session, /, name: str, follow: bool, attempt: int | None, tail: int | None, grep: str | None) -> None:
    """What a run printed, or the latest run of a job."""
    run_id = name if is_run_id(name) else _latest(session, name)
    if follow:
        _follow(session, run_id, tail, _pattern(grep))
        return
    whole = session.client.get(path("runs", run_id, "logs"), attempt=attempt)
    if not whole and attempt:
        _check_attempt(session, run_id, attempt)
    text = _picked(whole, tail, _pattern(grep))
    if session.out.form in ("json", "jsonl", "yaml"):
        session.out.one({"run_id": run_id, "text": text}, "run_id")
    else:
        echo_output(text)


def is_run_id(name: str) -> bool:
    return _RUN_ID.fullmatch(name) is not None


def _latest(session: Session, job_name: str) -> str:
    found = session.client.get(path("jobs", job_name, "runs"), limit=20)
    begun = [each for each in found if each["start_time"]]
    if not begun:
        hint = f"horae why {job_name} tells why; horae run {job_name} --follow starts it."
        raise Failure(NOT_FOUND, f"{job_name} has not run yet.", code="no_runs", hint=hint)
    session.out.say(f"run {begun[0]['run_id']}, {begun[0]['status'].lower()}")
    return str(begun[0]["run_id"])


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    try:
        return None if grep is None else re.compile(grep)
    except re.error as error:
        raise Failure(
            USAGE, f"--grep: {error}.", code="grep", hint="Put \\ before . ( ) [ ] * + ? that mean themselves."
        ) from None


def _picked(text: str, tail: int | None, pattern: re.Pattern[str] | None) -> str:
    if tail is None and pattern is None:
        return text
    lines = [line for line in text.splitlines(keepends=True) if pattern is None or pattern.search(line)]
    return "".join(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :])


def _follow(session: Session, run_id: str, tail: int | None, pattern: re.Pattern[str] | None) -> None:
    """With a tail: the end of what is there already, then what comes after it."""
    from horae.cli.waiting import Shown, wait_for_run

    seen = "" if tail is None else session.client.get(path("runs", run_id, "logs"))
    echo_output(_picked(seen, tail, pattern))
    wait_for_run(session, run_id, log=Shown(pattern, skip=len(seen)), timeout=None)


def _check_attempt(session: Session, run_id: str, attempt: int) -> None:
    made = session.client.get(path("runs", run_id))["attempt_number"]
    if attempt > made:
        raise Failure(NOT_FOUND, f"Run {run_id} has no attempt {attempt}; its latest is {made}.", code="no_attempt")


@run.command("wait")
@RUNS
@click.option("--timeout", help="Give up after this long, with exit code 8.")
@click.pass_obj
def wait(session: Session, run_id: tuple[str, ...], timeout: str | None) -> None:
    """Until all of them ended; exit code 3 if one did badly."""
    from horae.cli.waiting import wait_for_runs

    wait_for_runs(session, names_of(run_id), log=None, timeout=timeout)


@run.command("cancel")
@RUNS
@changing
@click.pass_obj
def cancel(session: Session, run_id: tuple[str, ...]) -> None:
    """End it, or stop it if it is running. RUN may be - for ids on standard input."""
    post_each(session, run_id, ("runs", "cancel"), "run_id", "Cancelled")


@run.command("retry")
@RUNS
@click.option("--wait", "is_waited", is_flag=True, help="Until it ended; exit code 3 if badly.")
@click.option("--follow", is_flag=True, help="Show its log meanwhile; waits as well.")
@click.option("--timeout", help="Stop waiting after this long, with exit code 8.")
@changing
@click.pass_obj
def retry(session: Session, run_id: tuple[str, ...], is_waited: bool, follow: bool, timeout: str | None) -> None:
    """One more attempt of the same run."""
    if is_waited or follow:
        from horae.cli.waiting import Shown, limit_request, wait_for_runs

        limit_request(session, timeout)
    done = post_each(session, run_id, ("runs", "retry"), "run_id", "Once more:")
    if is_waited or follow:
        log = Shown() if follow else None
        wait_for_runs(session, [each["run_id"] for each in done], log=log, timeout=timeout)

"""`horae help`: a command by its words, or one of the topics that belong to no single command."""

from __future__ import annotations

import click

from horae.cli.session import Command

EXIT_CODES = """\
  0  Done as asked.
  1  Failed. diff: there are differences. doctor: something is bad. status --exit-code: something needs attention.
  2  Wrong usage: flags, arguments, files that cannot be read.
  3  The run that was waited for ended badly.
  4  Not found.
  5  No key, or one that may not.
  6  Conflict: the name is taken, somebody else changed it, the state is another.
  7  Rejected: the input breaks a rule.
  8  Gave up waiting.
  9  The server cannot be reached or is not ready.
 10  Partly done; what failed is on standard error.
130  Interrupted.

The commands that open a store by themselves (dev, serve, migrate, verify, export, demo) have their own: 2 is a wrong
flag or setting, 3 (verify) a violation, 4 a database that cannot be used."""

ERRORS = """\
An error says which rule, where, what was seen and wanted, and one way out to paste. All faults come at once.

  error[invalid]: Minute must be 0-59; got 61 in "61 9 * * *".
    at /schedule
  hint: For 10:01 write "1 10 * * *".
  request: req_f0cf92a4ef5cfc9c

The word in brackets is the code of the API, /schedule the field of the document, and the last line the request in the
log of the server. Errors go to standard error; the exit code tells their kind (horae help exit-codes).
--debug prints every request with its answer and its time."""

TIME = """\
Times, wherever one is asked for:
  2030-01-04T09:00:00Z   an instant
  2030-01-04             midnight of that day
  09:00, 09:00:30        today, or for what is to come: the next one
  tomorrow 09:00         also today and yesterday
  now, -2h, +30m         from now on
Without a zone they are of this machine's zone, or of the one in --tz. Zones are places such as Europe/Berlin, never
abbreviations: CET does not know summer.

Lengths: 90s, 5m, 2h, 3d, 1h30m; a bare number is seconds.

On a terminal times are shown in this machine's zone, in a pipe and in JSON as UTC."""

FILTERS = """\
Lists are narrowed by flags; several of them must all hold.
  horae job list   --status paused --search report --label team:billing --type http --queue q --due-before +1h
  horae run list   --job report --status failed --queue q --priority high --since -24h --until now --reason timeout
  horae dead list  the flags of run list
  horae audit list --actor ci --action job.changed --target report --since -7d
Or with -f, in the language of the dashboard's box; words without a name look in the names of jobs:
  horae job list  -f 'status:paused label:team:billing report'
  horae job list  -f 'status:dead'          jobs with a dead letter; also status:late
  horae run list  -f 'status:dead queue:billing due:24h'
Where several names are taken, - reads them from standard input, one a line:
  horae run list --status failed -q | horae retry -
Columns of your own: --fields job_name,status,result.exit_code"""

SCHEDULE = """\
A schedule is one of these, or a list of them:
  0 9 * * 1-5       minute hour day month weekday; names, lists, ranges, steps
  */10 0 9 * * *    six fields: seconds first
  0 0 L * *         the last day; also W (nearest weekday), # (2#1: first Tuesday), H (spread by the job's id)
  @daily @hourly …  names
  @every 90s        a fixed distance
  2030-01-04T09:00:00Z   once
  @now, @manual     once at once; only on request
Day and weekday both set mean either, as in cron. Ask what a line means, offline:
  horae schedule explain '0 9 * * 1-5' --tz Europe/Berlin"""

REBOOT = """\
A crontab line with @reboot has no due time, so there is nothing to schedule: a job belongs to no machine. What should
run when a machine starts is the business of its service manager, such as a systemd unit with
WantedBy=multi-user.target. What should run once now is `horae run JOB`; what should run at a time,
`horae job create NAME --at 'tomorrow 09:00' …`."""

TOPICS = {
    "exit-codes": EXIT_CODES,
    "errors": ERRORS,
    "filters": FILTERS,
    "time": TIME,
    "schedule": SCHEDULE,
    "reboot": REBOOT,
}


@click.command("help", cls=Command)
@click.argument("words", metavar="[TOPIC|COMMAND]...", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """A topic (errors, exit-codes, filters, reasons, reboot, schedule, time), or a command: `horae help job create`."""
    if len(words) == 1 and words[0] == "reasons":
        click.echo(_reasons())
    elif len(words) == 1 and words[0] in TOPICS:
        click.echo(TOPICS[words[0]])
    else:
        click.echo(_command_help(ctx, words))


def _command_help(ctx: click.Context, words: tuple[str, ...]) -> str:
    from horae.cli.root import main

    command: click.Command = main
    inside = click.Context(main, info_name="horae")
    for word in words:
        found = command.get_command(inside, word) if isinstance(command, click.Group) else None
        if found is None:
            topics = ", ".join(sorted([*TOPICS, "reasons"]))
            ctx.fail(f'There is no topic and no command "{" ".join(words)}". Topics: {topics}.')
        command, inside = found, click.Context(found, inside, info_name=word)
    told = command.get_help(inside)
    topics = ", ".join(sorted([*TOPICS, "reasons"]))
    return told if words else f"{told}\n\nTopics of `horae help`: {topics}."


def _reasons() -> str:
    from horae.core.explain import WORDS
    from horae.core.run import ENDED_BADLY, NOT_STARTED, WAITING

    lines = []
    for title, reasons in (("Not started", NOT_STARTED), ("Waiting", WAITING), ("Ended badly", ENDED_BADLY)):
        lines += [f"{title}:", *(f"  {reason:23} {WORDS[reason]}" for reason in reasons), ""]
    return "\n".join([*lines, "horae why JOB --at TIME says which one it was."])

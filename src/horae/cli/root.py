"""The tree of commands. A command's module is imported when the command is asked for, so that each starts fast."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

# Name: where it is, and its line in the help.
COMMANDS = {
    "dev": ("server:dev", "Everything in one process on embedded SQLite, for one developer."),
    "serve": ("server:serve", "A node of a fleet, or a whole horae on one host."),
    "migrate": ("server:migrate", "Bring the schema up to date."),
    "verify": ("server:verify", "Check a history against the promise."),
    "export": ("server:export", "Write the whole history as lines of JSON."),
    "demo": ("server:demo", "Made-up jobs and runs, to see horae at size."),
    "status": ("status:status", "How things stand, and what needs attention."),
    "job": ("jobs:job", "Jobs: create, list, show, edit, pause, resume, run, delete."),
    "run": ("runs:run", "Run a job now; runs: list, show, logs, wait, cancel, retry."),
    "why": ("ask:why", "Why a job did, did not, will or will not run."),
    "upcoming": ("upcoming:upcoming", "What is due next."),
    "forecast": ("forecast:forecast", "How many runs are due when, as a heat map."),
    "logs": ("runs:logs", "What a run, or the latest run of a job, printed."),
    "retry": ("runs:retry", "One more attempt of the same run."),
    "replay": ("dead:replay", "Run dead letters anew."),
    "pause": ("jobs:pause", "Make no runs of a job until resumed."),
    "resume": ("jobs:resume", "Make runs again."),
    "dead": ("dead:dead", "Runs that failed for good: list, show, replay, discard."),
    "schedule": ("schedule:schedule", "Schedules in words; no server needed."),
    "import": ("imports:imports", "Jobs from elsewhere: crontab, systemd, Kubernetes, Celery beat."),
    "validate": ("apply:validate", "Check files of jobs; no server needed."),
    "diff": ("apply:diff", "What an apply of these files would change."),
    "apply": ("apply:apply", "Make the jobs be as these files say."),
    "plan": ("plan:plan", "Which due times and how much load an edit changes, before it is applied."),
    "backfill": ("backfill:backfill", "Runs for past due times that have none."),
    "queue": ("fleet:queue", "Queues: list, show, pause, resume, drain, limit."),
    "worker": ("work:worker", "Workers: list, drain, run the handlers of an app."),
    "calendar": ("calendars:calendar", "Named calendars: list, show, set, delete."),
    "webhook": ("webhooks:webhook", "Who is told of what."),
    "secret": ("secrets:secret", "Secrets of jobs: list, set, delete."),
    "key": ("access:key", "API keys: list, create, show, rotate, revoke."),
    "tenant": ("access:tenant", "Tenants and their quotas."),
    "audit": ("access:audit", "Who changed what: list, export, verify."),
    "conform": ("conform:conform", "Is an endpoint safe against calls that come twice, late or out of order?"),
    "bench": ("bench:bench", "How fast horae is on a database, beside the same SQL run bare."),
    "doctor": ("doctor:doctor", "Is everything as it should be, and if not, what to do."),
    "top": ("top:top", "How things stand, live."),
    "open": ("browse:open_page", "The dashboard, at a job or a run."),
    "api": ("raw:api", "One request to the API, with your key."),
    "login": ("account:login", "Keep the key of a server."),
    "logout": ("account:logout", "Forget the key of a server."),
    "whoami": ("account:whoami", "Which server, which tenant, which role."),
    "context": ("context:context", "Servers by name: ls, use, add, rm."),
    "config": ("configuration:config", "Which settings hold here, and who set them."),
    "completion": ("completion:completion", "Completion for bash, zsh, fish and PowerShell."),
    "help": ("topics:help_", "Errors, exit codes, filters, time, schedules."),
}
# Also understood.
PLURALS = {f"{name}s": name for name in ("job", "run", "queue", "worker", "calendar", "webhook", "secret", "key")}
PLURALS |= {"tenants": "tenant", "contexts": "context", "schedules": "schedule", "dead-letters": "dead"}


class Tree(click.Group):
    """Knows its commands by name and imports the one that is asked for."""

    def _main_shell_completion(self, ctx_args: Any, prog_name: str, complete_var: str | None = None) -> None:
        if os.environ.get("_HORAE_COMPLETE", "").startswith("powershell"):
            from horae.cli.powershell import add

            add()
        super()._main_shell_completion(ctx_args, prog_name, complete_var)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = PLURALS.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(f"horae.cli.{module}"), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and name not in PLURALS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            told = f' Did you mean "horae {near[0]}"?' if near else " `horae --help` lists them."
            ctx.fail(f'There is no command "{name}".{told}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in COMMANDS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, value: Any) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"horae, version {version('horae')}")
        ctx.exit()


@click.group(cls=Tree, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="The version, and exit."
)
def main() -> None:
    """Cron you can ask why: a job scheduler with an API and a memory.

    \b
    Try:  horae dev
          horae job create hello --schedule '@every 1m' --command 'echo hi'
          horae upcoming
          horae why hello
    """

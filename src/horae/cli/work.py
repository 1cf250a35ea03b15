"""`horae worker MODULE:APP`: runs the handlers of an SDK app."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from horae.cli.commanded import in_commands
from horae.cli.fleet import worker as verbs
from horae.cli.server import UNAVAILABLE, USAGE, guarded, run_loop, settings_of
from horae.cli.session import Group
from horae.core.errors import Fault, Invalid

if TYPE_CHECKING:
    from horae.sdk.app import App as SdkApp


@click.command("run")
@click.argument("app", metavar="MODULE:APP")
@click.option("--url", help="Work for a server by its API (HORAE_URL), with the key in HORAE_API_KEY.")
@click.option("--database-url", help="Work on the database itself (HORAE_DATABASE_URL).")
@click.option("--worker-slots", type=click.IntRange(1, 1000), help="Runs at once (HORAE_WORKER_SLOTS).")
@click.option("--worker-queues", help="Queues it serves, comma separated (HORAE_WORKER_QUEUES).")
@click.option("--no-register", is_flag=True, help="Leave the jobs on the server as they are.")
def work(app: str, url: str | None, *, no_register: bool, **flags: Any) -> None:
    """Run the handlers of an SDK app, after saving the jobs that it declares. A pause of them stays.

    With --database-url or HORAE_DATABASE_URL it is a worker like any other. Otherwise it takes its runs over HTTP, by
    default from the `horae dev` of this machine; the key then needs the role editor, or worker with --no-register.
    """
    from horae.telemetry import configure

    configure(is_terminal=sys.stderr is not None and sys.stderr.isatty())
    found = guarded(lambda: _load_app(app))
    if not url and (flags["database_url"] or "HORAE_DATABASE_URL" in os.environ):
        guarded(lambda: _work_on_database(found, flags, registers=not no_register))
    else:
        guarded(lambda: _work_over_http(found, url, flags, registers=not no_register))


def _load_app(word: str) -> SdkApp:
    from importlib import import_module

    from horae.sdk.app import App, Misdeclared

    module, _, name = word.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name or "app")
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise
        hint = "Name it as in an import, from the folder that it is in: package.module:app."
        raise Invalid([Fault("MODULE:APP", f'There is no module "{module}".', hint)]) from None
    except Misdeclared as error:
        raise Invalid([Fault("MODULE:APP", str(error))]) from None
    except AttributeError:
        raise Invalid(
            [Fault("MODULE:APP", f'"{module}" has no "{name or "app"}".', "Write app = horae.App().")]
        ) from None
    if not isinstance(found, App):
        detail = f'"{word}" is {type(found).__name__}, not a horae.App.'
        raise Invalid([Fault("MODULE:APP", detail, "Write app = horae.App() in it.")])
    if not found.handlers:
        raise Invalid([Fault("MODULE:APP", f'"{word}" has no handlers.', "Decorate a function with @app.job(…).")])
    return found


def _work_on_database(found: SdkApp, flags: dict[str, Any], *, registers: bool) -> None:
    settings = settings_of({**flags, "roles": "worker"}, is_server=False)
    if settings.is_sqlite:
        hint = "Start `horae dev`, then `horae worker` with HORAE_URL=http://127.0.0.1:8700 instead."
        raise Invalid([Fault("HORAE_DATABASE_URL", "SQLite belongs to one process.", hint)])

    from horae.app import App

    jobs = list(found.jobs.values()) if registers else []

    async def work() -> None:
        await App(settings, found.handlers, jobs).run()

    run_loop(work())


def _work_over_http(found: SdkApp, url: str | None, flags: dict[str, Any], *, registers: bool) -> None:
    from horae.remote_worker import RemoteSettings, run_remote
    from horae.sdk.errors import ApiError

    known = {name: value for name, value in flags.items() if value is not None and name != "database_url"}
    settings = settings_of(known, is_server=False)
    slots = settings.worker_slots if "worker_slots" in known or "HORAE_WORKER_SLOTS" in os.environ else 10
    try:
        asyncio.run(run_remote(found, url, None, RemoteSettings(settings.queues, slots), registers=registers))
    except ApiError as error:
        click.echo("\n".join([f"error: {in_commands(str(error))}", *getattr(error, "__notes__", [])]), err=True)
        sys.exit(UNAVAILABLE if error.status in (0, 503) else USAGE)


class Workers(Group):
    """`horae worker module:app` is `horae worker run module:app`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ":" not in args[0] and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f'There is no verb "{args[0]}". To run the handlers of a module: horae worker {args[0]}:app.')
        return super().resolve_command(ctx, ["run", *args] if ":" in args[0] else args)


worker = Workers("worker", {**verbs.commands, "run": work}, help=verbs.help)

"""The command line. Server verbs go through the app; nothing heavy is imported before a verb is known."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from horae.core.errors import Fault, HoraeError, Invalid

if TYPE_CHECKING:
    from horae.config import Settings

T = TypeVar("T")

USAGE, VIOLATED, UNAVAILABLE = 2, 3, 4


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="horae", prog_name="horae")
def main() -> None:
    """Cron you can ask why: a job scheduler with an API and a memory."""


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--port", type=int, help="Port of the API (HORAE_PORT)."),
        click.option("--host", help="Address of the API (HORAE_HOST)."),
        click.option("--database-url", help="sqlite:///file.db or postgresql://… (HORAE_DATABASE_URL)."),
        click.option("--worker-slots", type=int, help="Runs at once in this process (HORAE_WORKER_SLOTS)."),
        click.option("--worker-queues", help="Queues it serves, comma separated, * for all (HORAE_WORKER_QUEUES)."),
        click.option("--lease-seconds", type=float, help="Shard lease (HORAE_LEASE_SECONDS)."),
        click.option("--heartbeat-seconds", type=float, help="Worker heartbeat (HORAE_HEARTBEAT_SECONDS)."),
        click.option(
            "--visibility-seconds", type=float, help="Silence that loses a worker (HORAE_VISIBILITY_SECONDS)."
        ),
        click.option("--lookahead-seconds", type=float, help="How far ahead to stage (HORAE_LOOKAHEAD_SECONDS)."),
        click.option("--egress-allow", help="Address ranges jobs may reach besides public ones (HORAE_EGRESS_ALLOW)."),
        click.option("--shell", type=click.Choice(["off", "sandbox", "on"]), help="Shell jobs (HORAE_SHELL)."),
        click.option("--retention-days", type=float, help="How long finished runs are kept (HORAE_RETENTION_DAYS)."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of the database. Default: ./.horae")
@_server_options
def dev(data: Path | None, **flags: Any) -> None:
    """Everything in one process on embedded SQLite, for one developer: no authentication, loopback only."""
    folder = data or Path(os.environ.get("HORAE_DATA", ".horae"))
    if flags.get("database_url") is None and "HORAE_DATABASE_URL" not in os.environ:
        flags["database_url"] = f"sqlite:///{folder / 'horae.db'}"
    settings = _settings(flags, is_dev=True)
    if settings.is_sqlite:
        Path(settings.database_url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    click.echo(
        f"horae is starting at http://{settings.host}:{settings.port}\n  data: {settings.database_url}\n  stop: Ctrl+C",
        err=True,
    )
    _run(settings)


@main.command()
@click.option("--roles", help="Any of api,scheduler,worker (HORAE_ROLES).")
@_server_options
def serve(**flags: Any) -> None:
    """A node of a fleet, or a whole horae on one host: authentication on."""
    _run(_settings(flags))


@main.command()
@click.option("--database-url", help="sqlite:///file.db or postgresql://… (HORAE_DATABASE_URL).")
def migrate(**flags: Any) -> None:
    """Bring the schema up to date. Safe to repeat, and while other nodes run."""
    settings = _settings(flags, is_server=False)

    from horae.app import migrate_store

    done = _guarded(lambda: asyncio.run(migrate_store(settings)))
    click.echo("\n".join(f"applied {name}" for name in done) or "The schema is up to date.")


@main.command()
@click.argument("file", type=click.File("r"), required=False)
@click.option("--database-url", help="Check a live store instead of a file (HORAE_DATABASE_URL).")
@click.option("--json", "is_json", is_flag=True, help="The report as JSON.")
def verify(file: Any, database_url: str | None, *, is_json: bool) -> None:
    """Check a history against the promise: every due time decided once, none early, none lost.

    FILE is an export (`horae export`), - is standard input; without it the store of the settings is read.
    Exit code 0: clean. 3: violations, each with its witness.
    """
    from horae.verify.records import read_history
    from horae.verify.report import as_json, as_text, check

    lines = file if file is not None else _guarded(lambda: _export(database_url))
    report = check(read_history(lines))
    click.echo(json.dumps(as_json(report), indent=2) if is_json else as_text(report))
    sys.exit(0 if report.is_clean else VIOLATED)


@main.command()
@click.option("--database-url", help="The store to read (HORAE_DATABASE_URL).")
def export(database_url: str | None) -> None:
    """Write the whole history as lines of JSON, for `horae verify` or for keeping."""
    for line in _guarded(lambda: _export(database_url)):
        click.echo(line)


@main.group()
def demo() -> None:
    """Made-up jobs and runs, to see horae at size."""


@demo.command("load")
@click.option("--jobs", type=click.IntRange(0, 9_999_999), default=1000, show_default=True, help="How many jobs.")
@click.option("--runs", type=click.IntRange(0), default=20_000, show_default=True, help="How many finished runs.")
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="Over how many past days.")
@click.option("--database-url", help="The store to fill (HORAE_DATABASE_URL).")
def load(jobs: int, runs: int, days: int, database_url: str | None) -> None:
    """Fill a store with jobs and finished runs; a repeat adds runs. SQLite must not be in use meanwhile."""
    from horae.demo import load_demo

    settings = _settings({"database_url": database_url}, is_server=False)
    _guarded(lambda: asyncio.run(load_demo(settings, jobs=jobs, runs=runs, days=days, tell=click.echo)))


def _export(database_url: str | None) -> list[str]:
    from horae.app import export_history

    return asyncio.run(export_history(_settings({"database_url": database_url}, is_server=False)))


def _settings(flags: dict[str, Any], *, is_dev: bool = False, is_server: bool = True) -> Settings:
    from horae.config import read_settings

    return _guarded(lambda: read_settings(os.environ, flags, is_dev=is_dev, is_server=is_server))


def _run(settings: Settings) -> None:
    from horae.app import App
    from horae.telemetry import configure

    configure(is_terminal=sys.stderr.isatty())

    async def work() -> int:
        app = App(settings)
        await app.run()
        return app.exit_code

    sys.exit(_guarded(lambda: _loop_runner()(work())))


def _loop_runner() -> Callable[[Any], Any]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


def _guarded(work: Callable[[], T]) -> T:
    """Our own errors in words, with an exit code; anything else is a bug and shows its trace."""
    try:
        return work()
    except Invalid as error:
        for fault in error.faults:
            click.echo(_words(fault), err=True)
        sys.exit(USAGE)
    except HoraeError as error:
        click.echo(f"error[{error.code}]: {error.detail}", err=True)
        sys.exit(UNAVAILABLE)


def _words(fault: Fault) -> str:
    hint = f"\nhint: {fault.hint}" if fault.hint else ""
    return f"error: {fault.pointer}: {fault.detail}{hint}"

"""The verbs that open a store by themselves: dev, serve, migrate, verify, export, demo. They go through the app, which
is imported once the flags are known.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from horae.cli.commanded import in_commands
from horae.core.errors import Fault, HoraeError, Invalid, Unavailable

if TYPE_CHECKING:
    from horae.config import Settings
    from horae.verify.report import Report

T = TypeVar("T")

USAGE, VIOLATED, UNAVAILABLE = 2, 3, 4


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--port", type=int, help="Port of the API (HORAE_PORT)."),
        click.option("--host", help="Address of the API (HORAE_HOST)."),
        click.option(
            "--health-port", type=int, help="/healthz, /readyz and /metrics of other roles (HORAE_HEALTH_PORT)."
        ),
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


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of the database. Default: ./.horae")
@click.option("--ephemeral", is_flag=True, help="Forget everything at the end: the data is in a folder of its own.")
@click.option("--open", "is_opened", is_flag=True, help="Open the dashboard in a browser.")
@_server_options
def dev(data: Path | None, *, ephemeral: bool, is_opened: bool, **flags: Any) -> None:
    """Everything in one process on embedded SQLite, for one developer: no authentication, loopback only."""
    if ephemeral and (data or flags.get("database_url")):
        raise click.UsageError("--ephemeral keeps nothing: leave out --data and --database-url.")
    with TemporaryDirectory(prefix="horae-") as passing:
        folder = Path(passing) if ephemeral else data or Path(os.environ.get("HORAE_DATA", ".horae"))
        _dev(folder, flags, is_ephemeral=ephemeral, is_opened=is_opened)


def _dev(folder: Path, flags: dict[str, Any], *, is_ephemeral: bool, is_opened: bool) -> None:
    if is_ephemeral or (flags.get("database_url") is None and "HORAE_DATABASE_URL" not in os.environ):
        flags["database_url"] = f"sqlite:///{folder / 'horae.db'}"
    settings = settings_of(flags, is_dev=True)
    if settings.is_sqlite:
        guarded(lambda: _make_folder(settings.data_folder))
    click.echo(_welcome(settings), err=True)
    if is_opened:
        Thread(target=_open_page, args=(settings.host, settings.port), daemon=True).start()
    _run(settings)


def _open_page(host: str, port: int) -> None:
    """Once somebody listens there."""
    import socket
    import time
    import webbrowser

    for _ in range(100):
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            webbrowser.open(f"http://{host}:{port}/")
            return


def _welcome(settings: Settings) -> str:
    address = f"http://{settings.host}:{settings.port}"
    flag = "" if settings.port == 8700 else f" --url {address}"
    return "\n".join([
        f"horae is starting at {address}",
        f"  dashboard  {address}/   API {address}/api/v1",
        f"  data       {settings.database_url}",
        f"  worker     {settings.worker_slots} slots on {settings.worker_queues}",
        "  keys       none are asked for: it listens on this machine alone",
        "  stop       Ctrl+C",
        f"Next:  horae job create hello --every 1m --command 'echo hi'{flag}",
        f"       crontab -l | horae import crontab - --dry-run{flag}",
    ])  # fmt: skip


@click.command()
@click.option("--roles", help="Any of api,scheduler,worker (HORAE_ROLES).")
@_server_options
def serve(**flags: Any) -> None:
    """A node of a fleet, or a whole horae on one host: authentication on."""
    _run(settings_of(flags))


@click.command()
@click.option("--database-url", help="sqlite:///file.db or postgresql://… (HORAE_DATABASE_URL).")
@click.option("--dry-run", is_flag=True, help="Say what would be applied; apply nothing.")
def migrate(*, dry_run: bool, **flags: Any) -> None:
    """Bring the schema up to date. Safe to repeat, and while other nodes run."""
    settings = settings_of(flags, is_server=False)

    from horae.app import migrate_store, missing_migrations

    if dry_run:
        missing = guarded(lambda: asyncio.run(missing_migrations(settings)))
        click.echo("\n".join(f"would apply {name}" for name in missing) or "The schema is up to date.")
        return
    done = guarded(lambda: asyncio.run(migrate_store(settings)))
    click.echo("\n".join(f"applied {name}" for name in done) or "The schema is up to date.")


@click.command()
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--database-url", help="Check a live store instead of a file (HORAE_DATABASE_URL).")
@click.option("--url", help="Check a horae by its API, such as http://127.0.0.1:8700; with its admin key.")
@click.option("--key", help="The key for --url (HORAE_ADMIN_KEY).")
@click.option("--acked", type=click.File("r"), help="Ids of jobs and runs that were given out, one a line (I5).")
@click.option("--max-late", "most_late", help="A run that starts later than this is a violation, such as 5s (I21).")
@click.option("--json", "is_json", is_flag=True, help="The report as JSON.")
@click.option("--audit", "is_audit", is_flag=True, help="Check the chains of the audit log instead.")
def verify(
    file: Any, acked: Any, most_late: str | None, *, is_json: bool, is_audit: bool, **source: str | None
) -> None:
    """Check a history against the promise: every due time decided once, none early, none lost.

    FILE is an export (`horae export`), - is standard input; without it the store of the settings is read.
    Exit code 0: clean. 3: violations, each with its witness. With --audit: every chain of the audit log, and where one
    does not hold.
    """
    if is_audit:
        _verify_audit(source["database_url"], is_json=is_json)
    from horae.core.duration import parse_duration
    from horae.verify.report import Check, as_json, as_text

    def work() -> Report:
        most_late_us = None if most_late is None else parse_duration(most_late, "--max-late")
        check = Check((line.strip() for line in acked or () if line.strip()), most_late_us)
        if file is not None or source["url"]:
            for line in file or _download(source["url"] or "", source["key"]):
                check.take(line)
        else:
            _export(source["database_url"], check.take_lines)
        return check.report()

    report = guarded(work)
    click.echo(json.dumps(as_json(report), indent=2) if is_json else as_text(report))
    sys.exit(0 if report.is_clean else VIOLATED)


@click.command()
@click.option("--database-url", help="The store to read (HORAE_DATABASE_URL).")
def export(database_url: str | None) -> None:
    """Write the whole history as lines of JSON, for `horae verify` or for keeping."""
    guarded(lambda: _export(database_url, sys.stdout.buffer.write))
    sys.stdout.buffer.flush()


@click.group()
def demo() -> None:
    """Made-up jobs and runs, to see horae at size."""


@demo.command("load")
@click.option("--jobs", type=click.IntRange(0, 9_999_999), default=1000, show_default=True, help="How many jobs.")
@click.option("--runs", type=click.IntRange(0), default=20_000, show_default=True, help="How many finished runs.")
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="Over how many past days.")
@click.option("--database-url", help="The store to fill (HORAE_DATABASE_URL).")
@click.option("--dry-run", is_flag=True, help="Say what would be made; make nothing.")
def load(jobs: int, runs: int, days: int, database_url: str | None, *, dry_run: bool) -> None:
    """Fill a store with jobs and finished runs; a repeat adds runs. SQLite must not be in use meanwhile."""
    from horae.demo import load_demo

    if dry_run:
        click.echo(f"{jobs:,} jobs and {runs:,} runs over {days} days would be made")
        return
    settings = settings_of({"database_url": database_url}, is_server=False)
    guarded(lambda: asyncio.run(load_demo(settings, jobs=jobs, runs=runs, days=days, tell=click.echo)))


@demo.command("clear")
@click.option("--database-url", help="The store to clear (HORAE_DATABASE_URL).")
@click.option("--dry-run", is_flag=True, help="Say how much would be gone; delete nothing.")
def clear(database_url: str | None, *, dry_run: bool) -> None:
    """Delete the made-up jobs with all their runs, and nothing else. SQLite must not be in use meanwhile."""
    from horae.demo import clear_demo

    settings = settings_of({"database_url": database_url}, is_server=False)
    guarded(lambda: asyncio.run(clear_demo(settings, is_dry=dry_run, tell=click.echo)))


def _export(database_url: str | None, take: Callable[[bytes], object]) -> None:
    from horae.app import export_history

    asyncio.run(export_history(settings_of({"database_url": database_url}, is_server=False), take))


def _download(url: str, key: str | None) -> Iterator[bytes]:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    if not url.startswith(("http://", "https://")):
        raise Invalid([Fault("--url", f'"{url}" is no address of a horae.', "Such as http://127.0.0.1:8700")])
    key = key or os.environ.get("HORAE_ADMIN_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with urlopen(Request(f"{url.rstrip('/')}/api/v1/history/export", headers=headers), timeout=60) as answer:  # noqa: S310 checked above
            yield from answer
    except HTTPError as error:
        raise Unavailable(f"{url} answered {error.code} {error.reason}.") from error
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{url} could not be read: {error}") from error


def _verify_audit(database_url: str | None, *, is_json: bool) -> NoReturn:
    from horae.app import check_audit

    settings = settings_of({"database_url": database_url}, is_server=False)
    chains = guarded(lambda: asyncio.run(check_audit(settings)))
    if is_json:
        click.echo(json.dumps(chains, indent=2))
    else:
        for chain in chains:
            word = "whole" if chain["ok"] else "BROKEN"
            click.echo(f"{chain['tenant']}: {word}, {chain['rows']} rows, last hash {chain['head']}")
            for each in chain["breaks"]:
                click.echo(f"  place {each['seq']}, row {each['id'] or '-'}: {each['what']}")
    sys.exit(0 if all(chain["ok"] for chain in chains) else VIOLATED)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        detail = f"{folder} cannot be a folder for data: {error.strerror or error}."
        raise Invalid([Fault("--data", detail, "Name another folder with --data.")]) from None


def settings_of(flags: dict[str, Any], *, is_dev: bool = False, is_server: bool = True) -> Settings:
    from horae.config import read_settings

    return guarded(lambda: read_settings(os.environ, flags, is_dev=is_dev, is_server=is_server))


def _run(settings: Settings) -> None:
    from horae.app import App
    from horae.telemetry import configure

    configure(is_terminal=sys.stderr is not None and sys.stderr.isatty())

    async def work() -> None:
        await App(settings).run()

    guarded(lambda: run_loop(work()))


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    # What was imported stays. Looking for garbage after every 700 new objects took a quarter of a worker's time.
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def guarded(work: Callable[[], T]) -> T:
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
    hint = f"\nhint: {in_commands(fault.hint)}" if fault.hint else ""
    return f"error: {fault.pointer}: {fault.detail}{hint}"

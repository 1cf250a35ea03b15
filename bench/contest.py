"""The peers, each in an environment of its own: its script fills in jobs, its workers drain them, marks time them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horae.bench.figures import percentiles
from horae.bench.orphans import die_with_parent, own_folder
from tests.services import on_server, with_database

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".bench" / "environments"
FILL_SECONDS = 300
DRAIN_SECONDS = 120
HERD_SECONDS = 90
START_SECONDS = 6.0
Workers = list[subprocess.Popen[bytes]]
QUIET_SECONDS = 20.0  # nothing new for so long: it will not come any more


class PeerError(Exception):
    """A peer that could not be installed or run; the message is its own."""


class TooSlowError(PeerError):
    def __init__(self, seconds: float, lead: float) -> None:
        super().__init__(f"filling took {seconds:.0f} s, longer than the {lead:.0f} s until they were due")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    script: str
    environment: str
    needs: str
    jobs: int = 0
    cannot_drain: str = ""


@dataclass(frozen=True, slots=True)
class Servers:
    postgres: str
    redis: str


def peers() -> list[Peer]:
    return [Peer(**each) for each in _file()["peers"]]


def install(name: str) -> Path:
    """The interpreter of an environment, made when its versions have changed."""
    requires = _file()["environments"][name]["requires"]
    home = ENVIRONMENTS / f"{name}-{hashlib.sha256(json.dumps(requires).encode()).hexdigest()[:12]}"
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    uv = Path(sys.executable).parent / "uv"
    _run([uv, "venv", "--quiet", "--python", sys.executable, home])
    try:
        _run([uv, "pip", "install", "--quiet", "--python", python, "--no-deps", *requires])
    except PeerError:
        # pip reads settings that uv does not, such as a mirror.
        _run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *requires])
    (home / "complete").touch()
    return python


def drain(peer: Peer, servers: Servers, processes: int, count: int) -> dict[str, float]:
    """From the first mark to the last, no-ops a second; and how fast they were put in."""
    with _stage(peer, servers) as stage:
        filled = stage.fill(count)
        with stage.workers("drain", processes) as started:
            marks = stage.wait(count, DRAIN_SECONDS, started)
        if len(marks) < count:
            raise PeerError(f"{len(marks)} of {count} jobs ran in {DRAIN_SECONDS} s; {stage.last_words()}")
    return {"runs/s": count / max(1e-6, max(marks) - min(marks)), "enqueued/s": count / filled["seconds"]}


def herd(peer: Peer, servers: Servers, count: int, lead: float) -> dict[str, float]:
    """Milliseconds late of jobs that are due in the same second, with the worker waiting for them. Who takes longer to
    fill in than we thought gets twice as long as that.
    """
    try:
        return _herd(peer, servers, count, lead)
    except TooSlowError as slow:
        return _herd(peer, servers, count, 2 * START_SECONDS + 2 * slow.seconds)


def _herd(peer: Peer, servers: Servers, count: int, lead: float) -> dict[str, float]:
    with _stage(peer, servers) as stage:
        filled = stage.fill(count, math.ceil(time.time() + lead))  # a whole second: some know no less
        due = filled["due"]
        if time.time() > due - START_SECONDS:
            raise TooSlowError(filled["seconds"], lead)
        time.sleep(max(0.0, due - time.time() - 2 * START_SECONDS))
        with stage.workers("herd", 1) as started:
            marks = stage.wait(count, due - time.time() + HERD_SECONDS, started)
        if not marks:
            raise PeerError(f"none of {count} jobs ran; {stage.last_words()}")
    p50, p99, most = percentiles([1000 * (mark - due) for mark in marks])
    return {"p50 ms": p50, "p99 ms": p99, "max ms": most, "% done": 100 * len(marks) / count}


class Stage:
    """One run of one peer: an empty server, a file of marks."""

    def __init__(self, peer: Peer, home: Path, environment: dict[str, str]) -> None:
        self._python = install(peer.environment)
        self._script = HERE / "peers" / peer.script
        self._home = home
        self._environment = environment

    def fill(self, count: int, due: float | None = None) -> dict[str, Any]:
        words = ["fill", str(count), *([] if due is None else [str(due)])]
        output = _run([self._python, self._script, *words], self._environment, self._home, FILL_SECONDS)
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
        return told

    @contextlib.contextmanager
    def workers(self, case: str, count: int) -> Iterator[Workers]:
        with (self._home / "log").open("ab") as log:
            started = [
                subprocess.Popen(
                    [self._python, self._script, "work", case, str(count)],
                    env=self._environment,
                    cwd=self._home,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 no other thread is alive here
                )
                for _ in range(count)
            ]
        try:
            yield started
        finally:
            for process in started:
                _end(process)

    def marks(self) -> list[float]:
        with contextlib.suppress(FileNotFoundError):
            return [value for (value,) in struct.iter_unpack("d", (self._home / "marks").read_bytes())]
        return []

    def wait(self, count: int, seconds: float, workers: Workers) -> list[float]:
        file = self._home / "marks"
        end, size, changed = time.monotonic() + seconds, 0, time.monotonic()
        while time.monotonic() < end and any(worker.poll() is None for worker in workers):
            time.sleep(0.1)
            now = file.stat().st_size if file.exists() else 0
            if now != size:
                size, changed = now, time.monotonic()
            if size >= 8 * count or (size and time.monotonic() - changed > QUIET_SECONDS):
                break
        return self.marks()

    def last_words(self) -> str:
        log = self._home / "log"
        return " ".join(log.read_text(errors="replace").split())[-300:] if log.exists() else "it said nothing"


@contextlib.contextmanager
def _stage(peer: Peer, servers: Servers) -> Iterator[Stage]:
    with own_folder() as home:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HORAE_", "PYTHON"))}
        environment = clean | {"BENCH_FOLDER": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        if peer.needs == "postgres":
            environment["BENCH_POSTGRES"] = _database(servers.postgres)
        elif peer.needs == "redis":
            _flush(servers.redis)
            environment["BENCH_REDIS"] = servers.redis
        yield Stage(peer, home, environment)


def _database(url: str) -> str:
    on_server(url, "DROP DATABASE IF EXISTS peer WITH (FORCE)")
    on_server(url, "CREATE DATABASE peer")
    return with_database(url, "peer")


def _flush(url: str) -> None:
    import socket

    host, _, port = url.removeprefix("redis://").partition(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        connection.recv(64)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The worker and what it started: they are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _run(
    words: list[Any], environment: dict[str, str] | None = None, home: Path | None = None, seconds: float = 600
) -> str:
    try:
        done = subprocess.run(
            [str(word) for word in words],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{Path(str(words[1])).name} took longer than {seconds:.0f} s") from None
    if done.returncode:
        raise PeerError(" ".join((done.stderr or done.stdout).split())[-300:])
    return done.stdout


def _file() -> dict[str, Any]:
    return tomllib.loads((HERE / "peers.toml").read_text())

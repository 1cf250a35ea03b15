"""A PostgreSQL of our own that can be killed, frozen and started again, and the shims that break disks and clocks."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.services import SETTINGS, create_cluster, find_binaries, free_port, start_server, wait_until_ready

SHIMS = Path(__file__).with_name("shims")


class Postgres:
    """Unlike the suite's shared server this one syncs to disk: what it acknowledged must survive its death."""

    def __init__(self, **settings: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="horae-chaos-", dir="/tmp" if os.geteuid() == 0 else None))
        self._binaries = find_binaries(self.home)
        self._settings = SETTINGS | {"fsync": "on", "full_page_writes": "on"} | settings
        create_cluster(self._binaries, self.home)
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self) -> None:
        # A server that was killed leaves children that must see it first; until then a new one refuses to start.
        end = time.monotonic() + 30
        while True:
            self.server = start_server(self._binaries, self.home, self.port, self._settings)
            try:
                wait_until_ready(self.url, self.server, self.home / "log")
            except Exception:
                if self.server.poll() is None or time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return

    def kill(self) -> None:
        self.server.kill()
        self.server.wait()

    def restart(self) -> None:
        self.server.send_signal(signal.SIGINT)  # fast: open transactions are undone, connections closed
        self.server.wait()
        self.start()

    def freeze(self) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def pids(self) -> list[int]:
        return [self.server.pid, *children(self.server.pid)]

    def close(self) -> None:
        self.thaw()
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGQUIT)
            self.server.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def children(pid: int) -> list[int]:
    """Direct ones, as the kernel lists them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def state_of(pid: int) -> str:
    """R, S, T (stopped), Z …; nothing when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class MissingToolError(Exception):
    """A fault that this machine cannot make; the message says why."""


def build_shim(name: str, folder: Path) -> Path:
    """A library for LD_PRELOAD, compiled from shims/NAME.c."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingToolError("no C compiler")
    built = folder / f"{name}.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(SHIMS / f"{name}.c"), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingToolError(f"the shim {name} does not compile: {done.stderr.strip()[:200]}")
    return built


@contextlib.contextmanager
def small_disk(megabytes: int) -> Any:
    """A folder on a disk of its own that is soon full."""
    folder = Path(tempfile.mkdtemp(prefix="horae-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "horae-chaos", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        folder.rmdir()
        raise MissingToolError("cannot mount a small disk (needs root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
        folder.rmdir()


class Firewall:
    """Packets of one port dropped by the kernel, in a network namespace of our own where nobody else lives."""

    def __init__(self) -> None:
        if os.environ.get("HORAE_TEST_NETNS") != "1" or shutil.which("iptables") is None:
            raise MissingToolError("needs root, network namespaces and iptables")

    def drop(self, port: int, *, asks: bool = True, answers: bool = True) -> None:
        if asks:
            self._rule("-A", "--dport", port)
        if answers:
            self._rule("-A", "--sport", port)

    def clear(self) -> None:
        subprocess.run(["iptables", "-F"], check=True, capture_output=True)

    def _rule(self, verb: str, side: str, port: int) -> None:
        rule = ["iptables", verb, "INPUT", "-i", "lo", "-p", "tcp", side, str(port), "-j", "DROP"]
        subprocess.run(rule, check=True, capture_output=True)

"""The walls around a shell job under HORAE_SHELL=sandbox: the arguments of bubblewrap and the limits of prlimit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

HOME = "/work"
PATH = "/usr/local/bin:/usr/bin:/bin"
UNPRIVILEGED = "65534"

# A world without the host's processes, network, files, users and rights, which dies with the worker.
_WALLS = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    *("--uid", UNPRIVILEGED, "--gid", UNPRIVILEGED),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", HOME),  # noqa: S108
    *("--ro-bind", "/usr", "/usr"),
)
_READABLE = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs")
_LIMITS = ("--nproc=256", "--nofile=1024", "--data=4294967296", "--fsize=1073741824", "--core=0")


class NoSandbox(Exception):
    """The host cannot build the walls, so nothing is run."""


class Sandbox:
    def wrap(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
    ) -> tuple[list[str], dict[str, str], bytes]:
        """The command line, its environment and the options it reads from descriptor 3.

        The job's variables go through the descriptor: in bubblewrap's own environment one such as LD_PRELOAD
        would act outside the walls, and on its command line everybody could read them.
        """
        bwrap = self._tools.get("bwrap")
        if bwrap is None:
            raise NoSandbox(
                "HORAE_SHELL=sandbox needs bubblewrap and this worker has none; install the package bubblewrap"
            )
        options = [*_WALLS, *self._ways_in(), *self._extra_walls, "--chdir", cwd or HOME]
        for name, value in {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", **env}.items():
            options += ["--setenv", name, value]
        limits = [self._tools["prlimit"], *_LIMITS, "--"] if "prlimit" in self._tools else []
        command = [*self._demotion, bwrap, "--args", "3", "--", *limits, *argv]
        return command, {}, "".join(f"{word}\0" for word in options).encode()

    def _ways_in(self) -> Iterator[str]:
        for name in ("bin", "sbin", "lib", "lib32", "lib64"):
            path = Path("/", name)
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.exists():
                yield from ("--ro-bind", str(path), str(path))
        for readable in _READABLE:
            yield from ("--ro-bind-try", readable, readable)

    @cached_property
    def _tools(self) -> dict[str, str]:
        found = {name: shutil.which(name) for name in ("bwrap", "prlimit", "setpriv")}
        return {name: path for name, path in found.items() if path}

    @cached_property
    def _demotion(self) -> tuple[str, ...]:
        """Root stays root behind the walls as far as the limit of processes goes, so it must not come in."""
        if os.geteuid() or "setpriv" not in self._tools:
            return ()
        return (self._tools["setpriv"], f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups", "--")

    @cached_property
    def _extra_walls(self) -> tuple[str, ...]:
        """What only newer releases of bubblewrap know."""
        words = subprocess.run([self._tools["bwrap"], "--help"], capture_output=True, check=False).stdout  # noqa: S603
        return ("--disable-userns",) if b"--disable-userns" in words else ()

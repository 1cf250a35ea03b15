"""The command line as users have it: a process with its own environment, its output and its exit code."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any, NamedTuple


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def table(self) -> list[dict[str, str]]:
        """Tab-separated lines by their headings."""
        head, *lines = [line.split("\t") for line in self.out.splitlines()]
        return [dict(zip(head, line, strict=True)) for line in lines]


class Shell:
    def __init__(self, home: Path, port: int | None, **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        self.home = home
        self.environment = clean | {"HOME": str(home), "TZ": "Europe/Berlin", "NO_PROXY": "*"} | environment
        self.environment.pop("XDG_CONFIG_HOME", None)
        if port is not None:
            self.environment["HORAE_URL"] = f"http://127.0.0.1:{port}"

    def __call__(self, *words: str, input: str = "", **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "horae", *words],
            env=self.environment | environment,
            cwd=self.home,
            input=input,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, input: str = "", **environment: str) -> Done:
        done = self(*words, input=input, **environment)
        assert done.code == 0, done
        return done

    def on_terminal(self, *words: str, typed: bytes = b"", when: bytes = b"?", **environment: str) -> tuple[int, str]:
        """The exit code and everything that a terminal of 120 columns shows; `typed` once it shows `when`."""
        master, slave = pty.openpty()
        full = self.environment | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"} | environment
        process = subprocess.Popen(
            [sys.executable, "-m", "horae", *words],
            env=full,
            cwd=self.home,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # Its controlling terminal, so that what is typed can interrupt it.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 one call, no lock
        )
        os.close(slave)
        shown = b""
        while select.select([master], [], [], 30)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            shown += part
            if typed and when in shown:
                os.write(master, typed)
                typed = b""
        os.close(master)
        return process.wait(30), shown.decode(errors="replace")

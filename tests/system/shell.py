"""The command line as users have it: a process with its own environment, its output and its exit code."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
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
        child, master = pty.fork()
        if child == 0:
            os.chdir(self.home)
            full = self.environment | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"} | environment
            os.execve(sys.executable, [sys.executable, "-m", "horae", *words], full)
        shown = b""
        while select.select([master], [], [], 30)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
            if typed and when in shown:
                os.write(master, typed)
                typed = b""
        os.close(master)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode(errors="replace")

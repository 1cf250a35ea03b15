"""Real horae processes for tests: start, ask over HTTP, kill, look."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

WAIT_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """One `horae` process with its own log file."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.port = free_port()
        self.log = folder / f"horae-{self.port}.log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "horae", *words, "--port", str(self.port)],
                env=clean | {"HORAE_TESTING": "1"} | environment,
                stdout=file,
                stderr=file,
                cwd=folder,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def terminate(self, timeout: float = 45) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def call(
        self, method: str, path: str, body: Any = None, key: str = "", tenant: str = "", once: str = ""
    ) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        if tenant:
            request.add_header("X-Horae-Tenant", tenant)
        if once:
            request.add_header("Idempotency-Key", once)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read())

    def is_listening(self) -> bool:
        try:
            return self.call("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"horae ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                return self.call("GET", "/readyz")[0] == 200
            except OSError:
                return False

        wait_for(is_ready)


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def wait_for(check: Any, seconds: float = WAIT_SECONDS, every: float = 0.05) -> Any:
    """Real processes have no clock to drive: poll until it is so."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {seconds} s: {check}")
        time.sleep(every)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)

"""Real horae processes: started, asked over HTTP, watched from outside, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from horae.bench.orphans import die_with_parent
from horae.core.egress import allow_ranges
from horae.core.errors import Unavailable
from horae.executors.client import Client, locate
from horae.executors.exchange import NoAnswer

KEY = "an admin key of a benchmark, and of nothing else"
SECRET = "a secret key of a benchmark, and of nothing else"  # noqa: S105 it seals nothing
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
WAIT_SECONDS = 30.0
STOP_SECONDS = 40.0
ANSWER_SECONDS = 60.0
MOST_BYTES = 10_000_000
SLOTS = 500
# As many as pgqueuer takes at once at its best.
CROWD_SLOTS = 1000
HAS_PROC = Path("/proc/self/stat").exists()
TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    def __init__(self, words: tuple[str, ...], url: str, port: int, module: tuple[str, ...], slots: int) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        given = {
            "HORAE_DATABASE_URL": url,
            "HORAE_ADMIN_KEY": KEY,
            "HORAE_SECRET_KEY": SECRET,
            "HORAE_WORKER_SLOTS": str(slots),
            "HORAE_PORT": str(port),
        }
        self.base = f"http://127.0.0.1:{port}"
        self._client = Client(allow_ranges("127.0.0.1"))
        self.started = perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module, *words],
            env=clean | given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 it takes no lock of a thread
        )

    def memory(self) -> dict[str, float]:
        """The most that was ever there; nothing where there is no /proc."""
        self._check_alive()
        status = Path(f"/proc/{self._process.pid}/status")
        return {"MB": int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024} if HAS_PROC else {}

    def cpu_seconds(self) -> float:
        self._check_alive()
        stat = Path(f"/proc/{self._process.pid}/stat")
        return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) / TICKS

    def _check_alive(self) -> None:
        """One that has ended costs nothing, and that must not look good."""
        if (code := self._process.poll()) is not None:
            raise Unavailable(f"A process of horae has ended with exit code {code}.")

    async def wait_ready(self) -> float:
        """Seconds since the start until it serves."""
        while perf_counter() - self.started < WAIT_SECONDS:
            if self._process.poll() is not None:
                break
            try:
                if (await self._ask("GET", "/readyz", None))[0] == 200:
                    return perf_counter() - self.started
            except NoAnswer:
                pass
            await asyncio.sleep(0.01)
        raise Unavailable(f"horae did not become ready (exit code {self._process.poll()}).")

    async def call(self, path: str, body: Any) -> Any:
        status, answer = await self._ask("POST", path, msgspec.json.encode(body))
        if status >= 300:
            raise Unavailable(f"{path} answered {status}: {answer.decode()[:300]}")
        return msgspec.json.decode(answer)

    async def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        way = locate(f"{self.base}{path}")
        answer = await self._client.request(method, way, HEADERS, body, ANSWER_SECONDS, MOST_BYTES)
        return answer.status, answer.body

    def send(self, what: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(what)

    async def stop(self) -> None:
        await self._client.close()
        self.send(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@asynccontextmanager
async def process(
    *words: str, url: str, module: tuple[str, ...] = ("horae",), slots: int = SLOTS
) -> AsyncIterator[Process]:
    started = Process(words, url, _free_port(), module, slots)
    try:
        yield started
    finally:
        await started.stop()


@asynccontextmanager
async def server(url: str, marks: Path | None = None, slots: int = SLOTS) -> AsyncIterator[Process]:
    """All roles in one process, and ready. With `marks`, its no-ops leave the time of their start there."""
    module = ("horae.bench.marked", str(marks)) if marks else ("horae",)
    async with process("serve", url=url, module=module, slots=slots) as started:
        await started.wait_ready()
        yield started


@asynccontextmanager
async def workers(url: str, count: int) -> AsyncIterator[list[Process]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(process("serve", "--roles", "worker", url=url)) for _ in range(count)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Jobs that call HTTP, one worker's worth, beside a bare client: both against a small server in another process.

The bare client is aiohttp, which horae itself does not need: the case needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from horae.bench import fill, walk
from horae.bench.orphans import die_with_parent
from horae.core.egress import allow_ranges
from horae.executors.breaker import Breaker
from horae.executors.http import HttpExecutor, own_headers
from horae.ports import Request
from horae.store.store import Store

AT_ONCE = 100
JOBS = 100
_SAMPLE = Request(
    run_id="01a1e16d-4ce0-8c0f-a8a6-daac74c05915",
    job_id="0193f2a8-7c1e-7d3a-9f51-3b0c5a2d8e11",
    job_name="bench-000001",
    tenant="default",
    attempt=1,
    fence=123_456,
    scheduled_for_us=1_800_000_000_000_000,
    timeout_seconds=300.0,
    target={},
    payload=None,
    upstream=None,
)


async def rate(store: Store, url: str, count: int) -> float:
    """Calls a second: of jobs, from claim to settle."""
    await fill.add_jobs(store, JOBS, [{"type": "http", "schedule": "@manual", "target": {"url": url}}])
    await fill.add_waiting(store, count, JOBS)
    await fill.analyze(store)
    executor = HttpExecutor(allow_ranges(fill.LOCAL), Breaker())
    try:
        return await walk.drain_rate(store, count, {"http": executor}, slots=AT_ONCE)
    finally:
        await executor.close()


async def bare_rate(url: str, count: int) -> float:
    """The same requests, byte for byte but for what differs between runs anyhow."""
    import aiohttp

    left, headers = count, own_headers(_SAMPLE)

    async def call(session: aiohttp.ClientSession) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            headers["Idempotency-Key"] = str(left)
            async with session.post(url, headers=headers) as answer:
                await answer.read()
                if answer.status >= 300:
                    raise AssertionError(f"it answered {answer.status}")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
        started = perf_counter()
        await asyncio.gather(*(call(session) for _ in range(AT_ONCE)))
        return count / (perf_counter() - started)


@asynccontextmanager
async def small_server() -> AsyncIterator[str]:
    """Answers every request at once, in a process of its own; gives its address."""
    words = (sys.executable, "-m", "horae.bench.answering")
    dying = die_with_parent(signal.SIGKILL)
    process = await asyncio.create_subprocess_exec(
        *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=dying
    )
    try:
        port = int(await process.stdout.readline()) if process.stdout else 0
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        with contextlib.suppress(ProcessLookupError):  # Ctrl-C ends it too
            process.terminate()
        await process.wait()

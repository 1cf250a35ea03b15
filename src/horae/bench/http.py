"""Jobs that call HTTP, one worker's worth, beside the client alone: both against a small server in another process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import aiohttp

from horae.bench import fill, walk
from horae.bench.place import Place
from horae.core.egress import allow_ranges
from horae.executors.breaker import Breaker
from horae.executors.http import HttpExecutor

AT_ONCE = 100
JOBS = 100


async def rates(place: Place, count: int) -> tuple[float, float]:
    """Calls a second: of jobs from claim to settle, and of the bare client."""
    async with small_server() as port:
        target = {"url": f"http://127.0.0.1:{port}/hook"}
        async with place.fresh() as store:
            await fill.add_jobs(store, JOBS, [{"type": "http", "schedule": "@manual", "target": target}])
            await fill.add_waiting(store, count, JOBS)
            await fill.analyze(store)
            executor = HttpExecutor(allow_ranges(fill.LOCAL), Breaker())
            try:
                rate = await walk.drain_rate(store, count, {"http": executor}, slots=AT_ONCE)
            finally:
                await executor.close()
        return rate, await _bare_rate(target["url"], count)


async def _bare_rate(url: str, count: int) -> float:
    left = count

    async def call(session: aiohttp.ClientSession) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with session.post(url, data=b"{}", headers={"Idempotency-Key": str(left)}) as answer:
                await answer.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
        started = perf_counter()
        await asyncio.gather(*(call(session) for _ in range(AT_ONCE)))
        return count / (perf_counter() - started)


@asynccontextmanager
async def small_server() -> AsyncIterator[int]:
    """Answers every request at once, in a process of its own; gives its port."""
    words = (sys.executable, "-m", "horae.bench.answering")
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    try:
        yield int(await process.stdout.readline()) if process.stdout else 0
    finally:
        process.terminate()
        await process.wait()

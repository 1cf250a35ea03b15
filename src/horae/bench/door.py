"""The HTTP door under load, by single jobs and by batches; and how soon processes are there, and how large."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from statistics import median
from time import perf_counter

from horae.bench import fill, fleet
from horae.bench.figures import percentiles
from horae.bench.orphans import own_folder
from horae.bench.place import Place

CLIENTS = 8
BATCH = 1000
BATCHES_AT_ONCE = 2
LOAD = 200
COMMANDS = 7


async def creates(place: Place, seconds: float, batches: int) -> tuple[dict[str, float], float]:
    """Milliseconds of single creates while runs are under way, and jobs a second by batches."""
    async with place.fresh() as store:
        await fill.add_jobs(store, LOAD, [{"schedule": "* * * * * *"}])
    async with fleet.server(place.url) as server:
        times: list[float] = []
        end = perf_counter() + seconds
        await asyncio.gather(*(_one_by_one(server, client, end, times) for client in range(CLIENTS)))
        p50, p99, most = percentiles(times)
        singles = {"p50 ms": p50, "p99 ms": p99, "max ms": most, "jobs/s": len(times) / seconds}
        started = perf_counter()
        await asyncio.gather(*(_batches(server, client, batches) for client in range(BATCHES_AT_ONCE)))
        return singles, BATCHES_AT_ONCE * batches * BATCH / (perf_counter() - started)


async def _one_by_one(server: fleet.Process, client: int, end: float, times: list[float]) -> None:
    number = 0
    while (started := perf_counter()) < end:
        document = {"name": f"one-{client}-{number}", "type": "noop", "schedule": "0 3 * * *"}
        await server.call("/v1/jobs", document)
        times.append(1000 * (perf_counter() - started))
        number += 1


async def _batches(server: fleet.Process, client: int, batches: int) -> None:
    for batch in range(batches):
        jobs = [
            {
                "name": f"many-{client}-{batch}-{number}",
                "type": "noop",
                "schedule": f"{number % 60} {number % 24} * * *",
            }
            for number in range(BATCH)
        ]
        told = await server.call("/v1/jobs:batch", {"jobs": jobs})
        if told.get("created") != BATCH:
            raise AssertionError(f"a batch was not taken: {str(told)[:300]}")


async def starts() -> dict[str, dict[str, float]]:
    """`horae dev` until it serves, a worker, and a command of the command line."""
    with own_folder() as folder:
        url = f"sqlite:///{folder / 'dev.db'}"
        async with fleet.process("dev", url=url) as dev:
            ready = await dev.wait_ready()
            await asyncio.sleep(1)
            command = median([await asyncio.to_thread(_command_ms, dev.base) for _ in range(COMMANDS)])
            return {"dev": {"ready s": ready} | dev.memory(), "cli": {"ms": command}}


def _command_ms(server: str) -> float:
    """A list of jobs, asked of a server, until the prompt is back."""
    environment = os.environ | {"HORAE_URL": server, "HORAE_API_KEY": fleet.KEY}
    started = perf_counter()
    words = [sys.executable, "-m", "horae", "job", "list"]
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return 1000 * (perf_counter() - started)

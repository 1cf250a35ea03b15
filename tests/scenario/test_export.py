"""The whole record over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import uvicorn
from click.testing import CliRunner

from horae.cli import main
from horae.core.errors import Unavailable
from horae.store.store import Store
from horae.verify.report import check
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.conftest import app_over, client_of


async def test_the_history_of_a_tenant_is_exported_and_verified(
    api: httpx2.AsyncClient, world: World, store: Store, clock: StoreClock
) -> None:
    mine = (await api.post("jobs", json={"name": "mine", "type": "noop", "schedule": "*/10 * * * * *"})).json()
    stranger = {"X-Horae-Tenant": "stranger"}
    theirs = (await api.post("jobs", json={"name": "x", "type": "noop", "retries": 0}, headers=stranger)).json()
    (await api.post("jobs/x/run", headers=stranger)).raise_for_status()
    for _ in range(12):
        await world.plan()
        await clock.advance(10)
        claimed = await world.claim()
        await world.settle([run for run in claimed if run.job_id == mine["job_id"]])
        await world.settle([run for run in claimed if run.job_id == theirs["job_id"]], "failed", "exception")

    answer = await api.get("history/export")
    others = await api.get("history/export", headers=stranger)

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert theirs["job_id"] not in answer.text
    assert mine["job_id"] not in others.text
    for text, job, status in ((answer.text, mine, "succeeded"), (others.text, theirs, "failed")):
        report = check(text.splitlines(), acked=[job["job_id"]])
        assert report.violations == []
        assert report.counts[status] > 0
    everything = [line async for block in store.export(10**15) for line in block.splitlines()]
    assert len(everything) > len(answer.text.splitlines())


async def test_an_export_of_a_store_that_is_away_is_a_503(store: Store) -> None:
    async def away(_: str) -> AsyncIterator[bytes]:
        raise Unavailable("The store is away.")
        yield b""

    async with client_of(app_over(store, export=away)) as client:
        answer = await client.get("/api/v1/history/export")

    assert answer.status_code == 503


@pytest.mark.parametrize("dialect", ["sqlite"])
async def test_the_command_line_verifies_a_horae_by_its_address(world: World, store: Store, tmp_path: Path) -> None:
    job = await world.job()
    run = await world.run_now(job)
    acked = tmp_path / "acked"
    acked.write_text(f"{job}\n{run}\n")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app_over(store), log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        clean = await _told("verify", "--url", url, "--acked", str(acked))
        acked.write_text("never-made\n")
        violated = await _told("verify", "--url", url, "--acked", str(acked))

        server.should_exit = True
        await serving
    gone = await _told("verify", "--url", url)

    assert clean == (0, "clean: the history keeps the promise")
    assert violated == (3, "1 violations")
    assert gone[0] == 4


async def _told(*words: str) -> tuple[int, str]:
    done = await asyncio.to_thread(CliRunner().invoke, main, list(words))
    return done.exit_code, done.output.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--url", "ftp://x"], "no address of a horae"),
        (["--max-late", "soon", "-"], "--max-late"),
        (["-"], "not a line of an export"),
    ],
)
def test_what_cannot_be_verified_is_said(words: list[str], told: str) -> None:
    done = CliRunner().invoke(main, ["verify", *words], input="hello")

    assert done.exit_code == 2
    assert told in done.output

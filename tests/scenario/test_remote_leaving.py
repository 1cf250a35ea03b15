"""A worker over HTTP that leaves while a claim of its own still waits: it stays gone, and nothing is kept for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from horae.core.timeguard import TimeGuard
from horae.store.store import Store
from horae.testing import VAULT
from horae.worker.remote import Pace, RemoteWorkers
from horae.worker.secrets import Secrets
from tests.scenario.asking import assert_problem
from tests.scenario.test_remote_workers import Api, claim, client, complete, given, run_now


class Waiting(RemoteWorkers):
    """Says when a claim waits, and has it look around again when told to."""

    def __init__(self, store: Store, heartbeat_seconds: float) -> None:
        super().__init__(store, Secrets(store, VAULT), Pace(heartbeat_seconds, 15), TimeGuard(), lambda: True)
        self.begun = asyncio.Event()
        self.look = asyncio.Event()

    async def _sleep(self, seconds: float) -> None:
        self.begun.set()
        await self.look.wait()
        await super()._sleep(min(seconds, 0.01))


async def leave_while_waiting(api: Api, workers: Waiting) -> asyncio.Task[list[dict[str, Any]]]:
    waiting = asyncio.create_task(claim(api, wait="20s"))
    await asyncio.wait_for(workers.begun.wait(), 10)
    assert len((await api.get("workers")).json()["workers"]) == 1
    assert (await api.delete("workers/w1")).json()["left"] is True
    return waiting


async def assert_gone(api: Api) -> None:
    assert (await api.get("workers")).json()["workers"] == []


@pytest.fixture
def workers(store: Store, heartbeat_seconds: float) -> Waiting:
    return Waiting(store, heartbeat_seconds)


@pytest.fixture
async def api(store: Store, workers: Waiting) -> AsyncIterator[Api]:
    async with client(store, remote=workers) as api:
        yield api


@pytest.mark.parametrize("heartbeat_seconds", [0])
async def test_a_claim_that_waits_is_answered_without_runs_and_does_not_join_again(api: Api, workers: Waiting):
    waiting = await leave_while_waiting(api, workers)
    workers.look.set()

    assert await asyncio.wait_for(waiting, 10) == []
    await assert_gone(api)
    assert_problem(await api.post("workers/w1/heartbeat", json={"runs": []}), 409, "worker_lost")
    late = {"worker": "w1", "handlers": ["report"], "holds": []}
    assert_problem(await api.post("workers/claim", json=late), 409, "worker_lost")
    await assert_gone(api)


@pytest.mark.parametrize("heartbeat_seconds", [5])
async def test_a_run_that_is_taken_for_it_goes_back_uncounted(api: Api, workers: Waiting):
    await given(api, delivery="at_most_once")
    (before,) = await claim(api)
    await complete(api, before)
    waiting = await leave_while_waiting(api, workers)
    run_id = await run_now(api)
    workers.look.set()

    assert await asyncio.wait_for(waiting, 10) == []
    (mine,) = await claim(api, "w2")
    assert (mine["run_id"], mine["attempt"]) == (run_id, 1)

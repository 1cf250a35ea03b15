"""A worker of an SDK app that drains while a claim of its own is under way: nothing that was taken for it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from horae.remote_worker import RemoteSettings, RemoteWorker
from horae.sdk.aio import AsyncClient
from horae.store.store import Store
from tests.scenario.conftest import ADDRESS, app_over
from tests.scenario.test_remote_leaving import Waiting
from tests.scenario.test_remote_workers import claim, client, given, run_now


class Wire(httpx2.AsyncBaseTransport):
    """As a network: what was sent is done whoever hangs up, and the answer to the first claim comes when told to."""

    def __init__(self, app: Any) -> None:
        self._inner = httpx2.ASGITransport(app=app)
        self.taken, self.let_through = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await asyncio.shield(asyncio.create_task(self._inner.handle_async_request(request)))
        if request.url.path.endswith("/claim") and not self.taken.is_set():
            self.taken.set()
            await self.let_through.wait()
        return answer


def worker_over(transport: httpx2.AsyncBaseTransport, ran: list[str]) -> tuple[AsyncClient, RemoteWorker]:
    sdk = AsyncClient(ADDRESS, "", transport=transport)
    return sdk, RemoteWorker(sdk, {"report": lambda: ran.append("report")}, RemoteSettings())


async def test_a_run_that_was_just_taken_goes_back_uncounted(store: Store):
    ran: list[str] = []
    wire = Wire(app_over(store))
    sdk, worker = worker_over(wire, ran)
    async with client(store) as api, sdk:
        run_id = await given(api, delivery="at_most_once")
        working = asyncio.create_task(worker.run())
        await asyncio.wait_for(wire.taken.wait(), 30)
        worker.stop()
        await asyncio.sleep(0)
        wire.let_through.set()
        await asyncio.wait_for(working, 30)

        (again,) = await claim(api, "another")
        assert (again["run_id"], again["attempt"], ran) == (run_id, 1, [])
        assert [each["worker_id"] for each in (await api.get("workers")).json()["workers"]] == [
            "remote:default:another"
        ]


async def test_a_claim_that_waits_is_answered_when_its_worker_drains(store: Store):
    workers = Waiting(store, heartbeat_seconds=3600)
    async with client(store, remote=workers) as api:
        await given(api)
        await claim(api)
        await run_now(api)
        waiting = asyncio.create_task(claim(api, "w2", queues=["other"], wait="30s"))
        await asyncio.wait_for(workers.begun.wait(), 30)
        workers.look.set()
        beat = await api.post("workers/w2/heartbeat", json={"runs": [], "is_draining": True})

        assert beat.json()["is_draining"] is True
        assert await asyncio.wait_for(waiting, 20) == []
        assert await claim(api, "w2") == []

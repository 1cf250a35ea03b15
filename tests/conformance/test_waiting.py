"""The reason of a run that waits, in the run itself and in lists, and lists filtered by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from horae.core.access import worker_id
from horae.core.explain import explain
from horae.core.run import WAITING
from horae.core.waiting import HELD_BACK
from horae.ports import Asked, WorkerState
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import TENANT, TTL_US, World, count_queries

RETENTION_US = 86_400_000_000
ASKED = Asked("me", None)
Setup = Callable[[Store, World], Awaitable[None]]


async def busy(store: Store, running: int = 0, queues: tuple[str, ...] = ("*",), needs: tuple[str, ...] = ()) -> None:
    await store.beat(WorkerState("w1", "host", "active", 4, running, list(queues), list(needs)), TTL_US)


async def no_worker(store: Store, _: World) -> None:
    await busy(store, queues=("elsewhere",))


async def wrong_worker(store: Store, _: World) -> None:
    await busy(store)


async def full_worker(store: Store, _: World) -> None:
    await busy(store, 4, needs=("shell",))


async def paused_queue(store: Store, _: World) -> None:
    await store.change_queue(ASKED, TENANT, "default", {"is_paused": True})


async def paused_tenant(store: Store, world: World) -> None:
    await paused_queue(store, world)
    await store.change_tenant(ASKED, TENANT, {"is_paused": True})


async def full_queue(store: Store, world: World) -> None:
    await busy(store, needs=("shell",))
    await world.run_now(await world.job(), "first")
    assert await world.claim(1)
    await store.change_queue(ASKED, TENANT, "default", {"max_running": 1})


async def full_tenant(store: Store, world: World) -> None:
    await full_queue(store, world)
    await store.change_tenant(ASKED, TENANT, {"max_running": 1})


async def nothing(store: Store, _: World) -> None:
    await busy(store, needs=("shell",))


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        (no_worker, "no_worker"),
        (wrong_worker, "no_worker_for_type"),
        (full_worker, "slots_full"),
        (paused_queue, "queue_paused"),
        (paused_tenant, "tenant_paused"),
        (full_queue, "slots_full"),
        (full_tenant, "tenant_concurrency"),
        (nothing, None),
    ],
)
async def test_a_waiting_run_says_what_it_waits_for(
    store: Store, world: World, setup: Setup, reason: str | None
) -> None:
    await store.create_tenant(ASKED, TENANT, {})
    job = await world.job(type="shell", target={"command": "true"})
    await setup(store, world)
    run = await world.run_now(job)

    assert (await store.run(TENANT, run))[0]["reason"] == reason
    assert (await store.job(TENANT, job))["latest"]["reason"] == reason
    assert {row["id"]: row["reason"] for row in await world.runs()}[run] == reason
    assert [row["reason"] for row in await world.runs(job)] == [reason]
    for asked in sorted(HELD_BACK | set(WAITING)):
        found = (await store.runs(TENANT, job, {"reason": asked}, None, 10)).rows
        assert [row["id"] for row in found] == ([run] if asked == reason else [])


async def test_what_only_the_run_knows_counts_unless_everything_is_paused(store: Store, world: World) -> None:
    job = await world.job(overlap="queue")
    await busy(store)
    first, second = await world.run_now(job, "1"), await world.run_now(job, "2")
    first, second = sorted((first, second))
    assert [run.run_id for run in await world.claim()] == [first]
    assert (await store.run(TENANT, second))[0]["reason"] == "job_concurrency"
    assert [row["id"] for row in (await store.runs(TENANT, None, {"reason": "job_concurrency"}, None, 9)).rows] == [
        second
    ]

    await store.change_queue(ASKED, TENANT, "default", {"is_paused": True})

    assert (await store.run(TENANT, second))[0]["reason"] == "queue_paused"
    for reason, found in (("job_concurrency", []), ("queue_paused", [second])):
        assert [row["id"] for row in (await store.runs(TENANT, None, {"reason": reason}, None, 9)).rows] == found


@pytest.mark.parametrize("kind", [{"type": "noop"}, {"type": "http", "target": {"url": "http://a.example/"}}])
async def test_a_worker_that_comes_over_http_is_not_able_for_what_needs_no_handler(
    store: Store, world: World, kind: dict[str, Any]
) -> None:
    job = await world.job(**kind)
    await store.beat(WorkerState(worker_id(TENANT, "w"), "host", "active", 4, 0, ["default"], ["handler:x"]), TTL_US)
    run = await world.run_now(job)

    assert (await store.run(TENANT, run))[0]["reason"] == "no_worker_for_type"
    told = explain(await store.explain_facts(TENANT, job, None), RETENTION_US)
    able = [each["value"] for each in told["facts"] if each["fact"] == "workers_able"]
    assert (told["reason"], able) == ("no_worker_for_type", [0])
    assert f"offers {kind['type']} jobs" in told["text"]


async def test_a_lost_worker_runs_only_what_is_still_its_own(store: Store, world: World, clock: StoreClock) -> None:
    await busy(store, running=2)
    await world.run_now(await world.job())
    claimed = await world.claim(1)

    await clock.advance(TTL_US // 1_000_000 + 1)
    assert [row["running"] for row in await store.workers()] == [1]
    await world.settle(claimed)
    assert [row["running"] for row in await store.workers()] == [0]


async def test_reasons_cost_one_statement_a_page_and_none_when_nothing_waits(
    store: Store, world: World, clock: StoreClock
) -> None:
    job = await world.job()
    for key in range(40):
        await world.run_now(job, str(key))
    with count_queries(store) as waiting:
        assert {row["reason"] for row in await world.runs()} == {"no_worker"}
    await world.settle(await world.claim())

    with count_queries(store) as ended:
        assert {row["reason"] for row in await world.runs()} == {None}

    assert len(waiting) == len(ended) + 1


async def test_neither_a_run_to_come_nor_a_retry_is_held_back(store: Store, world: World, clock: StoreClock) -> None:
    job = await world.job()
    later = await world.run_now(job, due_us=clock.now_us + 60_000_000)

    assert (await store.run(TENANT, later))[0]["reason"] is None
    assert (await store.runs(TENANT, None, {"reason": "no_worker"}, None, 9)).rows == []

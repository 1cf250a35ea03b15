"""Queues, as their operators see them."""

from __future__ import annotations

from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.access.doors import Client, problem

# Queues


async def test_queues_tell_what_waits_and_what_runs(admin: Client, world: World, clock: StoreClock):
    for name, queue, priority in (("a", "default", "HIGH"), ("b", "default", "LOW"), ("c", "slow", "MEDIUM")):
        await admin.post("/jobs", json={"name": name, "type": "noop", "queue": queue, "priority": priority})
    await admin.post("/jobs/a/run")
    await world.claim()
    await admin.post("/jobs/a/run")
    await clock.advance(3)
    await admin.post("/jobs/b/run")
    await admin.post("/jobs/b/run", json={"run_at": "2030-01-01T00:00:00Z"})

    default, slow = (await admin.get("/queues")).json()["queues"]

    assert default == {
        "queue": "default",
        "queued": 2,
        "queued_is_exact": True,
        "running": 1,
        "oldest_age_ms": 3000,
        "by_priority": {
            "HIGH": {"queued": 1, "oldest_age_ms": 3000},
            "MEDIUM": {"queued": 0, "oldest_age_ms": None},
            "LOW": {"queued": 1, "oldest_age_ms": 0},
        },
        "paused": False,
        "max_running": None,
    }
    assert (slow["queue"], slow["queued"], slow["running"], slow["oldest_age_ms"]) == ("slow", 0, 0, None)


async def test_a_queue_is_paused_resumed_and_capped(admin: Client, store: Store):
    paused = (await admin.post("/queues/default/pause")).json()
    assert [(limit.queue, limit.is_paused) for limit in await store.limits()] == [("default", True)]
    resumed = (await admin.post("/queues/default/resume")).json()
    capped = (await admin.patch("/queues/default", json={"max_running": 3})).json()
    freed = (await admin.patch("/queues/default", json={"max_running": None})).json()

    assert (paused["paused"], resumed["paused"]) == (True, False)
    assert (capped["max_running"], freed["max_running"]) == (3, None)
    problem(await admin.patch("/queues/nothing", json={}), 404, "not_found")
    assert (await admin.post("/queues/a%20b/pause")).status_code == 422
    assert (await admin.patch("/queues/default", json={"max_running": "x"})).status_code == 422

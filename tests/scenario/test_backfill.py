"""Runs for due times of the past, over both databases."""

from __future__ import annotations

from typing import Any

import httpx2

from horae.testing import Horae, virtual
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import World
from tests.scenario.asking import assert_problem, create, pointers
from tests.scenario.rows import rows_of

Api = httpx2.AsyncClient


def hours(*numbers: int) -> list[str]:
    return [f"2027-01-15T{number:02d}:00:00Z" for number in numbers]


async def hourly(api: Api, world: World, clock: StoreClock, **fields: Any) -> dict[str, Any]:
    """A job that ran at 09:00 and was paused from 09:30 to 12:30; it is 12:45 now."""
    job = await create(api, name="hourly", schedule="0 * * * *", **fields)
    await clock.advance(3600)
    await world.plan()
    await world.settle(await world.claim())
    await clock.advance(1800)
    await api.post("jobs/hourly/pause")
    await clock.advance(3 * 3600)
    await api.post("jobs/hourly/resume")
    await clock.advance(900)
    return job


RANGE = {"from": "2027-01-15T06:00:00Z", "to": "2027-01-15T12:45:00Z"}


async def test_a_backfill_makes_the_runs_that_are_missing_once(api: Api, world: World, clock: StoreClock):
    await hourly(api, world, clock)

    dry = await api.post("jobs/hourly/backfill", json={**RANGE, "dry_run": True})
    done = await api.post("jobs/hourly/backfill", json=RANGE)
    again = await api.post("jobs/hourly/backfill", json=RANGE)

    assert (dry.status_code, dry.json()["times"]) == (200, hours(6, 7, 8, 10, 11, 12))
    assert (done.status_code, done.json()) == (202, {"runs": 6, "next_from": None})
    assert again.json()["runs"] == 0
    runs = (await api.get("runs?status=QUEUED")).json()["runs"]
    assert {run["trigger"] for run in runs} == {"backfill"}
    assert [run["scheduled_for"] for run in reversed(runs)] == hours(6, 7, 8, 10, 11, 12)
    assert {run["run_at"] for run in runs} == {"2027-01-15T12:45:00Z"}
    assert {run["priority"] for run in runs} == {"LOW"}


async def test_a_backfill_goes_on_where_its_limit_ended_it(api: Api, world: World, clock: StoreClock):
    await hourly(api, world, clock)
    made, from_ = [], RANGE["from"]

    while from_ is not None:
        body = {**RANGE, "from": from_, "max": 4}
        dry = (await api.post("jobs/hourly/backfill", json={**body, "dry_run": True})).json()
        answer = (await api.post("jobs/hourly/backfill", json=body)).json()
        assert answer == {name: dry[name] for name in ("runs", "next_from")}
        made, from_ = made + dry["times"], answer["next_from"]

    assert made == hours(6, 7, 8, 10, 11, 12)


async def test_the_same_key_makes_the_same_backfill(api: Api, world: World, clock: StoreClock):
    await hourly(api, world, clock)

    answers = [await api.post("jobs/hourly/backfill", json=RANGE, headers={"Idempotency-Key": "k"}) for _ in range(2)]

    assert [answer.json()["runs"] for answer in answers] == [6, 6]
    assert len((await api.get("runs?status=QUEUED")).json()["runs"]) == 6


async def test_what_the_scheduler_has_still_to_decide_is_not_backfilled(api: Api, clock: StoreClock):
    await create(api, name="hourly", schedule="0 * * * *")
    await clock.advance(3 * 3600)

    answer = await api.post("jobs/hourly/backfill", json={"from": "2027-01-15T07:00:00Z", "to": hours(11)[0]})

    # 09:00 to 11:00 have passed, but no scheduler has been there; 07:00 and 08:00 were before the job.
    assert answer.json()["runs"] == 2


async def test_a_backfill_that_cannot_be_is_refused(api: Api, clock: StoreClock):
    await create(api, name="hourly", schedule="0 * * * *", overlap="skip")
    bad: list[tuple[Any, list[str]]] = [
        ({}, ["/from", "/to"]),
        ({"from": "x", "to": 5}, ["/from", "/to"]),
        ({"from": hours(7)[0], "to": hours(6)[0]}, ["/to"]),
        ({"from": hours(7)[0], "to": hours(9)[0]}, ["/to"]),
        (
            {**RANGE, "max": 0, "dry_run": "yes", "priority": "URGENT", "mx": 1},
            ["/mx", "/max", "/dry_run", "/priority"],
        ),
    ]
    for body, where in bad:
        assert pointers(await api.post("jobs/hourly/backfill", json=body)) == where
    past = {"from": hours(6)[0], "to": hours(7)[0]}
    assert_problem(await api.post("jobs/hourly/backfill", json=past), 409, "overlap")
    assert (await api.post("jobs/hourly/backfill", json={**past, "dry_run": True})).json()["runs"] == 2
    assert_problem(await api.post("jobs/nobody/backfill", json=past), 404, "not_found")


@virtual
async def test_a_backfill_keeps_the_promise_and_explains_itself() -> None:
    async with Horae() as horae:
        job = await horae.create({"name": "j", "schedule": "*/10 * * * *", "type": "noop"})
        await horae.advance(minutes=25)
        await horae.commands.jobs.pause(horae.caller, job, None, None, None)
        await horae.advance(minutes=30)
        await horae.commands.jobs.resume(horae.caller, job, None)
        for node in horae.nodes:
            node.kill()
        await horae.advance(hours=2)  # nobody decides
        horae.add_node()
        await horae.advance(minutes=5)
        from horae.commands import BackfillRequest

        now_us = await horae.store.now()
        wish = BackfillRequest(START_US, now_us, 100)
        done = await horae.commands.runs.backfill(horae.caller, job, wish, None)
        await horae.advance(minutes=5)

        # Three due times of the pause, and all but the latest of the outage, which run_once made good.
        assert len(done.dues) > 10
        runs = await rows_of(horae, job)
        assert {run["status"] for run in runs if run["cause"] == "backfill"} == {"succeeded"}
        assert (await horae.verify()).is_clean
        assert (await horae.why(job, done.dues[-1]))["verdict"] == "ran"
        assert (await horae.commands.runs.backfill(horae.caller, job, wish, None)).dues == []

"""Lists of jobs whose filter must look at what each job did."""

from __future__ import annotations

from typing import Any

import pytest

from horae.store import job_lists
from horae.store.database import Statement, transaction
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import TENANT, World, count_queries

SORTS = [sign + name for name in ("name", "next_fire_time", "updated_at") for sign in ("", "-")]


async def all_pages(store: Store, filters: dict[str, Any], sort: str, most: int) -> tuple[list[str], int]:
    found: list[str] = []
    after, pages = None, 0
    while True:
        page = await store.jobs(TENANT, filters, sort, after, most)
        assert len(page.rows) <= most
        found += [row["id"] for row in page.rows]
        after, pages = page.after, pages + 1
        if after is None:
            return found, pages


@pytest.mark.parametrize("sort", SORTS)
async def test_a_search_for_jobs_that_never_ran_breaks_off_and_goes_on(
    store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    schedules = ("@manual", "@every 7m", "30 * * * *")
    jobs = [await world.job(name=f"n{number * 7 % 23:02d}", schedule=schedules[number % 3]) for number in range(23)]
    for number, job in enumerate(jobs):
        if number % 2:
            await world.run_now(job, "later", due_us=clock.now_us + 600_000_000 - number * 1_000_000)
        if number % 5:
            await world.run_now(job, due_us=clock.now_us)
    await world.settle(await world.claim())
    whole, _ = await all_pages(store, {"health": "never_run"}, sort, 100)
    ordered, _ = await all_pages(store, {}, sort, 100)
    assert whole == [job for job in ordered if jobs.index(job) % 5 == 0]

    monkeypatch.setitem(job_lists.SEARCHED, job_lists.NEVER_RUN, 3)
    for most in (1, 2, 100):
        parts, pages = await all_pages(store, {"health": "never_run"}, sort, most)
        assert parts == whole
        assert pages >= 5
        assert (await all_pages(store, {}, sort, 100))[0] == ordered


@pytest.mark.parametrize("sort", SORTS)
async def test_a_search_for_completed_jobs_breaks_off_and_goes_on(
    store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    schedules = ("@manual", "@every 7m", "@now", "@now")
    jobs = [await world.job(name=f"n{number * 7 % 23:02d}", schedule=schedules[number % 4]) for number in range(23)]
    await world.settle(await world.claim())
    await world.run_now(jobs[2])
    await store.pause_job(None, TENANT, jobs[3], "test", None, None)
    ordered, _ = await all_pages(store, {}, sort, 100)
    completed = [job for job in ordered if jobs.index(job) % 4 > 1 and job != jobs[3]]
    rows = (await store.jobs(TENANT, {}, sort, None, 100)).rows
    assert completed == [row["id"] for row in rows if row["status"] == "COMPLETED"]

    for searched, least in ((100, 1), (3, 3)):
        monkeypatch.setitem(job_lists.SEARCHED, job_lists.COMPLETED, searched)
        for most in (1, 2, 100):
            parts, pages = await all_pages(store, {"status": "COMPLETED"}, sort, most)
            assert parts == completed
            assert pages >= least
        both, _ = await all_pages(store, {"status": "COMPLETED", "health": "never_run"}, sort, 2)
        assert both == []


async def test_jobs_are_found_late_whether_few_runs_wait_or_many(
    store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [await world.job(name=f"n{number}") for number in range(6)]
    for job in jobs[:3]:
        await world.run_now(job)
    await clock.advance(61)
    await world.run_now(jobs[3])

    for rare in (100, 2):
        monkeypatch.setattr(job_lists, "RARE", rare)
        with count_queries(store) as asked:
            found, _ = await all_pages(store, {"health": "late"}, "name", 100)
        assert found == jobs[:3]
        statement = job_lists.statement_of(
            "name", frozenset({"health late" if rare > 3 else "health very late"}), is_descending=False, has_place=False
        )
        assert statement in [query.statement for query in asked]


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("walk", ["name", "updated", "timers"])
async def test_the_few_late_jobs_are_found_from_what_is_late_and_not_by_a_look_at_every_job(
    store: Store, walk: str
) -> None:
    statement = job_lists.statement_of(walk, frozenset({"health late"}), is_descending=False, has_place=False)

    plan = await plan_of(store, statement)

    assert any("d USING" in step and "timers_by_due (due_us<?)" in step for step in plan), plan
    assert any("j USING" in step and "(id=?)" in step for step in plan), plan
    assert not any("j USING" in step and "(tenant=?" in step for step in plan), plan


@pytest.mark.parametrize("dialect", ["sqlite"])
async def test_many_late_jobs_in_time_order_are_walked_by_their_timers(store: Store) -> None:
    names = frozenset({"health very late"})
    plan = await plan_of(store, job_lists.statement_of("timers", names, is_descending=False, has_place=False))

    assert not any("j USING" in step and "(tenant=?" in step for step in plan), plan
    assert any("t USING" in step and "timers_by_due" in step for step in plan), plan


async def test_many_late_runs_of_one_job_are_one_late_job(
    store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "RARE", 3)
    late = await world.job(name="late")
    await world.job(name="well")
    for number in range(5):
        await world.run_now(late, f"{number}", due_us=clock.now_us)
    await clock.advance(300)

    with count_queries(store) as asked:
        found, _ = await all_pages(store, {"health": "late"}, "name", 100)

    assert found == [late]
    used = job_lists.statement_of("name", frozenset({"health late"}), is_descending=False, has_place=False)
    assert used in [query.statement for query in asked]


async def plan_of(store: Store, statement: Statement) -> list[str]:
    @transaction
    def steps() -> Any:
        explained = Statement(f"EXPLAIN QUERY PLAN {statement.text}")
        return [str(row["detail"]) for row in (yield explained(**PARAMS))]

    return await store.database.run(steps())


PARAMS = {"tenant": TENANT, "now_us": 10**15, "now_id": "z", "late_us": 10**15, "late_id": "z", "most": 100}

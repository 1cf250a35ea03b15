"""Dead letters filtered, grouped, replayed and discarded in bulk, over both databases."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from horae.store.database import Statement, Transaction
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.asking import assert_problem, create, end, failed, pointers, run_now

Api = httpx2.AsyncClient


async def test_dead_letters_are_filtered(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await create(api, name="other", retries=0, queue="slow")
    low = await failed(api, store, world, clock, 1, priority="LOW")
    plain = await failed(api, store, world, clock, 2)
    slow = await failed(api, store, world, clock, 1, job="other")

    async def found(query: str) -> set[str]:
        answer = await api.get(f"dead-letters?{query}")
        assert answer.status_code == 200, answer.text
        return {run["run_id"] for run in answer.json()["dead_letters"]}

    assert await found("") == {*low, *plain, *slow}
    assert await found("job=other") == await found("queue=slow") == {*slow}
    assert await found("priority=LOW") == {*low}
    assert await found("reason=timeout") == set()
    assert await found("reason=exception&job=report&priority=MEDIUM") == {*plain}
    assert await found("due_before=2027-01-15T08:00:01Z") == {*low}
    assert await found("due_after=2027-01-15T08:00:02Z&due_before=2027-01-15T08:00:03Z") == {plain[1]}


async def test_dead_letters_are_grouped_by_what_they_died_of(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await create(api, name="other", retries=0, queue="slow")
    errors = [f"HTTP 503 from 10.0.0.{n} for order {n}0000" for n in range(1, 4)] + ["no such table"]
    made = []
    for error in errors:
        made.append(await run_now(api))
        await end(store, await world.claim(), "failed", reason="exception", error=error)
        await clock.advance(3600)
    await run_now(api, "other")
    await end(store, await world.claim(), "failed", reason="timeout")
    await clock.advance(1)

    answer = (await api.get("/dead-letters:groups")).json()
    told = [(group["job_name"], group["error"], group["runs"]) for group in answer["groups"]]
    shared = answer["groups"][0]
    slow = (await api.get("/dead-letters:groups?queue=slow")).json()
    one = (await api.get("/dead-letters:groups?limit=1")).json()
    listed = (await api.get("dead-letters", params={"error": shared["error"], "job": "report"})).json()
    theirs = (await api.get("/dead-letters:groups", headers={"X-Horae-Tenant": "other"})).json()

    assert told[0] == ("report", "HTTP 503 from … for order …", 3)
    assert set(told[1:]) == {("report", "no such table", 1), ("other", "timeout", 1)}
    assert (answer["group_count"], answer["run_count"]) == (3, 5)
    assert (shared["first_due"], shared["last_due"]) == ("2027-01-15T08:00:00Z", "2027-01-15T10:00:00Z")
    assert (shared["newest_run_id"], shared["by_age"]["day"]) == (made[2], 3)
    assert [group["job_name"] for group in slow["groups"]] == ["other"]
    assert (len(one["groups"]), one["group_count"], one["run_count"]) == (1, 3, 5)
    assert {run["run_id"] for run in listed["dead_letters"]} == set(made[:3])
    assert theirs == {"groups": [], "group_count": 0, "run_count": 0}

    body = {"filter": {"job": "report", "error": shared["error"]}, "expected_count": 3, "rate": 1}
    done = await api.post("/dead-letters:replay", json=body)

    assert done.json()["count"] == 3
    assert (await api.get("/dead-letters:groups")).json()["run_count"] == 2


async def test_all_that_match_are_replayed_at_a_pace(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0, payload={"of": "the job"})
    first = await failed(api, store, world, clock, 3, payload={"of": "the run"})
    await failed(api, store, world, clock, 1, priority="LOW")
    body = {"filter": {"priority": "MEDIUM", "job": "report", "reason": "EXCEPTION"}}

    dry = await api.post("/dead-letters:replay", json={**body, "dry_run": True})
    wrong = await api.post("/dead-letters:replay", json={**body, "expected_count": 4})
    done = await api.post("/dead-letters:replay", json={**body, "expected_count": 3, "rate": 0.5})
    again = await api.post("/dead-letters:replay", json=body)

    assert (dry.status_code, dry.json()) == (200, {"count": 3, "replay_of": first, "dry_run": True})
    assert_problem(wrong, 409, "count_changed")
    assert (done.status_code, done.json()["count"]) == (202, 3)
    assert again.json() == {"count": 0, "run_ids": []}
    runs = [(await api.get(f"runs/{id_}")).json() for id_ in done.json()["run_ids"]]
    assert [run["replay_of"] for run in runs] == first
    assert [run["run_at"] for run in runs] == [f"2027-01-15T08:00:{s:02d}Z" for s in (4, 6, 8)]
    (claimed,) = await world.claim()
    assert claimed.payload is not None
    assert msgspec.json.decode(claimed.payload) == {"of": "the run"}
    assert len((await api.get("dead-letters")).json()["dead_letters"]) == 1


async def test_a_replay_in_bulk_is_done_once_for_a_key(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await failed(api, store, world, clock, 2)

    answers = [await api.post("/dead-letters:replay", headers={"Idempotency-Key": "k"}) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["count"] == 2


async def test_a_replay_that_cannot_be_is_refused(api: Api):
    bad: list[tuple[Any, list[str]]] = [
        ({"filter": []}, ["/filter"]),
        ({"filter": {"status": "x"}}, ["/filter/status"]),
        ({"filter": {"reason": 5, "due_after": "x"}}, ["/filter/reason", "/filter/due_after"]),
        ({"rate": 0, "expected_count": -1}, ["/expected_count", "/rate"]),
        ({"rate": True}, ["/rate"]),
    ]
    for body, where in bad:
        assert pointers(await api.post("/dead-letters:replay", json=body)) == where
    assert_problem(await api.post("/dead-letters:replay", json={"filter": {"job": "nobody"}}), 404, "not_found")


async def test_all_that_match_are_discarded_and_never_more_than_were_counted(
    api: Api, store: Store, world: World, clock: StoreClock
):
    await create(api, retries=0)
    low = await failed(api, store, world, clock, 1, priority="LOW")
    others = await failed(api, store, world, clock, 2)
    body = {"filter": {"priority": "MEDIUM"}}

    dry = await api.post("/dead-letters:discard", json={**body, "dry_run": True})
    unsaid = await api.post("/dead-letters:discard", json=body)
    wrong = await api.post("/dead-letters:discard", json={**body, "expected_count": 3})
    theirs = await api.post("/dead-letters:discard", json={"expected_count": 3}, headers={"X-Horae-Tenant": "other"})
    done = await api.post("/dead-letters:discard", json={**body, "expected_count": 2})

    assert dry.json() == {"count": 2, "run_ids": others, "dry_run": True}
    assert pointers(unsaid) == ["/expected_count"]
    assert_problem(wrong, 409, "count_changed")
    assert_problem(theirs, 409, "count_changed")
    assert (done.status_code, done.json()["run_ids"]) == (200, others)
    left = (await api.get("dead-letters")).json()["dead_letters"]
    assert [run["run_id"] for run in left] == low
    assert (await api.get(f"runs/{others[0]}")).json()["status"] == "FAILED"
    assert_problem(await api.post(f"dead-letters/{others[0]}/replay"), 409, "discarded")

    # Those of a deleted job cannot be replayed any more, but go away all the same.
    await api.delete("jobs/report")
    assert (await api.post("/dead-letters:replay", json={"dry_run": True})).json()["count"] == 0
    assert (await api.post("/dead-letters:discard", json={"expected_count": 1})).json()["run_ids"] == low


async def test_letters_of_another_tenant_are_not_replayed(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api, retries=0)
    await failed(api, store, world, clock, 1)

    answer = await api.post("/dead-letters:replay", headers={"X-Horae-Tenant": "other"})

    assert answer.json()["count"] == 0


@pytest.mark.parametrize("old", [None, "\x1b[31mboom\x1b[0m\tat \u2028\x07", ""])
async def test_any_group_that_is_told_can_be_replayed_and_discarded(
    api: Api, store: Store, world: World, clock: StoreClock, old: str | None
):
    await create(api, retries=0)
    made = []
    for _ in range(3):
        made.append(await run_now(api))
        await end(store, await world.claim(), "failed", reason="exception", error="\x1b[31mboom\x1b[0m\n\x1b[0m")
        await clock.advance(1)

    def kept_before() -> Any:
        yield Statement("UPDATE dead_letters SET fingerprint = :old")(old=old)

    if old is not None:
        await store.database.run(Transaction(kept_before))

    [group] = (await api.get("/dead-letters:groups")).json()["groups"]
    assert (group["error"], group["runs"]) == ("boom" if old is None else old, 3)
    which = {"job": group["job_id"], "error": group["error"]}
    listed = (await api.get("dead-letters", params=which)).json()["dead_letters"]
    dry = await api.post("/dead-letters:replay", json={"filter": which, "dry_run": True})
    single = await api.post("/dead-letters:discard", json={"filter": which, "expected_count": 3})
    assert {run["run_id"] for run in listed} == {*made}
    assert dry.json()["replay_of"] == made
    assert single.json()["run_ids"] == made

"""Workers that come over HTTP, over both databases: claim, heartbeat, log, complete, and every way to come too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from horae.api.access import Access, KeyAccess, key_hash
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World
from tests.scenario.asking import assert_problem
from tests.scenario.conftest import ADDRESS, app_over

Api = httpx2.AsyncClient
ADMIN = "an-admin-key"


def client(store: Store, access: Access | None = None, **more: Any) -> Api:
    app = app_over(store, access, **more)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=f"{ADDRESS}/api/v1/")


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with client(store) as api:
        yield api


async def given(api: Api, **fields: Any) -> str:
    """A job for a handler, and one run of it that is due."""
    job = {"name": "report", "type": "python", "target": {"handler": "report"}, **fields}
    assert (await api.post("jobs", json=job)).status_code == 201
    return await run_now(api)


async def run_now(api: Api, **fields: Any) -> str:
    answer = await api.post("jobs/report/run", json=fields)
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def claim(api: Api, worker: str = "w1", holds: tuple[str, ...] = (), **fields: Any) -> list[dict[str, Any]]:
    body = {"worker": worker, "handlers": ["report"], "holds": list(holds), **fields}
    answer = await api.post("workers/claim", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["runs"]


async def complete(api: Api, run: dict[str, Any], status: str = "succeeded", **fields: Any) -> httpx2.Response:
    return await api.post(f"runs/{run['run_id']}/complete", json={"fence": run["fence"], "status": status, **fields})


async def status(api: Api, run_id: str) -> dict[str, Any]:
    return (await api.get(f"runs/{run_id}")).json()


async def test_a_run_is_taken_logged_and_completed(api: Api):
    run_id = await given(api, payload={"region": "eu"})

    (run,) = await claim(api, node="a-host")
    assert run["run_id"] == run["idempotency_key"] == run_id
    assert (run["handler"], run["payload"], run["attempt"]) == ("report", {"region": "eu"}, 1)
    assert (await status(api, run_id))["status"] == "RUNNING"
    for seq, text in ((1, "one\n"), (2, "two\n"), (2, "two\n")):
        piece = {"fence": run["fence"], "seq": seq, "text": text}
        assert (await api.post(f"runs/{run_id}/log", json=piece)).json()["kept"] is True
    answer = await complete(api, run, result={"rows": 3})

    assert answer.json() == {"run_id": run_id, "repeated": False}
    ended = await status(api, run_id)
    assert (ended["status"], ended["result"]) == ("SUCCEEDED", {"rows": 3})
    assert (await api.get(f"runs/{run_id}/logs")).text == "one\ntwo\n"
    (worker,) = (await api.get("workers")).json()["workers"]
    assert (worker["worker_id"], worker["node"], worker["needs"]) == ("remote:default:w1", "a-host", ["handler:report"])


async def test_run_and_fence_come_before_what_others_wrote(api: Api):
    await given(api, payload={"fence": 1, "run_id": "another"})

    (run,) = await claim(api)

    assert list(run)[:2] == ["run_id", "fence"]


async def test_only_runs_of_its_handlers_and_queues_are_taken(api: Api):
    await given(api)
    await api.post("jobs", json={"name": "elsewhere", "type": "custom", "queue": "slow", "schedule": "@now"})
    await api.post("jobs", json={"name": "plain", "type": "noop", "schedule": "@now"})

    assert await claim(api, handlers=["other"]) == []
    assert await claim(api, queues=["slow"]) == []
    taken = await claim(api, handlers=["report", "elsewhere"], queues=["default", "slow"], slots=10)
    assert sorted(run["job"] for run in taken) == ["elsewhere", "report"]


async def test_no_more_than_the_free_slots_are_taken(api: Api):
    first = await given(api)
    for _ in range(3):
        await run_now(api)

    (held,) = await claim(api, slots=1)
    more = await claim(api, slots=3, holds=(held["run_id"],))

    assert held["run_id"] == first
    assert len(more) == 2


async def test_a_result_that_is_sent_again_is_taken_once_and_answered_alike(api: Api):
    await given(api)
    (run,) = await claim(api)

    answers = [(await complete(api, run)).json()["repeated"] for _ in range(3)]

    assert answers == [False, True, True]


async def test_a_failed_attempt_goes_back_with_its_backoff_and_the_wish_of_the_worker(api: Api, clock: StoreClock):
    run_id = await given(api, retry={"max_retries": 1, "delay": "2s"})
    (run,) = await claim(api)
    assert (await complete(api, run, "failed", error="no data", retry_after="30s")).status_code == 200
    assert (await complete(api, run, "failed", error="no data")).json()["repeated"] is True
    assert (await status(api, run_id))["status"] == "RETRYING"

    await clock.advance(10)
    assert await claim(api) == []
    await clock.advance(21)
    await api.post("workers/w1/heartbeat", json={"runs": []})
    (again,) = await claim(api, "w2")
    assert again["attempt"] == 2
    await complete(api, again, "failed", error="still none", reason="exit_code")

    ended = await status(api, run_id)
    assert (ended["status"], ended["reason"], ended["error_message"]) == ("FAILED", "exit_code", "still none")
    assert [attempt["error_message"] for attempt in ended["attempts"]] == ["no data", "still none"]


async def test_an_end_that_cannot_be_mended_is_final_at_once(api: Api):
    run_id = await given(api)
    (run,) = await claim(api)

    await complete(api, run, "failed", error="bad input", retryable=False)

    assert (await status(api, run_id))["status"] == "FAILED"


async def test_the_runs_of_a_silent_worker_go_to_another_and_its_result_is_refused_and_recorded(
    api: Api, store: Store, clock: StoreClock
):
    run_id = await given(api)
    (lost,) = await claim(api)
    await clock.advance(16)
    await store.reap(100)

    (mine,) = await claim(api, "w2")
    assert mine["run_id"] == run_id
    assert mine["fence"] > lost["fence"]
    late = await complete(api, lost, result="from the grave")
    assert_problem(late, 409, "stale_fence")
    piece = {"fence": lost["fence"], "seq": 1, "text": "boo"}
    assert_problem(await api.post(f"runs/{run_id}/log", json=piece), 409, "stale_fence")
    assert (await complete(api, mine, result="right")).status_code == 200

    assert (await status(api, run_id))["result"] == "right"
    lines = b"".join([block async for block in store.export(10**15)])
    assert lines.count(b"late_result") == 1
    given_up = await api.post("workers/w1/heartbeat", json={"runs": [{"run_id": run_id, "fence": lost["fence"]}]})
    assert_problem(given_up, 409, "worker_lost")
    again = {"worker": "w1", "handlers": ["report"], "holds": []}
    assert_problem(await api.post("workers/claim", json=again), 409, "worker_lost")


async def test_a_heartbeat_keeps_the_runs_and_says_what_became_of_each(api: Api, store: Store, clock: StoreClock):
    first = await given(api, timeout="1h")
    second = await run_now(api)
    taken = {run["run_id"]: run["fence"] for run in await claim(api, slots=2)}
    for _ in range(4):
        await clock.advance(10)
        await api.post("workers/w1/heartbeat", json={"runs": []})
    assert await store.reap(100) == 0
    await api.post(f"runs/{second}/cancel")

    runs = [{"run_id": id_, "fence": fence} for id_, fence in taken.items()] + [{"run_id": "gone", "fence": 1}]
    states = (await api.post("workers/remote:default:w1/heartbeat", json={"runs": runs})).json()["runs"]

    assert {state["run_id"]: (state["state"], state["reason"]) for state in states} == {
        first: ("running", None),
        second: ("cancelled", "cancelled_by_user"),
        "gone": ("lost", None),
    }
    stopped = await complete(api, {"run_id": second, "fence": taken[second]}, "cancelled")
    assert stopped.status_code == 200
    assert (await status(api, second))["status"] == "CANCELLED"
    refused = await complete(api, {"run_id": first, "fence": taken[first]}, "cancelled")
    assert_problem(refused, 409, "not_cancelled")


async def test_a_run_that_its_worker_never_ends_is_timed_out_for_it(api: Api, clock: StoreClock):
    run_id = await given(api, timeout="10s", retry=0)
    (run,) = await claim(api)
    held = {"runs": [{"run_id": run_id, "fence": run["fence"]}]}
    for _ in range(2):
        await clock.advance(12)
        (state,) = (await api.post("workers/w1/heartbeat", json=held)).json()["runs"]
    assert state["state"] == "running"

    await clock.advance(2)
    (state,) = (await api.post("workers/w1/heartbeat", json=held)).json()["runs"]

    assert (state["state"], state["reason"]) == ("lost", "timeout")
    assert (await status(api, run_id))["reason"] == "timeout"
    assert_problem(await complete(api, run), 409, "stale_fence")


async def test_a_claim_whose_answer_was_lost_gives_its_runs_back_uncounted(api: Api):
    await given(api, delivery="at_most_once")
    (lost,) = await claim(api)

    (again,) = await claim(api)

    assert again["run_id"] == lost["run_id"]
    assert (again["attempt"], lost["attempt"]) == (1, 1)
    assert again["fence"] > lost["fence"]


async def test_a_worker_that_leaves_hands_its_runs_back(api: Api, store: Store):
    run_id = await given(api)
    (run,) = await claim(api)
    assert (await complete(api, run, "released")).status_code == 200
    (again,) = await claim(api, "w2")
    assert (again["run_id"], again["attempt"], again["max_attempts"]) == (run_id, 2, run["max_attempts"] + 1)

    await api.delete("workers/w2")
    await store.reap(100)

    assert [run["run_id"] for run in await claim(api, "w3")] == [run_id]
    assert {worker["worker_id"] for worker in (await api.get("workers")).json()["workers"]} == {
        "remote:default:w1",
        "remote:default:w3",
    }


async def test_a_worker_that_was_asked_to_drain_gets_no_more(api: Api):
    await given(api)
    await claim(api, handlers=["other"])

    assert (await api.post("workers/remote:default:w1/drain")).status_code == 202
    answer = await api.post("workers/claim", json={"worker": "w1", "handlers": ["report"], "holds": []})
    beat = await api.post("workers/w1/heartbeat", json={"runs": []})

    assert (answer.json()["runs"], answer.json()["is_draining"]) == ([], True)
    assert beat.json()["is_draining"] is True


async def test_a_claim_waits_for_a_run(api: Api, store: Store):
    await given(api)
    (run,) = await claim(api)
    await complete(api, run)

    waiting = asyncio.create_task(claim(api, wait="20s"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    run_id = await run_now(api)

    assert [run["run_id"] for run in await asyncio.wait_for(waiting, 5)] == [run_id]


async def test_overlap_and_pauses_hold_for_workers_from_outside(api: Api):
    await given(api, overlap="queue")
    await run_now(api)

    (first,) = await claim(api, slots=5)
    assert await claim(api, slots=5, holds=(first["run_id"],)) == []
    await complete(api, first)
    assert len(await claim(api, slots=5)) == 1


async def test_secrets_are_given_to_the_worker_and_kept_out_of_what_it_leaves(api: Api):
    await api.put("secrets/TOKEN", json={"value": "correct horse"})
    target = {
        "handler": "report",
        "args": {"auth": "Bearer {{ secret.TOKEN }}"},
        "secrets": {"T": "{{ secret.TOKEN }}"},
    }
    run_id = await given(api, target=target)

    (run,) = await claim(api)
    assert run["args"] == {"auth": "Bearer correct horse"}
    assert run["secrets"] == {"T": "correct horse"}
    await api.post(f"runs/{run_id}/log", json={"fence": run["fence"], "seq": 1, "text": "it is correct horse\n"})
    await complete(api, run, result={"said": "correct horse"})

    assert (await status(api, run_id))["result"] == {"said": "***"}
    assert (await api.get(f"runs/{run_id}/logs")).text == "it is ***\n"


async def test_upstream_results_come_with_the_run(api: Api):
    await given(api)
    await api.post("jobs", json={"name": "next", "type": "custom", "after": {"job": "report", "on": "success"}})
    (run,) = await claim(api)
    await complete(api, run, result=[1, 2])

    (after,) = await claim(api, handlers=["next"])

    assert after["upstream"]["result"] == [1, 2]


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/worker"),
        ({"worker": "a b", "handlers": ["x"], "holds": []}, "/worker"),
        ({"worker": "w", "handlers": [], "holds": []}, "/handlers"),
        ({"worker": "w", "handlers": ["x"]}, "/holds"),
        ({"worker": "w", "handlers": ["x"], "holds": [], "queues": ["*"]}, "/queues/0"),
        ({"worker": "w", "handlers": ["x"], "holds": [], "slots": 0}, "/slots"),
        ({"worker": "w", "handlers": ["x"], "holds": [], "wait": "31s"}, "/wait"),
        ({"worker": "w", "handlers": ["x"], "holds": [], "slot": 1}, "/slot"),
    ],
)
async def test_a_claim_that_breaks_a_rule_is_told_where(api: Api, body: dict[str, Any], pointer: str):
    problem = assert_problem(await api.post("workers/claim", json=body), 422, "invalid")

    assert pointer in [fault["pointer"] for fault in problem["errors"]]


async def test_tenants_are_apart_and_a_key_of_a_worker_opens_nothing_else(store: Store, world: World):
    def headers(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    access = KeyAccess(key_hash(ADMIN), store)
    async with client(store, access) as api:
        await api.post("tenants", json={"tenant": "ads"}, headers=headers(ADMIN))
        keys = {}
        for tenant, role in (("ads", "worker"), ("default", "worker"), ("default", "operator"), ("default", "editor")):
            made = await api.post(
                "keys", json={"name": "k", "role": role}, headers=headers(ADMIN) | {"X-Horae-Tenant": tenant}
            )
            assert made.status_code == 201, made.text
            keys[tenant, role] = headers(made.json()["key"])
        api.headers.update(headers(ADMIN))
        run_id = await given(api)

        body = {"worker": "w1", "handlers": ["report"], "holds": []}

        async def ask(tenant: str, role: str) -> httpx2.Response:
            return await api.post("workers/claim", json=body, headers=keys[tenant, role])

        assert (await ask("ads", "worker")).json()["runs"] == []
        assert_problem(await ask("default", "operator"), 403, "role_needed")
        (run,) = (await ask("default", "worker")).json()["runs"]
        end = {"fence": run["fence"], "status": "succeeded"}
        foreign = await api.post(f"runs/{run_id}/complete", json=end, headers=keys["ads", "worker"])
        assert_problem(foreign, 404, "not_found")
        assert_problem(await api.get("jobs", headers=keys["default", "worker"]), 403, "role_needed")
        names = {
            tenant: {
                worker["worker_id"]
                for worker in (await api.get("workers", headers={"X-Horae-Tenant": tenant})).json()["workers"]
            }
            for tenant in ("ads", "default")
        }
        # Who looks after the whole installation sees all of it, until they act for one tenant.
        assert names == {"ads": {"remote:ads:w1"}, "default": {"remote:ads:w1", "remote:default:w1"}}
        foreign = await api.post("workers/remote:ads:w1/drain", headers=keys["default", "operator"])
        assert_problem(foreign, 404, "not_found")
        beat = {"runs": [{"run_id": run_id, "fence": run["fence"]}]}
        spoofed = await api.post("workers/remote:default:w1/heartbeat", json=beat, headers=keys["ads", "worker"])
        assert [state["state"] for state in spoofed.json()["runs"]] == ["lost"]
        done = await api.post(f"runs/{run_id}/complete", json=end, headers=keys["default", "editor"])
        assert done.status_code == 200


async def test_a_run_of_a_worker_of_the_house_cannot_be_ended_from_outside(api: Api, world: World):
    run_id = await given(api)
    await world.worker()
    (mine,) = await world.claim()

    answer = await complete(api, {"run_id": run_id, "fence": mine.token})

    assert_problem(answer, 409, "stale_fence")
    assert (await status(api, run_id))["status"] == "RUNNING"

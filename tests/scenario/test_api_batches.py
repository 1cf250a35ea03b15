"""Many jobs in one request."""

from __future__ import annotations

import pytest

from horae.store.store import Store
from tests.scenario.asking import Api, Flaky, assert_problem, create
from tests.scenario.conftest import app_over, client_of

# Batches


async def test_a_batch_saves_what_it_can_and_says_what_not(api: Api):
    await create(api)
    jobs = [{"name": "one"}, {"name": "report"}, {"schedule": "bad"}, 5, {"name": "one"}, {"name": "two"}]

    answer = await api.post("/jobs:batch", json={"jobs": jobs})

    body = answer.json()
    assert (answer.status_code, body["created"], body["failed"]) == (200, 2, 4)
    assert [result["index"] for result in body["results"]] == [0, 1, 2, 3, 4, 5]
    assert [result.get("error", {}).get("status") for result in body["results"]] == [None, 409, 422, 422, 409, None]
    assert (await api.get(f"jobs/{body['results'][5]['job_id']}")).json()["name"] == "two"


async def test_a_batch_in_lines_names_the_line_that_is_not_json(api: Api):
    lines = b'{"name": "one"}\n\n{"name": \n{"name": "a", "name": "b"}\r\n{"name": "two"}'

    answer = await api.post(
        "/jobs:batch", content=lines, headers={"Content-Type": "application/x-ndjson; charset=utf-8"}
    )

    body = answer.json()
    assert (body["created"], body["failed"]) == (2, 2)
    assert [result.get("error", {}).get("status") for result in body["results"]] == [None, 400, 400, None]
    assert body["results"][1]["error"]["detail"].startswith("Line 3: ")
    assert '"name" comes twice' in body["results"][2]["error"]["detail"]


@pytest.mark.parametrize("bad", [b'{"name": "one"}', b'{"schedule": "bad"}', b"{"])
async def test_an_atomic_batch_saves_all_or_none(api: Api, bad: bytes):
    headers = {"Content-Type": "application/x-ndjson"}

    refused = await api.post("/jobs:batch?atomic=true", content=b'{"name": "one"}\n' + bad, headers=headers)
    kept = await api.get("jobs")
    saved = await api.post("/jobs:batch?atomic=true", content=b'{"name": "one"}\n{"name": "two"}', headers=headers)

    assert (refused.json()["created"], refused.json()["failed"]) == (0, 2)
    assert refused.json()["results"][0]["error"]["code"] == "batch_refused"
    assert kept.json()["jobs"] == []
    assert saved.json()["created"] == 2


async def test_a_batch_of_many_parts_keeps_its_order_and_is_done_once_for_a_key(api: Api):
    jobs = [{"name": f"job-{number:04}"} for number in range(1203)]
    key = {"Idempotency-Key": "import-1"}

    first = await api.post("/jobs:batch", json={"jobs": jobs}, headers=key)
    second = await api.post("/jobs:batch", json={"jobs": jobs}, headers=key)
    other = await api.post("/jobs:batch", json={"jobs": jobs[:1]}, headers=key)

    results = first.json()["results"]
    assert first.json()["created"] == 1203
    assert (await api.get(f"jobs/{results[1202]['job_id']}")).json()["name"] == "job-1202"
    assert second.json() == first.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert_problem(other, 422, "key_reused")


async def test_a_batch_goes_on_where_it_broke(store: Store):
    """The store goes away after the first part: with a key the whole is answered 503, and a repeat completes it."""
    jobs = {"jobs": [{"name": f"job-{number}"} for number in range(700)]}
    flaky = Flaky(store)
    async with client_of(app_over(flaky)) as client:
        flaky.answers = 2
        with_key = await client.post("/v1/jobs:batch", json=jobs, headers={"Idempotency-Key": "k"})
        flaky.answers = 1000
        again = await client.post("/v1/jobs:batch", json=jobs, headers={"Idempotency-Key": "k"})

        assert_problem(with_key, 503, "unavailable")
        assert again.json()["created"] == 700

        flaky.answers = 2
        without = (await client.post("/v1/jobs:batch", json={"jobs": [{} for _ in range(700)]})).json()
        assert (without["created"], without["failed"]) == (500, 200)
        assert without["results"][500]["error"]["code"] == "unavailable"

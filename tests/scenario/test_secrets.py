"""Secrets from the API to a run and its log; what must never be found anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from horae.ports import Claimed, Outcome, Request
from horae.store.database import Statement, Transaction
from horae.store.store import Store
from horae.testing import VAULT
from horae.worker.attempt import Output, report, request_of
from horae.worker.results import Results
from horae.worker.secrets import Secrets
from tests.conformance.world import TENANT, World
from tests.scenario.asking import Api, assert_problem, create, on_one_store, pointers

VALUE = "S3CR3T-xyz"
TARGET = {"url": "https://example.com/", "headers": {"Authorization": "Bearer {{ secret.TOKEN }}"}}


async def test_a_value_goes_in_and_never_comes_out(api: Api, store: Store):
    first = await api.put("secrets/TOKEN", json={"value": VALUE})
    again = await api.put("secrets/TOKEN", json={"value": VALUE})
    job = await create(api, type="http", target=TARGET)

    assert (first.status_code, first.json()["version"]) == (201, 1)
    assert (again.status_code, again.json()["version"]) == (200, 2)
    listed = (await api.get("secrets")).json()["secrets"]
    assert [set(item) for item in listed] == [{"name", "version", "created_at", "updated_at"}]
    assert job["target"]["headers"] == TARGET["headers"]
    assert VALUE not in first.text + again.text + json.dumps(listed) + json.dumps(job)

    assert (await api.delete("secrets/TOKEN")).json() == {"deleted": True, "name": "TOKEN"}
    assert_problem(await api.delete("secrets/TOKEN"), 404, "not_found")


async def test_a_secret_that_is_not_there_is_refused_with_the_job(api: Api):
    missing = await api.post("jobs", json={"name": "a", "type": "http", "target": TARGET})
    assert pointers(missing) == ["/target"]
    assert "PUT /secrets/TOKEN" in missing.json()["errors"][0]["hint"]

    await create(api, type="http", target="https://example.com/")
    assert pointers(await api.patch("jobs/report", json={"target": TARGET})) == ["/target"]


@on_one_store
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/value"),
        ({"value": 123456789}, "/value"),
        ({"value": ["hunter2"]}, "/value"),
        ({"value": {"hunter2": "hunter2\0"}}, "/value"),
        ({"value": ""}, "/value"),
        ({"value": "unt"}, "/value"),
        ({"value": "hunter2", "name": "y"}, "/name"),
        ({"value": "hunter2\0"}, "/value"),
        ({"value": "hunter2\x1b[0m"}, "/value"),
        ({"value": "hunter2\ud800"}, "/value"),
        ({"value": "hunter2" * 10_000}, "/value"),
        ("hunter2-secret", ""),
        (["hunter2"], ""),
        (123456789, ""),
    ],
)
async def test_a_value_that_is_refused_is_not_shown_either(api: Api, body: Any, pointer: str):
    answer = await api.put("secrets/TOKEN", content=json.dumps(body), headers={"Content-Type": "application/json"})

    assert pointers(answer) == [pointer]
    assert "unt" not in answer.text
    assert "2345" not in answer.text
    assert all(fault["hint"] for fault in answer.json()["errors"])
    assert (await api.get("secrets")).json() == {"secrets": []}


async def test_a_key_with_lines_is_a_secret_like_any_other(api: Api, store: Store):
    key = "-----BEGIN KEY-----\r\n\tMIIEabc\n-----END KEY-----\n"

    assert (await api.put("secrets/KEY", json={"value": key})).status_code == 201
    assert await Secrets(store, VAULT).fetch([(TENANT, "KEY")]) == {(TENANT, "KEY"): key}


async def test_a_name_must_be_one(api: Api):
    assert pointers(await api.put("secrets/1%20x", json={"value": VALUE})) == ["/secret"]


async def test_another_tenant_has_no_part_in_it(api: Api):
    await api.put("secrets/TOKEN", json={"value": VALUE})

    other = {"X-Horae-Tenant": "other"}
    assert (await api.get("secrets", headers=other)).json() == {"secrets": []}
    assert pointers(await api.post("jobs", json={"type": "http", "target": TARGET}, headers=other)) == ["/target"]


async def test_the_database_does_not_hold_the_value(api: Api, store: Store):
    await api.put("secrets/TOKEN", json={"value": VALUE})

    def everything() -> Any:
        return (yield Statement("SELECT sealed FROM secrets")())

    (row,) = await store.database.run(Transaction(everything))
    assert VALUE not in row["sealed"]
    assert VAULT.open(row["sealed"], TENANT, "TOKEN") == VALUE


async def test_a_run_gets_the_value_and_leaves_none_of_it(api: Api, world: World, store: Store):
    await api.put("secrets/TOKEN", json={"value": VALUE})
    job = await create(api, type="http", target=TARGET)
    await world.run_now(job["job_id"])
    await world.worker()
    (run,) = await world.claim()

    opened = await Secrets(store, VAULT).fetch([(TENANT, "TOKEN"), (TENANT, "OTHER")])
    assert opened == {(TENANT, "TOKEN"): VALUE}
    await _act(store, run, VALUE)

    seen = (await api.get(f"runs/{run.run_id}")).text + (await api.get(f"runs/{run.run_id}/logs")).text
    assert VALUE not in seen
    assert "the token is ***" in seen


async def _act(store: Store, run: Claimed, value: str) -> None:
    """An attempt that prints, returns and reports what it was given."""
    import msgspec

    from horae.core.job import Definition
    from horae.core.secrets import Redactor

    (spec,) = (await store.specs([(run.job_id, run.version)])).values()
    definition = msgspec.json.decode(spec, type=Definition)
    request: Request = request_of(run, definition, None, {"TOKEN": value})
    assert request.target["headers"]["Authorization"] == f"Bearer {value}"
    assert value not in repr(request)
    results, redactor = Results(store, "w1"), Redactor({"TOKEN": value})
    output = Output(results, run, redactor)
    await output.write(f"the token is {value[:4]}")
    await output.write(f"{value[4:]}, is it not?\n")
    output.close()
    outcome = Outcome(succeeded=True, result={"seen": [f"x{value}x"]}, error=f"{value}!")
    report(results, run, definition, outcome, redactor)
    await results.flush()

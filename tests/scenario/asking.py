"""What tests of the API ask again and again, and how a problem has to look."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from horae.core.errors import Unavailable
from horae.ports import Claimed, Ending
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World

Api = httpx2.AsyncClient

# For what never comes to the store.
on_one_store = pytest.mark.parametrize("dialect", ["sqlite"])


async def create(api: Api, **fields: Any) -> dict[str, Any]:
    answer = await api.post("jobs", json={"name": "report", "type": "noop", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def run_now(api: Api, job: str = "report", **fields: Any) -> str:
    answer = await api.post(f"jobs/{job}/run", json=fields)
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def end(store: Store, claimed: list[Claimed], status: str = "succeeded", **more: Any) -> None:
    fields = {"reason": None, "error": None, "result": None} | more
    await store.settle("w1", [Ending(c.run_id, c.token, status, **fields) for c in claimed])


def assert_problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) == {"type", "title", "status", "detail", "code", "errors", "request_id"}
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert all(set(fault) == {"pointer", "detail", "hint"} for fault in problem["errors"])
    assert_helpful(problem)
    return problem


def assert_helpful(problem: dict[str, Any]) -> None:
    """Whoever is at fault is told where, what, and a way out."""
    assert (problem["status"] >= 500) or problem["errors"], problem
    assert all(fault["detail"] and fault["hint"] for fault in problem["errors"]), problem
    assert all(fault["pointer"].startswith("/") or not fault["pointer"] for fault in problem["errors"]), problem


async def failed(api: Api, store: Store, world: World, clock: StoreClock, count: int, **fields: Any) -> list[str]:
    made = []
    for _ in range(count):
        made.append(await run_now(api, **fields))
        await end(store, await world.claim(), "failed", reason="exception", error="boom")
        await clock.advance(1)
    return made


def pointers(answer: httpx2.Response) -> list[str]:
    return [fault["pointer"] for fault in assert_problem(answer, 422, "invalid")["errors"]]


class Flaky:
    """A store that answers so many changes, and then is away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.answers = 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def now(self) -> int:
        self.answers -= 1
        if self.answers < 1:
            raise Unavailable("PostgreSQL cannot be reached: 10.0.0.5:5432")
        return await self._store.now()

"""Jobs that run after others: found by name or id, in batches, never in a circle."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from horae.core.errors import Invalid
from horae.core.job import After, Definition
from horae.ports import NewJob
from horae.store.store import Store
from tests.conformance.world import TENANT, World, count_queries


def after(*words: str) -> Definition:
    return Definition(name="x", type="noop", after=tuple(After(word) for word in words))


async def test_a_chained_batch_asks_as_much_as_a_chained_job(world: World, store: Store) -> None:
    await world.job(name="up")

    async def create(start: int, count: int) -> int:
        jobs = [
            NewJob(f"j{start + n}", msgspec.structs.replace(after("up", f"n{start + n - 1}"), name=f"n{start + n}"))
            for n in range(count)
        ]
        with count_queries(store) as seen:
            answers = await store.create_jobs(None, TENANT, "test", jobs, atomic=False)
        assert answers == [{"job_id": job.id} for job in jobs]
        return len(seen)

    await world.job(name="n0")

    assert await create(1, 1) == await create(2, 100)


@pytest.mark.parametrize("words", [("a",), ("c",), ("a", "c"), ("b",)])
async def test_no_change_closes_a_circle(world: World, store: Store, words: tuple[str, ...]) -> None:
    a = await world.job(name="a")
    await world.job(name="b", after="a")
    await world.job(name="c", after="b")

    def merge(current: Definition, *_: Any) -> Definition:
        return msgspec.structs.replace(current, after=after(*words).after)

    with pytest.raises(Invalid, match="wait for itself"):
        await store.change_job(None, TENANT, a, "test", merge, None)


async def test_upstream_jobs_are_found_by_id_and_name_and_only_while_they_are_there(world: World, store: Store) -> None:
    gone = await world.job(name="gone")
    kept = await world.job(name="kept")
    await store.delete_job(None, TENANT, gone, "test", None)

    refused = await store.create_jobs(
        None, TENANT, "test", [NewJob("x", after(gone)), NewJob("y", after("gone"))], atomic=False
    )
    assert [answer["faults"][0][0] for answer in refused] == ["/after", "/after"]
    elsewhere = await store.create_jobs(None, "other", "test", [NewJob("z", after(kept))], atomic=False)
    assert elsewhere[0]["faults"][0][1] == f'There is no job "{kept}" to run after.'
    for id_, word in (("v", kept), ("w", "kept")):
        definition = msgspec.structs.replace(after(word), name=id_)
        await store.create_jobs(None, TENANT, "test", [NewJob(id_, definition)], atomic=True)
    assert [json.loads((await store.job(TENANT, id_))["spec"])["after"][0]["job_id"] for id_ in "vw"] == [kept, kept]

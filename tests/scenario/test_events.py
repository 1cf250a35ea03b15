"""The stream of events: who hears what, and where a listener goes on, over both databases."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Self

import httpx2
import msgspec
import pytest

from horae.api import events as event_stream
from horae.api.events import Events, Feed
from horae.store.store import Store
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import World
from tests.scenario.asking import create, end, pointers, run_now

Api = httpx2.AsyncClient


def parsed(frame: bytes) -> tuple[int, str, dict[str, Any]]:
    fields = dict(line.split(": ", 1) for line in frame.decode().strip().splitlines())
    return int(fields["id"]), fields["event"], msgspec.json.decode(fields["data"])


async def always() -> bool:
    return True


async def frames(
    events: Events, tenant: str, since_us: int | None, count: int
) -> list[tuple[int, str, dict[str, Any]]]:
    found: list[tuple[int, str, dict[str, Any]]] = []
    async with asyncio.timeout(20), aclosing(events._stream(tenant, since_us, always)) as stream:
        async for frame in stream:
            if not frame.startswith(b":"):
                found.append(parsed(frame))
            if len(found) == count:
                return found
    raise AssertionError


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)


class Listener:
    """A stream that is read one event at a time: nothing happens meanwhile that the test does not do."""

    def __init__(self, events: Events, tenant: str) -> None:
        self._stream = events._stream(tenant, None, always)

    async def __aenter__(self) -> Self:
        assert (await anext(self._stream)).startswith(b":")
        self._next = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)
        await self._stream.aclose()

    async def next(self) -> tuple[str, str, str]:
        async with asyncio.timeout(30):
            _, kind, data = await self._next
        self._next = asyncio.create_task(self._read())
        return kind, data.get("run_id") or data["name"], data.get("change") or data["status"]

    async def _read(self) -> tuple[int, str, dict[str, Any]]:
        while (frame := await anext(self._stream)).startswith(b":"):
            pass
        return parsed(frame)


@pytest.mark.usefixtures("quick")
async def test_changes_of_jobs_and_runs_are_streamed_to_their_tenant(
    api: Api, store: Store, world: World, clock: StoreClock
):
    events = Events(store, lambda: False)
    async with Listener(events, "default") as ours, Listener(events, "other") as theirs:
        await clock.advance(1)
        await api.post("jobs", json={"name": "x"}, headers={"X-Horae-Tenant": "other"})
        assert await theirs.next() == ("job", "x", "created")
        await create(api)
        assert await ours.next() == ("job", "report", "created")
        run = await run_now(api)
        claimed = await world.claim()
        assert await ours.next() == ("run", run, "RUNNING")
        await clock.advance(1)
        await end(store, claimed, "failed", reason="timeout")
        assert await ours.next() == ("run", run, "FAILED")
        await api.post("jobs/report/pause")
        assert await ours.next() == ("job", "report", "paused")
        await clock.advance(1)
        await api.delete("jobs/report")
        assert await ours.next() == ("job", "report", "deleted")


@pytest.mark.usefixtures("quick")
async def test_whoever_saw_the_sign_of_life_misses_nothing(api: Api, store: Store, clock: StoreClock):
    events = Events(store, lambda: False)
    async with Listener(events, "other"), aclosing(events._stream("default", None, always)) as stream:
        assert (await anext(stream)).startswith(b":")
        await clock.advance(1)
        await create(api)
        async with asyncio.timeout(20):
            while not events._feed.number:  # noqa: ASYNC110 the other one sees it before this stream is read again
                await asyncio.sleep(0.01)
            while (frame := await anext(stream)).startswith(b":"):
                pass

    assert parsed(frame)[2]["name"] == "report"


@pytest.mark.usefixtures("quick")
async def test_a_stream_goes_on_after_the_last_event(api: Api, store: Store, world: World, clock: StoreClock):
    await create(api)
    await clock.advance(100)
    last = START_US + 50_000_000
    run = await run_now(api)
    await world.worker()
    await end(store, await world.claim())
    await clock.advance(60)

    (found,) = await frames(Events(store, lambda: False), "default", last, 1)
    (gap, again) = await frames(Events(store, lambda: False), "default", last - 7_200_000_000, 2)

    assert (found[1], found[2]["run_id"], found[2]["status"]) == ("run", run, "SUCCEEDED")
    assert (gap[1], again[1]) == ("gap", "job")


async def test_listeners_share_one_look_and_a_slow_one_is_told(api: Api, store: Store, clock: StoreClock, quick: None):
    feed, looks = Feed(store), 0
    feed.watched["default"] += 1
    happened = store.happened

    async def counting(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await happened(*args)

    store.happened = counting  # type: ignore[method-assign]
    await asyncio.gather(*(feed.look() for _ in range(20)))
    assert looks == 1

    start = feed.number
    await clock.advance(1)
    await create(api)
    await asyncio.sleep(0.02)
    await feed.look()
    assert [event.kind for event in feed.after(start)[0]] == ["job"]
    assert not feed.after(start)[1]
    assert feed.after(start - 5)[1]


async def test_a_last_event_that_is_none_is_refused(api: Api):
    assert pointers(await api.get("events", headers={"Last-Event-ID": "x"})) == ["/headers/Last-Event-ID"]

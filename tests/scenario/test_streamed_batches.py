"""Jobs in lines, saved while they come."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from horae.api import body as body_module
from horae.store.store import Store
from tests.scenario.conftest import app_over, client_of
from tests.scenario.test_api import Flaky

Api = httpx2.AsyncClient
NDJSON = {"Content-Type": "application/x-ndjson"}
PATH = "/jobs:batch"


def line(name: str, **more: Any) -> bytes:
    return json.dumps({"name": name, "type": "noop", **more}).encode() + b"\n"


async def in_parts(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def names(api: Api) -> list[str]:
    return [job["name"] for job in (await api.get("jobs?limit=1000")).json()["jobs"]]


@pytest.mark.parametrize("size", [1, 7, 65_536])
async def test_lines_are_found_however_the_body_is_cut(api: Api, size: int):
    body = line("a") + b"\r\n  \n" + line("ü") + b'{"name": "last", "type": "noop"}'

    answer = (await api.post(PATH, content=in_parts(body, size), headers=NDJSON)).json()

    assert (answer["created"], answer["failed"]) == (3, 0)
    assert await names(api) == ["a", "last", "ü"]


async def test_a_body_of_many_megabytes_is_saved_slice_by_slice(api: Api):
    body = b"".join(
        b'{"oops\n' if number % 700 == 3 else line(f"job-{number:05}", payload="x" * 1500) for number in range(1500)
    )
    assert len(body) > 2 << 20

    answer = (await api.post(PATH, content=in_parts(body, 50_000), headers=NDJSON)).json()

    assert (answer["created"], answer["failed"]) == (1497, 3)
    assert [result["index"] for result in answer["results"]] == list(range(1500))
    wrong = [result for result in answer["results"] if "error" in result]
    assert [result["index"] for result in wrong] == [3, 703, 1403]
    assert "Line 704" in wrong[1]["error"]["detail"]
    job_id = answer["results"][1499]["job_id"]
    assert (await api.get(f"jobs/{job_id}")).json()["name"] == "job-01499"


async def test_what_came_before_the_break_is_saved(api: Api, store: Store, capsys: pytest.CaptureFixture[str]):
    lines = b"".join(line(f"job-{number}") for number in range(1000))
    messages = [
        {"type": "http.request", "body": lines, "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/jobs:batch",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/x-ndjson")],
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    await app_over(store)(scope, receive, send)

    assert len(await names(api)) == 1000
    assert sent == []
    assert "broken" not in capsys.readouterr().out


async def test_a_name_that_comes_again_in_a_later_slice_is_refused_alone(api: Api):
    body = b"".join(line(f"job-{number % 600}") for number in range(1200))

    answer = (await api.post(PATH, content=body, headers=NDJSON)).json()

    assert (answer["created"], answer["failed"]) == (600, 600)
    assert {result["error"]["code"] for result in answer["results"][600:]} == {"name_taken"}


async def test_all_or_none_and_a_key_ask_for_the_whole_body_first(api: Api):
    body = line("a") + b"{]\n"

    atomic = (await api.post(f"{PATH}?atomic=true", content=body, headers=NDJSON)).json()
    keyed = [(await api.post(PATH, content=body, headers=NDJSON | {"Idempotency-Key": "k"})).json() for _ in range(2)]

    assert (atomic["created"], atomic["failed"]) == (0, 2)
    assert keyed[0] == keyed[1]
    assert (keyed[0]["created"], keyed[0]["failed"]) == (1, 1)


async def test_limits_end_a_stream_with_a_word(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(body_module, "MOST_LINES", 700)
    answer = (await api.post(PATH, content=b"".join(line(f"job-{n}") for n in range(800)), headers=NDJSON)).json()

    assert (answer["created"], answer["failed"]) == (700, 1)
    assert answer["results"][-1]["error"]["status"] == 413
    monkeypatch.setattr(body_module, "MOST_BATCH_BYTES", 1000)
    answer = (
        await api.post(PATH, content=in_parts(b"".join(line(f"x-{n}") for n in range(99)), 100), headers=NDJSON)
    ).json()
    assert answer["results"][-1]["error"]["code"] == "too_large"


async def test_a_line_without_an_end_is_given_up(api: Api):
    answer = (await api.post(PATH, content=in_parts(b'{"name": "' + b"x" * 3_000_000, 65_536), headers=NDJSON)).json()

    assert (answer["created"], answer["failed"]) == (0, 1)
    assert answer["results"][0]["error"]["status"] == 413


async def test_a_slow_stream_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(body_module, "BODY_SECONDS", 0.2)

    async def slow() -> AsyncIterator[bytes]:
        yield b"".join(line(f"job-{number}") for number in range(500))
        await asyncio.sleep(5)

    answer = (await api.post(PATH, content=slow(), headers=NDJSON)).json()

    assert answer["created"] == 500
    assert answer["results"][-1]["error"]["status"] == 408


async def test_the_loop_is_free_while_a_batch_is_read(api: Api, store: Store):
    body = b"".join(line(f"job-{number}") for number in range(5000))
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            # Of the processor: what neighbours take away is not ours.
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    await api.post(PATH, content=body, headers=NDJSON)
    watching.cancel()

    assert longest < 0.5


class Paired:
    """A store whose first save waits until the next slice is being checked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.checked = 0
        self._second = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def now(self) -> int:
        self.checked += 1
        if self.checked == 2:
            self._second.set()
        return await self._store.now()

    async def create_jobs(self, *args: Any, **more: Any) -> Any:
        async with asyncio.timeout(5):
            await self._second.wait()
        return await self._store.create_jobs(*args, **more)


@pytest.mark.parametrize("shape", ["lines", "json", "json with a key"])
async def test_a_slice_is_checked_while_the_one_before_it_is_saved(store: Store, shape: str):
    jobs = [{"name": f"job-{number}", "type": "noop"} for number in range(1200)]
    async with client_of(app_over(Paired(store))) as client:
        if shape == "lines":
            body = b"".join(json.dumps(job).encode() + b"\n" for job in jobs)
            answer = await client.post(f"/v1{PATH}", content=in_parts(body, 4096), headers=NDJSON)
        else:
            key = {"Idempotency-Key": "k"} if shape == "json with a key" else {}
            answer = await client.post(f"/v1{PATH}", json={"jobs": jobs}, headers=key)

    assert (answer.json()["created"], answer.json()["failed"]) == (1200, 0)
    assert [result["index"] for result in answer.json()["results"]] == list(range(1200))


async def test_a_store_that_goes_away_during_a_stream_does_not_hide_what_was_saved(store: Store):
    flaky = Flaky(store)
    flaky.answers = 3
    body = b"".join(line(f"job-{number}") for number in range(1700))
    async with client_of(app_over(flaky)) as client:
        answer = (await client.post(f"/v1{PATH}", content=in_parts(body, 4096), headers=NDJSON)).json()
        flaky.answers = 1
        away = await client.post(f"/v1{PATH}", content=in_parts(line("x"), 10), headers=NDJSON)

    assert (answer["created"], answer["failed"]) == (1000, 700)
    assert {result["error"]["code"] for result in answer["results"][1000:]} == {"unavailable"}
    assert away.status_code == 503

"""The client of the API for asyncio: the same shape as `Client`, call by call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self, Unpack

import httpx2

from horae.sdk.errors import NotFound, WaitTimeout
from horae.sdk.fields import DeadFilters, Instant, JobFields, JobFilters, Json, RunFilters
from horae.sdk.records import Job, Record, RunRecord
from horae.sdk.wire import (
    POLL_FIRST_SECONDS,
    POLL_GROWTH,
    POLL_LONGEST_SECONDS,
    RETRIES,
    Ask,
    EventReader,
    Tries,
    delete,
    get,
    given,
    part,
    patch,
    place_of,
    post,
    put,
)


class AsyncClient:
    """Without arguments: HORAE_URL and HORAE_API_KEY, or the `horae dev` of this machine.

    A request whose answer is lost is sent again, up to `retries` times; a POST carries an idempotency key, so that it
    is done once. 429 and 503 are waited out as long as they ask for.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        tenant: str | None = None,
        timeout_seconds: float = 30.0,
        retries: int = RETRIES,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        place = place_of(url, key, tenant)
        self._http = httpx2.AsyncClient(
            base_url=place.url, headers=place.headers, timeout=timeout_seconds, transport=transport, trust_env=False
        )
        self._retries = retries
        self._random = Random()
        self._sleep = asyncio.sleep
        self.jobs = AsyncJobs(self)
        self.runs = AsyncRuns(self)
        self.dead_letters = AsyncDeadLetters(self)
        self.schedules = AsyncSchedules(self)
        self.secrets = AsyncSecrets(self)
        self.queues = AsyncQueues(self)
        self.workers = AsyncWorkers(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def stats(self) -> Record:
        return Record(await self.send(get("/stats")))

    async def forecast(
        self, from_: Instant | None = None, to: Instant | None = None, bucket: str | None = None
    ) -> Record:
        return Record(await self.send(get("/forecast", from_=from_, to=to, bucket=bucket)))

    async def send(self, ask: Ask) -> Any:
        """Any request of the API, with the same retries; the document of its answer."""
        tries = Tries(ask, self._retries, self._random)
        while True:
            try:
                response = await self._http.request(
                    ask.method, ask.path, params=dict(ask.query), content=ask.content, headers=dict(ask.headers)
                )
            except httpx2.TransportError as error:
                seconds: float | None = tries.after_error(error)
            else:
                seconds = tries.after_answer(response)
                if seconds is None:
                    return tries.read(response)
            await self._sleep(seconds or 0)

    async def pages(self, path: str, name: str, query: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Every item of a list, page by page as they are asked for."""
        cursor = None
        while True:
            page = await self.send(get(path, **{**query, "cursor": cursor}))
            for item in page[name]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def events(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        """The events of a stream; after a break it goes on where it was."""
        reader = EventReader()
        tries = Tries(get(path), self._retries, self._random)
        while True:
            try:
                async with self._http.stream(
                    "GET", path, headers={"Last-Event-ID": reader.last_id}, timeout=60
                ) as response:
                    if not response.is_success:
                        await response.aread()
                        tries.read(response)
                    tries = Tries(get(path), self._retries, self._random)
                    async for line in response.aiter_lines():
                        if (event := reader.feed(line)) is not None:
                            yield event
                            if event[0] == "end":
                                return
                pause = POLL_FIRST_SECONDS  # a server that leaves ends its streams
            except httpx2.TransportError as error:
                pause = tries.after_error(error)
            await self._sleep(pause)


class _Part:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client


class AsyncRun(RunRecord):
    """A run that can be asked for more."""

    __slots__ = ("_client",)

    def __init__(self, client: AsyncClient, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self._client = client

    async def refresh(self) -> AsyncRun:
        return await self._client.runs.get(self.run_id)

    async def wait(self, timeout_seconds: float | None = None) -> AsyncRun:
        return await self._client.runs.wait(self.run_id, timeout_seconds)

    async def logs(self) -> str:
        return await self._client.runs.logs(self.run_id)

    async def cancel(self) -> AsyncRun:
        return await self._client.runs.cancel(self.run_id)

    async def retry(self) -> AsyncRun:
        return await self._client.runs.retry(self.run_id)


class AsyncJobs(_Part):
    async def create(self, name: str, *, idempotency_key: str | None = None, **fields: Unpack[JobFields]) -> Job:
        return Job(await self._client.send(post("/jobs", {"name": name, **fields}, idempotency_key)))

    async def create_many(self, jobs: Sequence[Mapping[str, Any]], *, atomic: bool = False) -> Record:
        ask = post("/jobs:batch", {"jobs": jobs}, query=given(atomic=atomic or None))
        return Record(await self._client.send(ask))

    async def upsert(self, name: str, **fields: Unpack[JobFields]) -> Job:
        """Creates the job, or changes what differs; a pause stays."""
        return Job(await self._client.send(put(f"/jobs/{part(name)}", fields)))

    async def update(self, job: str, *, version: int | None = None, **fields: Unpack[JobFields]) -> Job:
        """Only the fields given change. With the `version` that was seen, nobody else's change is lost: Stale."""
        return Job(await self._client.send(patch(f"/jobs/{part(job)}", fields, version)))

    async def get(self, job: str) -> Job:
        return Job(await self._client.send(get(f"/jobs/{part(job)}")))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> AsyncIterator[Job]:
        """All of them, `limit` at a time."""
        return (Job(item) async for item in self._client.pages("/jobs", "jobs", {**filters, "limit": limit}))

    async def delete(self, job: str) -> None:
        await self._client.send(delete(f"/jobs/{part(job)}"))

    async def pause(self, job: str, *, until: Instant | None = None, reason: str | None = None) -> Job:
        return Job(await self._client.send(post(f"/jobs/{part(job)}/pause", given(until=until, reason=reason))))

    async def resume(self, job: str) -> Job:
        return Job(await self._client.send(post(f"/jobs/{part(job)}/resume")))

    async def run(
        self,
        job: str,
        *,
        payload: Json = None,
        priority: str | None = None,
        run_at: Instant | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRun:
        body = given(payload=payload, priority=priority, run_at=run_at)
        made = await self._client.send(post(f"/jobs/{part(job)}/run", body, idempotency_key))
        return await self._client.runs.get(made["run_id"])

    async def status(self, job: str) -> Record:
        return Record(await self._client.send(get(f"/jobs/{part(job)}/status")))

    async def explain(self, job: str, *, at: Instant | None = None) -> Record:
        return Record(await self._client.send(get(f"/jobs/{part(job)}/explain", at=at)))

    async def versions(self, job: str) -> Sequence[Record]:
        return [Record(item) for item in (await self._client.send(get(f"/jobs/{part(job)}/versions")))["versions"]]

    async def backfill(
        self, job: str, from_: Instant, to: Instant, *, dry_run: bool = False, max_: int | None = None
    ) -> Record:
        body = given(to=to, max=max_, dry_run=dry_run or None) | {"from": from_}
        return Record(await self._client.send(post(f"/jobs/{part(job)}/backfill", body)))


class AsyncRuns(_Part):
    async def get(self, run: str) -> AsyncRun:
        return AsyncRun(self._client, await self._client.send(get(f"/runs/{part(run)}")))

    def list(self, *, limit: int = 100, **filters: Unpack[RunFilters]) -> AsyncIterator[AsyncRun]:
        """Newest first."""
        pages = self._client.pages("/runs", "runs", {**filters, "limit": limit})
        return (AsyncRun(self._client, item) async for item in pages)

    async def cancel(self, run: str) -> AsyncRun:
        return AsyncRun(self._client, await self._client.send(post(f"/runs/{part(run)}/cancel")))

    async def retry(self, run: str) -> AsyncRun:
        return AsyncRun(self._client, await self._client.send(post(f"/runs/{part(run)}/retry")))

    async def logs(self, run: str, *, attempt: int | None = None) -> str:
        return str(await self._client.send(get(f"/runs/{part(run)}/logs", attempt=attempt)))

    async def follow(self, run: str) -> AsyncIterator[str]:
        """What it prints, as it comes, until it is over."""
        async for kind, data in self._client.events(f"/runs/{part(run)}/logs?follow=true"):
            if kind == "log":
                yield data["text"]

    async def wait(self, run: str, timeout_seconds: float | None = None) -> AsyncRun:
        """The run when it is over. Raises WaitTimeout when that takes longer."""
        end = None if timeout_seconds is None else asyncio.get_running_loop().time() + timeout_seconds
        pause = POLL_FIRST_SECONDS
        while not (found := await self.get(run)).is_over:
            if end is not None and asyncio.get_running_loop().time() + pause > end:
                raise WaitTimeout(f"Run {run} is {found.status} after {timeout_seconds} s.", code="wait_timeout")
            await self._client._sleep(pause)  # noqa: SLF001 one file
            pause = min(pause * POLL_GROWTH, POLL_LONGEST_SECONDS)
        return found


class AsyncDeadLetters(_Part):
    def list(self, *, limit: int = 100, **filters: Unpack[DeadFilters]) -> AsyncIterator[AsyncRun]:
        pages = self._client.pages("/dead-letters", "dead_letters", {**filters, "limit": limit})
        return (AsyncRun(self._client, item) async for item in pages)

    async def replay(self, run: str) -> AsyncRun:
        made = await self._client.send(post(f"/dead-letters/{part(run)}/replay"))
        return await self._client.runs.get(made["run_id"])

    async def replay_many(
        self,
        filter_: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        expected_count: int | None = None,
        rate: float | None = None,
    ) -> Record:
        body = given(filter=filter_, dry_run=dry_run or None, expected_count=expected_count, rate=rate)
        return Record(await self._client.send(post("/dead-letters:replay", body)))

    async def discard(self, run: str) -> None:
        await self._client.send(delete(f"/dead-letters/{part(run)}"))


class AsyncSchedules(_Part):
    async def preview(
        self, schedule: str | Sequence[str], *, timezone: str | None = None, count: int | None = None
    ) -> Record:
        body = given(schedule=schedule, timezone=timezone, count=count)
        return Record(await self._client.send(post("/schedules/preview", body)))


class AsyncSecrets(_Part):
    async def put(self, name: str, value: str) -> Record:
        return Record(await self._client.send(put(f"/secrets/{part(name)}", {"value": value})))

    async def list(self) -> Sequence[Record]:
        return [Record(item) for item in (await self._client.send(get("/secrets")))["secrets"]]

    async def delete(self, name: str) -> None:
        await self._client.send(delete(f"/secrets/{part(name)}"))


class AsyncQueues(_Part):
    async def list(self) -> Sequence[Record]:
        return [Record(item) for item in (await self._client.send(get("/queues")))["queues"]]

    async def pause(self, queue: str) -> Record:
        return Record(await self._client.send(post(f"/queues/{part(queue)}/pause")))

    async def resume(self, queue: str) -> Record:
        return Record(await self._client.send(post(f"/queues/{part(queue)}/resume")))


class AsyncWorkers(_Part):
    async def list(self) -> Sequence[Record]:
        return [Record(item) for item in (await self._client.send(get("/workers")))["workers"]]

    async def drain(self, worker: str) -> Record:
        return Record(await self._client.send(post(f"/workers/{part(worker)}/drain")))

    async def claim(
        self,
        worker: str,
        handlers: Sequence[str],
        *,
        holds: Sequence[str] = (),
        queues: Sequence[str] = ("default",),
        slots: int = 1,
        wait: float = 0,
        node: str | None = None,
    ) -> Record:
        body = given(worker=worker, node=node, slots=slots, wait=wait) | {
            "handlers": [*handlers],
            "holds": [*holds],
            "queues": [*queues],
        }
        return Record(await self._client.send(post("/workers/claim", body)))

    async def heartbeat(self, worker: str, runs: Mapping[str, int]) -> Record:
        held = [{"run_id": run_id, "fence": fence} for run_id, fence in runs.items()]
        return Record(await self._client.send(post(f"/workers/{part(worker)}/heartbeat", {"runs": held})))

    async def log(self, run: str, fence: int, seq: int, text: str) -> bool:
        piece = {"fence": fence, "seq": seq, "text": text}
        return bool((await self._client.send(post(f"/runs/{part(run)}/log", piece)))["kept"])

    async def complete(self, run: str, fence: int, status: str, **fields: Json) -> Record:
        """`result`, or `error` with `reason`, `retry_after` and `retryable`. Raises Conflict for a fence of old."""
        body = {"fence": fence, "status": status, **given(**fields)}
        return Record(await self._client.send(post(f"/runs/{part(run)}/complete", body)))

    async def leave(self, worker: str) -> None:
        try:
            await self._client.send(delete(f"/workers/{part(worker)}"))
        except NotFound:
            return

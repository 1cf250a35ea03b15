"""The client of the API for asyncio: the same shape as `Client`, call by call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self, Unpack

import httpx2

from horae.sdk import asks
from horae.sdk.errors import NotFound
from horae.sdk.fields import DeadFilters, Instant, JobFields, JobFilters, Json, RunFilters
from horae.sdk.records import Job, Record, RunRecord, records_of
from horae.sdk.wire import (
    POLL_FIRST_SECONDS,
    RETRIES,
    Ask,
    EventReader,
    Patience,
    Tries,
    get,
    place_of,
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
        self._timeout_seconds = timeout_seconds
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
        return Record(await self.send(asks.stats()))

    async def forecast(
        self, from_: Instant | None = None, to: Instant | None = None, bucket: str | None = None
    ) -> Record:
        return Record(await self.send(asks.forecast(from_, to, bucket)))

    async def send(self, ask: Ask, patience: Patience | None = None) -> Any:
        """Any request of the API, with the same retries; the document of its answer."""
        tries = Tries(ask, self._retries, self._random, patience)
        while True:
            try:
                response = await self._http.request(
                    ask.method,
                    ask.path,
                    params=dict(ask.query),
                    content=ask.content,
                    headers=dict(ask.headers),
                    timeout=tries.timeout(self._timeout_seconds),
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
        return Job(await self._client.send(asks.create_job(name, fields, idempotency_key)))

    async def create_many(self, jobs: Sequence[Mapping[str, Any]], *, atomic: bool = False) -> Record:
        return Record(await self._client.send(asks.create_jobs(jobs, atomic=atomic)))

    async def upsert(self, name: str, **fields: Unpack[JobFields]) -> Job:
        """Creates the job, or changes what differs; a pause stays."""
        return Job(await self._client.send(asks.upsert_job(name, fields)))

    async def update(self, job: str, *, version: int | None = None, **fields: Unpack[JobFields]) -> Job:
        """Only the fields given change. With the `version` that was seen, nobody else's change is lost: Stale."""
        return Job(await self._client.send(asks.update_job(job, fields, version)))

    async def get(self, job: str) -> Job:
        return Job(await self._client.send(asks.read_job(job)))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> AsyncIterator[Job]:
        """All of them, `limit` at a time."""
        return (Job(item) async for item in self._client.pages("/jobs", "jobs", {**filters, "limit": limit}))

    async def delete(self, job: str) -> None:
        await self._client.send(asks.delete_job(job))

    async def pause(self, job: str, *, until: Instant | None = None, reason: str | None = None) -> Job:
        return Job(await self._client.send(asks.pause_job(job, until, reason)))

    async def resume(self, job: str) -> Job:
        return Job(await self._client.send(asks.resume_job(job)))

    async def run(
        self,
        job: str,
        *,
        payload: Json = None,
        priority: str | None = None,
        run_at: Instant | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRun:
        made = await self._client.send(asks.run_job(job, payload, priority, run_at, idempotency_key))
        return await self._client.runs.get(made["run_id"])

    async def status(self, job: str) -> Record:
        return Record(await self._client.send(asks.job_status(job)))

    async def explain(self, job: str, *, at: Instant | None = None) -> Record:
        return Record(await self._client.send(asks.explain_job(job, at)))

    async def versions(self, job: str) -> Sequence[Record]:
        return records_of(await self._client.send(asks.job_versions(job)), "versions")

    async def backfill(
        self, job: str, from_: Instant, to: Instant, *, dry_run: bool = False, max_: int | None = None
    ) -> Record:
        return Record(await self._client.send(asks.backfill(job, from_, to, max_, dry_run=dry_run)))


class AsyncRuns(_Part):
    async def get(self, run: str) -> AsyncRun:
        return AsyncRun(self._client, await self._client.send(asks.read_run(run)))

    def list(self, *, limit: int = 100, **filters: Unpack[RunFilters]) -> AsyncIterator[AsyncRun]:
        """Newest first."""
        pages = self._client.pages("/runs", "runs", {**filters, "limit": limit})
        return (AsyncRun(self._client, item) async for item in pages)

    async def cancel(self, run: str) -> AsyncRun:
        return AsyncRun(self._client, await self._client.send(asks.cancel_run(run)))

    async def retry(self, run: str) -> AsyncRun:
        return AsyncRun(self._client, await self._client.send(asks.retry_run(run)))

    async def logs(self, run: str, *, attempt: int | None = None) -> str:
        return str(await self._client.send(asks.read_logs(run, attempt)))

    async def follow(self, run: str) -> AsyncIterator[str]:
        """What it prints, as it comes, until it is over."""
        async for kind, data in self._client.events(asks.log_stream(run)):
            if kind == "log":
                yield data["text"]

    async def wait(self, run: str, timeout_seconds: float | None = None) -> AsyncRun:
        """The run when it is over. Raises WaitTimeout when that takes longer, also when the server is silent."""
        patience = Patience(run, timeout_seconds, asyncio.get_running_loop().time)
        while True:
            found = AsyncRun(self._client, await self._client.send(asks.read_run(run), patience))
            if found.is_over:
                return found
            await self._client._sleep(patience.pause(found.status))  # noqa: SLF001 one file


class AsyncDeadLetters(_Part):
    def list(self, *, limit: int = 100, **filters: Unpack[DeadFilters]) -> AsyncIterator[AsyncRun]:
        pages = self._client.pages("/dead-letters", "dead_letters", {**filters, "limit": limit})
        return (AsyncRun(self._client, item) async for item in pages)

    async def replay(self, run: str) -> AsyncRun:
        made = await self._client.send(asks.replay(run))
        return await self._client.runs.get(made["run_id"])

    async def replay_many(
        self,
        filter_: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        expected_count: int | None = None,
        rate: float | None = None,
    ) -> Record:
        return Record(await self._client.send(asks.replay_many(filter_, expected_count, rate, dry_run=dry_run)))

    async def discard_many(
        self, filter_: Mapping[str, Any] | None = None, *, dry_run: bool = False, expected_count: int | None = None
    ) -> Record:
        """`expected_count` is what `dry_run` said: another number discards nothing."""
        return Record(await self._client.send(asks.discard_many(filter_, expected_count, dry_run=dry_run)))

    async def discard(self, run: str) -> None:
        await self._client.send(asks.discard(run))


class AsyncSchedules(_Part):
    async def preview(
        self, schedule: str | Sequence[str], *, timezone: str | None = None, count: int | None = None
    ) -> Record:
        return Record(await self._client.send(asks.preview(schedule, timezone, count)))


class AsyncSecrets(_Part):
    async def put(self, name: str, value: str) -> Record:
        return Record(await self._client.send(asks.put_secret(name, value)))

    async def list(self) -> Sequence[Record]:
        return records_of(await self._client.send(asks.list_secrets()), "secrets")

    async def delete(self, name: str) -> None:
        await self._client.send(asks.delete_secret(name))


class AsyncQueues(_Part):
    async def list(self) -> Sequence[Record]:
        return records_of(await self._client.send(asks.list_queues()), "queues")

    async def pause(self, queue: str) -> Record:
        return Record(await self._client.send(asks.pause_queue(queue)))

    async def resume(self, queue: str) -> Record:
        return Record(await self._client.send(asks.resume_queue(queue)))


class AsyncWorkers(_Part):
    async def list(self) -> Sequence[Record]:
        return records_of(await self._client.send(asks.list_workers()), "workers")

    async def drain(self, worker: str) -> Record:
        return Record(await self._client.send(asks.drain_worker(worker)))

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
        return Record(await self._client.send(asks.claim(worker, handlers, holds, queues, slots, wait, node)))

    async def heartbeat(self, worker: str, runs: Mapping[str, int], *, is_draining: bool = False) -> Record:
        """`is_draining`: it wants no more runs, and a claim of its own that waits is answered."""
        return Record(await self._client.send(asks.heartbeat(worker, runs, is_draining=is_draining)))

    async def log(self, run: str, fence: int, seq: int, text: str) -> bool:
        return bool((await self._client.send(asks.log(run, fence, seq, text)))["kept"])

    async def complete(self, run: str, fence: int, status: str, **fields: Json) -> Record:
        """`result`, or `error` with `reason`, `retry_after` and `retryable`. Raises Conflict for a fence of old."""
        return Record(await self._client.send(asks.complete(run, fence, status, fields)))

    async def leave(self, worker: str) -> None:
        try:
            await self._client.send(asks.leave(worker))
        except NotFound:
            return

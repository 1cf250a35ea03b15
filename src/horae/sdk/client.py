"""The client of the API for plain code. `AsyncClient` has the same shape with `await` in front."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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


class Client:
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
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        place = place_of(url, key, tenant)
        self._http = httpx2.Client(
            base_url=place.url, headers=place.headers, timeout=timeout_seconds, transport=transport, trust_env=False
        )
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._random = Random()
        self._sleep = time.sleep
        self.jobs = Jobs(self)
        self.runs = Runs(self)
        self.dead_letters = DeadLetters(self)
        self.schedules = Schedules(self)
        self.secrets = Secrets(self)
        self.queues = Queues(self)
        self.workers = Workers(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def stats(self) -> Record:
        return Record(self.send(asks.stats()))

    def forecast(self, from_: Instant | None = None, to: Instant | None = None, bucket: str | None = None) -> Record:
        return Record(self.send(asks.forecast(from_, to, bucket)))

    def send(self, ask: Ask, patience: Patience | None = None) -> Any:
        """Any request of the API, with the same retries; the document of its answer."""
        tries = Tries(ask, self._retries, self._random, patience)
        while True:
            try:
                response = self._http.request(
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
            self._sleep(seconds or 0)

    def pages(self, path: str, name: str, query: Mapping[str, Any]) -> Iterator[Any]:
        """Every item of a list, page by page as they are asked for."""
        cursor = None
        while True:
            page = self.send(get(path, **{**query, "cursor": cursor}))
            yield from page[name]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """The events of a stream; after a break it goes on where it was."""
        reader = EventReader()
        tries = Tries(get(path), self._retries, self._random)
        while True:
            try:
                with self._http.stream("GET", path, headers={"Last-Event-ID": reader.last_id}, timeout=60) as response:
                    if not response.is_success:
                        response.read()
                        tries.read(response)
                    tries = Tries(get(path), self._retries, self._random)
                    for line in response.iter_lines():
                        if (event := reader.feed(line)) is not None:
                            yield event
                            if event[0] == "end":
                                return
                pause = POLL_FIRST_SECONDS  # a server that leaves ends its streams
            except httpx2.TransportError as error:
                pause = tries.after_error(error)
            self._sleep(pause)


class _Part:
    def __init__(self, client: Client) -> None:
        self._client = client


class Run(RunRecord):
    """A run that can be asked for more."""

    __slots__ = ("_client",)

    def __init__(self, client: Client, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self._client = client

    def refresh(self) -> Run:
        return self._client.runs.get(self.run_id)

    def wait(self, timeout_seconds: float | None = None) -> Run:
        return self._client.runs.wait(self.run_id, timeout_seconds)

    def logs(self) -> str:
        return self._client.runs.logs(self.run_id)

    def cancel(self) -> Run:
        return self._client.runs.cancel(self.run_id)

    def retry(self) -> Run:
        return self._client.runs.retry(self.run_id)


class Jobs(_Part):
    def create(self, name: str, *, idempotency_key: str | None = None, **fields: Unpack[JobFields]) -> Job:
        return Job(self._client.send(asks.create_job(name, fields, idempotency_key)))

    def create_many(self, jobs: Sequence[Mapping[str, Any]], *, atomic: bool = False) -> Record:
        return Record(self._client.send(asks.create_jobs(jobs, atomic=atomic)))

    def upsert(self, name: str, **fields: Unpack[JobFields]) -> Job:
        """Creates the job, or changes what differs; a pause stays."""
        return Job(self._client.send(asks.upsert_job(name, fields)))

    def update(self, job: str, *, version: int | None = None, **fields: Unpack[JobFields]) -> Job:
        """Only the fields given change. With the `version` that was seen, nobody else's change is lost: Stale."""
        return Job(self._client.send(asks.update_job(job, fields, version)))

    def get(self, job: str) -> Job:
        return Job(self._client.send(asks.read_job(job)))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Iterator[Job]:
        """All of them, `limit` at a time."""
        return (Job(item) for item in self._client.pages("/jobs", "jobs", {**filters, "limit": limit}))

    def delete(self, job: str) -> None:
        self._client.send(asks.delete_job(job))

    def pause(self, job: str, *, until: Instant | None = None, reason: str | None = None) -> Job:
        return Job(self._client.send(asks.pause_job(job, until, reason)))

    def resume(self, job: str) -> Job:
        return Job(self._client.send(asks.resume_job(job)))

    def run(
        self,
        job: str,
        *,
        payload: Json = None,
        priority: str | None = None,
        run_at: Instant | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        made = self._client.send(asks.run_job(job, payload, priority, run_at, idempotency_key))
        return self._client.runs.get(made["run_id"])

    def status(self, job: str) -> Record:
        return Record(self._client.send(asks.job_status(job)))

    def explain(self, job: str, *, at: Instant | None = None) -> Record:
        return Record(self._client.send(asks.explain_job(job, at)))

    def versions(self, job: str) -> Sequence[Record]:
        return records_of(self._client.send(asks.job_versions(job)), "versions")

    def backfill(
        self, job: str, from_: Instant, to: Instant, *, dry_run: bool = False, max_: int | None = None
    ) -> Record:
        return Record(self._client.send(asks.backfill(job, from_, to, max_, dry_run=dry_run)))


class Runs(_Part):
    def get(self, run: str) -> Run:
        return Run(self._client, self._client.send(asks.read_run(run)))

    def list(self, *, limit: int = 100, **filters: Unpack[RunFilters]) -> Iterator[Run]:
        """Newest first."""
        pages = self._client.pages("/runs", "runs", {**filters, "limit": limit})
        return (Run(self._client, item) for item in pages)

    def cancel(self, run: str) -> Run:
        return Run(self._client, self._client.send(asks.cancel_run(run)))

    def retry(self, run: str) -> Run:
        return Run(self._client, self._client.send(asks.retry_run(run)))

    def logs(self, run: str, *, attempt: int | None = None) -> str:
        return str(self._client.send(asks.read_logs(run, attempt)))

    def follow(self, run: str) -> Iterator[str]:
        """What it prints, as it comes, until it is over."""
        for kind, data in self._client.events(asks.log_stream(run)):
            if kind == "log":
                yield data["text"]

    def wait(self, run: str, timeout_seconds: float | None = None) -> Run:
        """The run when it is over. Raises WaitTimeout when that takes longer, also when the server is silent."""
        patience = Patience(run, timeout_seconds, time.monotonic)
        while True:
            found = Run(self._client, self._client.send(asks.read_run(run), patience))
            if found.is_over:
                return found
            self._client._sleep(patience.pause(found.status))  # noqa: SLF001 one file


class DeadLetters(_Part):
    def list(self, *, limit: int = 100, **filters: Unpack[DeadFilters]) -> Iterator[Run]:
        pages = self._client.pages("/dead-letters", "dead_letters", {**filters, "limit": limit})
        return (Run(self._client, item) for item in pages)

    def replay(self, run: str) -> Run:
        made = self._client.send(asks.replay(run))
        return self._client.runs.get(made["run_id"])

    def replay_many(
        self,
        filter_: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        expected_count: int | None = None,
        rate: float | None = None,
    ) -> Record:
        return Record(self._client.send(asks.replay_many(filter_, expected_count, rate, dry_run=dry_run)))

    def discard_many(
        self, filter_: Mapping[str, Any] | None = None, *, dry_run: bool = False, expected_count: int | None = None
    ) -> Record:
        """`expected_count` is what `dry_run` said: another number discards nothing."""
        return Record(self._client.send(asks.discard_many(filter_, expected_count, dry_run=dry_run)))

    def discard(self, run: str) -> None:
        self._client.send(asks.discard(run))


class Schedules(_Part):
    def preview(
        self, schedule: str | Sequence[str], *, timezone: str | None = None, count: int | None = None
    ) -> Record:
        return Record(self._client.send(asks.preview(schedule, timezone, count)))


class Secrets(_Part):
    def put(self, name: str, value: str) -> Record:
        return Record(self._client.send(asks.put_secret(name, value)))

    def list(self) -> Sequence[Record]:
        return records_of(self._client.send(asks.list_secrets()), "secrets")

    def delete(self, name: str) -> None:
        self._client.send(asks.delete_secret(name))


class Queues(_Part):
    def list(self) -> Sequence[Record]:
        return records_of(self._client.send(asks.list_queues()), "queues")

    def pause(self, queue: str) -> Record:
        return Record(self._client.send(asks.pause_queue(queue)))

    def resume(self, queue: str) -> Record:
        return Record(self._client.send(asks.resume_queue(queue)))


class Workers(_Part):
    def list(self) -> Sequence[Record]:
        return records_of(self._client.send(asks.list_workers()), "workers")

    def drain(self, worker: str) -> Record:
        return Record(self._client.send(asks.drain_worker(worker)))

    def claim(
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
        return Record(self._client.send(asks.claim(worker, handlers, holds, queues, slots, wait, node)))

    def heartbeat(self, worker: str, runs: Mapping[str, int], *, is_draining: bool = False) -> Record:
        """`is_draining`: it wants no more runs, and a claim of its own that waits is answered."""
        return Record(self._client.send(asks.heartbeat(worker, runs, is_draining=is_draining)))

    def log(self, run: str, fence: int, seq: int, text: str) -> bool:
        return bool(self._client.send(asks.log(run, fence, seq, text))["kept"])

    def complete(self, run: str, fence: int, status: str, **fields: Json) -> Record:
        """`result`, or `error` with `reason`, `retry_after` and `retryable`. Raises Conflict for a fence of old."""
        return Record(self._client.send(asks.complete(run, fence, status, fields)))

    def leave(self, worker: str) -> None:
        try:
            self._client.send(asks.leave(worker))
        except NotFound:
            return

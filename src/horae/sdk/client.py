"""The client of the API for plain code. `AsyncClient` has the same shape with `await` in front."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
        return Record(self.send(get("/stats")))

    def forecast(self, from_: Instant | None = None, to: Instant | None = None, bucket: str | None = None) -> Record:
        return Record(self.send(get("/forecast", from_=from_, to=to, bucket=bucket)))

    def send(self, ask: Ask) -> Any:
        """Any request of the API, with the same retries; the document of its answer."""
        tries = Tries(ask, self._retries, self._random)
        while True:
            try:
                response = self._http.request(
                    ask.method, ask.path, params=dict(ask.query), content=ask.content, headers=dict(ask.headers)
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
        return Job(self._client.send(post("/jobs", {"name": name, **fields}, idempotency_key)))

    def create_many(self, jobs: Sequence[Mapping[str, Any]], *, atomic: bool = False) -> Record:
        ask = post("/jobs:batch", {"jobs": jobs}, query=given(atomic=atomic or None))
        return Record(self._client.send(ask))

    def upsert(self, name: str, **fields: Unpack[JobFields]) -> Job:
        """Creates the job, or changes what differs; a pause stays."""
        return Job(self._client.send(put(f"/jobs/{part(name)}", fields)))

    def update(self, job: str, *, version: int | None = None, **fields: Unpack[JobFields]) -> Job:
        """Only the fields given change. With the `version` that was seen, nobody else's change is lost: Stale."""
        return Job(self._client.send(patch(f"/jobs/{part(job)}", fields, version)))

    def get(self, job: str) -> Job:
        return Job(self._client.send(get(f"/jobs/{part(job)}")))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Iterator[Job]:
        """All of them, `limit` at a time."""
        return (Job(item) for item in self._client.pages("/jobs", "jobs", {**filters, "limit": limit}))

    def delete(self, job: str) -> None:
        self._client.send(delete(f"/jobs/{part(job)}"))

    def pause(self, job: str, *, until: Instant | None = None, reason: str | None = None) -> Job:
        return Job(self._client.send(post(f"/jobs/{part(job)}/pause", given(until=until, reason=reason))))

    def resume(self, job: str) -> Job:
        return Job(self._client.send(post(f"/jobs/{part(job)}/resume")))

    def run(
        self,
        job: str,
        *,
        payload: Json = None,
        priority: str | None = None,
        run_at: Instant | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        body = given(payload=payload, priority=priority, run_at=run_at)
        made = self._client.send(post(f"/jobs/{part(job)}/run", body, idempotency_key))
        return self._client.runs.get(made["run_id"])

    def status(self, job: str) -> Record:
        return Record(self._client.send(get(f"/jobs/{part(job)}/status")))

    def explain(self, job: str, *, at: Instant | None = None) -> Record:
        return Record(self._client.send(get(f"/jobs/{part(job)}/explain", at=at)))

    def versions(self, job: str) -> Sequence[Record]:
        return [Record(item) for item in self._client.send(get(f"/jobs/{part(job)}/versions"))["versions"]]

    def backfill(
        self, job: str, from_: Instant, to: Instant, *, dry_run: bool = False, max_: int | None = None
    ) -> Record:
        body = given(to=to, max=max_, dry_run=dry_run or None) | {"from": from_}
        return Record(self._client.send(post(f"/jobs/{part(job)}/backfill", body)))


class Runs(_Part):
    def get(self, run: str) -> Run:
        return Run(self._client, self._client.send(get(f"/runs/{part(run)}")))

    def list(self, *, limit: int = 100, **filters: Unpack[RunFilters]) -> Iterator[Run]:
        """Newest first."""
        pages = self._client.pages("/runs", "runs", {**filters, "limit": limit})
        return (Run(self._client, item) for item in pages)

    def cancel(self, run: str) -> Run:
        return Run(self._client, self._client.send(post(f"/runs/{part(run)}/cancel")))

    def retry(self, run: str) -> Run:
        return Run(self._client, self._client.send(post(f"/runs/{part(run)}/retry")))

    def logs(self, run: str, *, attempt: int | None = None) -> str:
        return str(self._client.send(get(f"/runs/{part(run)}/logs", attempt=attempt)))

    def follow(self, run: str) -> Iterator[str]:
        """What it prints, as it comes, until it is over."""
        for kind, data in self._client.events(f"/runs/{part(run)}/logs?follow=true"):
            if kind == "log":
                yield data["text"]

    def wait(self, run: str, timeout_seconds: float | None = None) -> Run:
        """The run when it is over. Raises WaitTimeout when that takes longer."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = POLL_FIRST_SECONDS
        while not (found := self.get(run)).is_over:
            if end is not None and time.monotonic() + pause > end:
                raise WaitTimeout(f"Run {run} is {found.status} after {timeout_seconds} s.", code="wait_timeout")
            self._client._sleep(pause)  # noqa: SLF001 one file
            pause = min(pause * POLL_GROWTH, POLL_LONGEST_SECONDS)
        return found


class DeadLetters(_Part):
    def list(self, *, limit: int = 100, **filters: Unpack[DeadFilters]) -> Iterator[Run]:
        pages = self._client.pages("/dead-letters", "dead_letters", {**filters, "limit": limit})
        return (Run(self._client, item) for item in pages)

    def replay(self, run: str) -> Run:
        made = self._client.send(post(f"/dead-letters/{part(run)}/replay"))
        return self._client.runs.get(made["run_id"])

    def replay_many(
        self,
        filter_: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        expected_count: int | None = None,
        rate: float | None = None,
    ) -> Record:
        body = given(filter=filter_, dry_run=dry_run or None, expected_count=expected_count, rate=rate)
        return Record(self._client.send(post("/dead-letters:replay", body)))

    def discard(self, run: str) -> None:
        self._client.send(delete(f"/dead-letters/{part(run)}"))


class Schedules(_Part):
    def preview(
        self, schedule: str | Sequence[str], *, timezone: str | None = None, count: int | None = None
    ) -> Record:
        body = given(schedule=schedule, timezone=timezone, count=count)
        return Record(self._client.send(post("/schedules/preview", body)))


class Secrets(_Part):
    def put(self, name: str, value: str) -> Record:
        return Record(self._client.send(put(f"/secrets/{part(name)}", {"value": value})))

    def list(self) -> Sequence[Record]:
        return [Record(item) for item in self._client.send(get("/secrets"))["secrets"]]

    def delete(self, name: str) -> None:
        self._client.send(delete(f"/secrets/{part(name)}"))


class Queues(_Part):
    def list(self) -> Sequence[Record]:
        return [Record(item) for item in self._client.send(get("/queues"))["queues"]]

    def pause(self, queue: str) -> Record:
        return Record(self._client.send(post(f"/queues/{part(queue)}/pause")))

    def resume(self, queue: str) -> Record:
        return Record(self._client.send(post(f"/queues/{part(queue)}/resume")))


class Workers(_Part):
    def list(self) -> Sequence[Record]:
        return [Record(item) for item in self._client.send(get("/workers"))["workers"]]

    def drain(self, worker: str) -> Record:
        return Record(self._client.send(post(f"/workers/{part(worker)}/drain")))

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
        body = given(worker=worker, node=node, slots=slots, wait=wait) | {
            "handlers": [*handlers],
            "holds": [*holds],
            "queues": [*queues],
        }
        return Record(self._client.send(post("/workers/claim", body)))

    def heartbeat(self, worker: str, runs: Mapping[str, int]) -> Record:
        held = [{"run_id": run_id, "fence": fence} for run_id, fence in runs.items()]
        return Record(self._client.send(post(f"/workers/{part(worker)}/heartbeat", {"runs": held})))

    def log(self, run: str, fence: int, seq: int, text: str) -> bool:
        piece = {"fence": fence, "seq": seq, "text": text}
        return bool(self._client.send(post(f"/runs/{part(run)}/log", piece))["kept"])

    def complete(self, run: str, fence: int, status: str, **fields: Json) -> Record:
        """`result`, or `error` with `reason`, `retry_after` and `retryable`. Raises Conflict for a fence of old."""
        body = {"fence": fence, "status": status, **given(**fields)}
        return Record(self._client.send(post(f"/runs/{part(run)}/complete", body)))

    def leave(self, worker: str) -> None:
        try:
            self._client.send(delete(f"/workers/{part(worker)}"))
        except NotFound:
            return

"""A worker without a database: takes runs of its handlers over HTTP, runs them in this process, and reports.

It stops what it runs before its lease can end, as every worker does, and comes back under a new id when given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

from horae.core.duration import parse_instant
from horae.executors.python import Handler, PythonExecutor
from horae.failpoints import hit
from horae.ports import Outcome, Request
from horae.sdk.aio import AsyncClient
from horae.sdk.app import App, Declared, alone, upstream_first
from horae.sdk.asks import upsert_job
from horae.sdk.errors import ApiError, Conflict, Denied, Unauthorized
from horae.sdk.fields import JobFields
from horae.telemetry import log, oops, warn

WAIT_SECONDS = 15.0
AWAY_SECONDS = 1.0
SELF_STOP = 0.8
GRACE_SECONDS = 30.0
LAST_CLAIM_SECONDS = 20.0
PIECE_CHARACTERS = 60_000
LOST, CANCELLED, RELEASED = "lost", "cancelled", "released"


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    queues: Sequence[str] = ("default",)
    slots: int = 10


@dataclass(slots=True)
class _Running:
    """A run that is held until its end has been reported. `stop` says why it was told to stop."""

    run_id: str
    fence: int
    task: asyncio.Task[None] | None = None
    stop: str | None = None


class RemoteWorker:
    def __init__(self, client: AsyncClient, handlers: Mapping[str, Handler], settings: RemoteSettings) -> None:
        self._client = client
        self._handlers = list(handlers)
        self._settings = settings
        self._executor = PythonExecutor(handlers, slots=settings.slots)
        self._id = str(uuid4())
        self._held: dict[str, _Running] = {}
        self._heartbeat_seconds = 5.0
        self._visibility_seconds = 15.0
        self._stopping = asyncio.Event()
        self._room = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        self._stopping.set()
        self._room.set()

    async def run(self) -> None:
        """Until told to stop. What runs then may end within the grace, or goes back."""
        beats = asyncio.create_task(self._beats())
        claims = asyncio.create_task(self._claims())
        try:
            await self._stopping.wait()
            deadline = asyncio.get_running_loop().time() + GRACE_SECONDS
            await self._end_claims(claims)
            await self._drain(deadline)
        finally:
            for task in (beats, claims):
                task.cancel()
            await asyncio.gather(beats, claims, return_exceptions=True)
            await self._executor.close()
            with contextlib.suppress(ApiError):
                await self._client.workers.leave(self._id)
        log("worker.stopped", worker=self._id)

    # Taking runs

    async def _claims(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._claim()
            except Conflict as error:
                self._give_up(error.detail)
            except (Unauthorized, Denied) as error:
                warn("worker.refused", why=str(error))
                await asyncio.sleep(AWAY_SECONDS * 5)
            except ApiError as error:
                warn("server.away", why=str(error))
                await asyncio.sleep(AWAY_SECONDS)
            except Exception as error:  # noqa: BLE001 a worker never dies of one bad answer
                oops("worker.broken", error)
                await asyncio.sleep(AWAY_SECONDS)

    async def _end_claims(self, claims: asyncio.Task[None]) -> None:
        """The claim under way is not cut off: a run that was taken for it in that very moment would cost an attempt.
        Its answer is waited for, and what it brings goes back as never begun.
        """
        held = {held.run_id: held.fence for held in self._held.values()}
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(LAST_CLAIM_SECONDS):
                try:
                    await self._client.workers.heartbeat(self._id, held, is_draining=True)
                finally:
                    await asyncio.wait([claims])
                # It takes nothing, since we drain; what it does not name goes back.
                await self._client.workers.claim(
                    self._id, self._handlers, holds=list(self._held), queues=self._settings.queues
                )
        claims.cancel()

    async def _claim(self) -> None:
        if len(self._held) >= self._settings.slots:
            self._room.clear()
            await self._room.wait()
            return
        worker, sent = self._id, asyncio.get_running_loop().time()
        answer = await self._client.workers.claim(
            worker,
            self._handlers,
            holds=list(self._held),
            queues=self._settings.queues,
            slots=self._settings.slots,
            wait=min(WAIT_SECONDS, self._visibility_seconds / 2),
            node=socket.gethostname(),
        )
        if worker != self._id:
            return  # given up meanwhile: these runs are somebody else's by now, or soon
        if self._stopping.is_set():
            return  # not begun, they go back
        self._heartbeat_seconds, self._visibility_seconds = answer.heartbeat_seconds, answer.visibility_seconds
        for run in answer.runs:
            held = _Running(run["run_id"], run["fence"])
            self._held[held.run_id] = held
            held.task = asyncio.create_task(self._attempt(held, run), name=held.run_id)
        if answer.runs:
            # The claim was a sign of life, but maybe an old one: another is due now.
            self._arm(sent)
            self._beat_now.set()
        if answer.is_draining:
            log("worker.draining", worker=self._id)
            self.stop()

    async def _attempt(self, held: _Running, run: Mapping[str, Any]) -> None:
        pieces = _Pieces(self._client, held)
        try:
            hit("attempt.before_start")
            outcome = await self._executor.run(_request(run), pieces.write)
            hit("attempt.after_effect")
            await self._report(held, _completion(outcome))
        except asyncio.CancelledError:
            if held.stop in (CANCELLED, RELEASED):
                await self._report(held, {"status": held.stop})
        except Exception as error:  # noqa: BLE001 our bug, but the run must not be lost for it
            oops("executor.broken", error, run=held.run_id)
            await self._report(held, {"status": "failed", "error": f"horae: {type(error).__name__}: {error}"})
        finally:
            self._held.pop(held.run_id, None)
            self._room.set()

    async def _report(self, held: _Running, fields: dict[str, Any]) -> None:
        """Until it has arrived, or is wanted no more: a result is worth more tries than a question."""
        while held.stop != LOST:
            try:
                await self._client.workers.complete(held.run_id, held.fence, **fields)
            except Conflict as error:
                warn("result.late", run=held.run_id, why=error.code)
                return
            except ApiError as error:
                if error.status not in (0, 429, 502, 503, 504):
                    warn("result.refused", run=held.run_id, why=str(error))
                    if fields["status"] != "failed":
                        # The same result would be refused again.
                        fields = {"status": "failed", "error": f"The result was refused: {error}", "retryable": False}
                        continue
                    return
                warn("server.away", why=str(error))
                await asyncio.sleep(AWAY_SECONDS)
            else:
                return

    # Staying alive

    async def _beats(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_seconds):
                    await self._beat_now.wait()
            self._beat_now.clear()
            try:
                await self._beat()
            except Conflict as error:
                self._give_up(error.detail)
            except ApiError as error:
                warn("server.away", why=str(error))
            except Exception as error:  # noqa: BLE001
                oops("worker.broken", error)

    async def _beat(self) -> None:
        if not self._held:
            return  # the claim that waits is the sign of life
        worker, sent = self._id, asyncio.get_running_loop().time()
        runs = {held.run_id: held.fence for held in self._held.values()}
        answer = await self._client.workers.heartbeat(worker, runs)
        if worker != self._id:
            return
        self._arm(sent)
        for state in answer.runs:
            held = self._held.get(state["run_id"])
            if held is not None and state["state"] != "running" and held.fence == runs[held.run_id]:
                self._stop_run(held, CANCELLED if state["state"] == "cancelled" else LOST)
        if answer.is_draining:
            self.stop()

    def _stop_run(self, held: _Running, why: str) -> None:
        if held.stop is None or why == LOST:
            held.stop = why
            if held.task is not None:
                held.task.cancel()

    def _arm(self, sent: float) -> None:
        """A later sign of life moves it on; an earlier one, whose answer came late, does not move it back."""
        if self._alarm is not None:
            self._alarm.cancel()
        when = max(sent + self._visibility_seconds * SELF_STOP, self._alarm.when() if self._alarm is not None else 0)
        self._alarm = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        if self._held:
            self._give_up("the server did not answer in time")

    def _give_up(self, why: str) -> None:
        """Our runs are, or soon will be, somebody else's: end them now, report nothing, come back as somebody new."""
        warn("worker.gave_up", worker=self._id, running=len(self._held), why=why)
        for held in list(self._held.values()):
            self._stop_run(held, LOST)
        self._id = str(uuid4())

    async def _drain(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        tasks = [held.task for held in self._held.values() if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - loop.time()))
        for held in list(self._held.values()):
            self._stop_run(held, RELEASED)
        left = [task for task in tasks if not task.done()]
        if left:
            await asyncio.wait(left, timeout=10)


class _Pieces:
    """The log of one attempt, numbered piece by piece."""

    def __init__(self, client: AsyncClient, held: _Running) -> None:
        self._client = client
        self._held = held
        self._seq = 0

    async def write(self, text: str) -> None:
        for start in range(0, len(text), PIECE_CHARACTERS):
            self._seq += 1
            piece = text[start : start + PIECE_CHARACTERS]
            with contextlib.suppress(ApiError):  # the result is what counts
                await self._client.workers.log(self._held.run_id, self._held.fence, self._seq, piece)


async def register(client: AsyncClient, jobs: Mapping[str, Declared]) -> None:
    """Every job as it is declared: made if it is new, changed where it differs; a pause stays. All are tried before the
    first is saved, so that an app with a fault in it changes nothing.
    """
    for job in jobs.values():
        ask = upsert_job(job.name, cast("JobFields", alone(job, jobs)))
        await _saved(job, client.send(replace(ask, query={"dry_run": "true"})))
    for job in upstream_first(jobs.values()):
        await _saved(job, client.jobs.upsert(job.name, **job.document))


async def _saved(job: Declared, sending: Awaitable[Any]) -> None:
    try:
        await sending
    except ApiError as error:
        error.add_note(f'The job "{job.name}" is declared at {job.place}.')
        raise


async def run_remote(app: App, url: str | None, key: str | None, settings: RemoteSettings, *, registers: bool) -> None:
    """Until a signal. The first one drains."""
    if "*" in settings.queues:
        detail = "A worker that comes over HTTP names its queues; write HORAE_WORKER_QUEUES=default."
        raise ApiError(detail, status=422, code="queues_needed")
    async with AsyncClient(url, key) as client:
        if registers:
            await register(client, app.jobs)
        worker = RemoteWorker(client, app.handlers, settings)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        log("started", handlers=sorted(app.handlers), jobs=len(app.jobs) if registers else 0)
        await worker.run()


def _request(run: Mapping[str, Any]) -> Request:
    target = {"handler": run["handler"], "args": run["args"], "secrets": run["secrets"]}
    return Request(
        run_id=run["run_id"],
        job_id=run["job_id"],
        job_name=run["job"],
        tenant=run["tenant"],
        attempt=run["attempt"],
        fence=run["fence"],
        scheduled_for_us=parse_instant(run["scheduled_for"], ""),
        timeout_seconds=run["timeout_seconds"],
        target=target,
        payload=run["payload"],
        upstream=run["upstream"],
    )


def _completion(outcome: Outcome) -> dict[str, Any]:
    if outcome.succeeded:
        return {"status": "succeeded", "result": outcome.result}
    return {
        "status": "failed",
        "error": outcome.error,
        "reason": outcome.reason,
        "retry_after": outcome.retry_after_seconds,
        "retryable": outcome.is_retryable,
    }

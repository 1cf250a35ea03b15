"""The use cases that change something: create, change, pause, trigger, cancel, replay. Who may is asked before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

from horae.core.document import change_job, first_due, schedule_of, schedule_type
from horae.core.duration import format_instant
from horae.core.egress import Allow
from horae.core.errors import Conflict, Fault, HoraeError, Invalid, NotFound
from horae.core.job import Definition, Priority
from horae.core.schedule import upcoming
from horae.core.templates import Templates
from horae.ports import Backfill, JobStore, NewJob, NewRun, Once, Replays

MOST_REPLAYS = 10_000
SLICE = 1000
# A backfill looks at so many due times and no more; the answer says where to go on.
MOST_DUES = 100_000

# What makes a document a job of its own rather than a change of one.
WHOLE = {
    "schedule",
    "cron",
    "cron_expression",
    "cronExpression",
    "schedule_type",
    "type",
    "target",
    "callback_url",
    "after",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf: the tenant whose things are touched, and a name for the record."""

    tenant: str
    actor: str


class Commands:
    """`wake` tells the movers of this process that there is something new; they would find it anyway. `allow` are the
    address ranges besides public ones that a job may name.
    """

    def __init__(self, store: JobStore, new_id: Callable[[], str], wake: Callable[[], None], allow: Allow = ()) -> None:
        self._store = store
        self._allow = allow
        self._templates = Templates(allow)
        self._new_id = new_id
        self._wake = wake

    async def create_job(self, caller: Caller, document: object, once: Once | None) -> str:
        (answer,) = await self.create_jobs(caller, [document], once, atomic=True)
        if isinstance(answer, HoraeError):
            raise answer
        return answer

    async def create_jobs(
        self, caller: Caller, documents: list[object], once: Once | None, *, atomic: bool
    ) -> list[str | HoraeError]:
        """The id of each job, or why it was refused, in order. `atomic`: all or none."""
        return await self.save_jobs(caller, await self.parse_jobs(caller, documents), once, atomic=atomic)

    async def parse_jobs(self, caller: Caller, documents: list[object]) -> list[NewJob | Invalid]:
        now_us = await self._store.now()
        parsed = []
        for number, document in enumerate(documents):
            parsed.append(self._parse(document, caller, now_us))
            if number % 100 == 99:
                await asyncio.sleep(0)  # a large batch must not hold up everybody else
        return parsed

    async def save_jobs(
        self, caller: Caller, parsed: list[NewJob | Invalid], once: Once | None, *, atomic: bool
    ) -> list[str | HoraeError]:
        good = [job for job in parsed if isinstance(job, NewJob)]
        if not good or (atomic and len(good) < len(parsed)):
            return [job if isinstance(job, Invalid) else _undone() for job in parsed]
        saved = iter(await self._store.create_jobs(once, caller.tenant, caller.actor, good, atomic=atomic))
        answers = [job if isinstance(job, Invalid) else _answer(next(saved)) for job in parsed]
        if atomic and any(isinstance(answer, HoraeError) for answer in answers):
            return [answer if isinstance(answer, HoraeError) else _undone() for answer in answers]
        self._wake()
        return answers

    def _parse(self, document: object, caller: Caller, now_us: int) -> NewJob | Invalid:
        job_id = self._new_id()
        try:
            definition = self._templates.parse(document, job_id=job_id, now_us=now_us, tenant=caller.tenant)
            _refuse_if_over(definition, job_id, now_us)
        except Invalid as error:
            return error
        return NewJob(job_id, definition)

    async def change_job(
        self, caller: Caller, word: str, document: object, once: Once | None, base_version: int | None
    ) -> str:
        """Only the fields given change. Raises Stale when `base_version` is no longer the current one."""

        def merge(current: Definition, job_id: str, now_us: int, created_us: int) -> Definition:
            return change_job(current, document, job_id=job_id, now_us=now_us, created_us=created_us, allow=self._allow)

        job_id = await self._store.change_job(once, caller.tenant, word, caller.actor, merge, base_version)
        self._wake()
        return job_id

    async def put_job(
        self, caller: Caller, word: str, document: object, once: Once | None, base_version: int | None
    ) -> tuple[str, bool]:
        """Changes a job, or creates it when the name is not known. The answer says whether it was created."""
        try:
            return await self.change_job(caller, word, document, once, base_version), False
        except NotFound:
            if base_version is not None or not isinstance(document, dict) or not _is_whole(word, document):
                raise
        if document.get("name", word) != word:
            detail = f'The path names the job "{word}", the body "{document["name"]}".'
            raise Invalid([Fault("/name", detail, "Leave `name` out of the body, or POST /jobs.")])
        try:
            return await self.create_job(caller, {**document, "name": word}, once), True
        except Conflict as error:
            if error.code not in ("name_taken", "duplicate"):
                raise
        return await self.change_job(caller, word, document, once, None), False  # somebody else was faster

    async def pause_job(
        self, caller: Caller, word: str, until_us: int | None, reason: str | None, once: Once | None
    ) -> str:
        return await self._store.pause_job(once, caller.tenant, word, caller.actor, until_us, reason)

    async def resume_job(self, caller: Caller, word: str, once: Once | None) -> str:
        job_id = await self._store.resume_job(once, caller.tenant, word, caller.actor)
        self._wake()
        return job_id

    async def delete_job(self, caller: Caller, word: str) -> str:
        job_id = await self._store.delete_job(None, caller.tenant, word, caller.actor)
        self._wake()
        return job_id

    async def trigger(self, caller: Caller, word: str, requests: list[RunRequest], once: Once | None) -> list[str]:
        runs = [
            NewRun("manual", f"manual:{self._new_id()}", request.run_at_us, request.priority, request.payload)
            for request in requests
        ]
        run_ids = await self._store.trigger(once, caller.tenant, word, runs)
        self._wake()
        return run_ids

    async def cancel_run(self, caller: Caller, run_id: str, once: Once | None) -> None:
        await self._store.cancel_run(once, caller.tenant, run_id)
        self._wake()

    async def retry_run(self, caller: Caller, run_id: str, once: Once | None) -> None:
        await self._store.retry_run(once, caller.tenant, run_id)
        self._wake()

    async def replay(self, caller: Caller, run_id: str, once: Once | None) -> str:
        new_id = await self._store.replay(once, caller.tenant, run_id)
        self._wake()
        return new_id

    async def discard(self, caller: Caller, run_id: str) -> None:
        await self._store.discard(None, caller.tenant, run_id)

    async def count_letters(self, caller: Caller, which: Replays) -> list[str]:
        return await self._store.count_letters(caller.tenant, which, MOST_REPLAYS)

    async def replay_many(
        self, caller: Caller, which: Replays, expected: int | None, rate: float | None, once: Once | None
    ) -> list[str]:
        """`rate` is runs a second; without one they all are due at once."""
        step_us = 0 if rate is None else round(1e6 / rate)
        run_ids = await self._store.replay_many(once, caller.tenant, which, expected, step_us, MOST_REPLAYS)
        self._wake()
        return run_ids

    async def drain_worker(self, worker: str, once: Once | None) -> None:
        await self._store.ask_to_drain(once, worker)

    async def backfill(self, caller: Caller, word: str, wish: BackfillRequest, once: Once | None) -> Backfilled:
        """The due times that got a run, or would get one. Slice by slice, each a transaction of its own: a repeat goes
        on where a broken one ended, since a due time is backfilled once.
        """
        job = await self._store.backfill_facts(caller.tenant, word)
        if wish.to_us > job.now_us:
            detail = f"{format_instant(wish.to_us)} is to come; it is {format_instant(job.now_us)} now."
            raise Invalid([Fault("/to", detail, "A backfill is about the past: end it now or earlier.")])
        if job.definition.overlap in ("skip", "replace") and not wish.is_dry:
            detail = f'All but one of these runs would be given up: the job has overlap "{job.definition.overlap}".'
            raise Conflict(f'{detail} Set overlap to "queue" or "allow" first.', "overlap")
        priority = wish.priority or "LOW"
        made: list[int] = []
        looked_at = 0
        for start, dues in _slices(job, wish.from_us, wish.to_us):
            room = wish.most - len(made)
            if wish.is_dry:
                made += (await self._store.missing(job.job_id, dues))[:room]
            else:
                key = once if once is None or not start else Once(once.tenant, f"{once.key}\n{start}", once.request)
                made += await self._store.backfill(key, caller.tenant, job.job_id, job.version, dues, priority, room)
            looked_at += len(dues)
            if len(made) >= wish.most or looked_at >= MOST_DUES:
                last = made[-1] if len(made) >= wish.most else dues[-1]
                self._wake()
                return Backfilled(made, last + 1 if last < wish.to_us else None)
        self._wake()
        return Backfilled(made, None)


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    from_us: int
    to_us: int
    most: int
    is_dry: bool = False
    priority: Priority | None = None


@dataclass(frozen=True, slots=True)
class Backfilled:
    """Due times, and from where on there may be more."""

    dues: list[int]
    next_us: int | None


def _slices(job: Backfill, from_us: int, to_us: int) -> Iterator[tuple[int, list[int]]]:
    """The due times of a range, a thousand at a time, each slice with its number."""
    schedule = schedule_of(job.definition, job.job_id, job.created_us)
    after_us = from_us - 1
    for number in count():
        dues = [due_us for due_us in upcoming(schedule, after_us, SLICE) if due_us <= to_us]
        if dues:
            yield number, dues
        if len(dues) < SLICE:
            return
        after_us = dues[-1]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a manual run may override. `payload` is JSON text; None keeps the job's."""

    payload: str | None = None
    priority: str | None = None
    run_at_us: int | None = None


def _refuse_if_over(definition: Definition, job_id: str, now_us: int) -> None:
    """A new job whose schedule has nothing to come is a mistake; one that runs on request has no schedule."""
    schedule = schedule_of(definition, job_id, now_us)
    if (
        schedule_type(definition, schedule) in ("MANUAL", "AFTER")
        or first_due(definition, schedule, now_us) is not None
    ):
        return
    detail = "The schedule has no due time from now on: its end_at is past, or its calendar leaves every day out."
    raise Invalid([Fault("/schedule", detail, 'Change end_at or calendar, or use "@manual".')])


def _answer(saved: dict[str, Any]) -> str | HoraeError:
    if "job_id" in saved:
        return str(saved["job_id"])
    if saved["faults"]:
        return Invalid([Fault(*fault) for fault in saved["faults"]], saved["code"])
    return Conflict(saved["detail"], saved["code"])


def _is_whole(word: str, document: dict[str, Any]) -> bool:
    """Whether a PUT to an unknown word can mean a new job: a name, and a body that says what to do or when."""
    try:
        UUID(word)
    except ValueError:
        return bool(document.keys() & WHOLE)
    return False


def _undone() -> Conflict:
    return Conflict("Not saved, because another job of the same atomic batch was refused.", "batch_refused")

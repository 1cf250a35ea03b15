"""Jobs: create, change, pause, resume, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeGuard
from uuid import UUID

import msgspec

from horae.commands.caller import Caller, check_payload
from horae.commands.named import check_secrets, with_calendars, with_known_secrets
from horae.core.aliases import WHOLE
from horae.core.answered import Standing
from horae.core.compiled import first_due, schedule_of, schedule_type
from horae.core.document import change_job
from horae.core.egress import Allow
from horae.core.errors import Conflict, Denied, Fault, HoraeError, Invalid, Limited, NotFound
from horae.core.job import Definition
from horae.core.templates import Templates
from horae.ports import JobStore, NewJob, Once

# A large batch must not hold up everybody else, least of all the slice before it, which is being saved meanwhile.
AT_A_TIME = 20
# Codes of conflicts that mean: there is one by this name.
TAKEN = ("name_taken", "duplicate")


class JobCommands:
    def __init__(self, store: JobStore, new_id: Callable[[], str], wake: Callable[[], None], allow: Allow) -> None:
        self._store = store
        self._new_id = new_id
        self._wake = wake
        self._allow = allow
        self._templates = Templates(allow)

    async def create(self, caller: Caller, document: object, once: Once | None) -> str:
        (answer,) = await self.create_many(caller, [document], once, atomic=True)
        if isinstance(answer, HoraeError):
            raise answer
        return answer

    async def create_many(
        self, caller: Caller, documents: list[object], once: Once | None, *, atomic: bool
    ) -> list[str | HoraeError]:
        """The id of each job, or why it was refused, in order. `atomic`: all or none."""
        parsed = await self.parse(caller, documents)
        return await self.save(caller, parsed, once, atomic=atomic, documents=documents)

    async def parse(self, caller: Caller, documents: list[object]) -> list[NewJob | Invalid]:
        now_us = await self._store.now()
        documents = await with_calendars(self._store, caller, documents)
        parsed = []
        for number, document in enumerate(documents):
            parsed.append(self._parse(document, caller, now_us))
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
        return await with_known_secrets(self._store, caller, parsed)

    def _parse(self, document: object, caller: Caller, now_us: int) -> NewJob | Invalid:
        job_id = self._new_id()
        try:
            definition = self._templates.parse(document, job_id=job_id, now_us=now_us, tenant=caller.tenant)
            _refuse_if_over(definition, job_id, now_us)
            _check_definition(caller, definition)
        except Invalid as error:
            return error
        return NewJob(job_id, definition)

    async def save(
        self,
        caller: Caller,
        parsed: list[NewJob | Invalid],
        once: Once | None,
        *,
        atomic: bool,
        documents: list[object],
    ) -> list[str | HoraeError]:
        """`documents` are what was parsed: where a fault points is told in their shape."""
        good = [job for job in parsed if isinstance(job, NewJob)]
        if not good or (atomic and len(good) < len(parsed)):
            return [job if isinstance(job, Invalid) else undone() for job in parsed]
        saved = iter(
            await self._store.create_jobs(caller.asked(once), caller.tenant, caller.actor, good, atomic=atomic)
        )
        told = [job if isinstance(job, Invalid) else _answer(next(saved)) for job in parsed]
        answers = [
            _at_item(answer, document) if isinstance(answer, Invalid) else answer
            for answer, document in zip(told, documents, strict=True)
        ]
        if atomic and any(isinstance(answer, HoraeError) for answer in answers):
            return [answer if isinstance(answer, HoraeError) else undone() for answer in answers]
        self._wake()
        return answers

    async def change(
        self, caller: Caller, word: str, document: object, once: Once | None, base_version: int | None
    ) -> str:
        """Only the fields given change. Raises Stale when `base_version` is no longer the current one."""
        (document,) = await with_calendars(self._store, caller, [document])
        await check_secrets(self._store, caller, document)

        def merge(current: Definition, standing: Standing, now_us: int) -> Definition:
            changed = change_job(current, document, standing=standing, now_us=now_us, allow=self._allow)
            _check_definition(caller, changed)
            return changed

        try:
            job_id = await self._store.change_job(
                caller.asked(once), caller.tenant, word, caller.actor, merge, base_version
            )
        except Invalid as error:
            raise _at_item(error, document) from None
        self._wake()
        return job_id

    async def put(
        self, caller: Caller, word: str, document: object, once: Once | None, base_version: int | None
    ) -> tuple[str, bool]:
        """Changes a job, or creates it when the name is not known. The answer says whether it was created."""
        try:
            return await self.change(caller, word, document, once, base_version), False
        except NotFound:
            if base_version is not None or not _is_whole(document, word):
                raise
        try:
            return await self.create(caller, _named(word, document), once), True
        except Conflict as error:
            if error.code not in TAKEN:
                raise
        return await self.change(caller, word, document, once, None), False  # somebody else was faster

    async def put_new(self, caller: Caller, word: str, document: object) -> str:
        """As `put`, but only creates."""
        if not _is_whole(document, word):
            raise NotFound(f'There is no job "{word}".', hint="To make one name it in the path, and say what it does.")
        return await self.create(caller, _named(word, document), None)

    async def pause(
        self,
        caller: Caller,
        word: str,
        until_us: int | None,
        reason: str | None,
        once: Once | None,
        base_version: int | None = None,
    ) -> str:
        return await self._store.pause_job(
            caller.asked(once), caller.tenant, word, caller.actor, until_us, reason, base_version
        )

    async def resume(self, caller: Caller, word: str, once: Once | None, base_version: int | None = None) -> str:
        job_id = await self._store.resume_job(caller.asked(once), caller.tenant, word, caller.actor, base_version)
        self._wake()
        return job_id

    async def delete(self, caller: Caller, word: str, base_version: int | None) -> str:
        """Raises Stale when `base_version` is no longer the current one."""
        job_id = await self._store.delete_job(caller.asked(None), caller.tenant, word, caller.actor, base_version)
        self._wake()
        return job_id


def _check_definition(caller: Caller, definition: Definition) -> None:
    if caller.quota.max_payload_bytes is None:
        return
    for value, pointer in ((definition.payload, "/payload"), (definition.target.get("body"), "/target/body")):
        if value is not None:
            check_payload(caller, msgspec.json.encode(value).decode(), pointer)


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
    hint = saved.get("hint", "")  # What was kept by an older release has none.
    if saved["code"] == "quota_jobs":
        return Denied(saved["detail"], saved["code"], hint=hint)
    if saved["code"] == "quota_queued":
        return Limited(saved["detail"], saved["code"], 1, hint=hint)
    if saved["faults"]:
        return Invalid([Fault(*fault) for fault in saved["faults"]], saved["code"])
    return Conflict(saved["detail"], saved["code"], hint=hint)


def _at_item(error: Invalid, document: object) -> Invalid:
    """A fault of the one job in `after` at the place where it is named: the store knows it, but not how it was told."""
    told = document.get("after") if isinstance(document, dict) else None
    if not isinstance(told, (list, dict)):
        return error
    inner = "0" if isinstance(told, list) else "job" if "job" in told else "job_id"
    faults = [replace(each, pointer=f"/after/{inner}") if each.pointer == "/after" else each for each in error.faults]
    return Invalid(faults, error.code)


def _is_whole(document: object, word: str) -> TypeGuard[dict[str, Any]]:
    """Whether a PUT to an unknown word can mean a new job: a name, and a body that says what to do or when."""
    if not isinstance(document, dict):
        return False
    try:
        UUID(word)
    except ValueError:
        return not WHOLE.isdisjoint(document)
    return False


def _named(word: str, document: dict[str, Any]) -> dict[str, Any]:
    if document.get("name", word) != word:
        detail = f'The path names the job "{word}", the body "{document["name"]}".'
        raise Invalid([Fault("/name", detail, "Leave `name` out of the body, or POST /jobs.")])
    return {**document, "name": word}


def undone() -> Conflict:
    """For a job that is not at fault itself."""
    return Conflict("Not saved, because another job of the same atomic batch was refused.", "batch_refused")

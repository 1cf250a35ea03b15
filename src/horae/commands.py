"""The use cases that change something: create, change, pause, trigger, cancel, replay; keys, tenants, queues.

Who may is asked before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from secrets import token_bytes
from typing import Any
from uuid import UUID

import msgspec

from horae.core.access import DEFAULT_TENANT, KEY_BYTES, NO_QUOTA, KeyFacts, Quota, key_hash, key_prefix, key_text
from horae.core.calendars import check_days
from horae.core.checks import check_token, unsound
from horae.core.document import change_job, first_due, schedule_of, schedule_type
from horae.core.duration import format_instant
from horae.core.egress import Allow
from horae.core.errors import Conflict, Denied, Fault, HoraeError, Invalid, NotFound
from horae.core.job import Definition, Priority
from horae.core.schedule import upcoming
from horae.core.secrets import NAME, names_in
from horae.core.templates import Templates
from horae.core.webhooks import SECRET_BYTES, new_secret
from horae.ports import Asked, Backfill, ChangeStore, NewJob, NewKey, NewRun, NewWebhook, Once, Replays, StoredRow
from horae.vault import Vault, tenant_secret

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


OVERLAP_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf: the tenant whose things are touched, and a name for the record. `home` is the tenant that the
    caller belongs to; only an admin of `default` may be elsewhere.
    """

    tenant: str
    actor: str
    role: str = "admin"
    home: str = DEFAULT_TENANT
    key: KeyFacts | None = None
    quota: Quota = NO_QUOTA
    address: str | None = None
    request_id: str | None = None

    @property
    def is_keeper(self) -> bool:
        """Whether this is an admin of the whole installation, not only of a tenant."""
        return self.role == "admin" and self.home == DEFAULT_TENANT

    def asked(self, once: Once | None) -> Asked:
        return Asked(self.actor, once, self.key.id if self.key else None, self.address, self.request_id)


class Commands:
    """`wake` tells the movers of this process that there is something new; they would find it anyway. `allow` are the
    address ranges besides public ones that a job may name.
    """

    def __init__(
        self,
        store: ChangeStore,
        vault: Vault,
        new_id: Callable[[], str],
        wake: Callable[[], None],
        allow: Allow = (),
        random: Callable[[int], bytes] = token_bytes,
    ) -> None:
        self._store = store
        self._vault = vault
        self.allow = allow
        self._templates = Templates(allow)
        self._new_id = new_id
        self._random = random
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
        documents = await self._with_calendars(caller, documents)
        parsed = []
        for number, document in enumerate(documents):
            parsed.append(self._parse(document, caller, now_us))
            if number % 100 == 99:
                await asyncio.sleep(0)  # a large batch must not hold up everybody else
        return await self._with_known_secrets(caller, parsed)

    async def save_jobs(
        self, caller: Caller, parsed: list[NewJob | Invalid], once: Once | None, *, atomic: bool
    ) -> list[str | HoraeError]:
        good = [job for job in parsed if isinstance(job, NewJob)]
        if not good or (atomic and len(good) < len(parsed)):
            return [job if isinstance(job, Invalid) else _undone() for job in parsed]
        saved = iter(
            await self._store.create_jobs(caller.asked(once), caller.tenant, caller.actor, good, atomic=atomic)
        )
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
            _check_definition(caller, definition)
        except Invalid as error:
            return error
        return NewJob(job_id, definition)

    async def change_job(
        self, caller: Caller, word: str, document: object, once: Once | None, base_version: int | None
    ) -> str:
        """Only the fields given change. Raises Stale when `base_version` is no longer the current one."""
        (document,) = await self._with_calendars(caller, [document])
        if isinstance(document, dict) and not unsound(document):
            named = names_in([document.get("target"), document.get("callback_url")])
            for missing in (await self._missing_secrets(caller, {"target": named})).values():
                raise missing

        def merge(current: Definition, job_id: str, now_us: int, created_us: int) -> Definition:
            changed = change_job(
                current, document, job_id=job_id, now_us=now_us, created_us=created_us, allow=self.allow
            )
            _check_definition(caller, changed)
            return changed

        job_id = await self._store.change_job(
            caller.asked(once), caller.tenant, word, caller.actor, merge, base_version
        )
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

    async def _with_calendars(self, caller: Caller, documents: list[object]) -> list[object]:
        """A calendar that the tenant has defined, in place of its name; a name that is not known may be a country's."""
        named = {index: doc for index, doc in enumerate(documents) if isinstance(doc, dict) and _names_calendar(doc)}
        if not named:
            return documents
        names = sorted({doc["calendar"] for doc in named.values()})
        known = await self._store.find_calendars(caller.tenant, names)
        filled = [*documents]
        for index, doc in named.items():
            if doc["calendar"] in known:
                filled[index] = {**doc, "calendar": {"name": doc["calendar"], **known[doc["calendar"]]}}
        return filled

    async def _with_known_secrets(self, caller: Caller, jobs: list[NewJob | Invalid]) -> list[NewJob | Invalid]:
        named = {job.id: names_in(job.definition.target) for job in jobs if isinstance(job, NewJob)}
        missing = await self._missing_secrets(caller, named)
        return [missing.get(job.id, job) if isinstance(job, NewJob) else job for job in jobs]

    async def _missing_secrets(self, caller: Caller, named: dict[str, frozenset[str]]) -> dict[str, Invalid]:
        """By key: the secrets that do not exist. Found now, not by the first run at night."""
        wanted = sorted({name for names in named.values() for name in names if NAME.fullmatch(name)})
        if not wanted:
            return {}
        found = await self._store.find_secrets([(caller.tenant, name) for name in wanted])
        unknown = set(wanted) - {secret.name for secret in found}
        return {
            key: Invalid([_no_secret(name) for name in sorted(names & unknown)])
            for key, names in named.items()
            if names & unknown
        }

    async def create_webhook(self, caller: Caller, fields: dict[str, Any]) -> tuple[StoredRow, str]:
        """The webhook and its secret, which is shown only now."""
        id_, secret = self._new_id(), new_secret(self._random(SECRET_BYTES))
        webhook = NewWebhook(id_, fields["name"], fields["url"], fields["events"], fields["late_us"])
        row = await self._store.create_webhook(
            caller.asked(None), caller.tenant, webhook, self._seal(caller, id_, secret)
        )
        return row, secret

    async def change_webhook(self, caller: Caller, word: str, fields: dict[str, Any]) -> StoredRow:
        return await self._store.change_webhook(caller.asked(None), caller.tenant, word, fields)

    async def rotate_webhook(self, caller: Caller, word: str) -> tuple[StoredRow, str]:
        """A new secret; the one before signs along for a day."""
        secret = new_secret(self._random(SECRET_BYTES))
        for row in await self._store.webhooks(caller.tenant):
            if word in (row["id"], row["name"]):
                sealed = self._seal(caller, row["id"], secret)
                return await self._store.rotate_webhook(
                    caller.asked(None), caller.tenant, row["id"], sealed, OVERLAP_US
                ), secret
        raise NotFound(f'There is no webhook "{word}".')

    def _seal(self, caller: Caller, webhook_id: str, secret: str) -> str:
        return self._vault.seal(secret, caller.tenant, "webhook", webhook_id)

    def signing_secret(self, caller: Caller) -> str:
        """What signs messages to plain URLs in the tenant's jobs."""
        return tenant_secret(self._vault, caller.tenant)

    async def delete_webhook(self, caller: Caller, word: str) -> str:
        return await self._store.delete_webhook(caller.asked(None), caller.tenant, word)

    async def try_webhook(self, caller: Caller, word: str) -> str:
        delivery_id = await self._store.try_webhook(caller.asked(None), caller.tenant, word, self._new_id())
        self._wake()
        return delivery_id

    async def resend(self, caller: Caller, delivery_id: str) -> StoredRow:
        row = await self._store.resend(caller.asked(None), caller.tenant, delivery_id)
        self._wake()
        return row

    async def put_secret(self, caller: Caller, name: str, value: str) -> StoredRow:
        if not NAME.fullmatch(name):
            detail = "A secret's name has 1 to 64 letters, digits, dots, dashes or underscores, a letter first."
            raise Invalid([Fault("/secret", detail, "Write it like API_TOKEN.")])
        (row,) = await self._store.put_secret(
            caller.asked(None), caller.tenant, name, self._vault.seal(value, caller.tenant, name)
        )
        return row

    async def delete_secret(self, caller: Caller, name: str) -> None:
        await self._store.delete_secret(caller.asked(None), caller.tenant, name)

    async def put_calendar(self, caller: Caller, name: str, document: object) -> StoredRow:
        """Jobs that name it follow within a second or two, each by a version of its own."""
        check_token(name, "/calendar")
        days = check_days(document)
        row = await self._store.put_calendar(caller.asked(None), caller.tenant, name, days)
        self._wake()
        return row

    async def delete_calendar(self, caller: Caller, name: str) -> None:
        await self._store.delete_calendar(caller.asked(None), caller.tenant, name)

    async def pause_job(
        self, caller: Caller, word: str, until_us: int | None, reason: str | None, once: Once | None
    ) -> str:
        return await self._store.pause_job(caller.asked(once), caller.tenant, word, caller.actor, until_us, reason)

    async def resume_job(self, caller: Caller, word: str, once: Once | None) -> str:
        job_id = await self._store.resume_job(caller.asked(once), caller.tenant, word, caller.actor)
        self._wake()
        return job_id

    async def delete_job(self, caller: Caller, word: str) -> str:
        job_id = await self._store.delete_job(caller.asked(None), caller.tenant, word, caller.actor)
        self._wake()
        return job_id

    async def trigger(self, caller: Caller, word: str, requests: list[RunRequest], once: Once | None) -> list[str]:
        for number, request in enumerate(requests):
            check_payload(caller, request.payload, "/payload" if len(requests) == 1 else f"/runs/{number}/payload")
        runs = [
            NewRun("manual", f"manual:{self._new_id()}", request.run_at_us, request.priority, request.payload)
            for request in requests
        ]
        run_ids = await self._store.trigger(caller.asked(once), caller.tenant, word, runs)
        self._wake()
        return run_ids

    async def cancel_run(self, caller: Caller, run_id: str, once: Once | None) -> None:
        await self._store.cancel_run(caller.asked(once), caller.tenant, run_id)
        self._wake()

    async def retry_run(self, caller: Caller, run_id: str, once: Once | None) -> None:
        await self._store.retry_run(caller.asked(once), caller.tenant, run_id)
        self._wake()

    async def replay(self, caller: Caller, run_id: str, once: Once | None) -> str:
        new_id = await self._store.replay(caller.asked(once), caller.tenant, run_id)
        self._wake()
        return new_id

    async def discard(self, caller: Caller, run_id: str) -> None:
        await self._store.discard(caller.asked(None), caller.tenant, run_id)

    async def create_key(self, caller: Caller, fields: dict[str, Any], once: Once | None) -> tuple[str, str | None]:
        """The id of the new key, and the key itself: nobody can ask for it later, not even by a repeat."""
        key, new = _new_key(self._new_id(), self._random(KEY_BYTES), **fields)
        key_id = await self._store.create_key(caller.asked(once), caller.tenant, caller.actor, new)
        return key_id, key if key_id == new.id else None

    async def rotate_key(
        self, caller: Caller, key_id: str, overlap_us: int, once: Once | None
    ) -> tuple[str, str | None]:
        key, new = _new_key(self._new_id(), self._random(KEY_BYTES))
        new_id = await self._store.rotate_key(caller.asked(once), caller.tenant, caller.actor, key_id, new, overlap_us)
        return new_id, key if new_id == new.id else None

    async def revoke_key(self, caller: Caller, key_id: str) -> str:
        return await self._store.revoke_key(caller.asked(None), caller.tenant, key_id)

    async def create_tenant(self, caller: Caller, tenant: str, fields: dict[str, Any], once: Once | None) -> str:
        return await self._store.create_tenant(caller.asked(once), tenant, fields)

    async def change_tenant(self, caller: Caller, tenant: str, fields: dict[str, Any]) -> str:
        return await self._store.change_tenant(caller.asked(None), tenant, fields)

    async def change_queue(self, caller: Caller, queue: str, fields: dict[str, Any], once: Once | None) -> None:
        await self._store.change_queue(caller.asked(once), caller.tenant, queue, fields)
        self._wake()

    async def count_letters(self, caller: Caller, which: Replays) -> list[str]:
        return await self._store.count_letters(caller.tenant, which, MOST_REPLAYS)

    async def replay_many(
        self, caller: Caller, which: Replays, expected: int | None, rate: float | None, once: Once | None
    ) -> list[str]:
        """`rate` is runs a second; without one they all are due at once."""
        step_us = 0 if rate is None else round(1e6 / rate)
        run_ids = await self._store.replay_many(
            caller.asked(once), caller.tenant, which, expected, step_us, MOST_REPLAYS
        )
        self._wake()
        return run_ids

    async def drain_worker(self, caller: Caller, worker: str, once: Once | None) -> None:
        await self._store.ask_to_drain(caller.asked(once), caller.tenant, worker)

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
                asked, tenant = caller.asked(key), caller.tenant
                made += await self._store.backfill(asked, tenant, job.job_id, job.version, dues, priority, room)
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


def _no_secret(name: str) -> Fault:
    return Fault("/target", f'There is no secret "{name}".', f'Set it first: PUT /secrets/{name} {{"value": "…"}}.')


def _names_calendar(document: dict[str, Any]) -> bool:
    name = document.get("calendar")
    return isinstance(name, str) and not unsound(name)


def _new_key(key_id: str, random: bytes, **fields: Any) -> tuple[str, NewKey]:
    key = key_text(random)
    about: dict[str, Any] = {"name": "", "role": "viewer", "scopes": ()} | fields
    return key, NewKey(key_id, prefix=key_prefix(key), hash=key_hash(key), **about)


def _check_definition(caller: Caller, definition: Definition) -> None:
    if caller.quota.max_payload_bytes is not None and definition.payload is not None:
        check_payload(caller, msgspec.json.encode(definition.payload).decode())


def check_payload(caller: Caller, payload: str | None, pointer: str = "/payload") -> None:
    """Against the quota of the tenant. `payload` is JSON text."""
    most = caller.quota.max_payload_bytes
    if most is not None and payload is not None and (size := len(payload.encode())) > most:
        detail = f'"payload" has {size:,} bytes; tenant "{caller.tenant}" may send {most:,}.'
        hint = "Send a reference to the data instead, or ask an admin to raise max_payload_bytes."
        raise Invalid([Fault(pointer, detail, hint)], "quota_payload")


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
    if saved["code"] == "quota_jobs":
        return Denied(saved["detail"], saved["code"])
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

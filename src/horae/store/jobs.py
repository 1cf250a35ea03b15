"""Definitions: saved with their first due time, found by id or name, and held still while somebody changes them."""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import dataclass
from typing import Any

import msgspec

from horae.core.answered import Standing
from horae.core.checks import nearest
from horae.core.compiled import first_due, schedule_of, schedule_type
from horae.core.document import render_definition
from horae.core.errors import Conflict, HoraeError, Invalid, Limited, NotFound, Stale
from horae.core.job import PRIORITY_NUMBER, Definition, Timing, bucket_of, group_of, max_attempts, shard_of
from horae.core.run import run_id, scheduled_key
from horae.core.schedule import Schedule, next_after
from horae.core.webhooks import Watch
from horae.ports import Line, NewJob, NewRun
from horae.store.calendars import USE, use_of, with_calendars
from horae.store.chains import INSERT_CHAINS, linked, upstream_ids
from horae.store.database import Note, Row, Statement, Steps, note, transaction
from horae.store.notices import WATCH, watches
from horae.store.quotas import (
    ADD_JOBS,
    NEVER_FULL,
    NOW_AND_QUOTA,
    AtOnce,
    Waiting,
    add_queued,
    reserve_queued,
    room_for_jobs,
    too_many_jobs,
    waiting_runs,
)

# One index look-up a name, and NULL for a free one: as an IN it was planned as a loop over all names of the tenant.
NAMES_TAKEN = Statement("""
SELECT (SELECT j.name FROM jobs j WHERE j.tenant = :tenant AND j.name = wanted.name AND j.state <> 'deleted') AS name
FROM {rows:wanted(name text)}
""")

# Those just before and after a word in the order of names, for whoever mistyped it.
NEIGHBOURS = Statement("""
SELECT name FROM (SELECT name FROM jobs WHERE tenant = :tenant AND name > :word AND state <> 'deleted'
                  ORDER BY name LIMIT :most) AS after
UNION ALL
SELECT name FROM (SELECT name FROM jobs WHERE tenant = :tenant AND name < :word AND state <> 'deleted'
                  ORDER BY name DESC LIMIT :most) AS before
""")
NEAR = 200

# A job is found by its id or its name, so the id of one is a name that no other may have.
IDS = Statement("SELECT j.id FROM {rows:wanted(id text)} JOIN jobs j ON j.id = wanted.id AND j.tenant = :tenant")
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

INSERT_JOBS = Statement("""
INSERT INTO jobs (id, tenant, name, version, state, type, kind, queue, priority, bucket, group_key, max_attempts,
                  is_once, shard, created_us, updated_us)
SELECT j.id, j.tenant, j.name, 1, 'active', j.type, j.kind, j.queue, j.priority, j.bucket, j.group_key, j.max_attempts,
       j.is_once, j.shard, :now_us, :now_us
FROM {rows:j(id text, tenant text, name text, type text, kind text, queue text, priority integer, bucket text,
             group_key text, max_attempts integer, is_once boolean, shard integer)}
""")

INSERT_VERSIONS = Statement("""
INSERT INTO job_versions (job_id, version, spec, created_us, actor)
SELECT v.job_id, v.version, v.spec, :now_us, :actor
FROM {rows:v(job_id text, version integer, spec text)}
""")

INSERT_TIMERS = Statement("""
INSERT INTO timers (job_id, shard, due_us, version, fired, created_us, timing_version, timing, line_version, bucket,
                    group_key, max_attempts, is_once)
SELECT t.job_id, t.shard, t.due_us, 1, t.fired, :now_us, 1, t.timing, 1, t.bucket, t.group_key, t.max_attempts,
       t.is_once
FROM {rows:t(job_id text, shard integer, due_us bigint, fired integer, timing text, bucket text, group_key text,
             max_attempts integer, is_once boolean)}
""")

INSERT_LABELS = Statement("""
INSERT INTO job_labels (tenant, label, job_id)
SELECT l.tenant, l.label, l.job_id
FROM {rows:l(tenant text, label text, job_id text)}
""")

FIND = Statement("""
SELECT id FROM (SELECT id, 0 AS rank FROM jobs WHERE id = :word AND tenant = :tenant
                UNION ALL
                SELECT id, 1 AS rank FROM jobs WHERE tenant = :tenant AND name = :word AND state <> 'deleted') AS found
ORDER BY rank
LIMIT 1
""")

LOCK_TIMER = Statement("""
SELECT t.due_us, t.fired, t.version, horae_now() AS now_us
FROM timers t
WHERE t.job_id = :id
FOR UPDATE OF t
""")

# For runs on request: whoever deletes or changes one of these jobs waits for us, or we for them, so that no run is made
# of a job that is gone. The planner, which moves timers, waits for nobody here.
KEEP = Statement("""
SELECT t.job_id FROM timers t WHERE t.job_id IN (SELECT id FROM {rows:job(id text)}) ORDER BY t.job_id
FOR KEY SHARE OF t
""")

READ = Statement("""
SELECT j.id, j.tenant, j.name, j.version, j.state, j.kind, j.created_us, j.paused_us, j.pause_until_us,
       j.pause_reason, v.spec
FROM jobs j
JOIN job_versions v ON v.job_id = j.id AND v.version = j.version
WHERE j.id = :id
""")

OPEN_RUNS = Statement("""
INSERT INTO runs (id, job_id, tenant, version, cause, queue, priority, bucket, group_key, state, due_us, run_at_us,
                  queued_us, available_us, attempt, max_attempts, is_once, token, payload, parent_id)
SELECT n.id, j.id, j.tenant, j.version, n.cause, j.queue, n.priority, n.bucket, j.group_key, 'queued', n.due_us,
       n.run_at_us, horae_now(), n.run_at_us, 0, j.max_attempts, j.is_once, 0, n.payload, n.parent_id
FROM {rows:n(id text, job_id text, cause text, priority integer, bucket text, due_us bigint, run_at_us bigint,
             payload text, parent_id text)}
JOIN jobs j ON j.id = n.job_id AND j.state <> 'deleted'
WHERE true
ON CONFLICT (id) DO NOTHING
RETURNING id
""")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Definition).decode

# A timer is written anew by each due time, so what is long (a calendar) is left where it is.
TIMING_AT_MOST = 200


def timing_text(definition: Definition | Timing) -> str | None:
    """What a timer says of its job; None if that is long."""
    text = encode(Timing(*(getattr(definition, name) for name in Timing.__struct_fields__)))
    return text.decode() if len(text) <= TIMING_AT_MOST else None


@transaction
def create(tenant: str, actor: str, jobs: list[NewJob], *, atomic: bool) -> Steps[list[dict[str, Any]]]:
    """Saves those that can be saved, or none if `atomic`. In order: the id of each, or why it was refused. Raises
    Limited if `atomic` and there is no room in the queue at this moment: then a repeat is no repeat of a refusal.
    """
    known = (yield NOW_AND_QUOTA(tenant=tenant))[0]
    now_us, max_jobs = known["now_us"], known["max_jobs"]
    room = yield from room_for_jobs(tenant, max_jobs)
    filled = yield from with_calendars(tenant, [job.definition for job in jobs])
    starting = yield from _starting(tenant, jobs, filled, known["max_queued"], now_us)
    watchers = yield from watches(tenant, [(job.id, job.definition) for job in jobs])
    taken = yield from names_taken(tenant, [job.definition.name for job in jobs])
    ids = yield from upstream_ids(tenant, [each for each in filled if isinstance(each, Definition)])
    answers: list[dict[str, Any]] = []
    good: list[NewJob] = []
    names: dict[str, str] = {}
    known_ids = ChainMap(ids, names)
    for job, planned in zip(jobs, filled, strict=True):
        definition = planned if isinstance(planned, Invalid) else linked(planned, known_ids)
        wrong = next((each for each in (definition, watchers[job.id]) if isinstance(each, Invalid)), None)
        answer: HoraeError | None = wrong or name_conflict(job.definition.name, taken)
        if answer is None and len(good) >= room:
            answer = too_many_jobs(tenant, max_jobs)
        answer = answer or starting.refusal(job.id)
        if atomic and isinstance(answer, Limited):
            raise answer
        answers.append(refusal(answer) if answer else {"job_id": job.id})
        if answer is None and isinstance(definition, Definition):
            taken.add(definition.name)
            names[definition.name] = job.id
            good.append(NewJob(job.id, definition))
    if good and not (atomic and len(good) < len(jobs)):
        yield from _insert(tenant, actor, good, now_us)
        if rows := [watch for job in good for watch in _list(watchers[job.id])]:
            yield WATCH(n=rows)
        if max_jobs is not None:
            yield ADD_JOBS(tenant=tenant, n=len(good))
        if starting.taken:
            yield add_queued(tenant, starting.taken, starting.waiting)
        yield _created(good)
    return answers


def _starting(
    tenant: str, jobs: list[NewJob], filled: list[Definition | Invalid], max_queued: int | None, now_us: int
) -> Steps[AtOnce]:
    """Those that go straight into the queue, if its length is limited."""
    if max_queued is None:
        return AtOnce(tenant, NEVER_FULL, Waiting(0, 0), frozenset())
    ids = {
        job.id
        for job, each in zip(jobs, filled, strict=True)
        if isinstance(each, Definition) and _is_at_once(each, job.id, now_us)
    }
    waiting = (yield from waiting_runs(tenant, len(ids), max_queued, now_us)) if ids else Waiting(0, 0)
    return AtOnce(tenant, max_queued, waiting, frozenset(ids))


def _is_at_once(definition: Definition, job_id: str, now_us: int) -> bool:
    due_us = first_due(definition, schedule_of(definition, job_id, now_us), now_us)
    return due_us is not None and due_us <= now_us


def _list(watchers: list[Watch] | Invalid) -> list[Watch]:
    return [] if isinstance(watchers, Invalid) else watchers


def _created(jobs: list[NewJob]) -> Note:
    """One line for the whole batch; a single job with all that it says."""
    if len(jobs) == 1:
        return note("job.created", jobs[0].id, None, _said(jobs[0].definition))
    names = [{"job_id": job.id, "name": job.definition.name} for job in jobs]
    return note("jobs.created", jobs[0].id, None, {"count": len(jobs), "jobs": names})


def _said(definition: Definition) -> dict[str, Any]:
    """The fields that are not at their default, as the API has them."""
    defaults = render_definition(Definition(name="", type=definition.type))
    fields = render_definition(definition)
    return {name: value for name, value in fields.items() if name == "type" or value != defaults[name]}


def refusal(error: HoraeError) -> dict[str, Any]:
    """An error as plain values, so that it can be kept with an idempotency key."""
    faults = error.faults if isinstance(error, Invalid) else []
    told = {"code": error.code, "detail": error.detail, "hint": error.hint}
    return told | {"faults": [[f.pointer, f.detail, f.hint] for f in faults]}


def names_taken(tenant: str, names: list[str]) -> Steps[set[str]]:
    taken = {row["name"] for row in (yield NAMES_TAKEN(tenant=tenant, wanted=[(name,) for name in names]))}
    if alike := [(name,) for name in names if _ID.fullmatch(name)]:
        taken |= {row["id"] for row in (yield IDS(tenant=tenant, wanted=alike))}
    return taken


def name_conflict(name: str, taken: set[str]) -> Conflict | None:
    if name not in taken:
        return None
    hint = f"Choose another name, or change that one with PUT /jobs/{name}."
    return Conflict(f'A job named "{name}" exists.', "name_taken", hint=hint)


def _insert(tenant: str, actor: str, jobs: list[NewJob], now_us: int) -> Steps[None]:
    rows, versions, timers, labels, chains, calendars, runs = [], [], [], [], [], [], []
    for job in jobs:
        definition = job.definition
        schedule = schedule_of(definition, job.id, now_us)
        due_us = first_due(definition, schedule, now_us)
        is_now = due_us is not None and due_us <= now_us
        if due_us is not None and is_now:
            # Straight into the queue: an immediate job does not wait for a planner.
            runs.append(_scheduled_run(job, tenant, due_us))
            due_us = next_after(schedule, due_us) if (definition.max_runs or 2) > 1 else None
        rows.append((job.id, tenant, *columns_of(definition, schedule, job.id, tenant)))
        versions.append((job.id, 1, encode(definition).decode()))
        line = line_of(definition, job.id, tenant)
        timers.append((job.id, shard_of(job.id), due_us, 1 if is_now else 0, timing_text(definition), *line))
        labels += [(tenant, f"{key}:{value}", job.id) for key, value in definition.labels.items()]
        chains += [(after.job_id, job.id, after.on) for after in definition.after]
        calendars += use_of(tenant, definition, job.id)
    yield INSERT_JOBS(j=rows, now_us=now_us)
    yield INSERT_VERSIONS(v=versions, now_us=now_us, actor=actor)
    yield INSERT_TIMERS(t=timers, now_us=now_us)
    if labels:
        yield INSERT_LABELS(l=labels)
    if chains:
        yield INSERT_CHAINS(c=chains)
    if calendars:
        yield USE(u=calendars)
    if runs:
        yield OPEN_RUNS(n=runs)


def _scheduled_run(job: NewJob, tenant: str, due_us: int) -> tuple[Any, ...]:
    definition = job.definition
    id_ = run_id(job.id, scheduled_key(due_us), due_us)
    priority, bucket = PRIORITY_NUMBER[definition.priority], bucket_of(definition, tenant)
    return (id_, job.id, "schedule", priority, bucket, due_us, due_us, None, None)


def columns_of(definition: Definition, schedule: Schedule, job_id: str, tenant: str) -> tuple[Any, ...]:
    return (
        definition.name,
        definition.type,
        schedule_type(definition, schedule),
        definition.queue,
        PRIORITY_NUMBER[definition.priority],
        *line_of(definition, job_id, tenant),
        shard_of(job_id),
    )


def line_of(definition: Definition, job_id: str, tenant: str) -> Line:
    return Line(
        bucket_of(definition, tenant),
        group_of(definition, job_id, tenant),
        max_attempts(definition),
        definition.delivery == "at_most_once",
    )


@dataclass(frozen=True, slots=True)
class Held:
    """A job under its lock, with its cursor and the time."""

    row: Row
    definition: Definition
    due_us: int | None
    fired: int
    now_us: int

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def is_paused(self) -> bool:
        until_us = self.row["pause_until_us"]
        return self.row["state"] == "paused" and (until_us is None or until_us > self.now_us)

    @property
    def standing(self) -> Standing:
        row = self.row
        return Standing(
            self.id,
            row["tenant"],
            row["created_us"],
            row["version"],
            is_paused=self.is_paused,
            pause_until_us=row["pause_until_us"],
            pause_reason=row["pause_reason"],
        )


def hold(tenant: str, word: str) -> Steps[Held]:
    """Finds a job by id or name, locks it, and withdraws nothing yet."""
    found = yield FIND(tenant=tenant, word=word)
    if not found:
        raise (yield from no_job(tenant, word))
    timer = (yield LOCK_TIMER(id=found[0]["id"]))[0]
    row = (yield READ(id=found[0]["id"]))[0]
    return Held(row, decode(row["spec"]), timer["due_us"], timer["fired"], timer["now_us"])


def no_job(tenant: str, word: str, more: str = "") -> Steps[NotFound]:
    """With the name that may have been meant, if there is one like it among the nearest in order."""
    names = [row["name"] for row in (yield NEIGHBOURS(tenant=tenant, word=word, most=NEAR))]
    near = nearest(word, names)
    hint = f"Did you mean {near}? GET /jobs shows them all." if near else "GET /jobs shows them all."
    return NotFound(f'There is no job "{word}".{more}', hint=hint)


def hold_alive(tenant: str, word: str) -> Steps[Held]:
    held = yield from hold(tenant, word)
    if held.row["state"] == "deleted":
        raise Conflict(f'Job "{held.row["name"]}" was deleted.', "job_deleted")
    return held


def check_version(row: Row, base_version: int | None) -> None:
    """Of a job that somebody has seen before."""
    if base_version is not None and base_version != row["version"]:
        raise Stale(f'Job "{row["name"]}" is now version {row["version"]}; you have seen version {base_version}.')


def open_runs(
    tenant: str, word: str, runs: list[NewRun], base_version: int | None = None
) -> Steps[tuple[Row, list[str]]]:
    """The job, and the ids of its new runs."""
    found = yield FIND(tenant=tenant, word=word)
    if not found:
        raise (yield from no_job(tenant, word))
    yield KEEP(job=[(found[0]["id"],)])
    row = (yield READ(id=found[0]["id"]))[0]
    if row["state"] == "deleted":
        raise Conflict(f'Job "{row["name"]}" was deleted.', "job_deleted")
    check_version(row, base_version)
    known = (yield NOW_AND_QUOTA(tenant=tenant))[0]
    now_us = known["now_us"]
    yield from reserve_queued(tenant, len(runs), known["max_queued"], now_us)
    definition = decode(row["spec"])
    rows = []
    for run in runs:
        due_us = now_us if run.due_us is None else run.due_us
        priority: Any = run.priority or definition.priority
        bucket = bucket_of(definition, tenant, priority)
        id_ = run_id(row["id"], run.key, due_us)
        rows.append(
            (id_, row["id"], run.cause, PRIORITY_NUMBER[priority], bucket, due_us, due_us, run.payload, run.parent_id)
        )
    opened = yield OPEN_RUNS(n=rows)
    return row, [new["id"] for new in opened]

"""Definitions and their life: created, changed, paused, resumed, deleted. Each verb moves the job's cursor with it.

A verb first locks the job's timer row, which every plan of that job must also lock: what it decides after that is
decided against a cursor that stands still.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from horae.core.document import first_due, schedule_of, schedule_type
from horae.core.errors import Conflict, Fault, HoraeError, Invalid, NotFound, Stale
from horae.core.job import PRIORITY_NUMBER, After, Definition, bucket_of, group_of, max_attempts, shard_of
from horae.core.plan import COUNT_AT_MOST
from horae.core.run import run_id, scheduled_key
from horae.core.schedule import count_between, latest_at_or_before, next_after
from horae.ports import Merge, NewJob, NewRun
from horae.store.database import Row, Statement, Steps, transaction
from horae.store.results import end_waiting

NOW = Statement("SELECT horae_now() AS now_us")

NAMES_TAKEN = Statement("""
SELECT name
FROM jobs
WHERE tenant = :tenant AND state <> 'deleted' AND name IN (SELECT name FROM {rows:wanted(name text)})
""")

INSERT_JOBS = Statement("""
INSERT INTO jobs (id, tenant, name, version, state, type, kind, queue, priority, bucket, group_key, max_attempts,
                  is_once, shard, created_us, updated_us)
SELECT j.id, j.tenant, j.name, 1, 'active', j.type, j.kind, j.queue, j.priority, j.bucket, j.group_key, j.max_attempts,
       j.is_once, j.shard, :now_us, :now_us
FROM {rows:j(id text, tenant text, name text, type text, kind text, queue text, priority integer, bucket text,
             group_key text, max_attempts integer, is_once boolean, shard integer)}
""")

UPDATE_JOB = Statement("""
UPDATE jobs
SET name = :name, version = :version, type = :type, kind = :kind, queue = :queue, priority = :priority,
    bucket = :bucket, group_key = :group_key, max_attempts = :max_attempts, is_once = :is_once, updated_us = :now_us
WHERE id = :id
""")

INSERT_VERSIONS = Statement("""
INSERT INTO job_versions (job_id, version, spec, created_us, actor)
SELECT v.job_id, v.version, v.spec, :now_us, :actor
FROM {rows:v(job_id text, version integer, spec text)}
""")

INSERT_TIMERS = Statement("""
INSERT INTO timers (job_id, shard, due_us, version, fired)
SELECT t.job_id, t.shard, t.due_us, 1, t.fired
FROM {rows:t(job_id text, shard integer, due_us bigint, fired integer)}
""")

INSERT_LABELS = Statement("""
INSERT INTO job_labels (tenant, label, job_id)
SELECT l.tenant, l.label, l.job_id
FROM {rows:l(tenant text, label text, job_id text)}
""")

DELETE_LABELS = Statement("DELETE FROM job_labels WHERE job_id = :id")

INSERT_CHAINS = Statement("""
INSERT INTO chains (upstream_id, job_id, ending)
SELECT c.upstream_id, c.job_id, c.ending
FROM {rows:c(upstream_id text, job_id text, ending text)}
""")

DELETE_CHAINS = Statement("DELETE FROM chains WHERE job_id = :id")

DELETE_ALL_CHAINS = Statement("DELETE FROM chains WHERE job_id = :id OR upstream_id = :id")

RESOLVE = Statement("""
SELECT j.id, j.name
FROM jobs j
JOIN {rows:wanted(word text)} ON j.id = wanted.word OR j.name = wanted.word
WHERE j.tenant = :tenant AND j.state <> 'deleted'
""")

# Everything that a job starts, directly or through others.
DOWNSTREAM = Statement("""
WITH RECURSIVE reached(job_id) AS (
    SELECT job_id FROM chains WHERE upstream_id = :id
    UNION
    SELECT c.job_id FROM chains c JOIN reached ON c.upstream_id = reached.job_id
)
SELECT job_id FROM reached
""")

FIND = Statement("""
SELECT id
FROM jobs
WHERE tenant = :tenant AND (id = :word OR (name = :word AND state <> 'deleted'))
ORDER BY CASE WHEN id = :word THEN 0 ELSE 1 END
LIMIT 1
""")

LOCK_TIMER = Statement("""
SELECT t.due_us, t.fired, t.version, horae_now() AS now_us
FROM timers t
WHERE t.job_id = :id
FOR UPDATE OF t
""")

READ = Statement("""
SELECT j.id, j.tenant, j.name, j.version, j.state, j.kind, j.created_us, j.paused_us, j.pause_until_us, v.spec
FROM jobs j
JOIN job_versions v ON v.job_id = j.id AND v.version = j.version
WHERE j.id = :id
""")

# Staged runs whose time has not come were never triggered: they are withdrawn without a trace.
WITHDRAW = Statement("""
DELETE FROM runs
WHERE job_id = :id AND state = 'queued' AND cause = 'schedule' AND attempt = 0 AND due_us > :now_us
RETURNING due_us
""")

SET_TIMER = Statement("""
UPDATE timers
SET due_us = :due_us, version = :version, fired = :fired
WHERE job_id = :id
""")

SET_STATE = Statement("""
UPDATE jobs
SET state = :state, paused_us = :paused_us, pause_until_us = :until_us, pause_reason = :reason, updated_us = :now_us
WHERE id = :id
""")

RECORD_SKIP = Statement("""
INSERT INTO history (id, job_id, tenant, version, cause, queue, priority, status, due_us, run_at_us, queued_us,
                     ended_us, attempt, max_attempts, token, reason, skip_until_us, skip_count)
SELECT :run_id, j.id, j.tenant, j.version, 'schedule', j.queue, j.priority, 'skipped', CAST(:from_us AS BIGINT),
       CAST(:from_us AS BIGINT), horae_now(), horae_now(), 0, j.max_attempts, 0, :reason, CAST(:until_us AS BIGINT),
       CAST(:count AS INTEGER)
FROM jobs j
WHERE j.id = :id
""")

WAITING_RUNS = Statement("SELECT id FROM runs WHERE job_id = :id AND state = 'queued'")

STOP_RUNNING = Statement("UPDATE runs SET cancel = :reason WHERE job_id = :id AND state = 'running' AND cancel IS NULL")

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

EVENT = Statement("""
INSERT INTO events (at_us, tenant, kind, job_id, actor, reason, detail)
VALUES (:at_us, :tenant, :kind, :job_id, :actor, :reason, :detail)
""")

# A change of one of these moves the due times; any other keeps them.
SCHEDULE_FIELDS = ("schedule", "timezone", "dst", "calendar", "start_us", "end_us", "max_runs")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Definition).decode


@transaction
def create(tenant: str, actor: str, jobs: list[NewJob], *, atomic: bool) -> Steps[list[dict[str, Any]]]:
    """Saves those that can be saved, or none if `atomic`. In order: the id of each, or why it was refused."""
    now_us: int = (yield NOW())[0]["now_us"]
    taken = {row["name"] for row in (yield NAMES_TAKEN(tenant=tenant, wanted=[(j.definition.name,) for j in jobs]))}
    answers: list[dict[str, Any]] = []
    good: list[NewJob] = []
    for job in jobs:
        definition = yield from _resolved(tenant, job.id, job.definition)
        answer = definition if isinstance(definition, Invalid) else _name_conflict(job.definition.name, taken)
        answers.append(refusal(answer) if answer else {"job_id": job.id})
        if answer is None and isinstance(definition, Definition):
            taken.add(definition.name)
            good.append(NewJob(job.id, definition))
    if good and not (atomic and len(good) < len(jobs)):
        yield from _insert(tenant, actor, good, now_us)
    return answers


def refusal(error: HoraeError) -> dict[str, Any]:
    """An error as plain values, so that it can be kept with an idempotency key."""
    faults = error.faults if isinstance(error, Invalid) else []
    return {"code": error.code, "detail": error.detail, "faults": [[f.pointer, f.detail, f.hint] for f in faults]}


def _name_conflict(name: str, taken: set[str]) -> Conflict | None:
    if name not in taken:
        return None
    return Conflict(
        f'A job named "{name}" exists. Choose another name, or change that one with PUT /jobs/{name}.', "name_taken"
    )


def _insert(tenant: str, actor: str, jobs: list[NewJob], now_us: int) -> Steps[None]:
    rows, versions, timers, labels, chains, runs = [], [], [], [], [], []
    for job in jobs:
        definition = job.definition
        schedule = schedule_of(definition, job.id, now_us)
        due_us = first_due(definition, schedule, now_us)
        is_now = due_us is not None and due_us <= now_us
        if due_us is not None and is_now:
            # Straight into the queue: an immediate job does not wait for a planner.
            runs.append(_scheduled_run(job, tenant, due_us))
            due_us = next_after(schedule, due_us) if (definition.max_runs or 2) > 1 else None
        rows.append((job.id, tenant, *_columns(definition, job.id, tenant, now_us)))
        versions.append((job.id, 1, encode(definition).decode()))
        timers.append((job.id, shard_of(job.id), due_us, 1 if is_now else 0))
        labels += [(tenant, f"{key}:{value}", job.id) for key, value in definition.labels.items()]
        chains += [(after.job_id, job.id, after.on) for after in definition.after]
    yield INSERT_JOBS(j=rows, now_us=now_us)
    yield INSERT_VERSIONS(v=versions, now_us=now_us, actor=actor)
    yield INSERT_TIMERS(t=timers)
    if labels:
        yield INSERT_LABELS(l=labels)
    if chains:
        yield INSERT_CHAINS(c=chains)
    if runs:
        yield OPEN_RUNS(n=runs)


def _scheduled_run(job: NewJob, tenant: str, due_us: int) -> tuple[Any, ...]:
    definition = job.definition
    id_ = run_id(job.id, scheduled_key(due_us), due_us)
    priority, bucket = PRIORITY_NUMBER[definition.priority], bucket_of(definition, tenant)
    return (id_, job.id, "schedule", priority, bucket, due_us, due_us, None, None)


def _columns(definition: Definition, job_id: str, tenant: str, created_us: int) -> tuple[Any, ...]:
    return (
        definition.name,
        definition.type,
        schedule_type(definition, schedule_of(definition, job_id, created_us)),
        definition.queue,
        PRIORITY_NUMBER[definition.priority],
        bucket_of(definition, tenant),
        group_of(definition, job_id, tenant),
        max_attempts(definition),
        definition.delivery == "at_most_once",
        shard_of(job_id),
    )


def _resolved(tenant: str, job_id: str, definition: Definition) -> Steps[Definition | Invalid]:
    """Upstream names become ids; an unknown one, or one that closes a circle, is refused."""
    if not definition.after:
        return definition
    rows = yield RESOLVE(tenant=tenant, wanted=[(after.job_id,) for after in definition.after])
    ids = {row["name"]: row["id"] for row in rows} | {row["id"]: row["id"] for row in rows}
    unknown = [after.job_id for after in definition.after if after.job_id not in ids]
    if unknown:
        return Invalid(
            [
                Fault("/after", f'There is no job "{word}" to run after.', "Create the upstream job first.")
                for word in unknown
            ]
        )
    upstream = [After(ids[after.job_id], after.on) for after in definition.after]
    reached = {row["job_id"] for row in (yield DOWNSTREAM(id=job_id))} | {job_id}
    for after in upstream:
        if after.job_id in reached:
            detail = "This job would wait for itself: the upstream job is started by it, directly or through others."
            return Invalid([Fault("/after", detail, "Remove one of the two `after` entries.")])
    return msgspec.structs.replace(definition, after=tuple(upstream))


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

    def next_after(self, after_us: int) -> int | None:
        most = self.definition.max_runs
        if most is not None and self.fired >= most:
            return None
        return next_after(schedule_of(self.definition, self.id, self.row["created_us"]), after_us)


def hold(tenant: str, word: str) -> Steps[Held]:
    """Finds a job by id or name, locks it, and withdraws nothing yet."""
    found = yield FIND(tenant=tenant, word=word)
    if not found:
        raise NotFound(f'There is no job "{word}".')
    timer = (yield LOCK_TIMER(id=found[0]["id"]))[0]
    row = (yield READ(id=found[0]["id"]))[0]
    return Held(row, decode(row["spec"]), timer["due_us"], timer["fired"], timer["now_us"])


def hold_alive(tenant: str, word: str) -> Steps[Held]:
    held = yield from hold(tenant, word)
    if held.row["state"] == "deleted":
        raise Conflict(f'Job "{held.row["name"]}" was deleted.', "job_deleted")
    return held


def _withdraw(held: Held) -> Steps[tuple[int | None, int]]:
    """Takes back what is staged: where the cursor and the count of fires stand without it."""
    rows = yield WITHDRAW(id=held.id, now_us=held.now_us)
    dues = [row["due_us"] for row in rows]
    if held.due_us is not None:
        dues.append(held.due_us)
    return (min(dues) if dues else None), held.fired - len(rows)


def _give_up_missed(held: Held, due_us: int | None, reason: str) -> Steps[None]:
    """Due times that passed undecided before this change are decided now: they will not run."""
    if due_us is None or due_us > held.now_us:
        return
    schedule = schedule_of(held.definition, held.id, held.row["created_us"])
    last = latest_at_or_before(schedule, held.now_us, due_us) or due_us
    yield RECORD_SKIP(
        run_id=run_id(held.id, scheduled_key(due_us), due_us),
        id=held.id,
        from_us=due_us,
        until_us=last,
        count=count_between(schedule, due_us, last, COUNT_AT_MOST),
        reason=reason,
    )


@transaction
def change(tenant: str, word: str, actor: str, merge: Merge, base_version: int | None) -> Steps[str]:
    """A new version, merged under the lock. The schedule takes effect now and never fires the past; other changes
    keep the cursor.
    """
    held = yield from hold_alive(tenant, word)
    if base_version is not None and base_version != held.row["version"]:
        raise Stale(
            f'Job "{held.row["name"]}" is now version {held.row["version"]}; you changed version {base_version}.'
        )
    definition = merge(held.definition, held.id, held.now_us, held.row["created_us"])
    if definition == held.definition:
        return held.id
    resolved = yield from _resolved(tenant, held.id, definition)
    if isinstance(resolved, Invalid):
        raise resolved
    if resolved.name != held.definition.name:
        taken = yield NAMES_TAKEN(tenant=tenant, wanted=[(resolved.name,)])
        conflict = _name_conflict(resolved.name, {row["name"] for row in taken})
        if conflict:
            raise conflict
    due_us, fired = yield from _withdraw(held)
    version = held.row["version"] + 1
    if any(getattr(resolved, name) != getattr(held.definition, name) for name in SCHEDULE_FIELDS):
        yield from _give_up_missed(held, due_us, "schedule_changed")
        due_us = None if held.is_paused else _first(resolved, held, fired)
    yield SET_TIMER(id=held.id, due_us=due_us, version=version, fired=fired)
    yield from _write_version(tenant, actor, held, resolved, version)
    return held.id


def _first(definition: Definition, held: Held, fired: int) -> int | None:
    if definition.max_runs is not None and fired >= definition.max_runs:
        return None
    return next_after(schedule_of(definition, held.id, held.row["created_us"]), held.now_us)


def _write_version(tenant: str, actor: str, held: Held, definition: Definition, version: int) -> Steps[None]:
    name, type_, kind, queue, priority, bucket, group, attempts, is_once, _ = _columns(
        definition, held.id, tenant, held.row["created_us"]
    )
    yield UPDATE_JOB(
        id=held.id,
        name=name,
        version=version,
        type=type_,
        kind=kind,
        queue=queue,
        priority=priority,
        bucket=bucket,
        group_key=group,
        max_attempts=attempts,
        is_once=is_once,
        now_us=held.now_us,
    )
    yield INSERT_VERSIONS(v=[(held.id, version, encode(definition).decode())], now_us=held.now_us, actor=actor)
    if definition.labels != held.definition.labels:
        yield DELETE_LABELS(id=held.id)
        yield INSERT_LABELS(l=[(tenant, f"{key}:{value}", held.id) for key, value in definition.labels.items()])
    if definition.after != held.definition.after:
        yield DELETE_CHAINS(id=held.id)
        yield INSERT_CHAINS(c=[(after.job_id, held.id, after.on) for after in definition.after])


@transaction
def pause(tenant: str, word: str, actor: str, until_us: int | None, reason: str | None) -> Steps[str]:
    """No due time from now on, or from now until `until_us`, makes a run; waiting runs whose time came still run."""
    held = yield from hold_alive(tenant, word)
    due_us, fired = yield from _withdraw(held)
    if not held.is_paused:
        yield from _give_up_missed(held, due_us, "job_paused")
    resume_us = None
    if until_us is not None:
        resume_us = Held(held.row, held.definition, due_us, fired, held.now_us).next_after(until_us - 1)
    yield SET_TIMER(id=held.id, due_us=resume_us, version=held.row["version"], fired=fired)
    paused_us = held.row["paused_us"] if held.is_paused else held.now_us
    yield SET_STATE(
        id=held.id, state="paused", paused_us=paused_us, until_us=until_us, reason=reason, now_us=held.now_us
    )
    yield from _event(held, "paused", actor, reason, {"until_us": until_us})
    return held.id


@transaction
def resume(tenant: str, word: str, actor: str) -> Steps[str]:
    """Due times from now on run again; those of the pause do not. Resuming a job that is not paused changes nothing."""
    held = yield from hold_alive(tenant, word)
    if held.is_paused:
        due_us = held.next_after(held.now_us)
        yield SET_TIMER(id=held.id, due_us=due_us, version=held.row["version"], fired=held.fired)
        yield SET_STATE(id=held.id, state="active", paused_us=None, until_us=None, reason=None, now_us=held.now_us)
        yield from _event(held, "resumed", actor, None, {})
    return held.id


@transaction
def delete(tenant: str, word: str, actor: str) -> Steps[str]:
    """No later run. Waiting runs are cancelled, running ones told to stop; the history stays."""
    held = yield from hold(tenant, word)
    if held.row["state"] == "deleted":
        return held.id
    due_us, fired = yield from _withdraw(held)
    yield from _give_up_missed(held, due_us, "schedule_changed")
    yield SET_TIMER(id=held.id, due_us=None, version=held.row["version"], fired=fired)
    waiting = yield WAITING_RUNS(id=held.id)
    yield from end_waiting([row["id"] for row in waiting], "cancelled", "cancelled_by_user")
    yield STOP_RUNNING(id=held.id, reason="cancelled_by_user")
    yield DELETE_ALL_CHAINS(id=held.id)
    yield DELETE_LABELS(id=held.id)
    yield SET_STATE(id=held.id, state="deleted", paused_us=None, until_us=None, reason=None, now_us=held.now_us)
    yield from _event(held, "deleted", actor, None, {})
    return held.id


@transaction
def trigger(tenant: str, word: str, runs: list[NewRun]) -> Steps[list[str]]:
    """Runs on request; a paused job runs on request too."""
    return (yield from open_runs(tenant, word, runs))


def open_runs(tenant: str, word: str, runs: list[NewRun]) -> Steps[list[str]]:
    found = yield FIND(tenant=tenant, word=word)
    if not found:
        raise NotFound(f'There is no job "{word}".')
    row = (yield READ(id=found[0]["id"]))[0]
    if row["state"] == "deleted":
        raise Conflict(f'Job "{row["name"]}" was deleted.', "job_deleted")
    now_us = (yield NOW())[0]["now_us"]
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
    return [new["id"] for new in opened]


def _event(held: Held, kind: str, actor: str, reason: str | None, detail: dict[str, Any]) -> Steps[None]:
    yield EVENT(
        at_us=held.now_us,
        tenant=held.row["tenant"],
        kind=kind,
        job_id=held.id,
        actor=actor,
        reason=reason,
        detail=json.dumps(detail),
    )

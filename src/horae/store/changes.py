"""The life of a job after its creation: changed, paused, resumed, deleted. Each verb moves the cursor with it.

A verb first locks the job's timer row, which every plan of that job must also lock: what it decides after that is
decided against a cursor that stands still.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from horae.core.audit import difference
from horae.core.compiled import schedule_of
from horae.core.document import render_definition
from horae.core.duration import format_instant
from horae.core.errors import Invalid
from horae.core.job import Definition
from horae.core.plan import skips_between
from horae.core.run import first_id_at, run_id, scheduled_key
from horae.core.schedule import next_after
from horae.ports import Merge
from horae.store.calendars import DISUSE, USE, use_of, with_calendars
from horae.store.chains import INSERT_CHAINS, relinked
from horae.store.database import Statement, Steps, note, transaction
from horae.store.jobs import (
    INSERT_LABELS,
    INSERT_VERSIONS,
    Held,
    check_version,
    columns_of,
    encode,
    hold,
    hold_alive,
    line_of,
    name_conflict,
    names_taken,
    timing_text,
)
from horae.store.notices import UNWATCH_JOB, WATCH, tell, watches
from horae.store.quotas import ADD_JOBS
from horae.store.results import end_waiting

UPDATE_JOB = Statement("""
UPDATE jobs
SET name = :name, version = :version, type = :type, kind = :kind, queue = :queue, priority = :priority,
    bucket = :bucket, group_key = :group_key, max_attempts = :max_attempts, is_once = :is_once, updated_us = :now_us
WHERE id = :id
""")

DELETE_LABELS = Statement("DELETE FROM job_labels WHERE job_id = :id")

DELETE_CHAINS = Statement("DELETE FROM chains WHERE job_id = :id")

DELETE_ALL_CHAINS = Statement("DELETE FROM chains WHERE job_id = :id OR upstream_id = :id")

# Staged runs whose time has not come were never triggered: they are withdrawn without a trace.
WITHDRAW = Statement("""
DELETE FROM runs
WHERE job_id = :id AND state = 'queued' AND cause = 'schedule' AND attempt = 0 AND due_us > :now_us
RETURNING due_us
""")

# Due times past the moment of a change that have started all the same: a worker was faster than the withdrawal, or the
# clock went back. An id begins with its due time, hence the range.
STARTED_AFTER = Statement("""
SELECT due_us
FROM (SELECT due_us FROM runs
      WHERE job_id = :id AND id > :from_id AND cause = 'schedule' AND due_us > :now_us AND started_us IS NOT NULL
      UNION ALL
      SELECT due_us FROM history
      WHERE job_id = :id AND id > :from_id AND cause = 'schedule' AND due_us > :now_us AND started_us IS NOT NULL
     ) AS ahead
""")

CALLED_OFF = Statement("SELECT due_us FROM called_off WHERE job_id = :id")

SET_TIMER = Statement("""
UPDATE timers
SET due_us = :due_us, fired = :fired
WHERE job_id = :id
""")

CHANGE_TIMER = Statement("""
UPDATE timers
SET due_us = :due_us, fired = :fired, version = :version, created_us = :created_us, timing_version = :version,
    timing = :timing, line_version = :version, bucket = :bucket, group_key = :group_key, max_attempts = :max_attempts,
    is_once = :is_once
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

IS_ANY_OPEN = Statement("SELECT 1 AS n FROM runs WHERE job_id = :id AND (state = 'queued' OR cancel IS NULL) LIMIT 1")

STOP_RUNNING = Statement("UPDATE runs SET cancel = :reason WHERE job_id = :id AND state = 'running' AND cancel IS NULL")

EVENT = Statement("""
INSERT INTO events (at_us, tenant, kind, job_id, actor, reason, detail)
VALUES (:at_us, :tenant, :kind, :job_id, :actor, :reason, :detail)
""")

# A change of one of these moves the due times; any other keeps them.
SCHEDULE_FIELDS = ("schedule", "timezone", "dst", "calendar", "start_us", "end_us", "max_runs")


@dataclass(frozen=True, slots=True)
class Undecided:
    """Where a job's schedule stands without what was staged: its cursor, its count of fires, and the due times ahead
    that are decided: called off by hand, or started.
    """

    due_us: int | None
    fired: int
    called_off: frozenset[int]


def _withdraw(held: Held) -> Steps[tuple[Held, Undecided]]:
    """Takes back what is staged. What has started meanwhile stays, so the change counts from the last of it on."""
    rows = yield WITHDRAW(id=held.id, now_us=held.now_us)
    dues = [row["due_us"] for row in rows]
    if held.due_us is not None:
        dues.append(held.due_us)
    started = yield STARTED_AFTER(id=held.id, now_us=held.now_us, from_id=first_id_at(held.now_us))
    ahead = {row["due_us"] for row in started}
    # Read last: a cancel that was under way has let go of its run by now.
    called_off = {row["due_us"] for row in (yield CALLED_OFF(id=held.id))}
    held = replace(held, now_us=max(held.now_us, *ahead)) if ahead else held
    return held, Undecided(min(dues, default=None), held.fired - len(rows), frozenset(called_off | ahead))


def _give_up_missed(held: Held, left: Undecided, reason: str) -> Steps[None]:
    """Due times that passed undecided before this change are decided now: they will not run."""
    if left.due_us is None or left.due_us > held.now_us:
        return
    schedule = schedule_of(held.definition, held.id, held.row["created_us"], left.called_off)
    ids = []
    for skip in skips_between(schedule, left.due_us, held.now_us, reason):
        ids.append(run_id(held.id, scheduled_key(skip.from_us), skip.from_us))
        yield RECORD_SKIP(
            run_id=ids[-1],
            id=held.id,
            from_us=skip.from_us,
            until_us=skip.until_us,
            count=skip.count,
            reason=reason,
        )
    yield from tell(ids)


@transaction
def change(tenant: str, word: str, actor: str, merge: Merge, base_version: int | None) -> Steps[str]:
    """A new version, merged under the lock. The schedule takes effect now and never fires the past; other changes
    keep the cursor.
    """
    held = yield from hold_alive(tenant, word)
    check_version(held.row, base_version)
    merged = merge(held.definition, held.standing, held.now_us)
    (definition,) = yield from with_calendars(tenant, [merged])
    if isinstance(definition, Invalid):
        raise definition
    if definition == held.definition:
        return held.id
    resolved = yield from relinked(tenant, held.id, definition)
    if isinstance(resolved, Invalid):
        raise resolved
    if resolved.name != held.definition.name:
        conflict = name_conflict(resolved.name, (yield from names_taken(tenant, [resolved.name])))
        if conflict:
            raise conflict
    held, left = yield from _withdraw(held)
    due_us = left.due_us
    version = held.row["version"] + 1
    if any(getattr(resolved, name) != getattr(held.definition, name) for name in SCHEDULE_FIELDS):
        yield from _give_up_missed(held, left, "schedule_changed")
        due_us = _first_in_force(resolved, held, left)
    yield CHANGE_TIMER(
        id=held.id,
        due_us=due_us,
        fired=left.fired,
        version=version,
        created_us=held.row["created_us"],
        timing=timing_text(resolved),
        **line_of(resolved, held.id, tenant)._asdict(),
    )
    yield from _write_version(tenant, actor, held, resolved, version)
    before, after = difference(_told(held.definition, version - 1), _told(resolved, version))
    yield note("job.changed", held.id, {"name": held.definition.name, **before}, {"name": resolved.name, **after})
    return held.id


def _told(definition: Definition, version: int) -> dict[str, Any]:
    return {"version": version, **render_definition(definition)}


def _first_in_force(definition: Definition, held: Held, left: Undecided) -> int | None:
    """The first due time from now on, or from the end of the pause; none while the pause has no end."""
    if not held.is_paused:
        return _first(definition, held, left, after_us=held.now_us)
    until_us = held.row["pause_until_us"]
    return None if until_us is None else _first(definition, held, left, after_us=max(until_us - 1, held.now_us))


def _first(definition: Definition, held: Held, left: Undecided, *, after_us: int) -> int | None:
    if definition.max_runs is not None and left.fired >= definition.max_runs:
        return None
    return next_after(schedule_of(definition, held.id, held.row["created_us"], left.called_off), after_us)


def _write_version(tenant: str, actor: str, held: Held, definition: Definition, version: int) -> Steps[None]:
    schedule = schedule_of(definition, held.id, held.row["created_us"])
    name, type_, kind, queue, priority, bucket, group, attempts, is_once, _ = columns_of(
        definition, schedule, held.id, tenant
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
    if definition.notify != held.definition.notify:
        watchers = (yield from watches(tenant, [(held.id, definition)]))[held.id]
        if isinstance(watchers, Invalid):
            raise watchers
        yield UNWATCH_JOB(tenant=tenant, job_id=held.id)
        yield WATCH(n=watchers)
    if definition.calendar != held.definition.calendar:
        yield DISUSE(id=held.id)
        yield USE(u=use_of(tenant, definition, held.id))


@transaction
def pause(
    tenant: str, word: str, actor: str, until_us: int | None, reason: str | None, base_version: int | None = None
) -> Steps[str]:
    """No due time from now on, or from now until `until_us`, makes a run; waiting runs whose time came still run."""
    held = yield from hold_alive(tenant, word)
    check_version(held.row, base_version)
    held, left = yield from _withdraw(held)
    if not held.is_paused:
        yield from _give_up_missed(held, left, "job_paused")
    resume_us = None
    if until_us is not None:
        resume_us = _first(held.definition, held, left, after_us=max(until_us - 1, held.now_us))
    yield SET_TIMER(id=held.id, due_us=resume_us, fired=left.fired)
    paused_us = held.row["paused_us"] if held.is_paused else held.now_us
    yield SET_STATE(
        id=held.id, state="paused", paused_us=paused_us, until_us=until_us, reason=reason, now_us=held.now_us
    )
    yield from _event(held, "paused", actor, reason, {"until_us": until_us})
    until = None if until_us is None else format_instant(until_us)
    yield note(
        "job.paused",
        held.id,
        {"state": held.row["state"]},
        {"name": held.row["name"], "until": until, "reason": reason},
    )
    return held.id


@transaction
def resume(tenant: str, word: str, actor: str, base_version: int | None = None) -> Steps[str]:
    """Due times from now on run again; those of the pause do not. Resuming a job that is not paused changes nothing."""
    held = yield from hold_alive(tenant, word)
    check_version(held.row, base_version)
    if held.is_paused:
        # A due time after the announced end of the pause may be staged already; it is planned anew with the others.
        held, left = yield from _withdraw(held)
        due_us = _first(held.definition, held, left, after_us=held.now_us)
        yield SET_TIMER(id=held.id, due_us=due_us, fired=left.fired)
        yield SET_STATE(id=held.id, state="active", paused_us=None, until_us=None, reason=None, now_us=held.now_us)
        yield from _event(held, "resumed", actor, None, {})
        yield note("job.resumed", held.id, {"state": held.row["state"]}, {"name": held.row["name"]})
    return held.id


@transaction
def delete(tenant: str, word: str, actor: str, base_version: int | None) -> Steps[str]:
    """No later run. Waiting runs are cancelled, running ones told to stop; the history stays."""
    held = yield from hold(tenant, word)
    check_version(held.row, base_version)
    if held.row["state"] == "deleted":
        return held.id
    held, left = yield from _withdraw(held)
    yield from _give_up_missed(held, left, "schedule_changed")
    yield SET_TIMER(id=held.id, due_us=None, fired=left.fired)
    # Again for those that a worker took or gave back while we looked.
    while (yield IS_ANY_OPEN(id=held.id)):
        waiting = yield WAITING_RUNS(id=held.id)
        yield from end_waiting([row["id"] for row in waiting], "cancelled", "cancelled_by_user")
        yield STOP_RUNNING(id=held.id, reason="cancelled_by_user")
    yield DELETE_ALL_CHAINS(id=held.id)
    yield DELETE_LABELS(id=held.id)
    yield DISUSE(id=held.id)
    yield UNWATCH_JOB(tenant=tenant, job_id=held.id)
    yield SET_STATE(id=held.id, state="deleted", paused_us=None, until_us=None, reason=None, now_us=held.now_us)
    yield from _event(held, "deleted", actor, None, {})
    yield ADD_JOBS(tenant=tenant, n=-1)
    yield note("job.deleted", held.id, {"name": held.row["name"], "version": held.row["version"]})
    return held.id


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

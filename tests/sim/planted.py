"""Bugs on purpose: each takes one defence away. A simulator that does not find them would find nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest.mock import patch

import msgspec

from horae.core import plan as core_plan
from horae.store import changes, plans, results
from horae.store.database import Statement


@contextmanager
def mutated(statement: Statement, *changes_: tuple[str, str]) -> Iterator[None]:
    """One statement with other words, until the end of the block."""
    text = statement.text
    for old, new in changes_:
        assert old in text, f"the statement has changed: {old!r} is not in it"
        text = text.replace(old, new)
    original = statement.text
    statement.text = text
    statement._rendered.clear()
    try:
        yield
    finally:
        statement.text = original
        statement._rendered.clear()


@contextmanager
def no_unique_key() -> Iterator[None]:
    """Run ids by chance, and a cursor that anybody moves: nothing stops a second run of a due time."""
    with (
        patch.object(plans, "run_id", lambda *_: secrets.token_hex(16)),
        mutated(plans.MOVE, ("AND timers.due_us = due.due_us AND timers.version = due.version", "")),
        mutated(plans.MOVE, ("AND lease.owner = :owner AND lease.expires_us > horae_now()", "AND :owner = :owner")),
    ):
        yield


@contextmanager
def no_epoch_check() -> Iterator[None]:
    with mutated(
        plans.MOVE,
        ("JOIN leases lease ON lease.shard = due.shard AND lease.epoch = due.epoch", ""),
        ("AND lease.owner = :owner AND lease.expires_us > horae_now()", "AND :owner = :owner"),
    ):
        yield


@contextmanager
def no_token() -> Iterator[None]:
    """Whoever reports a result ends the run."""
    with (
        mutated(results.ENDED, ("ON r.id = e.id AND r.token = e.token", "ON r.id = e.id")),
        mutated(results.KEEP, ("ON r.id = e.id AND r.token = e.token", "ON r.id = e.id")),
    ):
        yield


@contextmanager
def reaper_on_a_fast_clock() -> Iterator[None]:
    """The reaper believes a node whose clock is three seconds ahead."""
    with mutated(results.LOST, ("w.expires_us <= horae_now()", "w.expires_us <= horae_now() + 3000000")):
        yield


_BOTH = """(
    SELECT {columns} FROM runs UNION ALL SELECT {columns} FROM history
) r
JOIN""".format(
    columns="""id, job_id, tenant, version, cause, queue, priority, due_us, run_at_us, queued_us, started_us, attempt,
               max_attempts, token, epoch, worker, payload, parent_id"""
)


@contextmanager
def settle_is_not_idempotent() -> Iterator[None]:
    """A result that is sent again, because its answer was lost, ends the run again."""
    with mutated(results.KEEP, ("runs r\nJOIN", _BOTH)):
        yield


@contextmanager
def edit_keeps_staged_runs() -> Iterator[None]:
    with mutated(changes.WITHDRAW, ("AND due_us > :now_us", "AND due_us > :now_us AND false")):
        yield


@contextmanager
def catch_up_without_limit() -> Iterator[None]:
    """Everything missed within the window runs, however much it is."""
    real = core_plan._catch_up

    def unlimited(cursor: core_plan.Cursor, window_us: int, latest: int) -> tuple[list[int], list[core_plan.Skip]]:
        misfire = msgspec.structs.replace(cursor.definition.misfire, max=1000)
        definition = msgspec.structs.replace(cursor.definition, misfire=misfire)
        return real(replace(cursor, definition=definition), window_us, latest)

    with patch.object(core_plan, "_catch_up", unlimited):
        yield


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    plant.__name__: plant
    for plant in (
        no_unique_key,
        no_epoch_check,
        no_token,
        reaper_on_a_fast_clock,
        settle_is_not_idempotent,
        edit_keeps_staged_runs,
        catch_up_without_limit,
    )
}

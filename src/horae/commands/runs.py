"""Runs that somebody asks for, stops or wants again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from horae.commands.backfill import Backfilled, BackfillRequest, backfill
from horae.commands.caller import Caller, check_payload
from horae.ports import BackfillStore, NewRun, Once, RunStore


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a manual run may override. `payload` is JSON text; None keeps the job's."""

    payload: str | None = None
    priority: str | None = None
    run_at_us: int | None = None


class Runs(RunStore, BackfillStore, Protocol):
    """What is asked of the store here."""


class RunCommands:
    def __init__(self, store: Runs, new_id: Callable[[], str], wake: Callable[[], None]) -> None:
        self._store = store
        self._new_id = new_id
        self._wake = wake

    async def trigger(
        self,
        caller: Caller,
        word: str,
        requests: list[RunRequest],
        once: Once | None,
        base_version: int | None = None,
        *,
        place: str = "",
    ) -> list[str]:
        """`place` is where each request stands in the body, with its number for `{}`."""
        for number, request in enumerate(requests):
            check_payload(caller, request.payload, f"{place.format(number)}/payload")
        runs = [
            NewRun("manual", f"manual:{self._new_id()}", request.run_at_us, request.priority, request.payload)
            for request in requests
        ]
        run_ids = await self._store.trigger(caller.asked(once), caller.tenant, word, runs, base_version)
        self._wake()
        return run_ids

    async def backfill(self, caller: Caller, word: str, wish: BackfillRequest, once: Once | None) -> Backfilled:
        done = await backfill(self._store, caller, word, wish, once)
        self._wake()
        return done

    async def cancel(self, caller: Caller, run_id: str, once: Once | None) -> None:
        await self._store.cancel_run(caller.asked(once), caller.tenant, run_id)
        self._wake()

    async def retry(self, caller: Caller, run_id: str, once: Once | None) -> None:
        await self._store.retry_run(caller.asked(once), caller.tenant, run_id)
        self._wake()

"""Dead letters: runs that failed for good, run anew or put aside."""

from __future__ import annotations

from collections.abc import Callable

from horae.commands.caller import Caller
from horae.ports import Letters, LetterStore, Once

MOST_REPLAYS = 10_000


class LetterCommands:
    def __init__(self, store: LetterStore, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake

    async def replay(self, caller: Caller, run_id: str, once: Once | None) -> str:
        new_id = await self._store.replay(caller.asked(once), caller.tenant, run_id)
        self._wake()
        return new_id

    async def discard(self, caller: Caller, run_id: str) -> None:
        await self._store.discard(caller.asked(None), caller.tenant, run_id)

    async def count(self, caller: Caller, which: Letters) -> list[str]:
        return await self._store.count_letters(caller.tenant, which, MOST_REPLAYS)

    async def replay_many(
        self, caller: Caller, which: Letters, expected: int | None, rate: float | None, once: Once | None
    ) -> list[str]:
        """`rate` is runs a second; without one they all are due at once."""
        step_us = 0 if rate is None else round(1e6 / rate)
        run_ids = await self._store.replay_many(
            caller.asked(once), caller.tenant, which, expected, step_us, MOST_REPLAYS
        )
        self._wake()
        return run_ids

    async def discard_many(self, caller: Caller, which: Letters, expected: int, once: Once | None) -> list[str]:
        return await self._store.discard_many(caller.asked(once), caller.tenant, which, expected, MOST_REPLAYS)

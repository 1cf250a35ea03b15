"""Taking runs for a worker: which lines have something due, how much of each, in one or two lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from horae.core.job import Bucket
from horae.failpoints import hit
from horae.lanes import abreast
from horae.ports import Claimed, ClaimStore, Share
from horae.worker.lines import POLL_SECONDS, Lines, Seen, prefixes_of

BUSY_SECONDS = 0.01
HELD_SECONDS = 0.5
CLAIM_AT_ONCE = 1000
# More than this is claimed in two lanes abreast, where the store can: another one answers both at once.
PART = 100
# While lines give all that is asked of them, they are not looked at before each claim: what comes in between waits so
# long at most to be seen; as long as the look itself took, if that is more.
LOOK_SECONDS = 0.05

Take = Callable[[str, list[Share]], Awaitable[list[Claimed]]]


class Hands(Protocol):
    """The worker that runs what is taken for it. Its id is another one when it was given up."""

    id: str
    is_draining: bool

    @property
    def free(self) -> int: ...

    @property
    def is_short_of_specs(self) -> bool: ...

    async def start(self, claimed: list[Claimed]) -> None: ...


class Taker:
    def __init__(
        self,
        store: ClaimStore,
        lines: Lines,
        hands: Hands,
        slots: int,
        queues: tuple[str, ...],
        needs: tuple[str, ...],
    ) -> None:
        self._store = store
        self._lines = lines
        self._hands = hands
        self._slots = slots
        self._prefixes = prefixes_of(queues, ("", *needs))
        self._needs = needs
        self._more: list[tuple[str, Bucket]] = []
        self._look_again_at = 0.0
        self._seen: Seen | None = None
        self._is_abreast = False
        self.asked = 0
        self.under_way: set[object] = set()

    @property
    def room(self) -> int:
        """Places that neither a run has nor a claim under way asks for."""
        return self._hands.free - self.asked

    async def tick(self) -> float:
        """Fills the room there is; in how many seconds to ask again."""
        if (delay := await self._look()) is not None:
            return delay
        room = min(self.room, CLAIM_AT_ONCE)
        return 0.0 if room > 0 and await self._claim(room) else BUSY_SECONDS

    async def _look(self) -> float | None:
        """Which lines have something due, unless that is known. If none has: in how many seconds to ask again."""
        clock = asyncio.get_running_loop().time
        began, worker = clock(), self._hands.id
        if self._more and began <= self._look_again_at:
            return None
        self._look_again_at = began + POLL_SECONDS  # the other lane goes on with what is known
        try:
            seen = await self._lines.look(self._prefixes, self._needs)
        except BaseException:
            self._more = []
            raise
        if worker != self._hands.id:
            return 0.0  # given up meanwhile, and the new one has not said yet that it is there
        self._more = seen.due if seen is not None else []
        if seen is None:
            return HELD_SECONDS
        self._seen = seen
        if not seen.due:
            return seen.seconds_to_next
        looked = clock()
        self._look_again_at = looked + max(LOOK_SECONDS, looked - began)
        return None

    def seen_to_come(self) -> Seen | None:
        """What the last look saw, told once, and only while nothing is due."""
        seen, self._seen = self._seen, None
        return None if self._more else seen

    def look_anew(self) -> None:
        self.forget()
        self._lines.forget_limits()

    def forget(self) -> None:
        self._more = []

    async def _claim(self, room: int) -> int:
        plain, gated = self._lines.share_out(self._more, room)
        if gated:
            return await self._claim_with_gate(plain, gated)
        if room <= PART or not self._store.is_parallel:
            return await self._claim_and_start(self._take_plain, plain)
        half = room // 2
        self._is_abreast = True
        return sum(await abreast(self._lane(room - half), self._lane(half)))

    async def _claim_with_gate(self, plain: list[Share], gated: list[Share]) -> int:
        """Who goes through the gate keeps nobody else waiting, not even when it fails."""
        lanes = [self._claim_and_start(self._take_plain, part) for part in _parts(plain)]
        return sum(await abreast(self._claim_and_start(self._lines.take_gated, gated), *lanes))

    async def _lane(self, room: int) -> int:
        """One of two: what it claimed starts while the database works for the other. Both go on by themselves while
        lines give something and runs are over as soon as they have started; neither waits for the other to look.
        """
        taken, worker = 0, self._hands.id
        try:
            while True:
                plain, gated = self._lines.share_out(self._more, room)
                if gated:  # its turn has come, and is not given away
                    return taken + await self._claim_with_gate(plain, gated)
                if not plain:
                    return taken
                claimed = await self._claim_and_start(self._take_plain, plain)
                taken += claimed
                await asyncio.sleep(0)  # they run
                await asyncio.sleep(0)  # and their places are free
                if worker != self._hands.id or not (claimed and self._is_abreast):
                    return taken
                if await self._look() is not None or self.room < room:
                    return taken
                room = max(room, min(self.room, self._slots // 2, CLAIM_AT_ONCE // 2))
        finally:
            self._is_abreast = False

    async def _take_plain(self, worker: str, shares: list[Share]) -> list[Claimed]:
        return await self._store.claim(worker, shares, with_specs=self._hands.is_short_of_specs)

    async def _claim_and_start(self, take: Take, shares: list[Share]) -> int:
        if self._hands.is_draining:
            return 0  # told so since we looked
        worker, room = self._hands.id, sum(each.n for each in shares)
        claim, known = object(), self._more
        self.asked += room
        self.under_way.add(claim)
        try:
            hit("claim.before_commit")
            claimed = await take(worker, shares)
            hit("claim.after_commit")
            if worker != self._hands.id:
                return 0  # given up while the claim was under way: these runs belong to a worker that is no more
            if len(claimed) < room and self._more is known:
                self._more = []
            if claimed:
                await self._hands.start(claimed)
            return len(claimed)
        finally:
            self.asked -= room
            self.under_way.remove(claim)


def _parts(shares: list[Share]) -> list[list[Share]]:
    """For two lanes, if it is more than one should claim at a time."""
    if sum(each.n for each in shares) <= PART:
        return [shares] if shares else []
    halves = [each._replace(n=each.n // 2) for each in shares]
    rest = [each._replace(n=each.n - half.n) for each, half in zip(shares, halves, strict=True)]
    return [rest, [half for half in halves if half.n]]

"""Waiting lines: which of them have something due for a worker, and how much of each it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from horae.core.fair import share
from horae.core.job import FREE, GATED, Bucket, read_bucket
from horae.core.timeguard import TimeGuard
from horae.ports import Claimed, ClaimStore, Limit, Share, Waiting
from horae.telemetry import due_times_skipped, watch

POLL_SECONDS = 1.0
LIMITS_SECONDS = 1.0
# A line whose tenant or queue has no place left is left alone for so long.
SHUT_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """The lines that are served, those of them with something due that may be taken, and the store's time. Others
    with something due have no place left; after so many seconds they may.
    """

    waiting: list[Waiting]
    due: list[tuple[str, Bucket]]
    now_us: int
    shut_seconds: float | None = None

    @property
    def seconds_to_next(self) -> float:
        """Sleep exactly until something can be taken, but look again now and then for what others bring."""
        coming = [(line.head_us - self.now_us) / 1e6 for line in self.waiting if line.head_us > self.now_us]
        if self.shut_seconds is not None:
            coming.append(self.shut_seconds)
        return max(0.001, min(POLL_SECONDS, *coming)) if coming else POLL_SECONDS


class Lines:
    def __init__(self, store: ClaimStore, guard: TimeGuard) -> None:
        self._store = store
        self._guard = guard
        self._limits: dict[tuple[str, str], Limit] = {}
        self._weights: dict[str, int] = {}
        self._limits_at = float("-inf")
        self._changes = 0
        self._heads: dict[str, int] = {}
        self._shut: dict[str, float] = {}
        self._turn = 0

    async def look(self, prefixes: list[str], needs: Iterable[str], tenant: str | None = None) -> Seen | None:
        """None while the store's clock is not trusted. With a `tenant`, its lines alone."""
        sent = asyncio.get_running_loop().time()
        lines = await self._store.waiting_lines(prefixes)
        watch(self._guard, lines.now_us, sent)
        if self._guard.held:
            return None
        if any(line.head_us <= lines.now_us for line in lines.waiting):
            await self._refresh_limits()
        served = [
            (waiting, bucket)
            for waiting in lines.waiting
            if self._serves(bucket := read_bucket(waiting.bucket), needs) and tenant in (None, bucket.tenant)
        ]
        self._heads = {waiting.bucket: waiting.head_us for waiting in lines.waiting}
        due = [(waiting.bucket, bucket) for waiting, bucket in served if waiting.head_us <= lines.now_us]
        self._shut = {text: until for text, until in self._shut.items() if until > sent}
        shut = [self._shut[text] - sent for text, _ in due if text in self._shut]
        due = [line for line in due if line[0] not in self._shut]
        return Seen([waiting for waiting, _ in served], due, lines.now_us, min(shut, default=None))

    def share_out(self, due: list[tuple[str, Bucket]], room: int) -> tuple[list[Share], list[Share]]:
        """How much of each line; those that go through the gate apart, another of them first each time."""
        checked = {text for text, bucket in due if self._is_checked(bucket)}
        # What came before the head since then is seen by the next look.
        shares = [Share(text, n, self._heads.get(text, 0)) for text, n in share(due, room, self._turn, self._weights)]
        gated = [each for each in shares if each.bucket in checked]
        first = self._turn % max(1, len(gated))
        self._turn += 1
        return [each for each in shares if each.bucket not in checked], gated[first:] + gated[:first]

    async def take_gated(self, worker: str, shares: list[Share]) -> list[Claimed]:
        gated = await self._store.claim_gated(worker, shares, sum(each.n for each in shares))
        due_times_skipped({"overlap_skipped": gated.skipped})
        if gated.shut:
            self._shut |= dict.fromkeys(gated.shut, asyncio.get_running_loop().time() + SHUT_SECONDS)
        return gated.claimed

    def _serves(self, bucket: Bucket, needs: Iterable[str]) -> bool:
        return (not bucket.need or bucket.need in needs) and not any(
            limit is not None and limit.is_paused for limit in self._limits_of(bucket)
        )

    def _is_checked(self, bucket: Bucket) -> bool:
        """Whether claims from this line go through the gate: by its own rules, or by a cap on its queue or tenant."""
        return bucket.is_gated or any(
            limit is not None and limit.max_running is not None for limit in self._limits_of(bucket)
        )

    def _limits_of(self, bucket: Bucket) -> tuple[Limit | None, Limit | None]:
        return self._limits.get((bucket.tenant, "")), self._limits.get((bucket.tenant, bucket.queue))

    def forget_limits(self) -> None:
        self._limits_at = float("-inf")
        self._changes += 1

    async def _refresh_limits(self) -> None:
        """Again, if they changed while they were read: who was told so counts on it."""
        clock = asyncio.get_running_loop().time
        while (began := clock()) - self._limits_at >= LIMITS_SECONDS:
            changes = self._changes
            limits = {(limit.tenant, limit.queue): limit for limit in await self._store.limits()}
            if changes == self._changes:
                self._limits, self._limits_at = limits, began
                self._weights = {tenant: limit.weight for (tenant, queue), limit in limits.items() if not queue}
                return


def prefixes_of(queues: Iterable[str], needs: Iterable[str]) -> list[str]:
    """Where the lines of these queues begin that need nothing, or one of `needs`."""
    if "*" in queues:
        return [FREE, GATED]
    return [
        f"{gate}{queue}|{need.replace('|', '%7C')}|" for gate in (FREE, GATED) for queue in queues for need in needs
    ]

"""How often a tenant and a key may ask. The buckets are rows that all nodes share; each node takes a few tokens at once
and hands them out, so that most requests cost no statement.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from horae.commands import Caller
from horae.core.access import Quota
from horae.core.errors import Limited
from horae.core.rate import SECOND_US
from horae.ports import AccessStore

# Quotas that were changed on another node hold here after this time.
KEPT_SECONDS = 2.0
# A lease is a tenth of a second's worth; what is left of it after a second is thrown away.
LEASE_PART = 10
LEASE_SECONDS = 1.0
MOST_KEPT = 10_000


@dataclass(slots=True)
class _Lease:
    """Tokens in hand, those known to be left in the bucket, and until when it is empty."""

    tokens: int = 0
    left: int = 0
    until: float = 0.0
    empty_until: float = 0.0
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Limiter:
    def __init__(self, store: AccessStore, kept_seconds: float = KEPT_SECONDS) -> None:
        self._store = store
        self._kept_seconds = kept_seconds
        self._quotas: OrderedDict[str, tuple[Quota, float]] = OrderedDict()
        self._leases: OrderedDict[str, _Lease] = OrderedDict()

    async def admit(self, caller: Caller) -> tuple[Caller, dict[str, str]]:
        """The caller with the quota of its tenant, and the headers that tell of the limits; or raises Limited."""
        quota = await self._quota(caller.tenant)
        headers: dict[str, str] = {}
        if caller.key is not None and caller.key.requests_per_second is not None:
            await self._spend(f"key:{caller.key.id}", "key", caller.key.requests_per_second, headers)
        if quota.requests_per_second is not None:
            await self._spend(f"tenant:{caller.tenant}", "tenant", quota.requests_per_second, headers)
        return replace(caller, quota=quota), headers

    async def _quota(self, tenant: str) -> Quota:
        now = asyncio.get_running_loop().time()
        kept = self._quotas.get(tenant)
        if kept is not None and now < kept[1]:
            return kept[0]
        quota = await self._store.quota(tenant)
        self._quotas[tenant] = (quota, now + self._kept_seconds)
        _trim(self._quotas)
        return quota

    async def _spend(self, bucket: str, what: str, rate: int, headers: dict[str, str]) -> None:
        lease = self._leases.setdefault(bucket, _Lease())
        self._leases.move_to_end(bucket)
        _trim(self._leases)
        clock = asyncio.get_running_loop().time
        if not self._has_token(lease, clock()):
            async with lease.taking:
                if not self._has_token(lease, clock()) and clock() >= lease.empty_until:
                    await self._take(lease, bucket, rate)
        headers["RateLimit-Policy"] = f'"{what}";q={rate};w=1'
        if lease.tokens <= 0:
            wait = max(lease.empty_until - clock(), 0.0)
            headers["RateLimit"] = f'"{what}";r=0;t={ceil(wait) or 1}'
            detail = f"The limit of this {what} is {rate:,} requests a second, and they are used up."
            raise Limited(f"{detail} Wait as long as Retry-After says.", "rate_limited", wait, headers)
        lease.tokens -= 1
        headers["RateLimit"] = f'"{what}";r={lease.tokens + lease.left};t=1'

    def _has_token(self, lease: _Lease, now: float) -> bool:
        if now >= lease.until:
            lease.tokens = 0
        return lease.tokens > 0

    async def _take(self, lease: _Lease, bucket: str, rate: int) -> None:
        taken = await self._store.take_tokens(bucket, max(1, rate // LEASE_PART), rate)
        now = asyncio.get_running_loop().time()
        lease.tokens, lease.left, lease.until = taken.granted, taken.left, now + LEASE_SECONDS
        if not taken.granted:
            lease.empty_until = now + taken.wait_us / SECOND_US


def _trim(kept: OrderedDict[str, Any]) -> None:
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)

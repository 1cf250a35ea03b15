"""Token buckets as one number: the time until which a bucket is used up (GCRA). Pure; the store keeps the number."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Taken:
    """How many tokens were granted, the bucket's new number, how many are left, and how long until there is one."""

    granted: int
    free_us: int
    left: int
    wait_us: int


def take(free_us: int, now_us: int, want: int, rate: int, burst: int | None = None) -> Taken:
    """Up to `want` tokens of a bucket that fills at `rate` a second and holds `burst`, or one second's worth."""
    size = rate if burst is None else burst
    interval_us = max(1, SECOND_US // rate)
    used_us = max(free_us, now_us)
    room = max(0, (now_us + size * interval_us - used_us) // interval_us)
    granted = min(want, room)
    used_us += granted * interval_us
    left = room - granted
    wait_us = 0 if left else used_us + interval_us - size * interval_us - now_us
    return Taken(granted, used_us, left, max(0, wait_us))

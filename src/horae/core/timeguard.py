"""Watches the store's clock. A step backwards pauses triggering; a large step forwards is held until it proves real."""

from __future__ import annotations

BACK_US = 1_000_000
FORWARD_US = 30_000_000
CONSISTENT = 3


class TimeGuard:
    """Fed with pairs of store time and a monotonic time; says whether due times may be decided now."""

    def __init__(self) -> None:
        self._high_us = 0
        self._last: tuple[int, float] | None = None
        self._consistent_left = 0
        self.held: str | None = None

    def observe(self, now_us: int, monotonic: float, high_us: int = 0) -> None:
        """`high_us` is the highest time that anybody saw, kept in the store."""
        self._high_us = max(self._high_us, high_us)
        if now_us < self._high_us - BACK_US:
            self.held = (
                f"The store's clock went back by {(self._high_us - now_us) / 1e6:.1f} s; waiting for it to catch up."
            )
        else:
            self._watch_forward_step(now_us, monotonic)
        self._high_us = max(self._high_us, now_us)
        self._last = (now_us, monotonic)

    def _watch_forward_step(self, now_us: int, monotonic: float) -> None:
        step_us = 0 if self._last is None else now_us - self._last[0] - round((monotonic - self._last[1]) * 1e6)
        if step_us > FORWARD_US:
            self._consistent_left = CONSISTENT
            self.held = f"The store's clock went forwards by {step_us / 1e6:.1f} s; held until it proves steady."
        elif self._consistent_left > 0:
            self._consistent_left -= 1
            if self._consistent_left == 0:
                self.held = None
        else:
            self.held = None

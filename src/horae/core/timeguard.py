"""Watches the store's clock. A step backwards pauses triggering; a large step forwards is held until it proves real."""

from __future__ import annotations

BACK_US = 1_000_000
FORWARD_US = 30_000_000
STEADY_SECONDS = 15.0


class TimeGuard:
    """Fed with readings of the store's time, each taken somewhere between two monotonic times; says whether due times
    may be decided now. A slow answer is an old reading, not a clock that went back.
    """

    def __init__(self) -> None:
        self._high_us = 0
        self._last: tuple[int, float] | None = None
        self._steady_at = float("-inf")
        self.held: str | None = None

    def observe(self, now_us: int, sent: float, monotonic: float, high_us: int = 0) -> None:
        """`high_us` is the highest time that anybody trusted, kept in the store."""
        self._high_us = max(self._high_us, high_us)
        age_us = round((monotonic - sent) * 1e6)
        step_us = 0 if self._last is None else now_us - self._last[0] - round((monotonic - self._last[1]) * 1e6)
        self._last = (now_us, sent)
        if step_us > FORWARD_US:
            self._steady_at = monotonic + STEADY_SECONDS
            self.held = f"The store's clock went forwards by {step_us / 1e6:.1f} s; held until it proves steady."
        elif step_us < -FORWARD_US:
            self._steady_at = monotonic  # back from a jump that was not believed, or a step back, told below
        if now_us + age_us < self._high_us - BACK_US:
            back = (self._high_us - now_us - age_us) / 1e6
            self.held = f"The store's clock went back by {back:.1f} s; waiting for it to catch up."
        elif monotonic >= self._steady_at:
            self.held = None
            self._high_us = max(self._high_us, now_us)

"""What a handler raises to say how its attempt ended, when a return value or an error would not."""

from __future__ import annotations

from horae.core.duration import parse_duration


class Signal(Exception):
    """Raised on purpose by a job's code; no stack trace is kept."""


class Skip(Signal):
    """There was nothing to do: the run succeeds and its result says so."""


class Fatal(Signal):
    """Trying again cannot help: no more attempts."""


class RetryAfter(Signal):
    """Failed for now: try again, but not before this many seconds (or a duration such as "5m") have passed."""

    def __init__(self, after: float | str, why: str = "asked to be tried again later") -> None:
        super().__init__(why)
        told = after if isinstance(after, str) else max(after, 0)
        self.seconds = parse_duration(told, "/retry_after") / 1_000_000

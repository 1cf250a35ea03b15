"""Log lines and counters. No other module knows which library writes them.

Counters are plain numbers, which a scrape turns into the library's: its own cost a lock and three calls each time, on
the way of every run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from horae.core.job import TYPES
from horae.core.timeguard import TimeGuard

if TYPE_CHECKING:
    from prometheus_client import Metric


def log(event: str, **fields: Any) -> None:
    """One fact: a dotted name and its fields."""
    structlog.get_logger().info(event, **fields)


def warn(event: str, **fields: Any) -> None:
    structlog.get_logger().warning(event, **fields)


def oops(event: str, error: BaseException, **fields: Any) -> None:
    """A bug of ours, with its trace."""
    structlog.get_logger().error(event, exc_info=error, **fields)


def configure(*, is_terminal: bool) -> None:
    # Traces without the values of variables: those hold payloads, headers and keys.
    renderer: Any = structlog.processors.JSONRenderer()
    if is_terminal:
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if is_terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_Stderr,
        cache_logger_on_first_use=True,
    )


class _Stderr:
    """Standard error while somebody reads it. A full disk or a reader that left must stop nothing but the lines."""

    def __init__(self, *_: object) -> None:
        """What structlog gives to every logger says nothing here."""

    def info(self, line: str) -> None:
        try:
            print(line, file=sys.stderr, flush=True)  # noqa: T201 the one place of lines
        except OSError:
            # From here on into nothing, which also keeps the exit code: what is left in the buffer can be flushed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    warning = error = info


def quiet() -> None:
    """Warnings and worse alone, on standard error: for a command whose answer is something else."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=_Stderr,
    )


class _Counts:
    """Numbers that only grow, one for each value of the label. The `known` values are shown from the start, at 0: a
    series that begins with its first event hides that event from `rate()`.
    """

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...] = (), known: Iterable[str] = ()) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.values: dict[tuple[str, ...], int] = dict.fromkeys([(value,) for value in known] if labels else [()], 0)

    def add(self, n: int, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + n

    def family(self) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self.name, self.meaning, labels=self.labels)
        for labels, value in list(self.values.items()):
            family.add_metric(labels, value)
        return family


class _Spread:
    """How many were how large, for each value of the label."""

    def __init__(self, name: str, meaning: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()) -> None:
        self.name, self.meaning, self.bounds, self.labels = name, meaning, bounds, labels
        # A number for each bound, one for what is larger, and the sum of all.
        self.series: dict[tuple[str, ...], list[float]] = {} if labels else {(): self._empty()}

    def add(self, value: float, *labels: str) -> None:
        series = self.series.get(labels)
        if series is None:
            series = self.series[labels] = self._empty()
        series[bisect_left(self.bounds, value)] += 1
        series[-1] += value

    def _empty(self) -> list[float]:
        return [0] * (len(self.bounds) + 1) + [0.0]

    def family(self) -> Metric:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(self.name, self.meaning, labels=self.labels)
        for labels, series in list(self.series.items()):
            *counts, total = series.copy()
            names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
            so_far = [(name, sum(counts[: place + 1])) for place, name in enumerate(names)]
            family.add_metric(labels, so_far, total)
        return family


class _Now:
    """What is so when somebody asks; nothing as long as nobody has said how to find out."""

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.meaning = name, meaning
        self.read: Callable[[], float] | None = None

    def family(self) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        return GaugeMetricFamily(self.name, self.meaning, value=None if self.read is None else self.read())


# What the schedulers of this process do

_PLANNED = _Counts("horae_runs_planned", "Runs made of due times.")
_SKIPPED = _Counts(
    "horae_due_times_skipped",
    "Due times that were decided not to run.",
    ("reason",),
    ("scheduler_down", "catch_up_expired", "overlap_skipped"),
)
_REAPED = _Counts("horae_runs_reaped", "Runs taken back from workers that went silent.")
_SHARDS = _Now("horae_shards_held", "Shards whose lease is held.")
_SCAN_AGE = _Now("horae_planner_scan_age_seconds", "Since due timers were last read.")
_TRUSTED = _Now("horae_clock_trusted", "1 while the clock of the store is believed, 0 while nothing is decided by it.")


def runs_planned(n: int) -> None:
    _PLANNED.add(n)


def due_times_skipped(by_reason: Mapping[str, int]) -> None:
    for reason, n in by_reason.items():
        _SKIPPED.add(n, reason)


def runs_reaped(n: int) -> None:
    _REAPED.add(n)


def shards_held(n: int, seconds: float) -> None:
    """They are believed to be held for so long, unless this is said again."""
    until = time.monotonic() + seconds
    _SHARDS.read = lambda: n if time.monotonic() < until else 0


def timers_scanned() -> None:
    at = time.monotonic()
    _SCAN_AGE.read = lambda: time.monotonic() - at


def watch(guard: TimeGuard, now_us: int, sent: float, high_us: int = 0) -> None:
    """Shows a reading of the store's time, asked for at `sent`, to the guard; tells when it loses or regains trust."""
    before = guard.held
    guard.observe(now_us, sent, asyncio.get_running_loop().time(), high_us)
    _TRUSTED.read = lambda: not guard.held
    if guard.held and not before:
        warn("clock.held", why=guard.held)
    elif before and not guard.held:
        log("clock.trusted")


# What its workers do, and those that come to it over HTTP

_STARTED = _Counts("horae_attempts_started", "Attempts started, by the type of the job.", ("type",), TYPES)
_ENDED = _Counts(
    "horae_runs_ended",
    "Runs that a worker ended, by status.",
    ("status",),
    ("succeeded", "failed", "cancelled", "unknown"),
)
_REQUEUED = _Counts("horae_attempts_requeued", "Attempts whose run went back to the queue, by reason.", ("reason",))
_LATENESS = _Spread(
    "horae_run_lateness_seconds",
    "From the time a run was meant for to the start of its first attempt.",
    (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
_TOOK = _Spread(
    "horae_attempt_seconds",
    "How long attempts took, however they ended.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600),
    ("type",),
)
_IN_HAND = _Now("horae_runs_in_hand", "Runs that the worker of this process is working on.")
_SLOTS = _Now("horae_worker_slots", "How many it works on at most.")


def attempts_started(attempts: Sequence[tuple[str, int | None]]) -> None:
    """Each as the type of its job, and how late it is in microseconds; None of one that is not its run's first."""
    for type_, n in Counter(type_ for type_, _ in attempts).items():
        _STARTED.add(n, type_)
    for _, late_us in attempts:
        if late_us is not None:
            _LATENESS.add(late_us / 1e6)


def attempt_took(type_: str, seconds: float) -> None:
    _TOOK.add(seconds, type_)


def runs_ended(statuses: Iterable[str]) -> None:
    for status, n in Counter(statuses).items():
        _ENDED.add(n, status)


def attempts_requeued(reasons: Iterable[str | None]) -> None:
    """None: the attempt never began, because the answer to its claim was lost or its job could not be read."""
    for reason in reasons:
        _REQUEUED.add(1, reason or "not_begun")


def runs_in_hand(count: Callable[[], int], slots: int) -> None:
    _IN_HAND.read, _SLOTS.read = count, lambda: slots


# What it has to do with others

_AWAY = _Counts("horae_store_away", "Times the store went away, as the loops of this process saw it.")
_SENT = _Counts(
    "horae_webhook_attempts", "Messages sent to webhooks.", ("outcome",), ("delivered", "again", "given_up")
)
_ANSWERS = _Counts("horae_http_requests", "Answers given over HTTP.", ("method", "route", "status"))
_ANSWER_SECONDS = _Spread(
    "horae_http_request_seconds",
    "From the first byte of a request to the last of its answer.",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    ("method", "route"),
)
_who_misses_it: set[str] = set()


def store_away(who: str) -> None:
    """The first to miss it counts; the others see the same outage."""
    if not _who_misses_it:
        _AWAY.add(1)
    _who_misses_it.add(who)


def store_back(who: str) -> None:
    _who_misses_it.discard(who)


def messages_sent(outcomes: Iterable[str]) -> None:
    for outcome in outcomes:
        _SENT.add(1, outcome)


def answered(method: str, route: str, status: int, seconds: float) -> None:
    _ANSWERS.add(1, method, route, str(status))
    _ANSWER_SECONDS.add(seconds, method, route)


# What a scrape sees

_ALL = (
    *(_PLANNED, _SKIPPED, _REAPED, _SHARDS, _SCAN_AGE, _TRUSTED),
    *(_STARTED, _ENDED, _REQUEUED, _LATENESS, _TOOK, _IN_HAND, _SLOTS),
    *(_AWAY, _SENT, _ANSWERS, _ANSWER_SECONDS),
)


class Figures:
    """All of them, as the library wants to collect them."""

    def collect(self) -> Iterator[Metric]:
        return (each.family() for each in _ALL)


def exposition() -> tuple[bytes, str]:
    """The text of /metrics and its media type. May be called from another thread."""
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

    ours = CollectorRegistry()
    ours.register(Figures())
    return generate_latest(ours) + generate_latest(REGISTRY), CONTENT_TYPE_LATEST

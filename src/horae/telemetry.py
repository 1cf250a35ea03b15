"""Log lines and counters. No other module knows which library writes them."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import structlog

from horae.core.timeguard import TimeGuard


def log(event: str, **fields: Any) -> None:
    """One fact: a dotted name and its fields."""
    structlog.get_logger().info(event, **fields)


def warn(event: str, **fields: Any) -> None:
    structlog.get_logger().warning(event, **fields)


def oops(event: str, error: BaseException, **fields: Any) -> None:
    """A bug of ours, with its trace."""
    structlog.get_logger().error(event, exc_info=error, **fields)


def watch(guard: TimeGuard, now_us: int, sent: float, high_us: int = 0) -> None:
    """Shows a reading of the store's time, asked for at `sent`, to the guard; tells when it loses or regains trust."""
    before = guard.held
    guard.observe(now_us, sent, asyncio.get_running_loop().time(), high_us)
    if guard.held and not before:
        warn("clock.held", why=guard.held)
    elif before and not guard.held:
        log("clock.trusted")


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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def quiet() -> None:
    """Warnings and worse alone, on standard error: for a command whose answer is something else."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )

"""Several things at a time, none of them left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def abreast(*lanes: Awaitable[T]) -> list[T]:
    """Waits for all of them, whatever becomes of one; then the first trouble is raised."""
    ends = await asyncio.gather(*lanes, return_exceptions=True)
    done: list[T] = []
    for end in ends:
        if isinstance(end, BaseException):
            raise end
        done.append(end)
    return done

"""Runs as the store has them, for tests of what happens inside; `Horae.runs` gives them as users see them."""

from __future__ import annotations

from typing import Any

from horae.testing import Horae


async def rows_of(horae: Horae, job: str) -> list[dict[str, Any]]:
    """Oldest first."""
    page = await horae.store.runs(horae.caller.tenant, job, {}, None, 1000)
    return [dict(row) for row in reversed(page.rows)]

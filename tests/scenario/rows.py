"""Runs as the store has them, for tests of what happens inside; `Horae.runs` gives them as users see them."""

from __future__ import annotations

from typing import Any

from horae.store.database import Statement
from horae.store.trials import single
from horae.testing import Horae

STATES = Statement("""
SELECT state, count(*) AS n FROM (SELECT state FROM runs UNION ALL SELECT status FROM history) AS run GROUP BY state
""")


async def rows_of(horae: Horae, job: str) -> list[dict[str, Any]]:
    """Oldest first."""
    page = await horae.store.runs(horae.caller.tenant, job, {}, None, 1000)
    return [dict(row) for row in reversed(page.rows)]


async def states_of(horae: Horae) -> dict[str, int]:
    """How many runs are in each state, those that are over too."""
    return {row["state"]: row["n"] for row in await horae.store.database.run(single(STATES))}


async def with_crowd(horae: Horae) -> None:
    """600 runs that are due in ten seconds."""
    for n in range(600):
        await horae.create({"name": f"j{n}", "type": "noop", "schedule": "@hourly"})
    await horae.advance(3590)

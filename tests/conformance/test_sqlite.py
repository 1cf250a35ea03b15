"""What only SQLite has: its threads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from horae.store.database import Statement, Steps, reading, viewing
from horae.store.sqlite import VIEWERS, SqliteDatabase

LONG = Statement("""
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000000)
SELECT count(*) AS n FROM numbers
""")
SHORT = Statement("SELECT 1 AS n")


@viewing
def look_for_long() -> Steps[int]:
    return int((yield LONG())[0]["n"])


@reading
def look() -> Steps[int]:
    return int((yield SHORT())[0]["n"])


async def test_no_mover_waits_for_somebody_who_looks(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "horae.db"))
    views = [asyncio.ensure_future(database.run(look_for_long())) for _ in range(2 * VIEWERS)]

    assert await database.run(look()) == 1
    assert not any(view.done() for view in views)

    await asyncio.gather(*views)
    await database.close()

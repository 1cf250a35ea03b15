"""What only PostgreSQL can do to us."""

from __future__ import annotations

from dataclasses import replace

import asyncpg
import pytest

from horae.core.errors import Unavailable
from horae.store import postgres
from horae.store.database import NOW, Steps, viewing
from horae.store.postgres import PostgresDatabase
from horae.store.store import Store


@viewing
def the_time() -> Steps[int]:
    return int((yield NOW())[0]["now_us"])


async def test_a_server_that_freezes_while_a_tenant_steps_in_is_away_not_broken(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    await store.close()
    database = PostgresDatabase(postgres_database, size=1, deadline_seconds=0.3)
    await database.run(the_time())
    monkeypatch.setattr(postgres, "ENTER", "SELECT pg_sleep(5), $1::text, $2::text")

    with pytest.raises(Unavailable):
        await database.run(replace(the_time(), tenant="default"))

    # What was in the middle of stepping in is not used again.
    monkeypatch.undo()
    assert await database.run(replace(the_time(), tenant="default")) > 0
    await database.close()


async def test_the_index_of_names_is_the_newest_of_the_jobs(postgres_database: str) -> None:
    """Where the planner expects no rows, indexes cost the same and the newest wins: see migration 0007_pre_names."""
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    await store.close()
    connection = await asyncpg.connect(postgres_database)
    newest = await connection.fetchval(
        "SELECT max(indexrelid)::regclass::text FROM pg_index WHERE indrelid = 'jobs'::regclass"
    )
    await connection.close()

    assert newest == "jobs_by_name"

"""What only PostgreSQL can do to us."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from horae.core.errors import Unavailable
from horae.store import postgres
from horae.store.database import NOW, Statement, Steps, Transaction, viewing
from horae.store.postgres import PostgresDatabase
from horae.store.store import Store
from horae.store.trials import single
from tests.chaos.proxy import Proxy
from tests.services import on_server

ONE = Statement("SELECT 1 AS n")
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'horae' AND datname = current_database()"


@viewing
def the_time() -> Steps[int]:
    return int((yield NOW())[0]["now_us"])


@viewing
def plan_mode() -> Steps[str]:
    rows = yield Statement("SELECT current_setting('plan_cache_mode') AS mode")()
    return str(rows[0]["mode"])


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


async def test_a_deadline_holds_in_the_middle_of_a_transaction(postgres_database: str) -> None:
    """A host that is gone answers no cancel request and no ROLLBACK either."""
    parts = urlsplit(postgres_database)
    proxy = Proxy(parts.hostname or "", parts.port or 0)
    through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()
    database = PostgresDatabase(through, size=1, deadline_seconds=0.3)

    def two_statements() -> Steps[None]:
        yield ONE()
        proxy.faults.asks = proxy.faults.answers = False
        yield ONE()

    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="did not answer"):
            await database.run(Transaction(two_statements))

    proxy.heal()
    assert (await database.run(single(ONE)))[0]["n"] == 1
    await database.close()
    proxy.close()


async def test_what_people_ask_is_planned_for_the_tenant_that_asks(postgres_database: str) -> None:
    """A plan made while a table is small, or for a small tenant, is no plan for a large one."""
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    await store.close()
    database = PostgresDatabase(postgres_database, size=1)

    modes = [await database.run(replace(plan_mode(), tenant=tenant)) for tenant in ("default", None, "other")]

    await database.close()
    assert modes == ["force_custom_plan", "auto", "force_custom_plan"]


async def test_what_a_crowd_needs_is_opened_before_it_comes(postgres_database: str) -> None:
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    before = on_server(postgres_database, CONNECTIONS)

    await store.make_ready("w1")
    after = on_server(postgres_database, CONNECTIONS)

    await store.close()
    assert (before, after) == (1, 4)  # two lanes of claims, two of results

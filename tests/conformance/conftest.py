"""One store fixture over both databases, with a clock that stands still until a test moves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from horae.store.postgres import PostgresDatabase
from horae.store.sqlite import SqliteDatabase
from horae.store.store import Store
from tests.conformance.world import World

START_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z


class StoreClock:
    """What `horae_now()` says."""

    def __init__(self) -> None:
        self.now_us = START_US

    async def advance(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)
        await self._tell()

    async def _tell(self) -> None:
        return


class PostgresClock(StoreClock):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def _tell(self) -> None:
        connection = await asyncpg.connect(self._url)
        await connection.execute(
            "CREATE OR REPLACE FUNCTION horae_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS "
            f"$$ SELECT {self.now_us}::BIGINT $$"
        )
        await connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store_and_clock(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Any
) -> AsyncIterator[tuple[Store, StoreClock]]:
    if dialect == "sqlite":
        clock = StoreClock()
        store = Store(SqliteDatabase(str(tmp_path / "horae.db"), lambda: clock.now_us))
    else:
        url = request.getfixturevalue("postgres_database")
        clock = PostgresClock(url)
        store = Store(PostgresDatabase(url), PostgresDatabase(url, size=2))
    await store.migrate()
    await clock.advance(0)
    yield store, clock
    await store.close()


@pytest.fixture
def store(store_and_clock: tuple[Store, StoreClock]) -> Store:
    return store_and_clock[0]


@pytest.fixture
def clock(store_and_clock: tuple[Store, StoreClock]) -> StoreClock:
    return store_and_clock[1]


@pytest.fixture
def world(store: Store) -> World:
    return World(store)

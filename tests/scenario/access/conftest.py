"""A closed horae and its admin."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette

from horae.store.store import Store
from tests.scenario.access.doors import Client, client, closed, new_key


@pytest.fixture
def app(store: Store) -> Starlette:
    return closed(store)


@pytest.fixture
async def admin(app: Starlette) -> AsyncIterator[Client]:
    async with client(app) as made:
        yield made


@pytest.fixture
async def two_tenants(app: Starlette, admin: Client) -> AsyncIterator[tuple[Client, Client]]:
    keys = [(await new_key(admin, "admin", tenant))["key"] for tenant in ("team-a", "team-b")]
    async with client(app, keys[0]) as ours, client(app, keys[1]) as theirs:
        yield ours, theirs

"""A closed horae and its admin."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette

from horae.store.store import Store
from tests.scenario.access.doors import Client, client, closed


@pytest.fixture
def app(store: Store) -> Starlette:
    return closed(store)


@pytest.fixture
async def admin(app: Starlette) -> AsyncIterator[Client]:
    async with client(app) as made:
        yield made

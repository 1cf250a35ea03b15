"""The API in one process over either database, with a clock that stands still and a world that moves when told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from starlette.applications import Starlette

from horae.api.access import Access, OpenAccess
from horae.api.app import Around, make_app
from horae.api.limiter import Limiter
from horae.commands import Commands
from horae.core.egress import Allow
from horae.core.timeguard import TimeGuard
from horae.store.store import Store
from horae.testing import VAULT
from horae.worker.remote import Pace, RemoteWorkers
from horae.worker.secrets import Secrets
from tests.conformance.conftest import clock, dialect, store, store_and_clock, world

__all__ = ["clock", "dialect", "store", "store_and_clock", "world"]

ADDRESS = "http://127.0.0.1:8700"


def app_over(store: Any, access: Access | None = None, allow: Allow = (), **more: Any) -> Starlette:
    async def explain(tenant: str, word: str, at_us: int | None) -> dict[str, Any]:
        return {"tenant": tenant, "word": word, "at_us": at_us}

    async def ready() -> list[str]:
        return []

    vault = more.pop("vault", VAULT)
    commands = Commands(store, vault, lambda: str(uuid4()), lambda: None, allow)

    def export(tenant: str) -> AsyncIterator[bytes]:
        return store.export(10**15, tenant)

    more.setdefault("limiter", Limiter(store, kept_seconds=0))
    remote = RemoteWorkers(store, Secrets(store, vault), Pace(5, 15), TimeGuard(), lambda: True)
    around = {"explain": explain, "export": export, "ready": ready, "remote": remote}
    around |= {name: more.pop(name) for name in ("explain", "export", "ready", "is_stopping", "remote") if name in more}
    parts: dict[str, Any] = {"views": store, "access": access or OpenAccess(), "around": Around(**around)}
    return make_app(commands=commands, **(parts | more))


def client_of(app: Starlette, **more: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=ADDRESS, **more)


@pytest.fixture
async def http(store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    """A client at the root; paths are given whole."""
    async with client_of(app_over(store)) as client:
        yield client


@pytest.fixture
async def api(store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    """A client at /api/v1/."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app_over(store)), base_url=f"{ADDRESS}/api/v1/"
    ) as client:
        yield client

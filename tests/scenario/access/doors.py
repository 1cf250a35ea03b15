"""A closed horae over both databases, and clients with keys to it. The numbers S.. of the tests here are those of the
security checklist.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from horae.api.access import KeyAccess
from horae.core.access import key_hash
from horae.core.explain import explain
from tests.scenario.asking import assert_helpful
from tests.scenario.conftest import ADDRESS, app_over

Client = httpx2.AsyncClient
ADMIN = "the admin key of the settings"
on_one_store = pytest.mark.parametrize("dialect", ["sqlite"])


def closed(store: Any, **more: Any) -> Starlette:
    """An app as `serve` has it, but that remembers no key for longer than one request."""

    async def why(tenant: str, word: str, at_us: int | None) -> dict[str, Any]:
        return explain(await store.explain_facts(tenant, word, at_us), 10**15)

    access = KeyAccess(key_hash(ADMIN), store, kept_seconds=0, **more)
    return app_over(store, access, explain=why, is_stopping=lambda: True)


@asynccontextmanager
async def client(app: Starlette, key: str = ADMIN, address: str = "192.0.2.1") -> AsyncIterator[Client]:
    transport = httpx2.ASGITransport(app=app, client=(address, 5000))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with Client(transport=transport, base_url=f"{ADDRESS}/api/v1/", headers=headers) as made:
        yield made


async def new_key(admin: Client, role: str = "viewer", tenant: str = "default", **fields: Any) -> dict[str, Any]:
    answer = await admin.post(
        "/keys", json={"name": f"a {role}", "role": role, **fields}, headers={"X-Horae-Tenant": tenant}
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    made: dict[str, Any] = answer.json()
    assert made["code"] == code, made
    assert_helpful(made)
    return made


def operations(app: Starlette) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every route behind the door."""
    described = next(route for route in app.routes if route.path == "/openapi.json")
    document = asyncio.run(_described(described))
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "servers" and "x-horae-role" in operation
    ]


async def _described(route: Any) -> Any:
    return json.loads((await route.endpoint(None)).body)


def all_operations() -> list[tuple[str, str, dict[str, Any]]]:
    return operations(closed(None))

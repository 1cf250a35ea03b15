"""The SDK and a server that accepts and never answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from horae.sdk import AsyncClient, Client
from horae.sdk.errors import WaitTimeout


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_waiting_ends_in_time_though_the_server_never_answers(silent: str) -> None:
    began = time.monotonic()
    with Client(silent) as client, pytest.raises(WaitTimeout, match="there was no answer about it"):
        client.runs.wait("1", timeout_seconds=0.5)
    assert time.monotonic() - began < 20


async def test_waiting_ends_in_time_without_an_answer_for_asyncio_too(silent: str) -> None:
    began = time.monotonic()
    async with AsyncClient(silent) as client:
        with pytest.raises(WaitTimeout, match="there was no answer"):
            await client.runs.wait("1", timeout_seconds=0.5)
    assert time.monotonic() - began < 20

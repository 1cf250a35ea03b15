"""A horae of its own for each module that asks, and the command line to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.harness import Process, free_port
from tests.system.shell import Shell

ADMIN = "an-admin-key-of-forty-characters-or-more"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("server"), "dev")
    process.wait_ready()
    yield process
    process.terminate()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Shell]:
    """The command line to a horae of a single test, which then has every job to itself."""
    process = Process(tmp_path, "dev")
    process.wait_ready()
    yield Shell(tmp_path, process.port)
    process.terminate()


@pytest.fixture
def horae(server: Process, tmp_path: Path) -> Shell:
    return Shell(tmp_path, server.port)


@pytest.fixture
def closed(tmp_path: Path) -> Shell:
    """Nobody listens there."""
    return Shell(tmp_path, free_port())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One that asks for a key."""
    folder = tmp_path_factory.mktemp("guarded")
    process = Process(folder, "serve", "--database-url", f"sqlite:///{folder}/h.db", HORAE_ADMIN_KEY=ADMIN)
    process.wait_ready()
    yield process
    process.terminate()

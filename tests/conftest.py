"""Fixtures for every kind of test: a PostgreSQL, and an empty database in it."""

import os
import secrets
from collections.abc import Iterator

import pytest

from tests.services import MissingServiceError, on_server, postgres, with_database


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server's URL. Skips when there is none to be had; under CI that is a failure."""
    try:
        with postgres() as url:
            yield url
    except MissingServiceError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    name = f"horae_test_{secrets.token_hex(8)}"
    on_server(postgres_url, f"CREATE DATABASE {name}")
    yield with_database(postgres_url, name)
    on_server(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")

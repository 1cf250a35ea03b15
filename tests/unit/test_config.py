"""What settings are refused for, before anything is connected to."""

from __future__ import annotations

import pytest

from horae.config import read_settings
from horae.core.errors import Invalid


@pytest.mark.parametrize(
    "address",
    [
        "me:hunter2/x@host/db",
        "me:hunter2#x@host/db",
        "me:hunter2?x@host/db",
        "me:[hunter2]x@host/db",
        "host:port/db",
        "host:65536/db",
        "[::1/db",
        "one:5432,two:x/db",
    ],
)
def test_an_address_of_postgresql_that_cannot_be_read_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(Invalid) as told:
        read_settings({"HORAE_DATABASE_URL": f"postgresql://{address}"}, {}, is_server=False)

    (fault,) = told.value.faults
    assert fault.pointer == "HORAE_DATABASE_URL"
    assert "%2F" in fault.hint
    assert "hunter2" not in str(told.value.faults)


@pytest.mark.parametrize(
    "address",
    ["me:hunter2@host/db", "host:/db", "[::1]:5432/db", "one:5432,two:5433/db", "/db?host=/run", "me:a%2Fb@host/db"],
)
def test_addresses_of_postgresql_of_every_kind_are_taken(address: str) -> None:
    url = f"postgresql://{address}"

    assert read_settings({"HORAE_DATABASE_URL": url}, {}, is_server=False).database_url == url

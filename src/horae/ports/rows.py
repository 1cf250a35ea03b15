"""Rows as they come from a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
StoredRow = Mapping[str, Any]


class Page(NamedTuple):
    """A page of a list, newest first, and below which id to go on; None when there is nothing left.

    A search for what is rare ends after so many rows: its page may be short, or empty, and still go on.
    """

    rows: list[StoredRow]
    before_id: str | None


class JobPage(NamedTuple):
    """A page of jobs in any order, and the sort value and id to go on behind. It may be short as well."""

    rows: list[StoredRow]
    after: tuple[Any, str] | None

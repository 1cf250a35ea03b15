"""What users of horae hold in Python: a client of the API, and jobs as plain functions.

Shares only core with the server. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horae.core.signals import Fatal, RetryAfter, Skip
from horae.sdk.app import App
from horae.sdk.context import Context
from horae.sdk.errors import ApiError

if TYPE_CHECKING:
    from horae.sdk.aio import AsyncClient
    from horae.sdk.client import Client

__all__ = ["ApiError", "App", "AsyncClient", "Client", "Context", "Fatal", "RetryAfter", "Skip"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from horae.sdk.client import Client

        return Client
    if name == "AsyncClient":
        from horae.sdk.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

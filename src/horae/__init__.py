"""horae: a distributed job scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horae.sdk import ApiError, App, AsyncClient, Client, Context, Fatal, RetryAfter, Skip

    __version__: str

_SDK = ("ApiError", "App", "AsyncClient", "Client", "Context", "Fatal", "RetryAfter", "Skip")
__all__ = ["ApiError", "App", "AsyncClient", "Client", "Context", "Fatal", "RetryAfter", "Skip", "__version__"]


def __getattr__(name: str) -> Any:
    """Nothing is imported before it is asked for: the package metadata, too, costs more than the rest of this file."""
    if name == "__version__":
        from importlib.metadata import version

        return version("horae")
    if name in _SDK:
        from horae import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""horae: a distributed job scheduler."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Read the version when asked: the package metadata costs more to import than the rest of this file."""
    if name == "__version__":
        from importlib.metadata import version

        return version("horae")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

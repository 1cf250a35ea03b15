"""The command line: server verbs go through the app, all others through the HTTP API alone."""

from horae.cli.root import main

__all__ = ["main"]

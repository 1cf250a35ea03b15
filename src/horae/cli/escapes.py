"""What a job printed, before it is shown: colours pass, and nothing else steers the terminal."""

from __future__ import annotations

import re
import sys

import click

from horae.cli.output import is_terminal

RESET = "\x1b[0m"
# The longest beginning of a sequence that is waited for: what is longer is no colour and no title.
MOST_HELD = 4096

_COLOUR = r"\x1b\[[0-9;:]*m"
# Titles, links, the clipboard and the like: a string up to its terminator.
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
_TERMINAL = re.compile(rf"({_COLOUR})|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PIPE = re.compile(_STRING)
_BEGUN = {
    True: re.compile(r"(?:\x1b(?:\[[0-9;:]*)?|\r)\Z"),
    False: re.compile(r"(?:\x1b|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?)\Z"),
}


class Escapes:
    """Output that comes in pieces: a sequence that is cut in two is put together again."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._held = ""
        self._is_coloured = False

    def take(self, text: str) -> str:
        text = self._held + text
        begun = _BEGUN[self._is_terminal].search(text, max(0, len(text) - MOST_HELD))
        self._held = text[begun.start() :] if begun else ""
        return self._shown(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """The rest, and the terminal's own colour again."""
        rest, self._held = self._shown(self._held), ""
        is_left, self._is_coloured = self._is_coloured, False
        return f"{rest}{RESET}" if is_left else rest

    def _shown(self, text: str) -> str:
        return _TERMINAL.sub(self._one, text) if self._is_terminal else _PIPE.sub("", text)

    def _one(self, match: re.Match[str]) -> str:
        if match[1] is not None:
            self._is_coloured = match[1] not in (RESET, "\x1b[m")
            return match[1]
        is_line_end = match.string.startswith("\r\n", match.start())
        return "" if is_line_end else f"\\x{ord(match[0]):02x}"


def escapes_of(*, err: bool = False) -> Escapes:
    """For standard output, or standard error."""
    return Escapes(is_terminal=is_terminal(sys.stderr if err else sys.stdout))


def echo_output(text: str) -> None:
    escapes = escapes_of()
    click.echo(escapes.take(text) + escapes.end(), nl=False)

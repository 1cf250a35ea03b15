"""What a job printed reaches a terminal with its colours and nothing else that steers it."""

from __future__ import annotations

import pytest

from horae.cli.escapes import Escapes

RED, RESET = "\x1b[31m", "\x1b[0m"
TITLE, CLEAR, LINK = "\x1b]0;owned\x07", "\x1b[2J", "\x1b]8;;http://a.example\x1b\\here\x1b]8;;\x1b\\"


def shown(*pieces: str, is_terminal: bool) -> str:
    escapes = Escapes(is_terminal=is_terminal)
    return "".join(escapes.take(piece) for piece in pieces) + escapes.end()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (f"{RED}bad{RESET}\tgood\n", f"{RED}bad{RESET}\tgood\n"),
        ("\x1b[1;38:5:9mx\x1b[m", "\x1b[1;38:5:9mx\x1b[m"),
        (TITLE, "\\x1b]0;owned\\x07"),
        (f"a{CLEAR}b", "a\\x1b[2Jb"),
        ("one\r\ntwo\rthree", "one\ntwo\\x0dthree"),
        ("\x9b2J\x08", "\\x9b2J\\x08"),
        (f"{RED}left red\n", f"{RED}left red\n{RESET}"),
        ("ends \x1b", "ends \\x1b"),
    ],
)
def test_a_terminal_gets_colours_and_sees_the_rest(text: str, seen: str) -> None:
    assert shown(text, is_terminal=True) == seen
    assert shown(*text, is_terminal=True) == seen


@pytest.mark.parametrize(
    ("text", "seen"), [(TITLE, ""), (LINK, "here"), ("\x1bPq#0\x1b\\x", "x"), ("a\r\nb", "a\r\nb")]
)
def test_a_pipe_gets_no_titles_and_links(text: str, seen: str) -> None:
    assert shown(text, is_terminal=False) == seen
    assert shown(*text, is_terminal=False) == seen


def test_what_never_ends_is_not_held_back_for_ever() -> None:
    escapes = Escapes(is_terminal=False)

    assert len("".join(escapes.take("\x1b]" + "x" * 1000) for _ in range(9)) + escapes.end()) < 9000
    assert escapes.take("on\n") == "on\n"

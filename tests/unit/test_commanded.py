"""Hints of the server in the words of the command line: every call that one names has a command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import horae
from horae.cli.commanded import in_commands
from horae.cli.root import main
from tests.system.test_docs import every_command

SOURCE = Path(horae.__file__).parent
CALL = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE) /")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("POST /jobs/report/pause.", "horae pause report."),
        ("Create it, then POST /jobs/a.b/pause.", "Create it, then horae pause a.b."),
        (
            'POST /jobs/x/pause {"until": "2030-01-01T09:00:00Z", "reason": "some work"}.',
            "horae pause x --until 2030-01-01T09:00:00Z --reason 'some work'.",
        ),
        ('Set it first: PUT /secrets/TOKEN {"value": "…"}.', "Set it first: horae secret set TOKEN."),
        ('Define it: PUT /calendars/days {"exclude": ["2026-12-25"]}.',
         "Define it: horae calendar set days --exclude 2026-12-25."),
        ("many jobs at once go to POST /jobs:batch.", "many jobs at once go to horae apply FILE."),
        ("Leave `name` out of the body, or POST /jobs.", "Leave `name` out of the body, or horae job create NAME."),
        ("To run the job once more: POST /jobs/a%20job/run.", "To run the job once more: horae run start 'a job'."),
        ("Nobody has a command for GET /nothing/x.", "Nobody has a command for GET /nothing/x."),
    ],
)  # fmt: skip
def test_a_call_becomes_a_command(told: str, shown: str) -> None:
    assert in_commands(told) == shown


def hints() -> Iterator[str]:
    """Every text of the server that names a call, with `x` for what it fills in."""
    for room in ("core", "commands", "store", "api"):
        for file in (SOURCE / room).rglob("*.py"):
            tree = ast.parse(file.read_text())
            docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | parts:
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)


def test_every_call_that_the_server_names_has_a_command_that_exists() -> None:
    named = [text for text in hints() if CALL.search(text)]
    known = every_command(main)

    assert len(named) > 8
    for text in named:
        shown = in_commands(text)
        assert not CALL.search(shown), text
        words = re.sub(r"[.,;:]( |$)", " ", shown[shown.index("horae ") :]).split()
        assert any(" ".join(words[:length]) in known for length in (2, 3)), shown

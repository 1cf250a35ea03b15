"""The same request for each of several things: all are tried, and what failed is told at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from horae.cli.failure import PARTLY, Failure, Rehearsed, path
from horae.cli.rehearsal import show_rehearsal
from horae.cli.session import Session, tell


def post_each(
    session: Session, names: Sequence[str], where: tuple[str, str], field: str, told: str, body: Any = None
) -> list[dict[str, Any]]:
    """POST `/jobs/NAME/pause` for each, when `where` is jobs and pause. What was answered."""
    kind, verb = where
    return _for_each(session, names, lambda name: session.client.post(path(kind, name, verb), body), field, told)


def delete_each(session: Session, names: Sequence[str], kind: str, field: str, told: str = "Deleted") -> None:
    _for_each(session, names, lambda name: session.client.call("DELETE", path(kind, name)), field, told)


def names_of(names: Sequence[str]) -> Sequence[str]:
    """`-` alone means those on standard input."""
    return [line.strip() for line in sys.stdin if line.strip()] if list(names) == ["-"] else names


def _for_each(
    session: Session, names: Sequence[str], work: Callable[[str], dict[str, Any]], field: str, told: str
) -> list[dict[str, Any]]:
    """If all failed, the first failure ends the command; if some did, exit code 10."""
    names = names_of(names)
    failures: list[tuple[str, Failure]] = []
    done: list[dict[str, Any]] = []
    tried: dict[str, dict[str, Any]] = {}
    for name in session.out.track(names, told):
        try:
            done.append(work(name))
        except Rehearsed as error:
            tried[name] = error.answer
            continue
        except Failure as error:
            failures.append((name, error))
            continue
        session.out.done(done[-1], field, f"{told} {name}")
    if tried:
        show_rehearsal(session, list(tried.values()), list(tried))
    if failures and not done and not tried and len(failures) == 1:
        raise failures[0][1]
    for _, failure in failures:
        tell(failure)
    if failures:
        word = "would go well" if session.is_dry else "done"
        names = ", ".join(name for name, _ in failures)
        session.out.say(f"{len(done) + len(tried)} {word}, {len(failures)} failed: {names}")
        codes = {failure.exit_code for _, failure in failures}
        sys.exit(PARTLY if done or tried or len(codes) > 1 else codes.pop())
    return done

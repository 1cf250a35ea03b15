"""The same request for each of several things: all are tried, and what failed is told at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from horae.cli.client import PARTLY, Failure
from horae.cli.session import Session, tell


def for_each(
    session: Session, names: Sequence[str], work: Callable[[str], dict[str, Any]], field: str, told: str
) -> list[dict[str, Any]]:
    """What was answered. If all failed, the first failure ends the command; if some did, exit code 10."""
    names = [line.strip() for line in sys.stdin if line.strip()] if list(names) == ["-"] else names
    failures: list[tuple[str, Failure]] = []
    done = []
    for name in session.out.track(names, told):
        try:
            done.append(work(name))
        except Failure as error:
            failures.append((name, error))
            continue
        session.out.done(done[-1], field, f"{told} {name}")
    if failures and not done and len(failures) == 1:
        raise failures[0][1]
    for _, failure in failures:
        tell(failure)
    if failures:
        session.out.say(f"{len(done)} done, {len(failures)} failed: {', '.join(name for name, _ in failures)}")
        codes = {failure.exit_code for _, failure in failures}
        sys.exit(PARTLY if done or len(codes) > 1 else codes.pop())
    return done

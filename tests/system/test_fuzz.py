"""schemathesis finds nothing in a short run that is the same each time; fuzz.py has the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.fuzz import KEY, SERVE, fuzz
from tests.system.harness import Process

# They wait: for events, and for runs.
WAITING = ("--exclude-path", "/events", "--exclude-path", "/workers/claim")


@pytest.mark.timeout(300)
def test_no_input_is_answered_in_an_undescribed_way(tmp_path: Path) -> None:
    server = Process(tmp_path, "serve", "--database-url", f"sqlite:///{tmp_path}/horae.db", **SERVE)
    try:
        server.wait_ready()
        words = ("--phases", "coverage,fuzzing", "--max-examples", "3", "--generation-deterministic")
        done = fuzz(server, KEY, *words, *WAITING)
    finally:
        server.terminate()
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]

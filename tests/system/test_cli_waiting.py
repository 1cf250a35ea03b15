"""Waiting for a run: what a terminal is told meanwhile, and that what the run printed cannot steer it."""

from __future__ import annotations

import json
import subprocess
import sys

from horae.cli.waiting import told_state
from tests.system.shell import Shell


def test_a_terminal_sees_what_becomes_of_the_run(horae: Shell) -> None:
    horae.ok("job", "create", "flaky", "--manual", "--retries", "1", "--backoff", "fixed:2s",
             "--command", 'sleep 2; test "$HORAE_ATTEMPT" = 2')  # fmt: skip

    code, shown = horae.on_terminal("run", "flaky", "--wait")
    assert code == 0, shown
    for line in ("started on ", ", attempt 1 of 2", "attempt 1 of 2 failed: exit_code; again ", ", attempt 2 of 2"):
        assert line in shown
    assert "started on" not in horae("run", "flaky", "--wait", "--timeout", "1s").err


def test_a_run_that_waits_says_for_what(horae: Shell) -> None:
    horae.ok("job", "create", "lonely", "--manual", "--noop", "--queue", "nobodys")

    code, shown = horae.on_terminal("run", "lonely", "--follow", "--timeout", "3s")
    assert (code, "queued: no_worker" in shown) == (8, True), shown
    assert "horae why " in shown


def test_what_is_told_of_a_state() -> None:
    state = {"attempt_number": 2, "max_attempts": 4, "executor_id": "w\x1b1", "available_at": "2001-01-01T00:00:00Z"}

    assert told_state({**state, "status": "RUNNING", "reason": None}) == "● started on w\\x1b1, attempt 2 of 4"
    failed = "↻ attempt 2 of 4 failed: timeout; again soon"
    assert told_state({**state, "status": "RETRYING", "reason": "timeout"}) == failed
    assert told_state({**state, "status": "QUEUED", "reason": "slots_full"}) == "≡ queued: slots_full"
    later = {**state, "available_at": "2999-01-01T00:00:00Z", "status": "PENDING", "reason": None}
    assert told_state(later).startswith("◷ due in ")


def test_output_cannot_steer_the_terminal(horae: Shell) -> None:
    horae.ok("job", "create", "rude", "--manual",
             "--command", r"printf '\033[31mred\033[0m \033]0;owned\007 \033[2Jend\n'")  # fmt: skip

    _, followed = horae.on_terminal("run", "rude", "--follow")
    _, read = horae.on_terminal("logs", "rude")
    for shown in (followed, read):
        assert "\x1b[31mred\x1b[0m" in shown
        assert "\\x1b]0;owned\\x07 \\x1b[2Jend" in shown
        assert "\x1b]" not in shown
    assert horae.ok("logs", "rude").out == "red  end\n"
    assert "\x1b]0;owned" in horae.ok("logs", "rude", "-o", "json").json["text"]


def test_the_state_is_an_event_of_the_log_stream(horae: Shell) -> None:
    horae.ok("job", "create", "stated", "--manual", "--command", "sleep 2; echo hi")
    run_id = horae.ok("run", "stated", "-q").out.strip()

    lines = horae.ok("api", "GET", f"/runs/{run_id}/logs?follow=true").out.splitlines()
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert (kinds[0], kinds[-2:]) == ("state", ["log", "end"])
    states = [json.loads(line[6:]) for line in lines if line.startswith("data: ") and "available_at" in line]
    assert (states[-1]["status"], states[-1]["run_id"]) == ("RUNNING", run_id)


def test_a_closed_output_and_one_of_another_encoding_are_told_as_such(horae: Shell) -> None:
    horae.ok("job", "create", "shown", "--every", "1h", "--noop")
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" -m horae job list >&-', sys.executable],
        env=horae.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stderr) == (0, "")

    narrow = horae("job", "list", "-o", "table", PYTHONIOENCODING="latin-1")
    assert (narrow.code, "The output is latin-1" in narrow.err, "PYTHONIOENCODING=utf-8" in narrow.err) == (
        1,
        True,
        True,
    ), narrow

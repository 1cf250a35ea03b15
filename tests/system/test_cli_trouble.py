"""When something is wrong: exit codes, servers that are away or silent, output that cannot be written."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from horae.cli import client, failure
from tests.system.harness import Process, free_port
from tests.system.shell import Done, Shell


def test_debug_shows_every_request(horae: Shell) -> None:
    done = horae("job", "show", "nothing", "--debug")

    assert re.search(r"^GET /api/v1/jobs/nothing -> 404 in \d+ ms, request req_\w+$", done.err, re.MULTILINE)


def test_every_exit_code_has_its_case(horae: Shell, guarded: Process, tmp_path: Path) -> None:
    horae.ok("job", "create", "coded", "--manual", "--command", "exit 1", "--retries", "0")
    horae.ok("job", "create", "endless", "--manual", "--command", "echo begun; sleep 30")
    (tmp_path / "jobs.yaml").write_text("name: coded\nschedule: '@manual'\ntarget: {command: other}\n")
    cases: dict[int, Done] = {
        0: horae("job", "list"),
        1: horae("diff", "jobs.yaml"),
        2: horae("job", "list", "--nonsense"),
        3: horae("run", "coded", "--wait"),
        4: horae("job", "show", "nothing"),
        5: Shell(tmp_path, guarded.port)("whoami"),
        6: horae("job", "create", "coded", "--noop"),
        7: horae("job", "create", "wrong", "--cron", "61 9 * * *"),
        8: horae("run", "endless", "--wait", "--timeout", "200ms"),
        9: Shell(tmp_path, free_port())("job", "list"),
        10: horae("pause", "coded", "nothing"),
    }

    assert {wanted: done.code for wanted, done in cases.items()} == {code: code for code in range(failure.PARTLY + 1)}
    # Every failure but a difference says what to do next, or what is wrong with what.
    assert [code for code, done in cases.items() if code > 3 and "error[" not in done.err] == []
    for code in (5, 7, 8, 9):
        assert "hint: " in cases[code].err
    interrupted, _ = horae.on_terminal("run", "endless", "--follow", typed=b"\x03", when=b"begun")
    assert interrupted == failure.INTERRUPTED
    ids = horae.ok("run", "list", "--job", "endless", "--status", "running", "-q").out
    horae.ok("run", "cancel", "-", input=ids)


def test_a_job_that_is_not_there_brings_the_nearest_name(horae: Shell) -> None:
    horae.ok("job", "create", "weekly-invoice", "--noop", "--manual")

    for words in (["run", "weekly-invoce"], ["why", "weekly-invoce"], ["job", "show", "weekly-invoce"]):
        done = horae(*words)
        assert (done.code, "hint: Did you mean weekly-invoice?" in done.err) == (4, True)
    assert "hint: horae job list shows them all." in horae("logs", "zzzzzz").err


def test_a_server_that_falls_silent_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        asked = client.Client(f"http://127.0.0.1:{mute.getsockname()[1]}", None, None, timeout=0.2)
        began = time.monotonic()
        with pytest.raises(failure.Failure, match="did not answer: no answer in time") as reading:
            asked.get("/jobs")
        with pytest.raises(failure.Failure, match="it may have been done") as writing:
            asked.call("DELETE", "/jobs/x")

    assert time.monotonic() - began < 2
    assert (reading.value.exit_code, writing.value.exit_code) == (9, 9)
    assert "horae dev" not in reading.value.hint


def test_output_that_cannot_be_written_is_an_error_in_words() -> None:
    words = [sys.executable, "-m", "horae", "schedule", "explain", "@daily"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_waiting_for_a_server_that_never_answers_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        horae = Shell(tmp_path, server.getsockname()[1])
        began = time.monotonic()

        waited = horae("run", "wait", "01a1e16d-4ce0-8c0f-a8a6-daac74c05915", "--timeout", "1s")
        started = horae("run", "report", "--wait", "--timeout", "1s")
        drained = horae("queue", "drain", "default", "--timeout", "1s")

        assert (waited.code, "has not ended in time" in waited.err) == (8, True)
        assert (started.code, "no answer in time" in started.err) == (9, True)
        assert drained.code == 9
        assert time.monotonic() - began < 50


def test_what_a_job_printed_steers_no_terminal_that_asks_why(horae: Shell) -> None:
    script = "printf 'first\\n\\033]0;owned\\007 second\\n' >&2; exit 3"
    horae.ok("job", "create", "rude", "--manual", "--command", script, "--retries", "0")
    horae("run", "rude", "--wait")

    _, shown = horae.on_terminal("why", "rude")
    assert "          \\x1b]0;owned" in shown
    assert "\x1b]0;owned" not in shown

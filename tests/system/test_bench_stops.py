"""A benchmark that is stopped, killed or left by its terminal: what was measured is kept, what was made is gone."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import secrets
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from horae.bench.orphans import own_folder
from horae.bench.place import SCHEMA
from tests.services import on_server
from tests.system.shell import Shell

ROOT = Path(__file__).parents[2]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def eventually(seen: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (found := seen()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found
    return found


def test_what_was_measured_is_kept_though_nobody_reads_what_is_printed(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "horae", "bench", "--quick", "--case", "create", "--out", str(tmp_path / "out")]
    with Path("/dev/full").open("w") as full:
        subprocess.run(words, stdout=full, stderr=subprocess.DEVNULL, check=False)

    assert json.loads((tmp_path / "out" / "bench.json").read_text())["figures"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_bench_that_is_stopped_leaves_no_process(tmp_path: Path, postgres_database: str, how: signal.Signals) -> None:
    words = ["bench", "--url", postgres_database, "--quick", "--case", "idle"]
    may_hang_up = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)  # though the tests themselves run by nohup
    bench = subprocess.Popen(
        [sys.executable, "-m", "horae", *words],
        stderr=subprocess.DEVNULL,
        preexec_fn=may_hang_up,  # noqa: PLW1509 no lock is taken
    )
    try:
        children = eventually(lambda: children_of(bench.pid))
        bench.send_signal(how)
        code = bench.wait(60)
    finally:
        bench.kill()

    eventually(lambda: not any(Path(f"/proc/{child}/cmdline").exists() for child in children))
    if how is not signal.SIGKILL:
        assert code == 130
        assert not on_server(postgres_database, f"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{SCHEMA}')")


@pytest.mark.parametrize("program", ["horae", "bench"])
def test_what_was_measured_is_kept_though_the_terminal_is_closed(tmp_path: Path, program: str) -> None:
    words = {
        "horae": ["horae", "bench", "--quick", "--case", "create,lateness"],
        "bench": ["bench", "--quick", "--cases", "create,lateness"],
    }
    ours, theirs = pty.openpty()

    def take_it() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    bench = subprocess.Popen(
        [sys.executable, "-m", *words[program], "--out", str(tmp_path / "out")],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_it,  # noqa: PLW1509 no lock is taken
    )
    try:
        os.close(theirs)
        told = ""
        while ": lateness on" not in told:
            told += os.read(ours, 4096).decode()
        os.close(ours)
        assert bench.wait(60) == 130
    finally:
        bench.kill()

    kept = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert kept["about"]["stopped"]
    assert {figure["case"] for figure in kept["figures"]} == {"create"}


def test_a_folder_of_one_that_was_killed_is_gone_with_the_next(tmp_path: Path) -> None:
    words = "import sys, os; from pathlib import Path; from horae.bench.orphans import own_folder"
    script = f"{words}\nwith own_folder(Path(sys.argv[1])) as home: print(home, flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    killed = Path(done.stdout.strip())
    with own_folder(tmp_path) as live:
        assert (killed.exists(), live.exists()) == (False, True)
        with own_folder(tmp_path):
            assert live.exists()

    assert list(tmp_path.iterdir()) == []


def test_a_bench_that_a_shell_started_in_the_background_can_be_stopped(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "horae", "bench", "--url", str(tmp_path / "bench.db"), "--case", "drain"],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509 as a shell does it
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "round 1" in process.stderr.readline()
    process.terminate()

    assert process.wait(30) == 130
    process.stderr.close()


def test_a_bench_outlives_its_terminal_when_told_so(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "horae", "bench", "--quick", "--case", "create", "--out", str(tmp_path / "out")],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # noqa: PLW1509 as nohup does it
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr as told:
        assert any("round 1" in line for line in told)
        process.send_signal(signal.SIGHUP)
        told.read()

    assert process.wait(60) in (0, 1)
    assert json.loads((tmp_path / "out" / "bench.json").read_text())["about"]["stopped"] is False


def test_a_bench_leaves_no_role_behind(tmp_path: Path, postgres_database: str) -> None:
    user = f"bench_{secrets.token_hex(4)}"
    on_server(postgres_database, f"CREATE ROLE {user} SUPERUSER LOGIN")
    url = re.sub("//[^@]*@", f"//{user}@", postgres_database)

    killed = subprocess.Popen(
        [sys.executable, "-m", "horae", "bench", "--url", url, "--quick", "--case", "idle"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually(lambda: on_server(url, f"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{SCHEMA}')"))
    killed.kill()
    killed.wait()
    count = f"SELECT count(*) FROM pg_roles WHERE rolname LIKE '{user}%'"
    assert on_server(postgres_database, count) == 2

    Shell(tmp_path, None).ok("bench", "--url", url, "--quick", "--case", "plan,")

    assert on_server(postgres_database, count) == 1
    on_server(postgres_database, f"DROP ROLE {user}")

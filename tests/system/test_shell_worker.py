"""The worker in sh of the docs: with real processes, and against a server that says what it should not hear."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from horae.sdk import Client
from tests.system.harness import wait_for
from tests.system.pages import DOCS
from tests.system.test_processes import QUICK, Start, start
from tests.system.test_sdk_processes import address

__all__ = ["start"]

Begin = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts it for a server; each in a session of its own, so that its work can be ended with it."""
    page = (DOCS / "remote-workers.md").read_text()
    (tmp_path / "worker.sh").write_text(page.split("<<'END'\n")[1].split("\nEND\n")[0])
    workers: list[subprocess.Popen[bytes]] = []

    def begin(url: str) -> subprocess.Popen[bytes]:
        command = ["/bin/sh", "worker.sh", f"{url}/api/v1"]
        with (tmp_path / f"shell-{len(workers)}.log").open("w") as file:
            workers.append(subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file, start_new_session=True))
        return workers[-1]

    yield begin
    for worker in workers:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def greet(folder: Path, *lines: str) -> None:
    """What it does for a run."""
    program = folder / "greet"
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_it_loses_its_run_when_it_is_killed(start: Start, begin: Begin, tmp_path: Path) -> None:
    greet(tmp_path, "grep -o '\"fence\":[0-9]*' >> fences", "sleep $(cat seconds)", "echo done")
    (tmp_path / "seconds").write_text("60")
    horae = start("dev", *QUICK[:2], "--visibility-seconds", "3", "--heartbeat-seconds", "1")
    with Client(address(horae)) as client:
        client.jobs.create("greet", timeout="100s")
        first = begin(address(horae))
        run = client.jobs.run("greet")
        wait_for((tmp_path / "fences").exists)
        first.kill()
        (tmp_path / "seconds").write_text("0")
        begin(address(horae))

        ended = run.wait(timeout_seconds=30)
        assert (ended.status, ended.attempt_number) == ("SUCCEEDED", 2)
        assert ended.logs() == "done\n"
        old, new = (int(line.partition(":")[2]) for line in lines_of(tmp_path / "fences"))
        assert old < new
        late = horae.call("POST", f"/v1/runs/{run.run_id}/complete", {"fence": old, "status": "succeeded"})
        assert (late[0], late[1]["code"]) == (409, "stale_fence")


def test_words_of_the_protocol_in_a_payload_do_not_mislead_it(start: Start, begin: Begin, tmp_path: Path) -> None:
    greet(tmp_path, "echo once >> done", "echo hello")
    horae = start("dev", *QUICK)
    payload = {"fence": 1, "run_id": "another", "runs": [{"run_id": "another", "fence": 1}], "code": "worker_lost"}
    with Client(address(horae)) as client:
        client.jobs.create("greet", payload=payload)
        run = client.jobs.run("greet")
        begin(address(horae))

        ended = run.wait(timeout_seconds=30)
        assert (ended.status, ended.attempt_number, ended.logs()) == ("SUCCEEDED", 1, "hello\n")
        assert lines_of(tmp_path / "done") == ["once"]


@pytest.mark.parametrize(
    ("output", "log"),
    [
        (b'\x1b[31mred\x1b[0m\r\n\ttab "quoted" \\n % \x01\x1f\n', None),
        (b"caf\xe9 \xff in Latin-1, \x00 and ", "caf  in Latin-1,  and \n"),
        ("".join(f"{n} naïve ☃ {'.' * 80}\n" for n in range(1500)).encode(), None),
        ("☃".encode() * 70_000 + b"\n" + b"\x1b" * 100_000 + b"\n", None),
    ],
    ids=["control characters", "not UTF-8", "many lines", "long lines"],
)
def test_the_log_is_all_that_was_printed(
    start: Start, begin: Begin, tmp_path: Path, output: bytes, log: str | None
) -> None:
    (tmp_path / "printed").write_bytes(output)
    greet(tmp_path, "cat printed")
    horae = start("dev", *QUICK)
    with Client(address(horae)) as client:
        client.jobs.create("greet")
        run = client.jobs.run("greet")
        begin(address(horae))

        ended = run.wait(timeout_seconds=30)
        assert ended.status == "SUCCEEDED"
        assert ended.logs() == (log or output.decode())


def test_a_run_that_was_cancelled_ends_so(start: Start, begin: Begin, tmp_path: Path) -> None:
    greet(tmp_path, "touch begun", "exec sleep 60")
    horae = start("dev", *QUICK)
    with Client(address(horae)) as client:
        client.jobs.create("greet", timeout="100s")
        run = client.jobs.run("greet")
        begin(address(horae))
        wait_for((tmp_path / "begun").exists)

        run.cancel()

        assert run.wait(timeout_seconds=20).status == "CANCELLED"


class Recorder:
    """A server that gives one run to every name, and says of all that is reported that its fence is an old one."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        names = [told["worker"] for _, told in self.seen if "worker" in told]
        self.seen.append((path, body))
        if path == "workers/claim":
            runs = [] if body["worker"] in names else [{"run_id": f"run-{len(names)}", "fence": 5, "payload": None}]
            return 200, {"worker_id": body["worker"], "runs": runs, "is_draining": False}
        if path.endswith("/heartbeat"):
            return 200, {"runs": [{"run_id": body["runs"][0]["run_id"], "state": "running", "reason": None}]}
        return 409, {"code": "stale_fence"}


@contextmanager
def serving(recorder: Recorder) -> Iterator[str]:
    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = recorder.answer(self.path.removeprefix("/api/v1/"), body)
            told = json.dumps(document, separators=(",", ":")).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_run_whose_fence_is_old_is_dropped_and_a_new_name_taken(begin: Begin, tmp_path: Path) -> None:
    greet(tmp_path, "echo hello")
    recorder = Recorder()
    with serving(recorder) as url:
        begin(url)
        wait_for(lambda: len([path for path, _ in recorder.seen if path == "workers/claim"]) >= 2)

    claims = [body["worker"] for path, body in recorder.seen if path == "workers/claim"]
    assert claims[0] != claims[1]
    assert [path for path, _ in recorder.seen if path == "runs/run-0/log"] == ["runs/run-0/log"]
    assert not any(path.endswith("/complete") for path, _ in recorder.seen)

"""The SDK with real processes: the client, workers of both kinds, and what is left of one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from horae.sdk import Client
from horae.sdk.client import Run
from tests.system.harness import Process, wait_for
from tests.system.test_processes import KEY, QUICK, SECRET, Start, fleet_environment, migrate, start

__all__ = ["start"]

APP = """
import os, time
from pathlib import Path
from horae import App, Context

app = App()
FOLDER = Path(__file__).parent


def note(text):
    with (FOLDER / "notes").open("a") as file:
        file.write(text + "\\n")


@app.job(schedule="@every 1s", labels={"team": "bi"}, secrets=["TOKEN"])
def quick(*, ctx: Context):
    "Says hello."
    ctx.log("hello %s from %d", ctx.secrets["TOKEN"], os.getpid())
    return {"pid": os.getpid()}


@app.job(timeout="60s", retry=3)
def slow(seconds=0, *, ctx: Context):
    note(f"start {ctx.run_id} {ctx.attempt} {ctx.fence} {os.getpid()}")
    for _ in range(int(seconds * 20)):
        if ctx.cancelled:
            note(f"stopped {ctx.run_id}")
            return
        time.sleep(0.05)
    note(f"end {ctx.run_id} {ctx.attempt}")
    return "done"
"""

StartWorker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartWorker]:
    (tmp_path / "jobs.py").write_text(APP)
    workers: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **environment: str) -> subprocess.Popen[bytes]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        with (tmp_path / f"worker-{len(workers)}.log").open("w") as file:
            command = [sys.executable, "-m", "horae", "worker", "jobs:app", *words]
            workers.append(subprocess.Popen(command, env=clean | environment, stdout=file, stderr=file, cwd=tmp_path))
        return workers[-1]

    yield begin
    for worker in workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait()


def address(horae: Process) -> str:
    return f"http://127.0.0.1:{horae.port}"


def test_the_client_against_a_server(start: Start) -> None:
    horae = start("dev")
    with Client(address(horae)) as client:
        client.jobs.create("hello", type="shell", target={"command": "echo one; sleep 0.3; echo two"})
        run = client.jobs.run("hello")
        assert "".join(client.runs.follow(run.run_id)) == "one\ntwo\n"
        ended = run.wait(timeout_seconds=20)

        assert (ended.succeeded, ended.result["exit_code"]) == (True, 0)
        assert ended.logs() == "one\ntwo\n"
        assert [each.run_id for each in client.runs.list(job="hello", limit=1)] == [run.run_id]
        assert client.jobs.explain("hello").verdict


def test_a_worker_over_http_saves_its_jobs_runs_them_and_drains(
    start: Start, start_worker: StartWorker, tmp_path: Path
) -> None:
    horae = start("dev", *QUICK)
    with Client(address(horae)) as client:
        client.secrets.put("TOKEN", "correct horse")
        worker = start_worker(HORAE_URL=address(horae))
        run = wait_for(lambda: next(client.runs.list(job="quick", status="SUCCEEDED"), None) if jobs(client) else None)
        assert run.result == {"pid": worker.pid}
        assert run.logs() == f"hello *** from {worker.pid}\n"
        job = client.jobs.get("quick")
        assert (job.labels, job.description) == ({"team": "bi"}, "Says hello.")

        held = client.jobs.run("slow", payload={"seconds": 1})
        wait_for(lambda: notes(tmp_path, "start"))  # RUNNING it is before the answer to its claim has come
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
        assert client.runs.get(held.run_id).status == "SUCCEEDED"
        assert client.workers.list() == [each for each in client.workers.list() if "remote" not in each.worker_id]

        client.jobs.pause("quick", reason="maintenance")
        start_worker(HORAE_URL=address(horae))
        wait_for(lambda: any("remote" in each.worker_id for each in client.workers.list()))
        assert client.jobs.get("quick").status == "PAUSED"
        assert client.jobs.get("quick").version == job.version


def jobs(client: Client) -> bool:
    """Whether those of the app are saved; that happens one by one."""
    return {"quick", "slow"} <= {job.name for job in client.jobs.list()}


def notes(folder: Path, word: str) -> list[list[str]]:
    file = folder / "notes"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [line[1:] for line in lines if line[0] == word]


def start_slow(
    client: Client, horae: Process, start_worker: StartWorker, folder: Path, seconds: float
) -> tuple[Any, Run]:
    """A worker over HTTP, and a run that it has begun."""
    client.secrets.put("TOKEN", "correct horse")
    worker = start_worker(HORAE_URL=address(horae))
    wait_for(lambda: jobs(client))
    run = client.jobs.run("slow", payload={"seconds": seconds})
    wait_for(lambda: notes(folder, "start"))
    return worker, run


def test_a_killed_worker_over_http_loses_its_run_to_another(
    start: Start, start_worker: StartWorker, tmp_path: Path
) -> None:
    horae = start("dev", *QUICK)
    with Client(address(horae)) as client:
        first, run = start_slow(client, horae, start_worker, tmp_path, 1.5)
        first.kill()
        first.wait()
        second = start_worker(HORAE_URL=address(horae))
        ended = run.wait(timeout_seconds=30)

        assert (ended.status, ended.attempt_number) == ("SUCCEEDED", 2)
        (one, two) = notes(tmp_path, "start")
        assert (one[0], int(one[3])) == (run.run_id, first.pid)
        assert (two[0], int(two[3])) == (run.run_id, second.pid)
        assert int(two[2]) > int(one[2])
        assert notes(tmp_path, "end") == [[run.run_id, "2"]]
        late = horae.call("POST", f"/v1/runs/{run.run_id}/complete", {"fence": int(one[2]), "status": "succeeded"})
        assert (late[0], late[1]["code"]) == (409, "stale_fence")


def test_a_cancelled_run_is_stopped_on_a_worker_over_http(
    start: Start, start_worker: StartWorker, tmp_path: Path
) -> None:
    horae = start("dev", *QUICK)
    with Client(address(horae)) as client:
        _, run = start_slow(client, horae, start_worker, tmp_path, 30)

        run.cancel()

        assert run.wait(timeout_seconds=20).status == "CANCELLED"
        wait_for(lambda: notes(tmp_path, "stopped"))


def test_a_frozen_worker_gives_its_runs_up_when_it_wakes(
    start: Start, start_worker: StartWorker, tmp_path: Path
) -> None:
    horae = start("dev", *QUICK)
    with Client(address(horae)) as client:
        first, run = start_slow(client, horae, start_worker, tmp_path, 3)
        first.send_signal(signal.SIGSTOP)
        start_worker(HORAE_URL=address(horae))
        wait_for(lambda: len(notes(tmp_path, "start")) == 2)
        first.send_signal(signal.SIGCONT)
        ended = run.wait(timeout_seconds=30)

        assert (ended.status, ended.attempt_number) == ("SUCCEEDED", 2)
        wait_for(lambda: notes(tmp_path, "stopped"))
        assert notes(tmp_path, "end") == [[run.run_id, "2"]]


def test_a_worker_on_the_database_is_a_worker_like_any_other(
    start: Start, start_worker: StartWorker, postgres_database: str, tmp_path: Path
) -> None:
    migrate(postgres_database)
    environment = fleet_environment(postgres_database)
    horae = start("serve", "--roles", "api,scheduler", *QUICK, **environment)
    with Client(address(horae), KEY) as client:
        client.secrets.put("TOKEN", "correct horse")
        worker = start_worker(
            HORAE_DATABASE_URL=postgres_database,
            HORAE_SECRET_KEY=SECRET,
            HORAE_VISIBILITY_SECONDS="2",
            HORAE_HEARTBEAT_SECONDS="0.5",
        )
        run = wait_for(lambda: next(client.runs.list(job="quick", status="SUCCEEDED"), None) if jobs(client) else None)
        assert run.result == {"pid": worker.pid}
        held = client.jobs.run("slow", payload={"seconds": 1})
        wait_for(lambda: notes(tmp_path, "start"))
        worker.kill()
        worker.wait()
        start_worker(HORAE_DATABASE_URL=postgres_database, HORAE_SECRET_KEY=SECRET)

        assert held.wait(timeout_seconds=30).attempt_number == 2


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("nowhere:app", 'There is no module "nowhere"'),
        ("jobs:other", '"jobs" has no "other"'),
        ("jobs:FOLDER", "not a horae.App"),
    ],
)
def test_a_worker_that_cannot_start_says_why(tmp_path: Path, word: str, says: str) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    done = run_worker(tmp_path, word)

    assert done.returncode == 2
    assert says in done.stderr


def test_a_bad_declaration_is_told_with_its_place(start: Start, tmp_path: Path) -> None:
    horae = start("dev")
    text = 'from horae import App\napp = App()\n\n\n@app.job(schedule="61 * * * *")\ndef bad(): ...\n'
    (tmp_path / "bad.py").write_text(text)

    done = run_worker(tmp_path, "bad:app", HORAE_URL=address(horae))

    assert done.returncode == 2
    assert "/schedule" in done.stderr
    assert f"{tmp_path}/bad.py:5" in done.stderr


def test_a_declaration_that_makes_no_sense_is_told_without_a_trace(tmp_path: Path) -> None:
    text = "from horae import App\napp = App()\n\n\n@app.job(args=5)\ndef bad(): ...\n"
    (tmp_path / "bad.py").write_text(text)

    done = run_worker(tmp_path, "bad:app")

    assert done.returncode == 2
    assert f"{tmp_path}/bad.py:5: args is 5." in done.stderr
    assert "Traceback" not in done.stderr


def run_worker(folder: Path, word: str, **environment: str) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
    command = [sys.executable, "-m", "horae", "worker", word]
    return subprocess.run(
        command, env=clean | environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )

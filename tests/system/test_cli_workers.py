"""Workers as the command line tells of them: what they can do, which of them are lost, and jobs that come with one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.harness import Process, wait_for
from tests.system.shell import Shell
from tests.system.test_processes import QUICK, fleet_environment, migrate

KEY = "an-admin-key-of-forty-characters-or-more"

APP = """
import horae

app = horae.App()


@app.job(schedule="@every 1h")
def good():
    pass
"""
CHAIN = """

@app.job(after="second")
def last():
    pass


@app.job(after={"job": "first"})
def second():
    pass


@app.job(schedule="@every 1h")
def first():
    pass
"""
NEEDY = '\n\n@app.job(secrets=["TOKEN"])\ndef needy():\n    pass\n'
WRONG = '\n\n@app.job(schedule="99 * * * *")\ndef wrong():\n    pass\n'


@pytest.fixture
def unmanned(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    """A horae without a worker, which gives one up after a minute, or as the flags say."""
    flags = getattr(request, "param", ("--visibility-seconds", "60"))
    server = Process(tmp_path, "serve", "--roles", "api,scheduler", "--database-url", f"sqlite:///{tmp_path}/h.db",
                     *flags, HORAE_ADMIN_KEY=KEY)  # fmt: skip
    server.wait_ready()
    yield Shell(tmp_path, server.port, HORAE_API_KEY=KEY)
    server.terminate()


def claim(horae: Shell, worker: str, *handlers: str) -> list[dict[str, object]]:
    body = json.dumps({"worker": worker, "handlers": handlers, "holds": [], "node": "afar"})
    found: list[dict[str, object]] = horae.ok("api", "POST", "/workers/claim", "-d", body).json["runs"]
    return found


def test_a_worker_over_http_does_not_count_for_what_needs_no_handler(unmanned: Shell) -> None:
    unmanned.ok("job", "create", "plain", "--manual", "--noop")
    unmanned.ok("run", "plain")
    assert claim(unmanned, "w1", "other") == []

    assert unmanned.ok("why", "plain", "--json").json["reason"] == "no_worker_for_type"
    done = unmanned("doctor")
    (queue,) = [each for each in done.table if each["CHECK"] == "queue"]
    assert (done.code, queue["STATE"], queue["FIX"]) == (
        1,
        "bad",
        "Start one: horae serve --roles worker --worker-queues default",
    )


def test_runs_of_a_handler_want_a_worker_with_that_handler(unmanned: Shell) -> None:
    unmanned.ok("job", "create", "report", "--manual", "--python", "make-report")
    unmanned.ok("run", "report")

    found = {each["CHECK"]: each["FIX"] for each in unmanned("doctor").table}
    assert found["workers"] == "Start a worker with this handler (make-report): horae worker MODULE:APP"
    assert found["queue"] == f"{found['workers']} --worker-queues default"


@pytest.mark.parametrize("unmanned", [QUICK], indirect=True)
def test_a_lost_worker_is_not_counted(unmanned: Shell) -> None:
    unmanned.ok("job", "create", "report", "--manual", "--python", "report")
    unmanned.ok("run", "report")
    assert claim(unmanned, "w1", "report")

    wait_for(lambda: "lost" in unmanned.ok("worker", "list").out)
    wait_for(lambda: unmanned.ok("worker", "list").table[0]["RUNNING"] == "0")
    assert "0 alive, 0 of 0 slots busy" in unmanned.on_terminal("status")[1]


@pytest.mark.parametrize(
    ("fault", "told"),
    [(NEEDY, "Set it first: horae secret set TOKEN"), (WRONG, "Minute must be 0-59; got 99")],
    ids=["secret", "schedule"],
)
@pytest.mark.parametrize("way", ["http", "database"])
def test_an_app_with_one_fault_registers_nothing(
    tmp_path: Path, postgres_database: str, way: str, fault: str, told: str
) -> None:
    migrate(postgres_database)
    environment = fleet_environment(postgres_database)
    server = Process(tmp_path, "serve", "--roles", "api,scheduler", **environment)
    try:
        server.wait_ready()
        horae = Shell(tmp_path, server.port, HORAE_API_KEY=environment["HORAE_ADMIN_KEY"])
        (tmp_path / "faulty.py").write_text(APP + fault)
        done = horae("worker", "faulty:app", **(environment if way == "database" else {}))

        assert (done.code, told in done.err) == (2, True), done.err
        assert "faulty.py" in done.err
        assert horae.ok("job", "list", "-q").out == ""
    finally:
        server.terminate()


def test_an_app_registers_its_chain_in_whatever_order_it_is_declared(alone: Shell) -> None:
    (alone.home / "chain.py").write_text(APP + CHAIN)
    with subprocess.Popen(
        [sys.executable, "-m", "horae", "worker", "chain:app"], env=alone.environment, cwd=alone.home
    ) as worker:
        try:
            wait_for(lambda: alone.ok("job", "list", "-q").out.count("\n") == 4)
        finally:
            worker.kill()

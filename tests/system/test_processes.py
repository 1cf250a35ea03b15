"""Real processes on real databases: starting, refusing, draining, dying at any moment."""

from __future__ import annotations

import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.system.harness import Process, free_port, run, wait_for

KEY = "an-admin-key-for-tests"
SECRET = "a-secret-key-of-more-than-32-characters"
QUICK = ("--lease-seconds", "2", "--visibility-seconds", "2", "--heartbeat-seconds", "0.5", "--lookahead-seconds", "4")

Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    processes: list[Process] = []

    def begin(*words: str, ready: bool = True, **environment: str) -> Process:
        process = Process(tmp_path, *words, **environment)
        processes.append(process)
        if ready:
            process.wait_ready()
        return process

    yield begin
    for process in processes:
        if process.process.poll() is None:
            process.kill()


def fleet_environment(url: str) -> dict[str, str]:
    return {"HORAE_DATABASE_URL": url, "HORAE_ADMIN_KEY": KEY, "HORAE_SECRET_KEY": SECRET}


def migrate(url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "horae", "migrate", "--database-url", url], check=True, capture_output=True, text=True
    )
    return done.stdout


def test_dev_runs_a_job_keeps_its_data_and_stops_cleanly(start: Start) -> None:
    horae = start("dev")
    status, job = horae.call("POST", "/api/v1/jobs", {"name": "hello", "type": "noop", "schedule": "* * * * * *"})
    assert status == 201
    wait_for(lambda: horae.call("GET", f"/v1/jobs/{job['job_id']}/status")[1]["status"] == "SUCCEEDED")
    assert horae.terminate() == 0

    again = start("dev")

    assert again.call("GET", "/v1/jobs/hello")[1]["job_id"] == job["job_id"]


def test_a_second_process_on_the_same_sqlite_file_is_refused_with_a_clear_message(start: Start) -> None:
    start("dev")
    second = start("dev", ready=False)

    assert second.process.wait(20) != 0
    assert "in use by another horae process" in second.log.read_text()


def test_a_file_of_a_newer_release_is_refused(start: Start, tmp_path: Path) -> None:
    assert start("dev").terminate() == 0
    with sqlite3.connect(tmp_path / ".horae" / "horae.db") as file:
        file.execute("INSERT INTO schema_migrations (number, name) VALUES (9999, '9999_pre_things_to_come')")
    file.close()

    older = start("dev", ready=False)

    assert older.process.wait(20) == 2
    assert "written by a newer horae" in older.log.read_text()


WEBHOOK = {"name": "ops", "url": "http://127.0.0.1:9/hook", "events": ["run.failed"]}


def test_another_secret_key_is_refused_and_an_old_one_is_replaced(start: Start) -> None:
    keys = {"a": "a" * 32, "b": "b" * 32}
    first = start("dev", HORAE_SECRET_KEY=keys["a"])
    assert first.call("PUT", "/v1/secrets/TOKEN", {"value": "correct horse"})[0] == 201
    asked = {"/v1/keys": {"name": "ci", "role": "viewer"}, "/v1/webhooks": WEBHOOK}
    shown = {path: first.call("POST", path, body, once=path) for path, body in asked.items()}
    assert [status for status, _ in shown.values()] == [201, 201]
    assert first.terminate() == 0

    wrong = start("dev", ready=False, HORAE_SECRET_KEY=keys["b"])
    assert wrong.process.wait(20) == 2
    assert "was sealed with another key" in wrong.log.read_text()

    both = start("dev", HORAE_SECRET_KEY=keys["b"], HORAE_OLD_SECRET_KEY=keys["a"])
    assert both.terminate() == 0

    new = start("dev", HORAE_SECRET_KEY=keys["b"])
    assert {path: new.call("POST", path, body, once=path) for path, body in asked.items()} == shown
    echo = {"command": "echo $TOKEN", "env": {"TOKEN": "{{ secret.TOKEN }}"}}
    new.call("POST", "/v1/jobs", {"name": "echo", "type": "shell", "target": echo, "schedule": "@now"})
    wait_for(lambda: new.call("GET", "/v1/jobs/echo/status")[1]["status"] == "SUCCEEDED")
    assert new.terminate() == 0
    assert "correct horse" not in new.log.read_text()


def test_a_reader_of_the_log_who_leaves_stops_nothing(tmp_path: Path) -> None:
    """As in `horae dev 2>&1 | head`."""
    port = free_port()
    words = [sys.executable, "-m", "horae", "dev", "--port", str(port)]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        while b"started" not in process.stdout.readline():
            assert process.poll() is None
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()


def test_while_the_store_is_away_at_the_start_the_process_says_so(start: Start) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:9/none"
    horae = start("serve", ready=False, **fleet_environment(nowhere))
    wait_for(horae.is_listening)

    assert horae.call("GET", "/healthz") == (200, {"status": "ok"})
    status, problem = horae.call("GET", "/readyz")
    assert (status, problem["ready"]) == (503, False)
    assert "PostgreSQL" in problem["detail"]
    assert horae.call("GET", "/v1/jobs")[0] == 503
    assert horae.call("POST", "/v1/jobs", {"name": "a"})[0] == 503
    assert horae.terminate() == 0


def test_a_process_without_the_api_tells_how_it_is_at_its_health_port(start: Start, postgres_database: str) -> None:
    port = free_port()
    words = ("serve", "--roles", "worker", "--health-port", str(port))
    worker = start(*words, ready=False, **fleet_environment(postgres_database))
    worker.port = port
    wait_for(worker.is_listening)
    assert worker.call("GET", "/readyz")[0] == 503

    migrate(postgres_database)

    worker.wait_ready()
    assert worker.call("GET", "/healthz") == (200, {"status": "ok"})
    status, problem = worker.call("GET", "/v1/jobs", key=KEY)
    assert (status, problem["code"]) == (404, "not_found")
    assert "no API" in problem["detail"]
    assert "horae_" in worker.call("GET", "/metrics")[1]
    assert worker.terminate() == 0


def test_a_taken_port_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [sys.executable, "-m", "horae", "dev", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode != 0
    assert "Another program listens there" in done.stderr
    assert "Traceback" not in done.stderr
    assert "started" not in done.stderr


def test_dev_refuses_an_address_that_is_not_loopback(start: Start) -> None:
    process = start("dev", "--host", "0.0.0.0", ready=False)

    assert process.process.wait(20) == 2
    assert "loopback" in process.log.read_text()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HORAE_DB_URL", "x", "HORAE_DATABASE_URL"),
        ("HORAE_QUEUE_URL", "redis://localhost/0", "fast lanes to come"),
        ("HORAE_LEASE_SECONDS", "soon", "not a number"),
        ("HORAE_ROLES", "api,cook", "cook"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(start: Start, name: str, value: str, words: str) -> None:
    process = start("dev", ready=False, **{name: value})

    assert process.process.wait(20) == 2
    assert words in process.log.read_text()


def test_serve_is_closed_without_a_key(start: Start, postgres_database: str) -> None:
    assert "applied 0001_pre_core" in migrate(postgres_database)
    assert "up to date" in migrate(postgres_database)
    horae = start("serve", **fleet_environment(postgres_database))

    assert horae.call("GET", "/v1/jobs")[0] == 401
    assert horae.call("GET", "/v1/jobs", key="wrong")[0] == 401
    assert horae.call("GET", "/v1/jobs", key=KEY) == (200, {"jobs": [], "next_cursor": None})


def test_serve_waits_for_the_schema_and_says_so(start: Start, postgres_database: str) -> None:
    horae = start("serve", ready=False, **fleet_environment(postgres_database))
    wait_for(lambda: "horae migrate" in horae.log.read_text())

    migrate(postgres_database)

    horae.wait_ready()


def test_sigterm_lets_running_work_end_and_a_second_one_does_not_wait(start: Start) -> None:
    horae = start("dev")
    body = {"name": "slow", "type": "shell", "schedule": "@now", "target": {"command": "sleep 2; echo done"}}
    horae.call("POST", "/v1/jobs", body)
    wait_for(lambda: horae.call("GET", "/v1/jobs/slow/status")[1]["status"] == "RUNNING")
    assert horae.terminate() == 0

    horae = start("dev")
    (first,) = horae.call("GET", "/v1/jobs/slow/runs")[1]
    assert (first["status"], first["attempt_number"]) == ("SUCCEEDED", 1)

    horae.call("POST", "/v1/jobs", body | {"name": "slower", "target": {"command": "sleep 60"}, "timeout": "2m"})
    wait_for(lambda: horae.call("GET", "/v1/jobs/slower/status")[1]["status"] == "RUNNING")
    horae.signal(signal.SIGTERM)
    time.sleep(0.5)
    horae.signal(signal.SIGTERM)
    horae.process.wait(5)


async def _history(url: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(
            "SELECT job_id, due_us, status, reason, skip_until_us FROM history WHERE cause = 'schedule' ORDER BY due_us"
        )
    finally:
        await connection.close()


def check_every_second_was_decided_once(rows: list[Any], jobs: list[str], until_us: int) -> None:
    """Each job fires every second: from its first due time on there is one decision for each."""
    for job in jobs:
        decided: list[int] = []
        for row in rows:
            if row["job_id"] == job:
                last = row["skip_until_us"] or row["due_us"]
                decided += range(row["due_us"], last + 1, 1_000_000)
        decided = sorted(at for at in decided if at <= until_us)
        assert decided, job
        assert decided == list(range(decided[0], until_us + 1, 1_000_000))


def test_kill_9_of_any_process_at_any_moment_loses_and_doubles_nothing(start: Start, postgres_database: str) -> None:
    migrate(postgres_database)
    environment = fleet_environment(postgres_database)
    nodes = [start("serve", *QUICK, **environment) for _ in range(3)]
    jobs = [_create(nodes[0], f"j{n}", KEY) for n in range(10)]
    dice = random.Random(7)
    for _ in range(6):
        time.sleep(dice.uniform(0.3, 2.0))
        victim = dice.randrange(3)
        nodes[victim].kill()
        nodes[victim] = start("serve", *QUICK, ready=False, **environment)
    nodes[0].wait_ready()
    until_us = int(time.time()) * 1_000_000
    _settled(lambda: run(_history(postgres_database)), jobs, until_us)

    rows = run(_history(postgres_database))

    check_every_second_was_decided_once(rows, jobs, until_us)
    assert {row["status"] for row in rows} <= {"succeeded", "skipped"}


def _create(node: Process, name: str, key: str = "") -> str:
    body = {
        "name": name,
        "type": "noop",
        "schedule": "* * * * * *",
        "retries": 20,
        "misfire": {"policy": "catch_up", "max": 100},
    }
    status, job = node.call("POST", "/v1/jobs", body, key)
    assert status == 201
    return str(job["job_id"])


def _settled(read: Callable[[], list[Any]], jobs: list[str], until_us: int) -> None:
    def is_settled() -> bool:
        rows = read()
        return all(any(row["job_id"] == job and row["due_us"] > until_us for row in rows) for job in jobs) and all(
            any(row["job_id"] == job and row["due_us"] == until_us for row in rows) for job in jobs
        )

    wait_for(is_settled)
    time.sleep(3)  # what a killed worker held comes back after its visibility


def test_kill_9_of_the_all_in_one_on_sqlite_loses_and_doubles_nothing(start: Start, tmp_path: Path) -> None:
    horae = start("dev", *QUICK)
    jobs = [_create(horae, f"j{n}") for n in range(5)]
    dice = random.Random(11)
    for _ in range(5):
        time.sleep(dice.uniform(0.2, 1.5))
        horae.kill()
        horae = start("dev", *QUICK)

    def history() -> list[Any]:
        with sqlite3.connect(f"file:{tmp_path}/.horae/horae.db?mode=ro", uri=True) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(
                "SELECT job_id, due_us, status, reason, skip_until_us FROM history "
                "WHERE cause = 'schedule' ORDER BY due_us"
            ).fetchall()

    until_us = int(time.time()) * 1_000_000
    _settled(history, jobs, until_us)

    check_every_second_was_decided_once(history(), jobs, until_us)
    with sqlite3.connect(f"file:{tmp_path}/.horae/horae.db?mode=ro", uri=True) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_fleet_goes_on_by_itself_when_its_connections_are_cut(start: Start, postgres_database: str) -> None:
    migrate(postgres_database)
    horae = start("serve", *QUICK, **fleet_environment(postgres_database))
    jobs = [_create(horae, "j", KEY)]

    async def cut() -> None:
        connection = await asyncpg.connect(postgres_database)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await connection.close()

    for _ in range(5):
        time.sleep(0.7)
        run(cut())
    until_us = int(time.time()) * 1_000_000
    _settled(lambda: run(_history(postgres_database)), jobs, until_us)

    check_every_second_was_decided_once(run(_history(postgres_database)), jobs, until_us)
    assert horae.process.poll() is None

"""The figures of /metrics against the tables, of a real process that did a bit of everything."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.system.harness import Process, run, wait_for
from tests.system.test_processes import KEY, Start, fleet_environment, migrate, start

__all__ = ["start"]

Read = Callable[[str], list[Any]]
SLOTS = "7"
JOBS: list[dict[str, Any]] = [
    {"name": "steady", "type": "noop", "schedule": "* * * * * *", "max_runs": 4},
    {
        "name": "crowded",
        "type": "shell",
        "target": {"command": "sleep 2.2"},
        "schedule": "* * * * * *",
        "overlap": "skip",
        "max_runs": 3,
    },
    {
        "name": "flaky",
        "type": "shell",
        "target": {"command": "test $HORAE_ATTEMPT -ge 3"},
        "retries": 2,
        "retry": {"backoff": "fixed", "delay": "100ms"},
    },
    {"name": "broken", "type": "shell", "target": {"command": "exit 3"}, "retries": 0},
    {"name": "endless", "type": "shell", "target": {"command": "sleep 60"}, "timeout": "90s"},
]


@pytest.fixture(params=["sqlite", "postgres"])
def horae(request: pytest.FixtureRequest, start: Start, tmp_path: Path) -> tuple[Process, Read]:
    """A process, and a way to read its tables."""
    if request.param == "sqlite":

        def read_sqlite(sql: str) -> list[Any]:
            with sqlite3.connect(f"file:{tmp_path}/.horae/horae.db?mode=ro", uri=True) as connection:
                return connection.execute(sql).fetchall()

        return start("dev", "--worker-slots", SLOTS), read_sqlite
    url = request.getfixturevalue("postgres_database")
    migrate(url)

    async def ask(sql: str) -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetch(sql)
        finally:
            await connection.close()

    settings = fleet_environment(url) | {"HORAE_SHELL": "on", "HORAE_EGRESS_ALLOW": "127.0.0.0/8"}
    return start("serve", "--worker-slots", SLOTS, **settings), lambda sql: run(ask(sql))


@pytest.fixture
def listener() -> Iterator[str]:
    """Takes what is sent to /good, and nothing else."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204 if self.path == "/good" else 500)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def figures(process: Process) -> dict[str, Counter[str]]:
    """The values of each metric by its label, or by "" if it has none."""
    found: dict[str, Counter[str]] = {}
    for family in text_string_to_metric_families(process.call("GET", "/metrics")[1]):
        for sample in family.samples:
            label = sample.labels.get("le") or next(iter(sample.labels.values()), "")
            found.setdefault(sample.name, Counter())[label] += sample.value
    return found


def do_a_bit_of_everything(process: Process, read: Read, listener: str) -> None:
    def call(path: str, body: Any = None) -> Any:
        status, answer = process.call("POST", f"/v1/{path}", body or {}, KEY)
        assert status < 300, answer
        return answer

    for path in ("good", "bad"):
        call("webhooks", {"name": path, "url": f"{listener}/{path}", "events": ["run.failed"]})
    for job in JOBS:
        call("jobs", job)
    runs = {name: call(f"jobs/{name}/run")["run_id"] for name in ("flaky", "broken", "endless")}
    wait_for(lambda: process.call("GET", f"/v1/runs/{runs['endless']}", key=KEY)[1]["status"] == "RUNNING")
    assert figures(process)["horae_runs_in_hand"][""] >= 1
    call(f"runs/{runs['endless']}/cancel")
    wait_for(lambda: len(read("SELECT 1 FROM history")) == 10 and not read("SELECT 1 FROM runs"))
    wait_for(lambda: all(row[0] > 0 and row[1] is not None for row in read("SELECT attempt, took_ms FROM deliveries")))


def test_metrics_agree_with_the_tables(horae: tuple[Process, Read], listener: str) -> None:
    process, read = horae
    do_a_bit_of_everything(process, read, listener)

    found = figures(process)

    ended = dict(read("SELECT status, count(*) FROM history WHERE status <> 'skipped' GROUP BY status"))
    assert ended == {"succeeded": ended["succeeded"], "failed": 1, "cancelled": 1}
    assert +found["horae_runs_ended_total"] == ended
    skipped = dict(read("SELECT reason, count(*) FROM history WHERE status = 'skipped' GROUP BY reason"))
    assert skipped["overlap_skipped"] >= 1
    assert +found["horae_due_times_skipped_total"] == skipped
    assert found["horae_runs_planned_total"][""] == len(read("SELECT 1 FROM history WHERE cause = 'schedule'")) == 7
    again = dict(read("SELECT reason, count(*) FROM attempts GROUP BY reason"))
    assert again == {"exit_code": 2}
    assert +found["horae_attempts_requeued_total"] == again
    started = dict(
        read(
            "SELECT CASE WHEN j.name = 'steady' THEN 'noop' ELSE 'shell' END, sum(h.attempt) FROM history h "
            "JOIN jobs j ON j.id = h.job_id GROUP BY 1"
        )
    )
    assert +found["horae_attempts_started_total"] == started
    assert found["horae_attempt_seconds_count"] == started
    check_lateness(found, read)
    sent = read("SELECT status, sum(attempt) FROM deliveries GROUP BY status ORDER BY status")
    assert [tuple(row) for row in sent] == [(204, 1), (500, found["horae_webhook_attempts_total"]["again"])]
    assert found["horae_webhook_attempts_total"]["delivered"] == 1


def check_lateness(found: dict[str, Counter[str]], read: Read) -> None:
    first = "attempt = 1 AND started_us IS NOT NULL"
    late = [row[0] for row in read(f"SELECT started_us - run_at_us FROM history WHERE {first}")]
    late += [
        row[0]
        for row in read(
            "SELECT a.started_us - h.run_at_us FROM attempts a JOIN history h ON h.id = a.run_id WHERE a.attempt = 1"
        )
    ]
    assert found["horae_run_lateness_seconds_count"][""] == len(late)
    assert found["horae_run_lateness_seconds_sum"][""] == pytest.approx(sum(late) / 1e6)
    for bound in ("0.01", "0.1", "1.0", "300.0", "+Inf"):
        below = sum(us <= float(bound) * 1e6 for us in late)
        assert found["horae_run_lateness_seconds_bucket"][bound] == below, bound


def test_a_process_tells_how_it_stands_and_names_nobody(start: Start) -> None:
    process = start("dev", "--worker-slots", SLOTS)
    assert process.call("POST", "/v1/jobs", {"name": "a-telling-name", "type": "noop", "schedule": "@now"})[0] == 201
    wait_for(lambda: figures(process)["horae_runs_ended_total"]["succeeded"] == 1)

    found = figures(process)

    assert found["horae_shards_held"][""] == 64
    assert found["horae_clock_trusted"][""] == 1
    assert 0 <= found["horae_planner_scan_age_seconds"][""] < 10
    assert (found["horae_worker_slots"][""], found["horae_runs_in_hand"][""]) == (float(SLOTS), 0)
    assert found["horae_store_away_total"][""] == 0
    text = process.call("GET", "/metrics")[1]
    assert "a-telling-name" not in text
    assert "default" not in text
    assert "process_cpu_seconds_total" in text


def test_a_store_that_is_away_is_counted_once(start: Start) -> None:
    process = start("serve", ready=False, **fleet_environment("postgresql://nobody@127.0.0.1:9/none"))
    wait_for(process.is_listening)
    wait_for(lambda: process.log.read_text().count("store.away") >= 2)

    found = figures(process)

    assert found["horae_store_away_total"][""] == 1
    assert "horae_shards_held" not in found

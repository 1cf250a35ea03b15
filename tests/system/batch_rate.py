"""How many jobs a second come in over HTTP: a real server on PostgreSQL that keeps what it is told (fsync on), a client
beside it on the same machine.

`python -m tests.system.batch_rate [JOBS]` prints, for each way of sending, jobs a second of wall time, and what a job
costs in CPU of the server and of PostgreSQL: the machine may be busy with something else, CPU time is not.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.services import SETTINGS, create_cluster, find_binaries, free_port, start_server, wait_until_ready
from tests.system.harness import Process

AT_ONCE = 10_000
KEY = "horae_admin_key_of_the_batch_rate_measurement"
PIECE = 64 << 10


def noop(number: int) -> dict[str, Any]:
    return {"name": f"noop-{number}", "type": "noop", "target": {}, "schedule": f"{number % 60} {number % 24} * * *"}


def call(number: int) -> dict[str, Any]:
    """As users write them: an address of its own each, a payload, labels, a zone."""
    return {
        "name": f"call-{number}",
        "type": "http",
        "target": {"url": f"https://api-{number % 100}.example.com/customers/{number}", "method": "POST"},
        "schedule": f"{number % 60} 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "payload": {"customer": number, "kind": "report", "lines": [1, 2, 3]},
        "labels": {"team": f"team-{number % 20}"},
        "retry": {"max_retries": 3, "backoff": "exponential"},
    }


def ask(port: int, body: bytes | Iterator[bytes], media_type: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": media_type, "Authorization": f"Bearer {KEY}"}
    connection.request("POST", "/api/v1/jobs:batch", body, headers, encode_chunked=not isinstance(body, bytes))
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    if answer.status != 200 or document["failed"]:
        raise SystemExit(f"{answer.status}: {str(document)[:500]}")
    return int(document["created"])


def cpu_seconds(pids: list[int]) -> float:
    spent = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent += int(fields[11]) + int(fields[12])
    return spent / 100


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, found)]


def measure(server: Process, database: int, kind: Any, jobs: int, *, in_lines: bool) -> str:
    documents = [kind(number) for number in range(jobs)]
    if in_lines:
        for document in documents:
            document["name"] += "-line"
        bodies = ["".join(json.dumps(document) + "\n" for document in documents).encode()]
    else:
        parts = [documents[start : start + AT_ONCE] for start in range(0, jobs, AT_ONCE)]
        bodies = [json.dumps({"jobs": part}).encode() for part in parts]
    before = cpu_seconds([server.process.pid]), cpu_seconds(children(database))
    began = time.perf_counter()
    made = 0
    for body in bodies:
        pieces = (body[at : at + PIECE] for at in range(0, len(body), PIECE))
        media_type = "application/x-ndjson" if in_lines else "application/json"
        made += ask(server.port, pieces if in_lines else body, media_type)
    wall = time.perf_counter() - began
    ours, theirs = cpu_seconds([server.process.pid]) - before[0], cpu_seconds(children(database)) - before[1]
    what = f"{kind.__name__:5} {'lines, streamed' if in_lines else 'JSON':15}"
    per_job = f"server {ours / made * 1e6:5.1f} us a job, PostgreSQL {theirs / made * 1e6:5.1f} us a job"
    return f"{what} {made:7,} jobs  {made / wall:9,.0f} jobs/s  {per_job}"


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    home = Path(tempfile.mkdtemp(prefix="horae-batch-rate-", dir="/tmp"))
    binaries = find_binaries(home)
    create_cluster(binaries, home)
    port = free_port()
    settings = {name: value for name, value in SETTINGS.items() if name not in ("fsync", "full_page_writes")}
    database = start_server(binaries, home, port, settings | {"max_wal_size": "4GB"})
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        wait_until_ready(url, database, home / "log")
        environment = {"HORAE_ADMIN_KEY": KEY, "HORAE_DATABASE_URL": url, "HORAE_SECRET_KEY": "x" * 40}
        folder = home / "server"
        folder.mkdir()
        subprocess.run([sys.executable, "-m", "horae", "migrate"], env=os.environ | environment, check=True, cwd=folder)
        server = Process(folder, "serve", "--roles", "api,scheduler", **environment)
        try:
            server.wait_ready()
            ask(server.port, json.dumps({"jobs": [{"name": "first", "type": "noop"}]}).encode(), "application/json")
            for kind in (noop, call):
                for in_lines in (False, True):
                    print(measure(server, database.pid, kind, jobs, in_lines=in_lines), flush=True)
        finally:
            server.terminate()
    finally:
        database.terminate()
        database.wait()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Good histories of any length, made and not lived: as lines, or as rows of a store.

`python -m tests.histories 1000000` tells how long the verifier takes for them, and how much memory, each way it reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import asyncpg

from horae.core.compiled import schedule_of
from horae.core.document import parse_job
from horae.core.job import shard_of
from horae.core.run import run_id, scheduled_key
from horae.core.schedule import upcoming
from horae.store.jobs import encode
from horae.store.sqlite import SqliteDatabase
from horae.store.store import Store, open_store
from tests.services import on_server, postgres, with_database

SECOND = 1_000_000
START_US = 1_800_000_000 * SECOND
DAY_US = 86_400 * SECOND
DAYS = 30
Fact = dict[str, Any]

DOCUMENTS = (
    {"schedule": "* * * * *"},
    {"schedule": "*/10 * * * * *"},
    {"schedule": "@every 90s"},
    {"schedule": "0 9-17 * * 1-5", "timezone": "Europe/Berlin"},
    {"schedule": "H/15 * * * *", "timezone": "America/New_York"},
    {"schedule": "30 2 * * *", "timezone": "Australia/Lord_Howe", "calendar": {"exclude": ["2027-12-25"]}},
    {"schedule": "* * * * *", "overlap": "queue"},
    {"schedule": "*/2 * * * *", "max_concurrency": 3},
)


def facts(jobs: int, runs_each: int) -> Iterator[Fact]:
    """Every job ran as often as it may, so that all of them may stop at different times."""
    yield {"type": "store", "now_us": 2 * START_US, "kept_since_us": 0}
    yield {"type": "worker", "id": "w", "expires_us": 0}
    detail = json.dumps(dict.fromkeys(range(64), 1))
    yield {
        "type": "event",
        "seq": 1,
        "at_us": START_US - 1,
        "kind": "lease",
        "job_id": None,
        "run_id": None,
        "actor": "w",
        "detail": detail,
        "tenant": "",
    }
    for number, document in enumerate(islice(cycle(DOCUMENTS), jobs)):
        yield from _job(f"job-{number:08}", {"name": f"job-{number:08}", "type": "noop", **document}, runs_each)


def _job(id_: str, document: Fact, runs: int) -> Iterator[Fact]:
    definition = parse_job(document | {"max_runs": runs}, job_id=id_, now_us=START_US, tenant="default")
    schedule = schedule_of(definition, id_, START_US)
    yield {
        "type": "job",
        "id": id_,
        "tenant": "default",
        "name": document["name"],
        "state": "active",
        "version": 1,
        "created_us": START_US,
        "due_us": None,
        "fired": runs,
        "read_us": 2 * START_US,
    }
    spec = encode(definition).decode()
    yield {
        "type": "version",
        "job_id": id_,
        "version": 1,
        "spec": spec,
        "created_us": START_US,
        "actor": "somebody",
    }
    for number, due_us in enumerate(upcoming(schedule, START_US, runs)):
        yield from _run(id_, number, due_us)


def _run(job_id: str, number: int, due_us: int) -> Iterator[Fact]:
    id_ = run_id(job_id, scheduled_key(due_us), due_us)
    is_second, is_failed = number % 20 == 7, number % 100 == 13
    yield {
        "type": "run",
        "id": id_,
        "job_id": job_id,
        "tenant": "default",
        "queue": "default",
        "version": 1,
        "cause": "schedule",
        "status": "failed" if is_failed else "succeeded",
        "due_us": due_us,
        "run_at_us": due_us,
        "available_us": due_us,
        "queued_us": due_us - 5 * SECOND,
        "started_us": due_us + (4 * SECOND if is_second else 20_000),
        "ended_us": due_us + 5 * SECOND,
        "attempt": 2 if is_second else 1,
        "max_attempts": 1 if is_failed else 4,
        "token": 2,
        "epoch": 1,
        "is_once": False,
        "reason": "exception" if is_failed else None,
        "parent_id": None,
        "skip_until_us": None,
        "skip_count": 0,
    }
    if is_failed:
        yield {"type": "dead_letter", "run_id": id_, "replayed_as": None}
    if is_second:
        yield {
            "type": "attempt",
            "run_id": id_,
            "number": 1,
            "token": 1,
            "started_us": due_us + 10_000,
            "ended_us": due_us + 20_000,
            "reason": "exception",
            "worker": "w",
            "is_reaped": False,
        }


def lines(jobs: int, runs_each: int) -> Iterator[str]:
    count = 0
    for fact in facts(jobs, runs_each):
        count += 1
        yield json.dumps(fact)
    yield json.dumps({"type": "end", "lines": count})


# The same as rows.

_DEFAULTS: dict[str, Fact] = {
    "jobs": {"type": "noop", "kind": "CRON", "queue": "default", "priority": 1, "bucket": "-", "group_key": None}
    | {"max_attempts": 4, "is_once": False, "updated_us": START_US},
    "history": {"priority": 1, "worker": "w", "error": None, "result": None, "payload": None},
    "attempts": {"error": None},
    "events": {"reason": None},
}


def rows(jobs: int, runs_each: int) -> Iterator[tuple[str, Fact]]:
    """Table and row, in the order of the facts."""
    job_id = ""
    for fact in facts(jobs, runs_each):
        type_ = fact.pop("type")
        if type_ == "job":
            job_id = fact["id"]
            timer = {"job_id": job_id, "shard": shard_of(job_id), "due_us": None, "version": 1, "fired": fact["fired"]}
            yield "timers", timer
            kept = ("id", "tenant", "name", "state", "version", "created_us")
            yield "jobs", {name: fact[name] for name in kept} | {"shard": timer["shard"]} | _DEFAULTS["jobs"]
        elif type_ == "version":
            yield "job_versions", fact
        elif type_ == "event":
            yield "events", fact | _DEFAULTS["events"]
        elif type_ == "run":
            yield "history", _without(fact, "available_us", "is_once") | _DEFAULTS["history"]
        elif type_ == "attempt":
            yield "attempts", _without(fact, "number", "is_reaped") | {"attempt": fact["number"], "error": None}
        elif type_ == "dead_letter":
            yield "dead_letters", fact | {"job_id": job_id, "tenant": "default", "at_us": START_US}


def _without(fact: Fact, *names: str) -> Fact:
    return {name: value for name, value in fact.items() if name not in names}


async def fill(url: str, jobs: int, runs_each: int) -> None:
    store = open_store(url)
    await store.migrate()
    if url.startswith("postgresql"):
        for table in ("history", "attempts"):
            for day in range(DAYS):
                from_us, to_us = (START_US // DAY_US + day) * DAY_US, (START_US // DAY_US + day + 1) * DAY_US
                part = f"CREATE TABLE {table}_of_{day} PARTITION OF {table} FOR VALUES FROM ({from_us}) TO ({to_us})"
                on_server(url, part)
    waiting: dict[str, list[Fact]] = {}
    for table, row in rows(jobs, runs_each):
        batch = waiting.setdefault(table, [])
        batch.append(row)
        if len(batch) == 10_000:
            await _insert(store, url, table, batch)
            batch.clear()
    for table, batch in waiting.items():
        await _insert(store, url, table, batch)
    await store.close()


async def _insert(store: Store, url: str, table: str, batch: list[Fact]) -> None:
    if not batch:
        return
    names = list(batch[0])
    records = [tuple(row.values()) for row in batch]
    if isinstance(store.database, SqliteDatabase):
        text = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

        def insert(raw: Any) -> None:
            raw.execute("BEGIN")
            raw.executemany(text, records)
            raw.execute("COMMIT")

        await store.database.script(insert)
    else:
        connection = await asyncpg.connect(url)
        await connection.copy_records_to_table(table, records=records, columns=names)
        await connection.close()


def main(runs: int, runs_each: int) -> None:
    jobs = -(-runs // runs_each)
    with tempfile.TemporaryDirectory() as folder, postgres() as server:
        path = Path(folder, "export.ndjson")
        with path.open("w") as file:
            file.writelines(f"{line}\n" for line in lines(jobs, runs_each))
        _measure("NDJSON", [str(path)])
        asyncio.run(fill(f"sqlite:///{folder}/horae.db", jobs, runs_each))
        _measure("SQLite", ["--database-url", f"sqlite:///{folder}/horae.db"])
        on_server(server, "CREATE DATABASE histories")
        url = with_database(server, "histories")
        asyncio.run(fill(url, jobs, runs_each))
        _measure("PostgreSQL", ["--database-url", url])


def _measure(name: str, arguments: list[str]) -> None:
    """In a process of its own: seconds on the wall, seconds of a processor, and the most memory it had."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-m", "horae", "verify", "--json", *arguments]
        process = subprocess.Popen(command, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds, busy = time.monotonic() - began, used.ru_utime + used.ru_stime
        output.seek(0)
        report = json.loads(output.read() or "{}")
    told = f"{report['counts']['runs']} runs, {len(report['violations'])} violations" if report else "failed"
    print(f"{name:>12} {seconds:6.1f} s, busy {busy:5.1f} s, {used.ru_maxrss / 1024:5.0f} MB: {told}", flush=True)
    print(*report.get("violations", [])[:3], sep="\n", end="")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500)

"""How long every list takes at size, over HTTP from a real server: each filter alone, and second pages.

`horae demo load --jobs 100000 --runs 5000000 --database-url URL` fills a store, then
`python -m tests.system.list_times URL` adds what else has lists (waiting runs, keys, tenants, audit, deliveries) and
prints the median of five answers to each request, the slowest first. Ends with 1 if one of them takes 300 ms or more.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from horae.store.database import Statement, Steps, Transaction
from horae.store.store import Store, open_store
from tests.system.harness import Process

KEY = "horae_admin_key_of_the_list_times"
MOST_MS, ROUNDS = 300.0, 5
WAITING, TENANTS, KEYS, ENTRIES, DELIVERIES = 100_000, 5_000, 5_000, 500_000, 200_000

_NUMBERS = """
WITH RECURSIVE numbers(n) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n < :most)
"""
FILL = {
    # Half of the jobs have a run that waits, due in the last hour; the rest of the live queue is running.
    "runs": f"""
        INSERT INTO runs (id, job_id, tenant, version, cause, queue, priority, bucket, group_key, state, due_us,
                          run_at_us, queued_us, available_us, attempt, max_attempts, is_once, token, worker, started_us)
        {_NUMBERS}, chosen AS (
            SELECT n, 'demo-' || CAST(10000000 + n * 7919 % 100000 AS TEXT) AS job_id,
                   horae_now() - n * 30000 AS due_us, n % 500 = 0 AS is_running
            FROM numbers
        )
        SELECT horae_run_id(j.id, 'filled:' || CAST(n AS TEXT), due_us), j.id, j.tenant, 1, 'manual', j.queue,
               j.priority, j.bucket, j.group_key, CASE WHEN is_running THEN 'running' ELSE 'queued' END, due_us, due_us,
               due_us, due_us, CASE WHEN is_running THEN 1 ELSE 0 END, 3, false, n,
               CASE WHEN is_running THEN 'demo-worker-' || CAST(n % 8 AS TEXT) END,
               CASE WHEN is_running THEN due_us END
        FROM chosen JOIN jobs j ON j.id = chosen.job_id
    """,
    "tenants": f"""
        INSERT INTO tenants (tenant, description, created_us, updated_us)
        {_NUMBERS} SELECT 'tenant-' || CAST(n AS TEXT), '', n, n FROM numbers
    """,
    "api_keys": f"""
        INSERT INTO api_keys (id, tenant, name, role, scopes, prefix, hash, created_us, created_by)
        {_NUMBERS}
        SELECT 'key-' || CAST(n AS TEXT), 'default', 'made up', 'viewer', '[]', 'horae_x', 'x' || CAST(n AS TEXT), n, ''
        FROM numbers
    """,
    "audit": f"""
        INSERT INTO audit (tenant, at_us, actor, key_id, action, target, after, seq, hash)
        {_NUMBERS}
        SELECT 'default', horae_now() - (:most - n) * 1000000, 'actor-' || CAST(n % 50 AS TEXT),
               'key-' || CAST(n % 500 AS TEXT), CASE WHEN n % 3 = 0 THEN 'job.run' ELSE 'job.changed' END,
               'demo-' || CAST(10000000 + n % 100000 AS TEXT), '{{"made_up": true}}', n + 1000000, 'x'
        FROM numbers
    """,
    "deliveries": f"""
        INSERT INTO deliveries (id, tenant, webhook_id, url, event, job_id, run_id, state, attempt, next_us, created_us)
        {_NUMBERS}
        SELECT horae_run_id('hook-1', CAST(n AS TEXT), horae_now() - n * 1000000), 'default',
               CASE WHEN n % 2 = 0 THEN (SELECT id FROM webhooks) ELSE 'another' END, 'https://hooks.example.com/x',
               'run.failed',
               'demo-10000001', 'run', CASE WHEN n % 1000 = 0 THEN 'dead' ELSE 'delivered' END, 1, n, n
        FROM numbers
    """,
}
SIZES = {
    "runs": WAITING,
    "tenants": TENANTS,
    "api_keys": KEYS,
    "audit": ENTRIES,
    "webhooks": 1,
    "deliveries": DELIVERIES,
}


async def fill(url: str) -> tuple[int, str]:
    """The store's time, and a job with many runs."""
    store = open_store(url)
    try:
        await store.migrate()
        for table, text in FILL.items():
            await _fill_table(store, table, text)
        return await store.now(), "demo-10000042"
    finally:
        await store.close()


async def _fill_table(store: Store, table: str, text: str) -> None:
    def steps() -> Steps[None]:
        if (yield Statement(f"SELECT count(*) AS n FROM {table}")())[0]["n"] < SIZES[table]:
            yield Statement(text)(most=SIZES[table])
            yield Statement(f"ANALYZE {table}", sqlite="SELECT 1")()

    await store.database.run(Transaction(steps))


def requests(now_us: int, job: str) -> list[tuple[str, dict[str, str]]]:
    def at(hours: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_us / 1e6 + hours * 3600))

    statuses = ("PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "UNKNOWN")
    dead: list[dict[str, str]] = [
        {},
        *({"queue": queue} for queue in ("default", "reports", "nowhere")),
        *({"priority": word} for word in ("HIGH", "LOW")),
        *({"reason": word} for word in ("exception", "timeout", "overlap_skipped")),
        {"due_after": at(-24)},
        {"due_before": at(-72)},
        {"due_after": at(-100), "due_before": at(-96)},
    ]
    waiting = [{"reason": word} for word in ("no_worker", "job_concurrency", "queue_paused")]
    runs = [*dead, *waiting, *({"status": word} for word in statuses)]
    runs += [{"worker": "demo-worker-3"}, {"worker": "nobody"}, {"status": "FAILED", "queue": "reports"}]
    jobs: list[dict[str, str]] = [
        {},
        *({"status": word} for word in ("SCHEDULED", "PAUSED", "COMPLETED", "CANCELLED")),
        *({"health": word} for word in ("failing", "late", "never_run")),
        *({"q": word} for word in ("billing", "0012345", "nothing like it")),
        *({"label": word} for word in ("team:ads", "team:nobody")),
        *({"type": word} for word in ("noop", "http")),
        *({"queue": word} for word in ("reports", "nowhere")),
        {"priority": "HIGH"},
        {"due_before": at(1)},
        *({"sort": sign + name} for sign in ("", "-") for name in ("name", "next_fire_time", "updated_at")),
        *({"sort": "next_fire_time", "status": word} for word in ("SCHEDULED", "PAUSED")),
    ]
    audit = [
        {},
        *({"actor": word} for word in ("actor-7", "nobody")),
        *({"key": word} for word in ("key-7", "nobody")),
        *({"action": word} for word in ("job.run", "job", "key.created")),
        *({"target": word} for word in ("demo-10000007", "nothing")),
        {"since": at(-1)},
        {"until": at(-100)},
    ]
    deliveries = [{}, *({"state": word} for word in ("waiting", "delivered", "dead"))]
    lists = {
        "/jobs": jobs,
        "/runs": [*runs, *({"job": job} | each for each in runs)],
        f"/jobs/{job}/runs": runs,
        "/dead-letters": [*dead, {"job": job}, {"error": "Made up: this run failed."}, {"error": "another"}],
        "/dead-letters:groups": [*dead, {"job": job}, {"error": "another"}],
        "/audit": audit,
        "/deliveries": deliveries,
        "/webhooks/made-up/deliveries": deliveries,
    }
    plain = ("/keys", "/tenants", "/queues", "/workers", "/calendars", "/secrets", "/webhooks", f"/jobs/{job}/versions")
    return [(path, query) for path, queries in lists.items() for query in queries] + [(path, {}) for path in plain]


class Asker:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, path: str, query: dict[str, str]) -> tuple[float, dict[str, Any] | list[Any], str]:
        """Milliseconds, the answer, and the cursor of the next page if there is one."""
        words = f"?{urlencode(query)}" if query else ""
        began = time.perf_counter()
        self._connection.request(
            "GET", f"/api/v1{quote(path, '/:')}{words}", headers={"Authorization": f"Bearer {KEY}"}
        )
        answer = self._connection.getresponse()
        body = answer.read()
        took_ms = 1000 * (time.perf_counter() - began)
        if answer.status != 200:
            raise SystemExit(f"{path} {query}: {answer.status} {body[:300]!r}")
        document = json.loads(body)
        link = answer.headers.get("link") or ""
        cursor = link.partition("cursor=")[2].partition(">")[0] if link else ""
        return took_ms, document, cursor if isinstance(document, list) else document.get("next_cursor") or ""

    def median(self, path: str, query: dict[str, str]) -> tuple[float, int, str]:
        times = []
        for _ in range(ROUNDS):
            took_ms, document, cursor = self.ask(path, query)
            times.append(took_ms)
        rows = document if isinstance(document, list) else next(v for v in document.values() if isinstance(v, list))
        return statistics.median(times), len(rows), cursor


@contextmanager
def serving(url: str) -> Iterator[Process]:
    with tempfile.TemporaryDirectory() as folder:
        words = ("serve", "--roles", "api", "--database-url", url)
        server = Process(Path(folder), *words, HORAE_ADMIN_KEY=KEY, HORAE_SECRET_KEY="k" * 40)
        try:
            server.wait_ready()
            yield server
        finally:
            server.terminate()


def measure(asker: Asker, now_us: int, job: str) -> list[tuple[float, str, int]]:
    found: list[tuple[float, str, int]] = []
    asker.ask("/whoami", {})
    for path, query in requests(now_us, job):
        name = f"{path}{'?' if query else ''}{'&'.join(f'{key}={value}' for key, value in query.items())}"
        ms, rows, cursor = asker.median(path, query)
        found.append((ms, name, rows))
        if cursor:
            ms, rows, _ = asker.median(path, {**query, "cursor": cursor})
            found.append((ms, f"{name}, second page", rows))
    return sorted(found, reverse=True)


def main(url: str) -> int:
    hook = {"name": "made-up", "url": "https://hooks.example.com/x", "events": ["run.failed"]}
    with serving(url) as server:
        server.call("POST", "/api/v1/webhooks", hook, KEY)
    now_us, job = asyncio.run(fill(url))
    with serving(url) as server:
        found = measure(Asker(server.port), now_us, job)
    for ms, name, rows in found:
        print(f"{ms:8.1f} ms {rows:5d} rows  {name}")
    slow = sum(ms >= MOST_MS for ms, _, _ in found)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{len(found)} requests, {slow} of them at {MOST_MS:.0f} ms or more; load average {load}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

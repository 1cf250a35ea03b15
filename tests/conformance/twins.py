"""The same life on two stores: every operation is done to both, and both must say and keep the same."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from horae.commands import Caller, Commands, RunRequest
from horae.core.errors import HoraeError
from horae.core.explain import explain
from horae.ports import Again, Claimed, Ending
from horae.store.postgres import PostgresDatabase
from horae.store.sqlite import MemoryDatabase
from horae.store.store import Store
from horae.testing import VAULT
from horae.verify.report import check
from tests.conformance.conftest import START_US
from tests.conformance.world import TENANT, TTL_US, World

CALLER = Caller(TENANT, "test")
AHEAD_US = 15_000_000
FILTERS = ("status", "queue", "priority", "worker", "reason", "due_after_us", "due_before_us")
LETTER_FILTERS = ("queue", "priority", "reason", "due_after_us", "due_before_us")
JOB_FILTERS = ("status", "health", "search", "label", "type", "queue", "priority", "due_before_us")

# What is compared after every step. Tokens come from each store's own counter; what they decide shows in the rest.
TABLES = {
    "jobs": "SELECT id, name, version, state, queue, priority, bucket, paused_us, pause_until_us FROM jobs ORDER BY id",
    "timers": "SELECT job_id, due_us, version, fired FROM timers ORDER BY job_id",
    "called_off": "SELECT job_id, due_us FROM called_off ORDER BY job_id, due_us",
    "runs": "SELECT id, job_id, version, cause, priority, state, due_us, run_at_us, available_us, attempt,"
    " max_attempts, worker, started_us, cancel, reason, parent_id, token > 0 AS has_token FROM runs ORDER BY id",
    "history": "SELECT id, job_id, version, cause, status, due_us, run_at_us, started_us, ended_us, attempt,"
    " max_attempts, worker, reason, parent_id, skip_until_us, skip_count FROM history ORDER BY id, ended_us",
    "attempts": "SELECT run_id, attempt, worker, started_us, ended_us, reason FROM attempts ORDER BY run_id, attempt",
    "dead_letters": "SELECT run_id, at_us, replayed_as, discarded_us FROM dead_letters ORDER BY run_id",
    "events": "SELECT at_us, kind, job_id, run_id, reason, detail FROM events ORDER BY seq",
    "workers": "SELECT id, state, expires_us FROM workers ORDER BY id",
    "leases": "SELECT shard, owner, epoch, expires_us FROM leases ORDER BY shard",
}


class Twin:
    """One of the two: a store on a clock that others drive, and those who use it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.world = World(store)
        self._ids = 0
        self.commands = Commands(store, VAULT, self._new_id, lambda: None)
        self.held: dict[str, Claimed] = {}

    def _new_id(self) -> str:
        self._ids += 1
        return f"00000000-0000-7000-8000-{self._ids:012x}"

    async def plan(self, owner: str) -> Any:
        """What a scheduler does, without its watch over the clock: that one looks at the real time."""
        leases = await self.store.keep_leases(owner, TTL_US, await self.store.now())
        skipped = await self.store.judge_overdue(leases.gaps) if leases.gaps else {}
        scan = await self.store.due_timers(sorted(leases.held), AHEAD_US, 1000)
        decisions = self.world.planner.decide(scan.timers, leases.held, scan.now_us)
        decisions.sort(key=lambda decision: decision.timer.job_id)
        planned = await self.store.plan(owner, decisions) if decisions else None
        return leases.held, sorted(leases.gaps), skipped, scan.next_us, planned

    async def claim(self, worker: str) -> Any:
        claimed = await self.world.claim(worker=worker)
        self.held |= {each.run_id: each for each in claimed}
        return sorted((each.run_id, each.attempt, each.max_attempts, each.payload) for each in claimed)

    def pick(self, number: int) -> Claimed:
        ids = sorted(self.held)
        return self.held[ids[number % len(ids)]]

    async def a_run(self, number: int) -> str:
        runs = (await self.store.runs(TENANT, None, dict.fromkeys(FILTERS), None, 1000)).rows
        ids = [row["id"] for row in runs]
        return ids[number % len(ids)] if ids else "none"

    async def tables(self) -> dict[str, list[dict[str, Any]]]:
        raise NotImplementedError


class SqliteTwin(Twin):
    def __init__(self, now_us: Callable[[], int]) -> None:
        self._memory = MemoryDatabase(now_us)
        super().__init__(Store(self._memory))

    async def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: _plain(self._memory.raw.execute(text).fetchall()) for name, text in TABLES.items()}


class PostgresTwin(Twin):
    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self._connection = connection
        super().__init__(Store(PostgresDatabase(url, size=1)))

    async def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: _plain(await self._connection.fetch(text)) for name, text in TABLES.items()}


def _plain(rows: Any) -> Any:
    """A row as both would give it: SQLite has no booleans of its own, nor tuples."""
    if isinstance(rows, bool):
        return int(rows)
    if isinstance(rows, list | tuple):
        return [_plain(each) for each in rows]
    if isinstance(rows, dict | asyncpg.Record):
        return {
            name: json.loads(value) if name == "detail" and value else _plain(value)
            for name, value in dict(rows).items()
            if name not in ("token", "seq")
        }
    return rows


class Twins:
    """`step` does one operation to both, and says where they differ."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.now_us = START_US

    async def open(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        store = Store(PostgresDatabase(self._url, size=1))
        await store.migrate()
        await store.close()
        await self._connection.execute("CREATE TABLE test_clock (now_us BIGINT NOT NULL)")
        await self._connection.execute("INSERT INTO test_clock VALUES (0)")
        await self._connection.execute("GRANT SELECT ON test_clock TO PUBLIC")
        await self._connection.execute(
            "CREATE OR REPLACE FUNCTION horae_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS"
            " $$ SELECT now_us FROM test_clock $$"
        )

    async def close(self) -> None:
        await self._connection.close()

    async def begin(self) -> None:
        """Both empty, at the same time of day."""
        names = [name for name in TABLES if name != "leases"]
        names += ["job_versions", "job_labels", "chains", "logs", "schedulers", "limits", "idempotency"]
        await self._connection.execute(f"TRUNCATE {', '.join(names)}")
        await self._connection.execute("UPDATE leases SET owner = '', epoch = 0, expires_us = 0")
        await self._connection.execute("UPDATE meta SET value = '0' WHERE key = 'clock_high_us'")
        self._postgres = PostgresTwin(self._url, self._connection)
        self._sqlite = SqliteTwin(lambda: self.now_us)
        await self._sqlite.store.migrate()
        self.now_us = START_US
        await self.advance(0)

    async def end(self) -> None:
        await self._postgres.store.close()
        await self._sqlite.store.close()

    async def advance(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)
        await self._connection.execute("UPDATE test_clock SET now_us = $1", self.now_us)

    async def step(self, name: str, *words: Any) -> None:
        if name == "advance":
            await self.advance(*words)
            return
        one, two = [await _told(OPERATIONS[name](twin, *words)) for twin in (self._sqlite, self._postgres)]
        assert one == two, f"{name}{words}: SQLite says {one}, PostgreSQL {two}"
        kept, also = await self._sqlite.tables(), await self._postgres.tables()
        for table in TABLES:
            differ = [row for row in kept[table] if row not in also[table]]
            assert kept[table] == also[table], f"after {name}{words} they differ in {table}: {differ}"


async def _told(answer: Awaitable[Any]) -> Any:
    try:
        return _plain(await answer)
    except HoraeError as error:
        return type(error).__name__, error.code, error.detail


async def _listed(twin: Twin, sort: str, status: str | None) -> Any:
    filters = dict.fromkeys(JOB_FILTERS) | {"status": status}
    return (await twin.store.jobs(TENANT, filters, sort, None, 100)).rows


async def _settle(twin: Twin, number: int, status: str, reason: str | None) -> Any:
    if twin.held:
        run = twin.pick(number)
        ending = Ending(run.run_id, run.token, status, reason, None, '{"n": 1}')
        return len((await twin.store.settle("w1", [ending])).ended)
    return None


async def _requeue(twin: Twin, number: int, seconds: float, counts: bool) -> Any:
    if twin.held:
        run = twin.pick(number)
        again = Again(run.run_id, run.token, round(seconds * 1e6), "exception", "again", counts=counts)
        return len(await twin.store.requeue("w1", [again]))
    return None


async def _of_run(twin: Twin, verb: str, number: int) -> Any:
    run = await twin.a_run(number)
    match verb:
        case "show":
            row, attempts = await twin.store.run(TENANT, run)
            return row, attempts
        case "discard":
            return await twin.commands.letters.discard(CALLER, run)
        case "replay":
            return await twin.commands.letters.replay(CALLER, run, None)
        case "retry":
            return await twin.commands.runs.retry(CALLER, run, None)
        case _:
            return await twin.commands.runs.cancel(CALLER, run, None)


async def _trigger(twin: Twin, job: str, priority: str | None, in_seconds: int | None) -> Any:
    run_at_us = None if in_seconds is None else await twin.store.now() + in_seconds * 1_000_000
    return await twin.commands.runs.trigger(CALLER, job, [RunRequest('{"a": 1}', priority, run_at_us)], None)


async def _pause(twin: Twin, job: str, seconds: int | None) -> Any:
    until_us = None if seconds is None else await twin.store.now() + seconds * 1_000_000
    return await twin.commands.jobs.pause(CALLER, job, until_us, "by hand", None)


async def _runs(twin: Twin, job: str | None, **filters: Any) -> Any:
    return await twin.store.runs(TENANT, job, dict.fromkeys(FILTERS) | filters, None, 50)


async def _explain(twin: Twin, job: str, seconds: int | None) -> Any:
    at_us = None if seconds is None else await twin.store.now() + seconds * 1_000_000
    return explain(await twin.store.explain_facts(TENANT, job, at_us), 10**15)


async def _verify(twin: Twin) -> Any:
    lines = [line async for block in twin.store.export(10**15) for line in block.splitlines()]
    report = check(lines)
    return len(lines), report.counts, report.violations


OPERATIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "create": lambda twin, document: twin.commands.jobs.create(CALLER, document, None),
    "edit": lambda twin, job, change: twin.commands.jobs.change(CALLER, job, change, None, None),
    "pause": _pause,
    "resume": lambda twin, job: twin.commands.jobs.resume(CALLER, job, None),
    "delete": lambda twin, job: twin.commands.jobs.delete(CALLER, job, None),
    "trigger": _trigger,
    "plan": lambda twin, owner: twin.plan(owner),
    "beat": lambda twin, worker: twin.world.worker(worker),
    "claim": lambda twin, worker: twin.claim(worker),
    "settle": _settle,
    "requeue": _requeue,
    "run": _of_run,
    "reap": lambda twin: twin.store.reap(100),
    "gate": lambda twin: twin.store.gate(),
    "overdue": lambda twin: twin.store.judge_overdue(list(range(64))),
    "chores": lambda twin: twin.store.chores(),
    "job": lambda twin, job: twin.store.job(TENANT, job),
    "versions": lambda twin, job: twin.store.versions(TENANT, job),
    "jobs": _listed,
    "runs": lambda twin, job, status: _runs(twin, job, status=status),
    "dead": lambda twin: twin.store.dead_letters(TENANT, None, dict.fromkeys(LETTER_FILTERS), None, 50),
    "explain": _explain,
    "verify": _verify,
}

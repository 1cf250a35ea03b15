"""Every statement is prepared on both databases, and the hot ones find their rows by an index."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Any

import asyncpg
import pytest

import horae.store
from horae.bench import fill
from horae.store import claims, fleet, job_lists, letters, plans, results, run_lists
from horae.store.database import Statement
from horae.store.postgres import SESSION, PostgresDatabase
from horae.store.sqlite import SqliteDatabase
from horae.store.store import Store

POSTGRES_ONLY = {"trials.ENDED", "plans.PLAN", "claims.CLAIM", "results.SETTLE", "upkeep.PARTITIONS"}
SQLITE_ONLY = {"upkeep._OLD"}


def statements() -> list[tuple[str, Statement]]:
    found = []
    for module in pkgutil.iter_modules(horae.store.__path__):
        for name, value in vars(importlib.import_module(f"horae.store.{module.name}")).items():
            label = f"{module.name}.{name}"
            if isinstance(value, Statement):
                found.append((label, value))
            elif isinstance(value, dict):
                found += [(label, each) for each in value.values() if isinstance(each, Statement)]
    return found + list_statements()


def list_statements() -> list[tuple[str, Statement]]:
    """Every walk through jobs and runs with no filter, with each alone and with all of them."""
    flags = [(is_descending, has_place) for is_descending in (False, True) for has_place in (False, True)]
    of_jobs = [
        (f"job_lists.{walk}", job_lists.statement_of(walk, names, is_descending=is_descending, has_place=has_place))
        for walk in job_lists.WALKS
        for names in chosen(job_lists.FILTERS)
        for is_descending, has_place in flags
    ]
    of_runs = [
        (f"run_lists.{name}", run_lists.statement_of(name, names))
        for name, walk in run_lists.WALKS.items()
        for names in chosen(walk.filters)
    ]
    of_letters = [("run_lists", run_lists.letters_where(names)) for names in chosen(run_lists.LETTER_FILTERS)]
    of_letters += [("letters", letters.groups_where(names)) for names in chosen(letters.FILTERS)]
    ends = [(f"run_lists.{walk}", run_lists.end_of(walk)) for walk in run_lists.WALKS]
    return of_jobs + of_runs + of_letters + ends


def chosen(names: Iterable[str]) -> list[frozenset[str]]:
    return [frozenset(), *(frozenset({name}) for name in names), frozenset(names)]


async def test_every_statement_is_understood_by_postgres(postgres_database: str) -> None:
    await _migrated(postgres_database)
    connection = await asyncpg.connect(postgres_database)
    checked = 0
    for label, statement in statements():
        if label not in SQLITE_ONLY:
            await connection.prepare(statement.for_postgres()[0])
            checked += 1
    await connection.close()

    assert checked > 60


async def test_every_statement_is_understood_by_sqlite(tmp_path: Any) -> None:
    database = SqliteDatabase(str(tmp_path / "h.db"))
    store = Store(database)
    await store.migrate()
    checked = 0

    def explain(raw: Any) -> None:
        nonlocal checked
        for label, statement in statements():
            if label not in POSTGRES_ONLY:
                raw.execute(f"EXPLAIN {statement.for_sqlite()}", _Anything())
                checked += 1

    await database.script(explain)
    await store.close()

    assert checked > 60


class _Anything(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "[]"


HOT = {
    "plans.PLAN": plans.PLAN,
    "plans.DUE": plans.DUE,
    "claims.WAITING": claims.WAITING,
    "claims.COMING": claims.COMING,
    "claims.SPECS": claims.SPECS,
    "claims.CLAIM": claims.CLAIM,
    "results.SETTLE": results.SETTLE,
    "results.REQUEUE": results.REQUEUE,
}
TINY = ("leases", "pg_")


@pytest.mark.parametrize("name", HOT)
async def test_hot_statements_use_indexes_even_without_statistics(name: str, postgres_database: str) -> None:
    await _migrated(postgres_database)
    connection = await asyncpg.connect(postgres_database, server_settings=SESSION)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    text, names = HOT[name].for_postgres()
    await connection.execute(f"PREPARE hot AS {text}")
    nothing = ", ".join("NULL" for _ in names)

    plan = [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE hot({nothing})")]
    await connection.close()

    scans = [line for line in plan if "Seq Scan" in line and not any(f"on {tiny}" in line for tiny in TINY)]
    assert scans == []
    assert not any(f"Sort Key: {column}" in line for line in plan for column in ("runs.", "timers.", "due_us"))


async def test_hot_statements_never_walk_a_whole_table_of_which_they_want_a_part(postgres_database: str) -> None:
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    await fill.add_jobs(store, 20_000)
    await fill.add_waiting(store, 20_000, 20_000)
    await fill.analyze(store)
    await store.close()
    connection = await asyncpg.connect(postgres_database, server_settings=SESSION)

    walks = []
    for mode in ("force_generic_plan", "force_custom_plan"):
        await connection.execute(f"SET plan_cache_mode = {mode}")
        for name, statement in HOT.items():
            batch = [f"{fill.LINE}"] * 500
            params = [batch if "#" in each else 1 for each in statement.for_postgres()[1]]
            prepared = await connection.prepare(f"EXPLAIN {statement.for_postgres()[0]}")
            values = [_fitting(value, kind.name) for value, kind in zip(params, prepared.get_parameters(), strict=True)]
            plan = [row[0] for row in await prepared.fetch(*values)]
            walks += [
                f"{name}, {mode}: {line.strip()}"
                for line, below in zip(plan, [*plan[1:], ""], strict=True)
                if re.search(r"Scan using \w+ on (runs|jobs|timers|job_versions|history)", line)
                and "Index Cond" not in below
            ]
    await connection.close()

    assert walks == []


async def test_whom_a_worker_is_to_stop_is_found_without_a_walk_past_all_that_it_runs(postgres_database: str) -> None:
    """While an old transaction is open, nothing that ever ran leaves the index of what runs."""
    store = Store(PostgresDatabase(postgres_database))
    await store.migrate()
    await fill.add_jobs(store, 1000)
    await fill.add_waiting(store, 5000, 1000)
    await store.close()
    connection = await asyncpg.connect(postgres_database, server_settings=SESSION)
    await connection.execute("UPDATE runs SET state = 'running', worker = 'w1', started_us = 1")
    text = fleet.CANCELLED.for_postgres()[0]

    plans_of = []
    for analyze in ("SELECT 1", "ANALYZE runs"):
        await connection.execute(analyze)
        plans_of.append("\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {text}", "w1")))
    await connection.close()

    assert all("using runs_cancelled" in plan for plan in plans_of), plans_of


def _fitting(value: object, kind: str) -> object:
    """A value that a parameter of this type takes."""
    if not isinstance(value, list):
        return str(value) if kind in ("text", "varchar") else kind == "bool" or value
    return value if kind == "text[]" else [kind == "bool[]" or 1] * len(value)


async def _migrated(url: str) -> None:
    store = Store(PostgresDatabase(url))
    await store.migrate()
    await store.close()

"""Brings a schema up to date: numbered SQL files, forward only, one process at a time.

`NNNN_pre_what.sql` is safe while the previous release still runs; `NNNN_post_what.sql` is for after it has gone. A
file may have a companion `NNNN_pre_what.postgres.sql` or `.sqlite.sql` for what only one database has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from horae.core.errors import Fault, Invalid, Unavailable
from horae.store.database import Database, Statement, Steps, reading
from horae.store.postgres import PostgresDatabase
from horae.store.sqlite import MemoryDatabase, SqliteDatabase
from horae.store.wall import BUILD

SchemaOwner = PostgresDatabase | SqliteDatabase | MemoryDatabase

LOCK = 0x686F726165  # "horae"
BY_DAY = re.compile(r"\{by_day:(\w+)\}")
TOKENS = {
    # Keys compare byte by byte, as in SQLite, whatever the database's own collation.
    "postgres": {"{key}": 'TEXT COLLATE "C"', "{serial}": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
    "sqlite": {"{key}": "TEXT", "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT"},
}


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


def migrations(dialect: str) -> list[Migration]:
    folder = resources.files("horae.store") / "migrations"
    texts = {item.name: item.read_text() for item in folder.iterdir() if item.name.endswith(".sql")}
    found = []
    for file in sorted(texts):
        name = file.removesuffix(".sql")
        if "." in name:
            continue
        text = texts[file] + texts.get(f"{name}.{dialect}.sql", "")
        for token, value in TOKENS[dialect].items():
            text = text.replace(token, value)
        text = BY_DAY.sub(r"PARTITION BY RANGE (\1)" if dialect == "postgres" else "", text)
        found.append(Migration(int(name[:4]), name, text))
    return found


async def migrate(database: SchemaOwner) -> list[str]:
    """Applies what is missing and returns their names."""
    if isinstance(database, PostgresDatabase):
        return await _migrate_postgres(database)
    return await _migrate_sqlite(database)


async def check_schema(database: Database) -> None:
    """Raises Unavailable when the schema is behind this release, Invalid when a SQLite file is ahead of it.

    On PostgreSQL a release works beside the next one while that is rolled out; a file has one process.
    """
    applied = await database.run(_applied())
    known = migrations(database.dialect)
    if database.dialect == "sqlite" and applied - {migration.number for migration in known}:
        hint = "Use the release that wrote it last, or newer; or name another file."
        raise Invalid([Fault("HORAE_DATABASE_URL", "The file was written by a newer horae.", hint)], "settings")
    lacking = [migration.name for migration in known if migration.number not in applied]
    if lacking:
        raise Unavailable(f"The schema lacks {', '.join(lacking)}: run `horae migrate`.")


async def missing(database: Database) -> list[str]:
    """The names of what is still to be applied."""
    applied = await database.run(_applied())
    return [migration.name for migration in migrations(database.dialect) if migration.number not in applied]


HAS_TABLE = Statement(
    "SELECT to_regclass('schema_migrations') IS NOT NULL AS found",
    sqlite="SELECT count(*) > 0 AS found FROM sqlite_master WHERE name = 'schema_migrations'",
)

NUMBERS = Statement("SELECT number FROM schema_migrations")


@reading
def _applied() -> Steps[set[int]]:
    if not (yield HAS_TABLE())[0]["found"]:
        return set()
    return {row["number"] for row in (yield NUMBERS())}


CREATE = "CREATE TABLE IF NOT EXISTS schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)"


async def _migrate_postgres(database: PostgresDatabase) -> list[str]:
    done: list[str] = []

    async def work(connection: Any) -> None:
        await connection.execute("SET lock_timeout = '60s'; SET statement_timeout = 0")
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute(CREATE)
            applied = {row["number"] for row in await connection.fetch("SELECT number FROM schema_migrations")}
            for migration in migrations("postgres"):
                if migration.number in applied:
                    continue
                if migration.text.strip():  # some are about SQLite alone
                    await connection.execute(migration.text)
                await connection.execute(
                    "INSERT INTO schema_migrations VALUES ($1, $2)", migration.number, migration.name
                )
                done.append(migration.name)
            await connection.execute(BUILD)
        await connection.execute("RESET lock_timeout; RESET statement_timeout")

    await database.script(work)
    return done


async def _migrate_sqlite(database: SqliteDatabase | MemoryDatabase) -> list[str]:
    done: list[str] = []

    def work(raw: Any) -> None:
        raw.execute(CREATE)
        applied = {row["number"] for row in raw.execute("SELECT number FROM schema_migrations")}
        for migration in migrations("sqlite"):
            if migration.number in applied:
                continue
            # executescript commits what is open first, so the script brings its own BEGIN and COMMIT.
            raw.executescript(
                f"BEGIN EXCLUSIVE;\n{migration.text}\n"
                f"INSERT INTO schema_migrations VALUES ({migration.number}, '{migration.name}');\nCOMMIT;"
            )
            done.append(migration.name)

    await database.script(work)
    return done

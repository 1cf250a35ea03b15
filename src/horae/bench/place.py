"""Where a benchmark works: a schema of its own in a PostgreSQL, or a file of its own. Nothing else is touched."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from horae.config import ADDRESS, NO_ADDRESS, is_postgres_address
from horae.core.errors import Conflict, Fault, Invalid, Unavailable
from horae.store.database import Database
from horae.store.postgres import SESSION, PostgresDatabase
from horae.store.sqlite import Connection, SqliteDatabase, system_now_us
from horae.store.store import Store, open_store

SCHEMA = "horae_bench"
ANOTHER = "_2"
LOCK = 7451
OURS = "Made by horae bench, and dropped by the next one."
IN_USE = "database_in_use"
RETENTION_US = 30 * 86_400_000_000


TRANSACTIONS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
# The role for what people ask, which a schema of horae brings with it (store/wall.py). Ours says so: a benchmark that
# was killed leaves it behind.
GUEST = "SELECT quote_ident(left(current_user, 59) || '_api')"
IS_OURS = """
SELECT shobj_description(oid, 'pg_authid') IS NOT DISTINCT FROM $1
FROM pg_roles
WHERE rolname = left(current_user, 59) || '_api'
"""
# It may not be made by us, or somebody else was faster.
NOT_OURS = (asyncpg.InsufficientPrivilegeError, asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError)
TOLD_OF_SCHEMA = "SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = $1"
STATEMENTS_SCHEMA = """
SELECT quote_ident(n.nspname)
FROM pg_extension e
JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'
"""
STATEMENTS = """
SELECT coalesce(sum(s.calls), 0)::bigint
FROM {}.pg_stat_statements s
JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()
JOIN pg_roles r ON r.oid = s.userid AND r.rolname IN (current_user, left(current_user, 59) || '_api')
"""


class Counted(NamedTuple):
    unit: str
    so_far: Callable[[], Awaitable[int]]


class Place:
    """`url` is what a store or a process is opened with."""

    def __init__(self, given: str, number: str = "") -> None:
        self.dialect = "postgres" if given.startswith(("postgresql://", "postgres://")) else "sqlite"
        path = given.removeprefix("sqlite:///")
        scheme, is_address, _ = path.partition("://")
        if self.dialect == "sqlite" and (is_address or path.strip() in ("", ":memory:")):
            hint = "Write postgresql://…, or the path of a file that is not there yet."
            told = f"{scheme}://…" if is_address else given  # the rest may hold a password
            raise Invalid([Fault("--url", f'"{told}" is neither a PostgreSQL nor a file.', hint)])
        self._given = given
        self._schema = SCHEMA + number
        if self.dialect == "postgres":
            if not is_postgres_address(given):
                raise Invalid([Fault("--url", NO_ADDRESS, ADDRESS)])
            parts = urlsplit(given)
            query = dict(parse_qsl(parts.query)) | {"search_path": self._schema}
            # By hand: without a host, as for a socket, geturl() leaves the two slashes out.
            self.url = f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(query)}"
        else:
            self.url = f"sqlite:///{given.removeprefix('sqlite:///')}{number}"

    def another(self) -> Place:
        """A second one beside it."""
        return Place(self._given, ANOTHER)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Refuses a database that somebody uses, another benchmark too."""
        if self.dialect == "sqlite":
            for place in (self, self.another()):
                place.check_file()
            yield
            return
        async with self._raw() as connection:
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):
                raise Conflict("A benchmark runs in this database: wait for its end, or name another one.", IN_USE)
            for name in (SCHEMA, SCHEMA + ANOTHER):
                if (told := await connection.fetchval(TOLD_OF_SCHEMA, name)) is not None and told != OURS:
                    raise Conflict(
                        f"The schema {name} of this database was not made by a benchmark of this release. A benchmark "
                        "would drop it: drop or rename it yourself, or name another database with --url.",
                        IN_USE,
                    )
            for (schema,) in await connection.fetch(
                "SELECT schemaname FROM pg_tables WHERE tablename = 'job_versions' AND schemaname <> ALL ($1)",
                [SCHEMA, SCHEMA + ANOTHER],
            ):
                table = await connection.fetchval("SELECT to_regclass(format('%I.jobs', $1::text))::text", schema)
                if table and await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})"):  # noqa: S608 quoted
                    raise Conflict(
                        f"The schema {schema} of this database holds jobs of horae. A benchmark would take its time "
                        "from them: name another database with --url.",
                        IN_USE,
                    )
            guest = await connection.fetchval(GUEST)
            is_ours = await connection.fetchval(IS_OURS, OURS)
            if is_ours is None:
                with contextlib.suppress(*NOT_OURS):
                    made = f"CREATE ROLE {guest} NOLOGIN NOINHERIT; COMMENT ON ROLE {guest} IS '{OURS}'"
                    await connection.execute(made)
                    is_ours = True
            try:
                yield
            finally:
                if is_ours:
                    # Somebody needs it by now, or the connection was lost in the hours between.
                    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                        await connection.execute(f"DROP ROLE {guest}")

    def check_file(self) -> None:
        try:
            taken = next((path for path in self._files if path.is_symlink() or path.exists()), None)
            if taken is None:
                self._path.touch()
                self._path.unlink()
        except OSError as error:
            detail = f"{self._path} cannot be made: {error.strerror}."
            raise Invalid([Fault("--url", detail, "Name a file in a folder that can be written to.")]) from error
        if taken is not None:
            detail = f"{taken} exists. A benchmark makes a file of its own and removes it afterwards."
            raise Invalid([Fault("--url", detail, "Name a file that is not there yet.")])

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        """An open store with the schema and nothing in it."""
        await self.wipe()
        if self.dialect == "postgres":
            async with self._raw() as connection:
                made = f"CREATE SCHEMA {self._schema}; COMMENT ON SCHEMA {self._schema} IS '{OURS}'"
                await connection.execute(made)  # both or none: one that does not say whose it is would be refused
        store = open_store(self.url)
        try:
            await store.migrate()
            await store.sweep(RETENTION_US)
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[Database]:
        """A look from outside, while others work on it."""
        if self.dialect == "postgres":
            database: Database = PostgresDatabase(self.url, size=1, deadline_seconds=60)
        else:
            database = SqliteDatabase(str(self._path), is_read_only=True)
        try:
            yield database
        finally:
            await database.close()

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[Counted | None]:
        """What the database has had so far: statements where it keeps count of them, else transactions."""
        if self.dialect == "sqlite":
            yield None
            return
        async with self._raw() as connection:
            unit, text = "transactions/s", TRANSACTIONS
            with contextlib.suppress(asyncpg.PostgresError):
                await connection.execute(f"CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA {self._schema}")
                schema = await connection.fetchval(STATEMENTS_SCHEMA)
                counting = STATEMENTS.format(schema)
                await connection.fetchval(counting)
                unit, text = "statements/s", counting

            async def count() -> int:
                return int(await connection.fetchval(text))

            yield Counted(unit, count)

    async def wipe(self) -> None:
        if self.dialect == "sqlite":
            for path in self._files:
                path.unlink(missing_ok=True)
            return
        async with self._raw() as connection:
            with contextlib.suppress(asyncpg.InvalidSchemaNameError):
                await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA {self._schema} CASCADE")

    async def vacuum(self) -> None:
        """As if the jobs had been there for long: autovacuum has been to all of them."""
        if self.dialect == "postgres":
            async with self._raw() as connection:
                await connection.execute(f"SET search_path = {self._schema}")
                await connection.execute("VACUUM (ANALYZE) jobs, job_versions, timers, runs")

    async def connect(self) -> Any:
        """A connection as horae has it, with nothing around it."""
        if self.dialect == "sqlite":
            return Connection(str(self._path), system_now_us).raw
        return await asyncpg.connect(self.url, server_settings=SESSION)

    @asynccontextmanager
    async def _raw(self) -> AsyncIterator[Any]:
        try:
            connection = await asyncpg.connect(self._given, timeout=10)
        except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise Unavailable(f"PostgreSQL cannot be reached: {type(error).__name__}: {error}") from error
        try:
            yield connection
        except asyncpg.PostgresError as error:
            raise Unavailable(f"PostgreSQL does not let us: {error}") from error
        finally:
            await connection.close()

    @property
    def _path(self) -> Path:
        return Path(self.url.removeprefix("sqlite:///"))

    @property
    def _files(self) -> list[Path]:
        """The database and what SQLite and horae put beside it; nothing else that is called alike."""
        return [Path(f"{self._path}{end}") for end in ("", "-wal", "-shm", "-journal", ".lock")]

"""PostgreSQL through asyncpg: a small pool of our own, deadlines that close the socket, one retry policy.

asyncpg's pool resets each connection on release (about 110 µs); ours does not, because no verb changes a session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from horae.core.errors import Conflict, Unavailable
from horae.failpoints import hit
from horae.store.database import Query, Rows, Transaction

T = TypeVar("T")

SESSION = {
    "application_name": "horae",
    "statement_timeout": "8s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "10s",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "jit": "off",
    # Every statement of ours finds its rows by an index. Without fresh statistics the planner prefers to read and sort
    # whole tables, which cost a scan of 1,000 due timers 53 ms instead of 3.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
DEADLINE_SECONDS = 9.0
CONNECT_SECONDS = 3.0
TRIES = 5

# The database undid the work and asks for it again: nothing is unknown here.
_AGAIN = (
    asyncpg.exceptions.DeadlockDetectedError,
    asyncpg.exceptions.SerializationError,
    asyncpg.exceptions.LockNotAvailableError,
    asyncpg.exceptions.InvalidCachedStatementError,
)
_GONE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.exceptions.PostgresConnectionError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.InterfaceError,
    asyncpg.exceptions.InternalClientError,
    asyncpg.exceptions.CannotConnectNowError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,
    asyncpg.exceptions.PostgresSystemError,
    asyncpg.exceptions.IdleInTransactionSessionTimeoutError,
)


class PostgresDatabase:
    """`size` connections at most, opened when needed. Any number of processes may share the database."""

    dialect = "postgres"

    def __init__(self, url: str, size: int = 8, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._url = url
        self._deadline_seconds = deadline_seconds
        self._idle: list[asyncpg.Connection] = []
        self._room = asyncio.Semaphore(size)
        self._is_closed = False

    async def run(self, transaction: Transaction[T]) -> T:
        for attempt in range(1, TRIES + 1):
            try:
                return await self._try(transaction)
            except _AGAIN as error:
                if attempt == TRIES:
                    raise Unavailable(f"PostgreSQL refused {TRIES} times: {error}") from error
                await asyncio.sleep(0.01 * attempt)
        raise AssertionError  # the loop returns or raises

    async def _try(self, transaction: Transaction[T]) -> T:
        async with self._borrow() as connection:
            try:
                async with asyncio.timeout(self._deadline_seconds):
                    if transaction.is_single:
                        return await self._drive(connection, transaction)
                    async with connection.transaction():
                        answer = await self._drive(connection, transaction)
                        hit("store.before_commit")
                    hit("store.after_commit")
                    return answer
            except asyncpg.exceptions.UniqueViolationError as error:
                raise Conflict(str(error), "duplicate") from error
            except _AGAIN:
                raise
            except _GONE as error:
                raise Unavailable(f"PostgreSQL did not answer: {_words(error)}") from error

    async def _drive(self, connection: asyncpg.Connection, transaction: Transaction[T]) -> T:
        steps = transaction.steps()
        try:
            query = next(steps)
            while True:
                query = steps.send(await _fetch(connection, query))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await self._room.acquire()
        except TimeoutError as error:
            raise Unavailable("PostgreSQL is busy: no connection came free in time.") from error
        try:
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                yield connection
            except BaseException as error:
                # After an unknown end, or in the middle of something, the socket is closed at once: waiting for a
                # polite goodbye from a frozen server would outlive every deadline.
                if isinstance(error, Conflict) or (isinstance(error, Exception) and _is_whole(connection, error)):
                    self._idle.append(connection)
                else:
                    connection.terminate()
                raise
            if connection.is_closed() or self._is_closed:
                connection.terminate()
            else:
                self._idle.append(connection)
        finally:
            self._room.release()

    async def _connect(self) -> asyncpg.Connection:
        try:
            return await asyncpg.connect(
                self._url,
                timeout=CONNECT_SECONDS,
                server_settings=SESSION,
                target_session_attrs="read-write",
            )
        except (*_GONE, asyncpg.exceptions.PostgresError) as error:
            raise Unavailable(f"PostgreSQL cannot be reached: {_words(error)}") from error

    async def script(self, work: Callable[[asyncpg.Connection], Any]) -> None:
        """Migrations: raw access to one connection."""
        async with self._borrow() as connection:
            await work(connection)

    async def close(self) -> None:
        self._is_closed = True
        while self._idle:
            connection = self._idle.pop()
            with contextlib.suppress(Exception):
                await connection.close(timeout=1)


async def _fetch(connection: asyncpg.Connection, query: Query) -> Rows:
    text, _ = query.statement.for_postgres()
    rows: Rows = await connection.fetch(text, *query.statement.postgres_params(query.params))
    return rows


def _is_whole(connection: asyncpg.Connection, error: Exception) -> bool:
    if isinstance(error, Unavailable) or connection.is_closed():
        return False
    return not connection.is_in_transaction()


def _words(error: BaseException) -> str:
    """Never the URL: it holds the password."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

"""PostgreSQL through asyncpg: a small pool of our own, deadlines that close the socket, one retry policy.

asyncpg's pool resets each connection on release (about 110 µs); ours does not. A connection remembers as whom and for
which tenant it stands (store/wall.py); who borrows it says what is wanted, and gets one that stands so if there is any.
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
from horae.store.wall import ENTER, GUEST
from horae.telemetry import warn

T = TypeVar("T")

# As whom a connection stands: the role and the tenant. The owner is shown everything.
Standing = tuple[str, str]
OWNER: Standing = ("none", "")

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
    # Nor does it help to walk a whole index because both sides happen to be in its order, or to think of a disk that
    # has to turn.
    "enable_mergejoin": "off",
    "random_page_cost": "1",
}
DEADLINE_SECONDS = 9.0
CONNECT_SECONDS = 3.0
TRIES = 5
LOOK_AGAIN_SECONDS = 30.0

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
        self._idle: list[tuple[asyncpg.Connection, Standing]] = []
        self._guest = ""
        self._look_again_at = 0.0
        self._room = asyncio.Semaphore(size)
        self._is_closed = False

    async def run(self, transaction: Transaction[T]) -> T:
        for attempt in range(1, TRIES + 1):
            try:
                return await self._try(transaction)
            except asyncpg.exceptions.UniqueViolationError as error:
                # Somebody was faster and has committed by now: started anew, the verb meets what they made, and says
                # in its own words what is wrong.
                if attempt == TRIES:
                    raise Conflict(str(error), "duplicate") from error
            except _AGAIN as error:
                if attempt == TRIES:
                    raise Unavailable(f"PostgreSQL refused {TRIES} times: {error}") from error
                await asyncio.sleep(0.01 * attempt)
        raise AssertionError  # the loop returns or raises

    async def _try(self, transaction: Transaction[T]) -> T:
        async with self._borrow(transaction.tenant) as connection:
            # Not a timeout: a ROLLBACK would follow it, and that waits for a server that does not answer.
            alarm = asyncio.get_running_loop().call_later(self._deadline_seconds, connection.terminate)
            try:
                if transaction.is_single:
                    return await self._drive(connection, transaction)
                async with connection.transaction():
                    answer = await self._drive(connection, transaction)
                    hit("store.before_commit")
                hit("store.after_commit")
                return answer
            except _AGAIN:
                raise
            except _GONE as error:
                raise Unavailable(f"PostgreSQL did not answer: {_words(error)}") from error
            finally:
                alarm.cancel()

    async def _drive(self, connection: asyncpg.Connection, transaction: Transaction[T]) -> T:
        steps = transaction.steps()
        try:
            query = next(steps)
            while True:
                query = steps.send(await _fetch(connection, query))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    @asynccontextmanager
    async def _borrow(self, tenant: str | None = None) -> AsyncIterator[asyncpg.Connection]:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await self._room.acquire()
        except TimeoutError as error:
            raise Unavailable("PostgreSQL is busy: no connection came free in time.") from error
        try:
            wanted = OWNER if tenant is None else (self._guest, tenant)
            connection, standing = self._pick(wanted) or (await self._connect(), OWNER)
            try:
                if standing != wanted:
                    wanted = await self._stand(connection, standing, tenant)
                yield connection
            except BaseException as error:
                # After an unknown end, or in the middle of something, the socket is closed at once: waiting for a
                # polite goodbye from a frozen server would outlive every deadline.
                if isinstance(error, Conflict) or (isinstance(error, Exception) and _is_whole(connection, error)):
                    self._idle.append((connection, wanted))
                else:
                    connection.terminate()
                raise
            if connection.is_closed() or self._is_closed:
                connection.terminate()
            else:
                self._idle.append((connection, wanted))
        finally:
            self._room.release()

    def _pick(self, wanted: Standing) -> tuple[asyncpg.Connection, Standing] | None:
        """An idle connection that stands as wanted, else the one used last."""
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][1] == wanted:
                return self._idle.pop(place)
        return self._idle.pop() if self._idle else None

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

    async def _stand(self, connection: asyncpg.Connection, standing: Standing, tenant: str | None) -> Standing:
        """Steps into the role of guests, or out of it. While there is no wall to be found, everybody is the owner."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                if tenant is not None and not self._guest:
                    await self._find_guest(connection)
                wanted = (self._guest, tenant) if tenant is not None and self._guest else OWNER
                if wanted != standing:
                    await connection.fetch(ENTER, *wanted)
        except (*_GONE, asyncpg.exceptions.PostgresError) as error:
            raise Unavailable(f"PostgreSQL did not take the tenant: {_words(error)}") from error
        return wanted

    async def _find_guest(self, connection: asyncpg.Connection) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._look_again_at:
            return
        self._guest = await connection.fetchval(GUEST) or ""
        if not self._guest and not self._look_again_at:
            warn("store.no_wall", why="there is no role to step into; see docs/security.md, The database")
        self._look_again_at = now + LOOK_AGAIN_SECONDS

    async def script(self, work: Callable[[asyncpg.Connection], Any]) -> None:
        """Migrations: raw access to one connection."""
        async with self._borrow() as connection:
            await work(connection)
        self._look_again_at = 0.0

    async def close(self) -> None:
        self._is_closed = True
        while self._idle:
            connection, _ = self._idle.pop()
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

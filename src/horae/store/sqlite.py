"""SQLite: one writer connection on one thread, write-ahead log, group commit; other threads for reads.

A 2xx answer means on disk, so `synchronous=FULL`; writes that arrive together share one commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from horae.core.errors import Conflict, Unavailable
from horae.core.run import run_id
from horae.failpoints import hit
from horae.store.database import Rows, Transaction

T = TypeVar("T")

MINIMUM_VERSION = (3, 38, 0)  # for ->> and RETURNING
GROUP = 256
VIEWERS = 2
# Between two statements its thread wants the interpreter for some microseconds; a busy loop kept it for 5 ms each time.
SWITCH_SECONDS = 0.0002
# A checkpoint every 40 MB, not every 4: it waits for the disk twice, and everybody waits for it.
# Pages of a busy queue are few, and the others are in the memory of the system: with 64 MB a worker was no faster, and
# 132 MB large. Lists walk through more of them.
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF", "cache_size=-8192", "wal_autocheckpoint=10000")
FOR_LISTS = "cache_size=-65536"


def system_now_us() -> int:
    return time.time_ns() // 1000


class SqliteDatabase:
    """Opens by path; `:memory:` is for tests. `now_us` is the store's clock."""

    dialect = "sqlite"

    def __init__(self, path: str, now_us: Callable[[], int] = system_now_us, *, is_read_only: bool = False) -> None:
        _check_version()
        if is_read_only and not Path(path).exists():
            raise Unavailable(f"There is no database at {path}.")
        self._lock = _lock_file(path) if path != ":memory:" and not is_read_only else None
        try:
            self._connection = Connection(path, now_us)
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"{path} cannot be opened as a database: {error}.") from error
        self._writes: _Items = queue.SimpleQueue()
        self._reads, self._views = self._writes, self._writes
        self._threads = [_Thread("horae-sqlite-writer", self._connection, self._writes, group=GROUP)]
        if path != ":memory:":
            sys.setswitchinterval(SWITCH_SECONDS)
            self._reads, self._views = queue.SimpleQueue(), queue.SimpleQueue()
            for items in (self._reads, *[self._views] * VIEWERS):
                reader = Connection(path, now_us)
                reader.raw.execute("PRAGMA query_only=1")
                if items is self._views:
                    reader.raw.execute(f"PRAGMA {FOR_LISTS}")
                self._threads.append(_Thread("horae-sqlite-reader", reader, items, group=1))

    async def run(self, transaction: Transaction[T]) -> T:
        items = self._views if transaction.is_view else self._reads if transaction.is_read else self._writes
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        items.put((transaction, future, loop))
        return await future

    async def script(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Migrations: raw access, on the writer thread's connection, before anything else runs."""
        work(self._connection.raw)

    async def close(self) -> None:
        # The writer last: who closes last moves what is in the log into the file, and a reader may not.
        writer, *readers = self._threads
        for thread in readers:
            thread.items.put(None)
        for thread in readers:
            await asyncio.to_thread(thread.join)
        writer.items.put(None)
        await asyncio.to_thread(writer.join)
        if self._lock is not None:
            self._lock.close()


class MemoryDatabase:
    """In memory and without threads: every verb is one step of the event loop, so a virtual clock can drive it."""

    dialect = "sqlite"

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._connection = Connection(":memory:", now_us)
        self.raw = self._connection.raw

    async def run(self, transaction: Transaction[T]) -> T:
        return self.run_now(transaction)

    def run_now(self, transaction: Transaction[T]) -> T:
        raw = self._connection.raw
        raw.execute("BEGIN IMMEDIATE")
        try:
            answer: T = self._connection.drive(transaction)
        except sqlite3.IntegrityError as error:
            raw.execute("ROLLBACK")
            raise Conflict(str(error), "duplicate") from error
        except BaseException:
            raw.execute("ROLLBACK")
            raise
        raw.execute("COMMIT")
        return answer

    async def script(self, work: Callable[[sqlite3.Connection], None]) -> None:
        work(self._connection.raw)

    async def close(self) -> None:
        self._connection.raw.close()


class Connection:
    """One sqlite3 connection with horae's functions, and the way a transaction is driven on it."""

    def __init__(self, path: str, now_us: Callable[[], int]) -> None:
        self.raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        self.raw.row_factory = _row
        self._now_us = now_us
        for pragma in PRAGMAS:
            self.raw.execute(f"PRAGMA {pragma}")
        self.raw.create_function("horae_now", 0, now_us)
        self.raw.create_function("horae_run_id", 3, run_id, deterministic=True)

    def drive(self, transaction: Transaction[Any]) -> Any:
        steps = transaction.steps()
        try:
            query = next(steps)
            while True:
                query = steps.send(self._fetch(query.statement, query.params))
        except StopIteration as end:
            return end.value

    def _fetch(self, statement: Any, params: dict[str, Any]) -> Rows:
        cursor = self.raw.cursor()
        cursor.row_factory = None  # one look at the names for all rows
        cursor.execute(statement.for_sqlite(), statement.sqlite_params(params, self._now_us()))
        if not cursor.description:
            return []
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor]


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}


_Item = tuple[Transaction[Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]
_Items: TypeAlias = "queue.SimpleQueue[_Item | None]"


class _Thread:
    """Takes what has arrived, carries it out inside one BEGIN and COMMIT, then answers everybody at once."""

    def __init__(self, name: str, connection: Connection, items: _Items, group: int) -> None:
        self._connection = connection
        self._group = group
        self.items = items
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _loop(self) -> None:
        while True:
            item = self.items.get()
            if item is None:
                break
            batch = [item]
            while len(batch) < self._group and not self.items.empty():
                more = self.items.get()
                if more is None:
                    self.items.put(None)
                    break
                batch.append(more)
            self._answer(batch, self._carry_out([transaction for transaction, _, _ in batch]))
        self._connection.raw.close()

    def _carry_out(self, batch: list[Transaction[Any]]) -> list[tuple[Any, BaseException | None]]:
        raw = self._connection.raw
        if all(transaction.is_read for transaction in batch):
            return [self._attempt(transaction, is_write=False, savepoint=False) for transaction in batch]
        is_alone = len(batch) == 1
        try:
            raw.execute("BEGIN IMMEDIATE")
            answers = [self._attempt(transaction, is_write=True, savepoint=not is_alone) for transaction in batch]
            if is_alone and answers[0][1] is not None:
                raw.execute("ROLLBACK")
                return answers
            hit("store.before_commit")
            raw.execute("COMMIT")
            hit("store.after_commit")
        except (sqlite3.Error, Unavailable) as error:
            with contextlib.suppress(sqlite3.Error):
                raw.execute("ROLLBACK")
            return [(None, Unavailable(f"SQLite could not commit: {error}"))] * len(batch)
        return answers

    def _attempt(
        self, transaction: Transaction[Any], *, is_write: bool, savepoint: bool
    ) -> tuple[Any, BaseException | None]:
        """One verb. Its own error undoes it alone; a full or broken disk undoes the whole group."""
        raw = self._connection.raw
        if savepoint:
            raw.execute("SAVEPOINT verb")
        try:
            answer = self._connection.drive(transaction)
        except sqlite3.IntegrityError as error:
            failure: Exception = Conflict(str(error), "duplicate")
        except sqlite3.OperationalError as error:
            if is_write:
                raise
            failure = Unavailable(f"SQLite did not answer: {error}")
        except Exception as error:  # noqa: BLE001 a bug in one verb must not take its neighbours along
            failure = error
        else:
            if savepoint:
                raw.execute("RELEASE verb")
            return answer, None
        if savepoint:
            raw.execute("ROLLBACK TO verb")
            raw.execute("RELEASE verb")
        return None, failure

    def _answer(self, batch: list[_Item], answers: list[tuple[Any, BaseException | None]]) -> None:
        loop = batch[0][2]

        def deliver() -> None:
            for (_, future, _), (value, error) in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)

        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(deliver)


def _lock_file(path: str) -> IO[str]:
    """Refuses a second process: SQLite mode is one process by design, and two would fire everything twice as slow."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = Path(f"{path}.lock").open("a+")  # noqa: SIM115 held for the life of the database
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise Conflict(
            f"{path} is in use by another horae process (pid {holder}). SQLite serves one process: stop that one, "
            "use another --data folder, or share a PostgreSQL through HORAE_DATABASE_URL.",
            "database_in_use",
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _check_version() -> None:
    if sqlite3.sqlite_version_info < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise Unavailable(f"SQLite {sqlite3.sqlite_version} is too old: horae needs {wanted} or newer.")

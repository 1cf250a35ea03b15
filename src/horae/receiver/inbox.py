"""Keys that were seen, in a table of the receiver's own database."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

TAKEOVER_SECONDS = 60


class State(Enum):
    FIRST = "first"
    DONE = "done"
    BUSY = "busy"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What to do with a call: work on it (FIRST), answer it from memory (DONE), send it away for now (BUSY) or for good
    (STALE: a newer attempt was here).
    """

    state: State
    answer: Answer | None = None
    wait_seconds: float = 0.0


class StaleFence(Exception):
    """An attempt that was given up: a newer one was here."""


class Inbox:
    """Keys that were seen, in a table of your database. `connect` opens a DB-API connection; `paramstyle` is the one of
    its module (`sqlite3.paramstyle`, `psycopg.paramstyle`).

    `fence_by="job"` also refuses every call that is older than the newest one of its job, not only of its run: for jobs
    whose runs never overlap and whose effect is the latest state of something.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        paramstyle: str = "qmark",
        table: str = "horae_inbox",
        fence_by: str = "run",
        takeover_seconds: float = TAKEOVER_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not table.replace("_", "").isalnum():
            raise ValueError(f"{table!r} is not a name for a table.")
        if fence_by not in ("run", "job"):
            raise ValueError('fence_by is "run" or "job".')
        self._connect = connect
        self._style = paramstyle
        self._table = table
        self._by_job = fence_by == "job"
        self._takeover_seconds = takeover_seconds
        self._clock = clock

    def create_table(self) -> None:
        """Makes the tables unless they are there. Or take their text from `schema()` into your migrations."""
        try:
            self._make_tables()
        except Exception:  # noqa: BLE001 two that start together: on PostgreSQL one of them fails, and finds them then
            self._make_tables()

    def _make_tables(self) -> None:
        with self._transaction() as run:
            for text in self.schema():
                run(text)

    def schema(self) -> list[str]:
        return [
            f"""CREATE TABLE IF NOT EXISTS {self._table} (
                id VARCHAR(300) PRIMARY KEY, fence BIGINT NOT NULL, state VARCHAR(10) NOT NULL,
                started_at DOUBLE PRECISION NOT NULL, status INTEGER, headers TEXT, body TEXT)""",
            f"CREATE TABLE IF NOT EXISTS {self._table}_fences (job VARCHAR(300) PRIMARY KEY, fence BIGINT NOT NULL)",
        ]

    @contextmanager
    def once(self, connection: Any, key: str, fence: int = 0, job: str = "") -> Iterator[bool]:
        """Inside: true the first time, false for a repeat. Do the effect on the same connection: both are one
        transaction, committed at the end of the block and rolled back by an error in it.

        A call that comes while another one of its key is inside waits for it, by the database's own lock.
        """
        cursor = connection.cursor()

        def run(text: str, *values: Any) -> Any:
            cursor.execute(self._sql(text), self._values(values))
            return cursor

        try:
            run(
                f"INSERT INTO {self._table} (id, fence, state, started_at) VALUES (?, ?, 'done', ?) "
                "ON CONFLICT (id) DO NOTHING",
                key,
                fence,
                self._clock(),
            )
            is_first = cursor.rowcount == 1
            if is_first:
                self._check_fences(run, key, fence, job)
            yield is_first
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        finally:
            cursor.close()

    def begin(self, key: str, fence: int, job: str = "") -> Entry:
        """For a call whose effect is elsewhere: takes the key, if it is to be had. End with `finish` or `give_back`."""
        with self._transaction() as run:
            now = self._clock()
            run(
                f"INSERT INTO {self._table} (id, fence, state, started_at) VALUES (?, ?, 'new', ?) "
                "ON CONFLICT (id) DO NOTHING",
                key,
                fence,
                now,
            )
            # The update locks the row, on every database, until the end of the transaction.
            run(f"UPDATE {self._table} SET id = id WHERE id = ?", key)
            query = f"SELECT fence, state, started_at, status, headers, body FROM {self._table} WHERE id = ?"
            seen, state, started_at, status, headers, body = run(query, key).fetchone()
            if state == "done":
                pairs = [(str(name), str(value)) for name, value in json.loads(headers or "[]")]
                return Entry(State.DONE, Answer(status or 200, pairs, base64.b64decode(body or "")))
            if fence < seen or (self._by_job and not self._is_newest(run, fence, job)):
                if state == "new":
                    run(f"DELETE FROM {self._table} WHERE id = ?", key)
                return Entry(State.STALE)
            left = started_at + self._takeover_seconds - now
            if state == "busy" and left > 0:
                # A newer attempt too: the older one may be about to do it, and cannot be called back.
                return Entry(State.BUSY, wait_seconds=left)
            if job:
                self._raise_fence(run, fence, job)
            update = f"UPDATE {self._table} SET fence = ?, state = 'busy', started_at = ? WHERE id = ?"
            run(update, fence, now, key)
            return Entry(State.FIRST)

    def finish(self, key: str, fence: int, answer: Answer) -> None:
        text = f"UPDATE {self._table} SET state = 'done', status = ?, headers = ?, body = ? WHERE id = ? AND fence = ?"
        body = base64.b64encode(answer.body).decode()
        with self._transaction() as run:
            run(text, answer.status, json.dumps(answer.headers), body, key, fence)

    def give_back(self, key: str, fence: int) -> None:
        """It failed: the next attempt may try. The fence stays, so that an older one may not."""
        with self._transaction() as run:
            text = f"UPDATE {self._table} SET state = 'free' WHERE id = ? AND fence = ? AND state = 'busy'"
            run(text, key, fence)

    def forget(self, older_than_seconds: float) -> None:
        """Drops old keys. Keep them for longer than any attempt of a run can take to arrive."""
        with self._transaction() as run:
            run(f"DELETE FROM {self._table} WHERE started_at < ?", self._clock() - older_than_seconds)

    def _check_fences(self, run: Callable[..., Any], key: str, fence: int, job: str) -> None:
        if self._by_job and not self._is_newest(run, fence, job):
            raise StaleFence(f"A newer call of job {job} was here before {key}.")
        if job:
            self._raise_fence(run, fence, job)

    def _is_newest(self, run: Callable[..., Any], fence: int, job: str) -> bool:
        # Locked until the end of the transaction: an older call waits for a newer one that is inside, and sees it.
        run(f"INSERT INTO {self._table}_fences (job, fence) VALUES (?, ?) ON CONFLICT (job) DO NOTHING", job, fence)
        run(f"UPDATE {self._table}_fences SET fence = fence WHERE job = ?", job)
        row = run(f"SELECT fence FROM {self._table}_fences WHERE job = ?", job).fetchone()
        return bool(fence >= row[0])

    def _raise_fence(self, run: Callable[..., Any], fence: int, job: str) -> None:
        insert = f"INSERT INTO {self._table}_fences (job, fence) VALUES (?, ?) ON CONFLICT (job) DO NOTHING"
        run(insert, job, fence)
        run(f"UPDATE {self._table}_fences SET fence = ? WHERE job = ? AND fence < ?", fence, job, fence)

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., Any]]:
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:

            def run(text: str, *values: Any) -> Any:
                cursor.execute(self._sql(text), self._values(values))
                return cursor

            try:
                yield run
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _sql(self, text: str) -> str:
        if self._style in ("format", "pyformat"):
            return text.replace("?", "%s")
        if self._style == "qmark":
            return text
        mark, parts = {"numeric": ":{}", "named": ":p{}"}[self._style], text.split("?")
        return parts[0] + "".join(mark.format(n) + part for n, part in enumerate(parts[1:], 1))

    def _values(self, values: tuple[Any, ...]) -> Any:
        return {f"p{n}": value for n, value in enumerate(values, 1)} if self._style == "named" else values

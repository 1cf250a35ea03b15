"""The seam between one SQL text and two databases: how a statement is written, rendered and carried out.

A verb of the store is a generator: it yields queries, is sent their rows and returns its answer. SQLite drives it
inside one hop to the writer thread, PostgreSQL over the wire, the simulator in memory. One verb is one transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec

Row = Mapping[str, Any]
Rows = list[Row]

T = TypeVar("T")
P = ParamSpec("P")

Steps = Generator["Query", Rows, T]


@dataclass(frozen=True, slots=True)
class Query:
    statement: Statement
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note(Query):
    """What a change was, for the audit log. A verb yields it in passing; `audited` in store/audit.py writes it down in
    the same transaction. A verb that nobody asked for by name runs it as the empty query that it also is.
    """

    action: str
    target: str
    before: Any
    after: Any


def note(action: str, target: str, before: Any = None, after: Any = None) -> Note:
    return Note(_PASS, {}, action, target, before, after)


@dataclass(frozen=True, slots=True)
class Transaction(Generic[T]):
    """A verb with its arguments, ready to be driven, again and again if the database asks for it.

    `is_single` promises exactly one statement, which needs no BEGIN and COMMIT around it. `is_read` lets SQLite
    answer from a reader thread, and `is_view` from one that may take its time. With a `tenant`, PostgreSQL shows it no
    row of another.
    """

    steps: Callable[[], Steps[Any]]
    is_single: bool = False
    is_read: bool = False
    is_view: bool = False
    tenant: str | None = None


class Database(Protocol):
    """An open database. Raises Unavailable when the outcome is unknown."""

    dialect: str

    async def run(self, transaction: Transaction[T]) -> T: ...

    async def close(self) -> None: ...


_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_ROWS = re.compile(r"\{rows:(\w+)\(([^)]*)\)\}")
_LOCKS = re.compile(r"FOR (UPDATE|SHARE|KEY SHARE)( OF \w+)?|(?<=AS )MATERIALIZED")
_SQLITE_TYPES = {"text": "TEXT", "bigint": "INTEGER", "integer": "INTEGER", "boolean": "INTEGER", "double": "REAL"}


class Statement:
    """One SQL text for both databases.

    `:name` is a parameter. `{rows:batch(id text, n bigint)}` is a table made from the parameter `batch`, a list of
    tuples in that order. `{skip_locked}` locks what is read and passes over what others hold. Locks of rows
    (`FOR UPDATE` and the like) fall away on SQLite, whose single writer needs none; `horae_now()` is a parameter there,
    since a call from SQLite back into Python, for each row and under the interpreter's lock, cost more than the row.
    """

    def __init__(self, text: str, *, sqlite: str | None = None) -> None:
        self.text = text
        self._sqlite = sqlite
        self._rendered: dict[str, tuple[str, tuple[str, ...]]] = {}

    def __call__(self, **params: Any) -> Query:
        return Query(self, params)

    def for_sqlite(self) -> str:
        return self._render("sqlite")[0]

    def sqlite_params(self, params: dict[str, Any], now_us: int) -> dict[str, Any]:
        values = {**params, "horae_now": now_us}
        for name in self._render("sqlite")[1]:
            batch, is_column, _ = name.partition("#")
            values[batch] = _array([row[0] for row in params[batch]] if is_column else params[batch])
        return values

    def for_postgres(self) -> tuple[str, tuple[str, ...]]:
        """The text with numbered parameters, and what each number stands for: `name`, or `name#column`."""
        return self._render("postgres")

    def postgres_params(self, params: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        columns: dict[str, list[Any]] = {}
        for name in self.for_postgres()[1]:
            batch, is_column, index = name.partition("#")
            if not is_column:
                values.append(params[name])
                continue
            if batch not in columns:
                columns[batch] = list(zip(*params[batch], strict=True))
            values.append(columns[batch][int(index)] if params[batch] else [])
        return values

    def _render(self, dialect: str) -> tuple[str, tuple[str, ...]]:
        done = self._rendered.get(dialect)
        if done is None:
            done = self._render_sqlite() if dialect == "sqlite" else self._render_postgres()
            self._rendered[dialect] = done
        return done

    def _render_sqlite(self) -> tuple[str, tuple[str, ...]]:
        batches: list[str] = []

        def rows(match: re.Match[str]) -> str:
            given = _columns(match[2])
            # A row of its own inside the array is read once more for each of its columns; a lone column needs none.
            batches.append(match[1] if len(given) > 1 else f"{match[1]}#0")
            columns = (
                f"CAST(value{f' ->> {index}' if len(given) > 1 else ''} AS {_SQLITE_TYPES[kind]}) AS {name}"
                for index, (name, kind) in enumerate(given)
            )
            return f"(SELECT {', '.join(columns)} FROM json_each(:{match[1]})) AS {match[1]}"

        text = _ROWS.sub(rows, self._sqlite or self.text)
        text = text.replace("{skip_locked}", "").replace("horae_now()", ":horae_now")
        return _LOCKS.sub("", text), tuple(batches)

    def _render_postgres(self) -> tuple[str, tuple[str, ...]]:
        names: list[str] = []

        def number(name: str) -> str:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"

        def rows(match: re.Match[str]) -> str:
            columns = _columns(match[2])
            arrays = ", ".join(
                f"{number(f'{match[1]}#{index}')}::{'double precision' if kind == 'double' else kind}[]"
                for index, (_, kind) in enumerate(columns)
            )
            return f"unnest({arrays}) AS {match[1]}({', '.join(name for name, _ in columns)})"

        text = _ROWS.sub(rows, self.text)
        text = _PARAMETER.sub(lambda match: number(match[1]), text)
        return text.replace("{skip_locked}", "FOR UPDATE SKIP LOCKED"), tuple(names)


_PASS = Statement("SELECT 1 AS n")


def _array(batch: Any) -> str:
    try:
        return _encode(batch).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which its escape can hold
        return json.dumps(batch)


_encode = msgspec.json.Encoder().encode


def _columns(text: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (part.split() for part in text.split(","))]


NOW = Statement("SELECT horae_now() AS now_us")


def transaction(verb: Callable[P, Steps[T]]) -> Callable[P, Transaction[T]]:
    """A verb of several statements, all or none."""

    def prepare(*args: P.args, **kwargs: P.kwargs) -> Transaction[T]:
        return Transaction(lambda: verb(*args, **kwargs))

    return prepare


def statement(verb: Callable[P, Steps[T]]) -> Callable[P, Transaction[T]]:
    """A verb of exactly one statement."""

    def prepare(*args: P.args, **kwargs: P.kwargs) -> Transaction[T]:
        return Transaction(lambda: verb(*args, **kwargs), is_single=True)

    return prepare


def reading(verb: Callable[P, Steps[T]]) -> Callable[P, Transaction[T]]:
    """A verb of the movers that only reads; its statements may see different moments."""

    def prepare(*args: P.args, **kwargs: P.kwargs) -> Transaction[T]:
        return Transaction(lambda: verb(*args, **kwargs), is_single=True, is_read=True)

    return prepare


def viewing(verb: Callable[P, Steps[T]]) -> Callable[P, Transaction[T]]:
    """A verb that reads what somebody wants to look at. However long that takes, no mover waits for it."""

    def prepare(*args: P.args, **kwargs: P.kwargs) -> Transaction[T]:
        return Transaction(lambda: verb(*args, **kwargs), is_single=True, is_read=True, is_view=True)

    return prepare


def one(rows: Sequence[Row]) -> Row | None:
    return rows[0] if rows else None

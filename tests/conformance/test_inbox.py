"""The inbox of the receiver kit on the databases that receivers have: SQLite and PostgreSQL, by DB-API drivers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from horae.receiver import Answer, Inbox, StaleFence, State

OK = Answer(200, [("Content-Type", "text/plain")], b"done")
Connect = Callable[[], Any]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    if request.param == "sqlite":
        return lambda: sqlite3.connect(tmp_path / "inbox.db", timeout=20)
    url = request.getfixturevalue("postgres_database")
    return lambda: psycopg.connect(url)


@pytest.fixture
def style(request: pytest.FixtureRequest, database: Connect) -> str:
    is_sqlite = request.node.callspec.params["database"] == "sqlite"
    return sqlite3.paramstyle if is_sqlite else psycopg.paramstyle


@pytest.fixture
def inbox(database: Connect, style: str, clock: Clock) -> Inbox:
    inbox = Inbox(database, paramstyle=style, clock=clock)
    inbox.create_table()
    inbox.create_table()
    return inbox


def test_processes_that_start_together_make_the_tables_together(database: Connect, style: str) -> None:
    inbox = Inbox(database, paramstyle=style)
    start = threading.Barrier(8)

    def make(_: int) -> None:
        start.wait()
        inbox.create_table()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))

    assert inbox.begin("k", 1).state is State.FIRST


def test_an_older_run_waits_for_a_newer_one_that_is_inside_and_is_then_refused(
    database: Connect, style: str, inbox: Inbox
) -> None:
    strict = Inbox(database, paramstyle=style, fence_by="job")

    def older() -> bool:
        with closing(database()) as connection, strict.once(connection, "old", 5, "sync") as is_first:
            return is_first

    with ThreadPoolExecutor(1) as pool, closing(database()) as connection:
        with strict.once(connection, "new", 8, "sync"):
            late = pool.submit(older)
            with pytest.raises(TimeoutError):
                late.result(0.5)
        with pytest.raises(StaleFence):
            late.result(20)


# A key is worked on by one call at a time


def test_a_key_is_given_once_and_then_answered_from_memory(inbox: Inbox) -> None:
    assert inbox.begin("k", 5).state is State.FIRST
    inbox.finish("k", 5, OK)

    for fence in (5, 6, 1):
        entry = inbox.begin("k", fence)
        assert (entry.state, entry.answer) == (State.DONE, OK)


def test_while_one_call_is_at_it_others_wait_also_newer_ones(inbox: Inbox, clock: Clock) -> None:
    inbox.begin("k", 5)
    clock.now += 20

    assert inbox.begin("k", 5).state is State.BUSY
    newer = inbox.begin("k", 6)
    assert (newer.state, newer.wait_seconds) == (State.BUSY, 40)
    clock.now += 41
    assert inbox.begin("k", 6).state is State.FIRST


def test_a_failed_call_gives_the_key_to_the_next_attempt_but_not_to_an_older_one(inbox: Inbox) -> None:
    inbox.begin("k", 5)
    inbox.give_back("k", 5)

    assert inbox.begin("k", 4).state is State.STALE
    assert inbox.begin("k", 6).state is State.FIRST


def test_a_call_that_was_taken_over_cannot_end_what_is_no_longer_its_own(inbox: Inbox, clock: Clock) -> None:
    inbox.begin("k", 5)
    clock.now += 61
    assert inbox.begin("k", 6).state is State.FIRST

    inbox.finish("k", 5, OK)
    assert inbox.begin("k", 7).state is State.BUSY
    inbox.give_back("k", 5)
    assert inbox.begin("k", 7).state is State.BUSY


def test_by_run_an_older_run_of_a_job_is_let_in_and_by_job_it_is_not(
    database: Connect, inbox: Inbox, style: str
) -> None:
    strict = Inbox(database, paramstyle=style, fence_by="job")
    strict.begin("new", 8, "sync")
    strict.finish("new", 8, OK)

    assert strict.begin("old", 5, "sync").state is State.STALE
    assert strict.begin("old", 5, "other").state is State.FIRST
    assert inbox.begin("older", 5, "sync").state is State.FIRST


def test_old_keys_can_be_forgotten(inbox: Inbox, clock: Clock) -> None:
    inbox.begin("k", 5)
    inbox.finish("k", 5, OK)
    clock.now += 100

    inbox.forget(older_than_seconds=50)

    assert inbox.begin("k", 5).state is State.FIRST


def test_of_many_at_once_one_is_first(inbox: Inbox) -> None:
    with ThreadPoolExecutor(8) as pool:
        states = [entry.state for entry in pool.map(lambda _: inbox.begin("k", 5), range(24))]

    assert states.count(State.FIRST) == 1
    assert set(states) == {State.FIRST, State.BUSY}


# Effect and key in one transaction


@pytest.fixture
def ledger(database: Connect) -> Callable[[], int]:
    def count() -> int:
        with closing(database()) as connection:
            return int(connection.execute("SELECT count(*) FROM paid").fetchone()[0])

    with closing(database()) as connection:
        connection.execute("CREATE TABLE paid (amount INTEGER)")
        connection.commit()
    return count


def test_effect_and_key_are_committed_together(inbox: Inbox, database: Connect, ledger: Callable[[], int]) -> None:
    def pay(fence: int, *, fails: bool = False) -> bool:
        with closing(database()) as connection, inbox.once(connection, "k", fence) as is_first:
            if is_first:
                connection.execute("INSERT INTO paid VALUES (1)")
            if fails:
                raise RuntimeError("after the effect")
        return is_first

    with pytest.raises(RuntimeError):
        pay(1, fails=True)
    assert ledger() == 0

    assert [pay(2), pay(3), pay(1)] == [True, False, False]
    assert ledger() == 1


def test_at_once_the_effect_happens_once(inbox: Inbox, database: Connect, ledger: Callable[[], int]) -> None:
    def pay(_: int) -> None:
        with closing(database()) as connection, inbox.once(connection, "k", 1) as is_first:
            if is_first:
                connection.execute("INSERT INTO paid VALUES (1)")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pay, range(24)))

    assert ledger() == 1


def test_an_older_run_of_a_job_is_refused_in_the_transaction_too(database: Connect, inbox: Inbox, style: str) -> None:
    strict = Inbox(database, paramstyle=style, fence_by="job")
    with closing(database()) as connection:
        with strict.once(connection, "new", 8, "sync"):
            pass

        with pytest.raises(StaleFence), strict.once(connection, "old", 5, "sync"):
            pytest.fail("it was let in")
        with strict.once(connection, "newer", 9, "sync") as is_first:
            assert is_first

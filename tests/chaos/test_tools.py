"""The tools of the chaos suite do what their names say: otherwise its silence would mean nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from tests.chaos.judge import Verdict, _account, _witnessed, overlap
from tests.chaos.proxy import Proxy
from tests.chaos.witness import Call
from tests.chaos.world import Load
from tests.services import on_server
from tests.system.harness import run

CREATE = "CREATE TABLE t (n INTEGER)"


def through(proxy: Proxy, url: str) -> str:
    head, _, tail = url.rpartition("@")
    return f"{head}@127.0.0.1:{proxy.port}/{tail.partition('/')[2]}"


@pytest.fixture
def proxy(postgres_database: str) -> Any:
    host, _, port = postgres_database.rpartition("@")[2].partition("/")[0].partition(":")
    made = Proxy(host, int(port))
    yield made
    made.close()


@pytest.mark.parametrize(("request_too", "rows"), [(False, 1), (True, 0)])
def test_a_lost_reply_is_a_broken_connection_after_the_work_was_done(
    proxy: Proxy, postgres_database: str, request_too: bool, rows: int
) -> None:
    on_server(postgres_database, CREATE)

    async def insert() -> None:
        connection = await asyncpg.connect(through(proxy, postgres_database))
        await connection.fetch("SELECT 1")
        proxy.lose_reply("INSERT INTO t", request=request_too)
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await connection.fetch("INSERT INTO t VALUES ($1)", 1)
        connection.terminate()

    run(insert())

    assert proxy.faults.lost == 1
    assert on_server(postgres_database, "SELECT count(*) FROM t") == rows


def test_a_lost_commit_is_that_of_the_transaction_that_was_meant(proxy: Proxy, postgres_database: str) -> None:
    on_server(postgres_database, CREATE)

    async def insert() -> None:
        connection = await asyncpg.connect(through(proxy, postgres_database))
        proxy.lose_reply("COMMIT", "INSERT INTO t")
        async with connection.transaction():
            await connection.fetch("SELECT 1")
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            async with connection.transaction():
                await connection.fetch("INSERT INTO t VALUES ($1)", 1)
        connection.terminate()

    run(insert())

    assert on_server(postgres_database, "SELECT count(*) FROM t") == 1


def test_a_held_link_answers_when_it_heals_and_a_cut_one_does_not(proxy: Proxy, postgres_database: str) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(through(proxy, postgres_database))
        proxy.faults.answers = False
        with pytest.raises(TimeoutError):
            await connection.fetch("SELECT 1", timeout=0.3)
        connection.terminate()
        proxy.heal()
        second = await asyncpg.connect(through(proxy, postgres_database))
        assert await second.fetchval("SELECT 2") == 2
        proxy.cut()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await second.fetchval("SELECT 3")

    run(ask())


class Stage:
    """A load that is due each second from 101 on, and whatever history and calls a test makes up."""

    def __init__(self, *, is_once: bool = False) -> None:
        self.load = Load("job", "/ok", is_once, is_steady=not is_once, since=101)
        self.calls: dict[float, list[Call]] = defaultdict(list)
        self.facts: list[dict[str, Any]] = [{"type": "job", "name": "job", "id": "j", "created_us": 100_000_000}]
        self.world: Any = SimpleNamespace(
            loads=[self.load], shifts=[(0.0, 0.0)], witness=SimpleNamespace(of_job=lambda _: self.calls)
        )

    def decide(self, due: int, status: str = "succeeded", until: int | None = None) -> None:
        skip_until_us = None if until is None else until * 1_000_000
        fact = {"type": "run", "job_id": "j", "cause": "schedule", "due_us": due * 1_000_000, "status": status}
        self.facts.append(fact | {"skip_until_us": skip_until_us, "reason": None})

    def call(self, due: float, at: float, run_id: str = "") -> None:
        self.calls[due].append(Call("job", run_id or f"run-{due}", 1, 1, due, at, "/ok"))

    def verdict(self, until: int) -> Verdict:
        verdict = Verdict()
        _account(self.world, self.facts, until * 1_000_000, verdict)
        _witnessed(self.world, self.load, verdict)
        return verdict


def test_a_good_history_is_good() -> None:
    stage = Stage()
    for due in (101, 102):
        stage.decide(due)
        stage.call(due, due + 0.25)
    stage.decide(103, "skipped", until=104)

    verdict = stage.verdict(104)

    assert verdict.is_good
    assert (verdict.decided, verdict.lateness, verdict.redelivered) == (4, 0.25, 0)


def test_a_silent_due_time_a_success_without_a_call_and_a_failure_are_lost() -> None:
    stage = Stage()
    stage.decide(101)
    stage.decide(103, "failed")
    stage.call(103, 103.1)

    assert stage.verdict(103).lost == 3


def test_two_decisions_or_two_ids_for_one_due_time_are_doubled() -> None:
    stage = Stage()
    for _ in range(2):
        stage.decide(101)
    stage.call(101, 101.1, "a")
    stage.call(101, 101.2, "b")

    assert stage.verdict(101).doubled == 2


def test_the_same_run_again_is_redelivered_or_doubled_as_its_job_asks() -> None:
    least, most = Stage(), Stage(is_once=True)
    for stage in (least, most):
        stage.decide(101)
        stage.call(101, 101.1)
        stage.call(101, 103.1)

    assert (least.verdict(101).redelivered, least.verdict(101).doubled) == (1, 0)
    assert (most.verdict(101).redelivered, most.verdict(101).doubled) == (0, 1)


def test_a_call_before_its_time_is_early_by_the_clock_of_the_store() -> None:
    stage = Stage()
    stage.decide(101)
    stage.call(101, 100.9)
    assert stage.verdict(101).early == 1

    stage.world.shifts.append((50.0, 3600.0))
    assert stage.verdict(101).early == 0


def test_overlap_is_the_time_that_two_attempts_of_one_run_shared() -> None:
    now = time.time()
    calls = [Call("job", "r", n, n, now, now + n, "/slow", ended=now + n + 1.5) for n in (1, 2)]

    assert overlap(calls) == pytest.approx(0.5)

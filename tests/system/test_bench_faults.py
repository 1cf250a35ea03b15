"""A benchmark that is stopped, or breaks, or is given what it cannot use: nothing is lost, told or left for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as whole
from bench import contest
from horae.bench import fill, soak, walk
from horae.bench.figures import Figures, Floor, Key
from horae.bench.place import OURS, Place
from horae.bench.run import Bench, attempt, run
from horae.bench.sizes import QUICK
from horae.cli import bench as command
from horae.core.errors import Invalid, Unavailable
from horae.ports import Log, Outcome, Request
from tests.services import on_server

IS_THERE = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'horae_bench%'"


def _bench(place: Place, *cases: str) -> Bench:
    return Bench(place, QUICK, Figures(), print, cases)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("postgresql://h/db", "postgresql://h/db?search_path=horae_bench"),
        ("postgresql:///db", "postgresql:///db?search_path=horae_bench"),
        ("postgresql://h/db#x", "postgresql://h/db?search_path=horae_bench"),
        ("postgresql://h/db?sslmode=require", "postgresql://h/db?sslmode=require&search_path=horae_bench"),
    ],
)
def test_a_place_is_the_given_database_with_a_schema_of_its_own(given: str, url: str) -> None:
    assert Place(given).url == url


@pytest.mark.parametrize(
    "url",
    ["postgresql+asyncpg://me:hunter2@host/db", "postgresql://me:[hunter2]x@host/db", "postgresql://me:hunter2/x@h/db"],
)
def test_a_password_is_not_told(url: str) -> None:
    with pytest.raises(Invalid) as told:
        Place(url)

    assert "hunter2" not in str(told.value.faults)


async def test_what_breaks_while_a_bench_is_stopped_does_not_let_it_go_on(tmp_path: Path) -> None:
    bench = _bench(Place(str(tmp_path / "bench.db")))

    async def case(_: Bench) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ProcessLookupError

    task = asyncio.create_task(attempt(bench, "plan", case))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.figures.failed == []


async def test_what_a_killed_bench_left_is_gone_with_the_next(postgres_database: str) -> None:
    for name in ("horae_bench", "horae_bench_2"):
        on_server(postgres_database, f"CREATE SCHEMA {name}")
        on_server(postgres_database, f"COMMENT ON SCHEMA {name} IS '{OURS}'")

    await run(_bench(Place(postgres_database)))

    assert on_server(postgres_database, IS_THERE) == 0


@pytest.mark.parametrize("is_any_measured", [True, False])
def test_what_was_measured_is_told_though_the_end_breaks(
    is_any_measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = _bench(Place(str(tmp_path / "bench.db")))
    if is_any_measured:
        bench.figures.add("plan", "sqlite", "horae", {"runs/s": 1.0})

    async def breaking(_: Bench) -> None:
        raise Unavailable("the server is gone")

    monkeypatch.setattr("horae.bench.run.run", breaking)
    if is_any_measured:
        command._run(bench)
        assert bench.figures.failed == ["bench"]
    else:
        with pytest.raises(Unavailable):
            command._run(bench)


def test_what_a_peer_cannot_do_fails_where_a_bound_is_of_it() -> None:
    figures = Figures()

    def work() -> dict[str, float]:
        raise contest.PeerError("it never ended")

    whole._guarded(figures, ("herd", "100,000"), "dbos", work, may_pass=True)
    assert (figures.failed, figures.remarks) == ([], {("herd", "100,000", "dbos"): "it never ended"})
    whole._guarded(figures, ("herd", "10,000"), "dbos", work)
    assert figures.failed == ["herd"]


def test_a_bound_whose_unit_nobody_could_measure_is_left_out() -> None:
    idle = Key("idle", "one host", "horae", "statements/s")
    floors = [Floor(idle, None, most=5, is_exact=True)]
    figures = Figures()
    assert figures.left_out(floors) == []

    figures.add("idle", "one host", "horae", {"transactions/s": 3.0})
    assert figures.left_out(floors) == [idle]
    figures.add("idle", "one host", "horae", {"statements/s": 3.0})
    assert figures.left_out(floors) == []


async def test_a_bare_drain_that_dies_says_of_what(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dying(*_: object) -> None:
        raise ValueError("the statement took too long")

    monkeypatch.setattr(soak.bare, "drain_on", dying)
    monkeypatch.setattr(soak, "STUCK_SECONDS", 0.3)
    monkeypatch.setattr(soak, "WAITING_AT_LEAST", 1000)
    place = Place(postgres_database)

    with pytest.raises(ValueError, match="took too long"):
        await soak.soak(place, 10, soak.by_bare)

    await place.wipe()


class Failing:
    async def run(self, request: Request, log: Log) -> Outcome:
        return Outcome(succeeded=False, reason="exception", error="no")

    async def close(self) -> None:
        return


async def test_runs_that_fail_are_not_counted_as_drained(tmp_path: Path) -> None:
    executors: dict[str, Any] = {"noop": Failing()}
    async with Place(str(tmp_path / "bench.db")).fresh() as store:
        await fill.add_jobs(store, 10)
        await fill.add_waiting(store, 20, 10)
        with pytest.raises(AssertionError, match="0 of 20 runs were drained"):
            await walk.drain_rate(store, 20, executors)

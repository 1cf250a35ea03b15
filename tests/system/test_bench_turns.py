"""Who is measured when: horae and its peers in turn, those that are over soon several times a round."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as whole
from bench import contest
from horae.bench import timing
from horae.bench.figures import Figures
from horae.bench.place import Place
from horae.bench.run import Bench
from horae.bench.sizes import QUICK


def contests(folder: Path, case: str, names: list[str]) -> None:
    bench = Bench(Place(str(folder / "bench.db")), replace(QUICK, herd=(50, 90), rounds=2), Figures(), print)
    peers = [peer for peer in contest.peers() if peer.name in names]
    whole._contests(bench, bench, contest.Servers("rest", ""), [case], peers)


def test_crowds_take_turns_and_each_comes_again_beside_its_rival(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    monkeypatch.setattr(whole, "rest", told.append)
    monkeypatch.setattr(
        whole, "_crowd_ours", lambda _, __, case=None: told.append(f"again {case.keywords['count']}" if case else "all")
    )
    monkeypatch.setattr(whole, "_crowd_peer", lambda *given: told.append(f"{given[2].name} {given[3]}"))

    contests(tmp_path, "crowds", ["pgqueuer", "saq"])

    assert set(told[::2]) == {"rest"}
    theirs_first = ["pgqueuer 50", "again 50", "pgqueuer 90", "again 90"]
    ours_first = ["again 50", "pgqueuer 50", "again 90", "pgqueuer 90"]
    first = ["all", "pgqueuer 50", "saq 50", "pgqueuer 90", "saq 90", *theirs_first, *ours_first]
    second = ["pgqueuer 90", "pgqueuer 50", "all", *ours_first, *theirs_first]
    assert told[1::2] == first + second


def test_drains_take_turns_and_those_of_a_file_come_three_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    monkeypatch.setattr(whole, "rest", told.append)
    monkeypatch.setattr(whole, "_drain_ours", lambda *given: told.append(given[2]))
    monkeypatch.setattr(whole, "_drain_peer", lambda *given: told.append(f"{given[2].name} {given[3]}"))

    contests(tmp_path, "peers", ["huey", "pgqueuer"])

    assert set(told[::2]) == {"rest"}
    file, huey = "sqlite, 1 process", "huey 1"
    first = [file, huey, huey, file, file, huey, "1 process", "pgqueuer 1", "huey 2", "2 processes", "pgqueuer 2"]
    second = [huey, file, file, huey, huey, file, "pgqueuer 1", "1 process", "huey 2", "pgqueuer 2", "2 processes"]
    assert told[1::2] == first + second


async def test_a_crowd_is_waited_for_by_its_marks(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    waiting = asyncio.create_task(timing._started(marks, 3))
    marks.write_bytes(bytes(2 * 8))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done

    marks.write_bytes(bytes(3 * 8))

    await asyncio.wait_for(waiting, 5)

"""The figures in docs/, from what runs of the benchmark left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench import contest, page
from bench.__main__ import PEERS
from horae.bench.figures import Figures
from horae.bench.floors import FLOORS
from horae.bench.report import about
from horae.bench.run import CASES
from horae.bench.sizes import FULL, NORMAL, Size

EVERYBODY = [peer.name for peer in contest.peers()]
ALL = [*CASES, *PEERS]


def run_of(rates: Mapping[str, list[float]], cases: list[str], size: Size = NORMAL) -> dict[str, Any]:
    """A run in which these drained so many a second, by one process."""
    figures = Figures()
    for subject, values in rates.items():
        for value in values:
            figures.add("drain", "1 process", subject, {"runs/s": value})
    figures.remark("drain", "any", "celery beat", "it only sends")
    told = about(size, cases) | {"commit": "0ddba11", "peers": ["pgqueuer"], "seconds": 300}
    written: dict[str, Any] = json.loads(json.dumps({"about": told, **figures.as_json(figures.judge(FLOORS))}))
    return written


def test_the_pages_are_written_anew_the_worst_run_counts_and_a_chart_is_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    for name in ("bench-drain-1.svg", "logo.svg"):
        (tmp_path / "images" / name).write_text("old")
    text = "# Performance\n\n| case | shape | unit | against | value | bound | verdict |\n|---|\n| old |\n\nAfter it.\n"
    (tmp_path / "performance.md").write_text(text)
    first, last = {"horae": [30.0], "pgqueuer": [30.0]}, {"horae": [40.0, 50.0, 60.0], "pgqueuer": [20.0, 25.0, 40.0]}
    for name, rates in (("a", first), ("b", last)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bench.json").write_text(json.dumps(run_of(rates, ["peers"])))
    monkeypatch.setattr(page, "DOCS", tmp_path)

    page.write([tmp_path / "a", tmp_path / "b"])

    rows = (tmp_path / "performance.md").read_text().splitlines()
    assert rows[4:] == ["| drain | 1 process | runs/s | pgqueuer | 1.00 | >= 1.3 | MISSED |", "", "After it."]
    figures = (tmp_path / "performance-figures.md").read_text()
    assert figures.count("## `make bench CASES=peers PEERS=pgqueuer`\n\n20") == figures.count("commit `0ddba11`") == 2
    assert "| drain | 1 process | horae | 50.0 | runs/s | 40.0 | 60.0 | 3 |" in figures
    assert "| drain | any | celery beat | it only sends |" in figures
    chart = (tmp_path / "images" / "bench-drain-1.svg").read_text()
    assert (">30<" in chart, ">50<" in chart) == (True, False)
    assert [file.name for file in sorted((tmp_path / "images").iterdir())] == ["bench-drain-1.svg", "logo.svg"]


@pytest.mark.parametrize(
    ("cases", "size", "peers", "expected"),
    [
        (ALL, NORMAL, EVERYBODY, "make bench"),
        (["soak"], FULL, EVERYBODY, "make bench FULL=1 CASES=soak"),
        (["peers"], replace(FULL, rounds=1), ["huey"], "make bench FULL=1 ROUNDS=1 CASES=peers PEERS=huey"),
    ],
)
def test_a_run_tells_how_it_was_asked_for(cases: list[str], size: Size, peers: list[str], expected: str) -> None:
    told = {"cases": cases, "size": json.loads(json.dumps(asdict(size))), "peers": peers}

    assert page.command(told) == expected


def test_a_page_without_the_table_is_left_alone() -> None:
    with pytest.raises(SystemExit, match="0 tables begin with"):
        page.with_table("# Performance\n", page.table(("a", "b"), []))

"""The figures in docs/, from what runs of the benchmark left: `python -m bench.page FOLDER FOLDER`.

All that each run printed goes to performance-figures.md, its bounds into the table of performance.md, where of several
runs the worst counts. A chart in docs/images is of one run, the first that has it: bars of two do not compare.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import contest
from bench.__main__ import PEERS
from horae.bench.figures import Figures, Floor, Key, Verdict
from horae.bench.floors import FLOORS, expected
from horae.bench.pictures import draw
from horae.bench.run import CASES
from horae.bench.sizes import FULL, NORMAL
from horae.bench.table import judged, measured

DOCS = Path(__file__).parent.parent / "docs"
MEASURED = ("case", "shape", "of", "median", "unit", "low", "high", "rounds")
BOUNDS = ("case", "shape", "unit", "against", "value", "bound", "verdict")
HEAD = """# Figures of the benchmark

What the runs of `make bench` printed that [Performance](performance.md) speaks of.
"""

Run = dict[str, Any]


def write(folders: Iterable[Path]) -> None:
    runs = [json.loads((folder / "bench.json").read_text()) for folder in folders]
    (DOCS / "performance-figures.md").write_text("\n".join([HEAD, *map(section, runs)]))
    page = DOCS / "performance.md"
    page.write_text(with_table(page.read_text(), table(BOUNDS, bounds(runs))))
    for name, text in charts(runs).items():
        place = DOCS / "images" / f"bench-{name}"
        if place.exists():
            place.write_text(text)


def charts(runs: Iterable[Run]) -> dict[str, str]:
    drawn: dict[str, str] = {}
    for run in runs:
        with TemporaryDirectory() as folder:
            texts = {name: (Path(folder) / name).read_text() for name in draw(figures_of(run), Path(folder))}
        drawn = texts | drawn
    return drawn


def section(run: Run) -> str:
    about, missing = run["about"], run["remarks"]
    told = (
        f"{about['at'][:10]}, {about['seconds'] / 60:.0f} minutes, commit `{about['commit']}`;"
        f" load {about['load_before'][0]:.1f} before it."
    )
    parts = [f"## `{command(about)}`", told, table(MEASURED, measured(figures_of(run)))]
    if missing:
        rows = ([each["case"], each["shape"], each["subject"], each["why"]] for each in missing)
        parts.append(table(("case", "shape", "of", "what is missing, and why"), rows))
    return "\n\n".join(parts) + "\n"


def command(about: dict[str, Any]) -> str:
    """What such a run is asked for with."""
    size, words = about["size"], ["make bench"]
    usual = FULL if size["herd"] == list(FULL.herd) else NORMAL
    words += ["FULL=1"] if usual is FULL else []
    words += [f"ROUNDS={size['rounds']}"] if size["rounds"] != asdict(usual)["rounds"] else []
    is_all = set(about["cases"]) == {*CASES, *PEERS}
    words += [] if is_all else [f"CASES={','.join(about['cases'])}"]
    has_peers = set(about["cases"]) & set(PEERS) and len(about["peers"]) < len(contest.peers())
    words += [f"PEERS={','.join(about['peers'])}"] if has_peers else []
    return " ".join(words)


def bounds(runs: Iterable[Run]) -> list[list[str]]:
    worst: dict[Floor, Verdict] = {}
    for run in runs:
        for verdict in figures_of(run).judge(FLOORS, expected(run["about"]["cases"], run["about"]["peers"])):
            known = worst.get(verdict.floor)
            if known is None or verdict.is_worse_than(known):
                worst[verdict.floor] = verdict
    return judged(list(worst.values()))


def figures_of(run: Run) -> Figures:
    figures = Figures()
    for each in run["figures"]:
        figures.values[Key(each["case"], each["shape"], each["subject"], each["unit"])] = each["values"]
    return figures


def with_table(page: str, new: str) -> str:
    """The page with this table in the place of the one with the same head."""
    head = re.escape(new.splitlines()[0])
    done, count = re.subn(rf"^{head}\n(\|.*\n)*", lambda _: new + "\n", page, flags=re.MULTILINE)
    if count != 1:
        raise SystemExit(f"{count} tables begin with {new.splitlines()[0]}")
    return done


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head, *lines = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    return "\n".join([head, "|" + "---|" * len(heads), *lines])


if __name__ == "__main__":
    write(map(Path, sys.argv[1:]))

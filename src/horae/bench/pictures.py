"""Which figures become which chart."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

from horae.bench.charts import Bar, bars, lines
from horae.bench.figures import Figures, Key
from horae.bench.sizes import FULL

LIMITS = (("create", "jobs/s"), ("plan", "runs/s"), ("drain", "runs/s"), ("path", "runs/s"), ("http", "runs/s"))
MILLISECONDS = "milliseconds; less is better"
RATE = "runs a second; more is better"
HERD_TITLE = "{} jobs due in one second: p99 lateness"


class Bars(NamedTuple):
    """One case in one shape, everybody who was measured in it."""

    case: str
    shape: str
    unit: str
    title: str


class Curve(NamedTuple):
    """One case over its sizes, which the pattern finds in the shapes; its second group tells the curves apart."""

    case: str
    pattern: str
    units: tuple[str, ...]
    title: str
    over: str
    unit: str = MILLISECONDS


CHARTS: dict[str, Bars | Curve] = {
    "drain-1": Bars("drain", "1 process", "runs/s", "No-ops a second, one worker process"),
    "drain-2": Bars("drain", "2 processes", "runs/s", "No-ops a second, two processes"),
    "drain-sqlite": Bars("drain", "sqlite, 1 process", "runs/s", "No-ops a second on SQLite"),
    "herd": Bars("herd", "10,000", "p99 ms", HERD_TITLE.format("10,000")),
    "herd-100000": Bars("herd", "100,000", "p99 ms", HERD_TITLE.format("100,000")),
    "soak": Bars(
        "soak",
        f"transaction held open, {FULL.held_seconds:g} s",
        "part left",
        "Part of the rate that is left, beside an old transaction",
    ),
    "processes": Curve("drain", r"(\d+) (process)(?:es)?", ("runs/s",), "Drained by more processes", "processes", RATE),
    "lateness": Curve(
        "lateness", r"([\d,]+)/s (even|at once)", ("p50 ms", "p99 ms"), "Start lateness", "runs a second"
    ),
    "growth-jobs": Curve(
        "growth", r"([\d,]+) (jobs)", ("first scan ms", "scan ms", "plan ms"), "500 due jobs, among all others", "jobs"
    ),
    "growth-size": Curve(
        "growth", r"([\d,]+) (jobs)", ("database MB", "scheduler MB"), "What jobs take", "jobs", "MB; less is better"
    ),
    "growth-backlog": Curve(
        "growth", r"([\d,]+) (waiting)", ("claim ms", "settle ms"), "500 runs, beside a backlog", "waiting"
    ),
    "growth-history": Curve(
        "growth", r"([\d,]+) (finished)", ("claim ms", "settle ms"), "500 runs, beside a history", "finished"
    ),
    "growth-tenants": Curve("growth", r"([\d,]+) (tenants)", ("runs/s",), "Drained for many tenants", "tenants", RATE),
}


def draw(figures: Figures, folder: Path) -> list[str]:
    """Writes every chart that there are figures for; their names."""
    charts = {"limits": _limits(figures)} | {
        name: _by_subject(figures, chart) if isinstance(chart, Bars) else _grown(figures, chart)
        for name, chart in CHARTS.items()
    }
    drawn = []
    for name, text in charts.items():
        (folder / f"{name}.svg").unlink(missing_ok=True)  # of a run before, with other figures
        if text:
            (folder / f"{name}.svg").write_text(text)
            drawn.append(f"{name}.svg")
    return drawn


def _bar(key: Key, values: list[float], label: str) -> Bar:
    return Bar(label, median(values), min(values), max(values), key.subject == "horae")


def _limits(figures: Figures) -> str:
    rows = [
        _bar(key, values, f"{key.case}, {key.shape}, {key.subject}")
        for case, unit in LIMITS
        for key, values in figures.values.items()
        if key.case == case and key.unit == unit and _has_bare(figures, key)
    ]
    return bars("Beside the same SQL run bare", "a second; more is better", rows) if rows else ""


def _has_bare(figures: Figures, key: Key) -> bool:
    return key._replace(subject="bare") in figures.values


def _by_subject(figures: Figures, chart: Bars) -> str:
    found = [
        (key, values)
        for key, values in figures.values.items()
        if (key.case, key.shape, key.unit) == (chart.case, chart.shape, chart.unit)
    ]
    if len(found) < 2:
        return ""
    rows = sorted((_bar(key, values, key.subject) for key, values in found), key=lambda bar: bar.value)
    is_more_better = not chart.unit.endswith(" ms")
    told = f"{chart.unit}; {'more' if is_more_better else 'less'} is better"
    return bars(chart.title, told, rows[::-1] if is_more_better else rows)


def _grown(figures: Figures, chart: Curve) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for key, values in figures.values.items():
        match = re.fullmatch(chart.pattern, key.shape)
        if match and key.subject == "horae" and key.case == chart.case and key.unit in chart.units:
            word = key.unit if match[2] in chart.over else f"{key.unit}, {match[2]}"
            series.setdefault(word, []).append((float(match[1].replace(",", "")), median(values)))
    has_two = any(len(each) > 1 for each in series.values())
    return lines(chart.title, chart.unit, chart.over, series) if has_two else ""

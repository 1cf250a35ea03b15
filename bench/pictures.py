"""Which figures become which chart."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

from bench.charts import Bar, bars, lines
from horae.bench.figures import Figures, Key

LIMITS = (("create", "jobs/s"), ("plan", "runs/s"), ("drain", "runs/s"), ("path", "runs/s"), ("http", "runs/s"))


def draw(figures: Figures, folder: Path) -> list[str]:
    """Writes every chart that there are figures for; their names."""
    charts = {
        "limits": lambda: _limits(figures),
        "drain-1": lambda: _by_subject(figures, "drain", "1 process", "runs/s", "No-ops a second, one worker process"),
        "drain-2": lambda: _by_subject(figures, "drain", "2 processes", "runs/s", "No-ops a second, two processes"),
        "herd": lambda: _by_subject(figures, "herd", "10,000", "p99 ms", "10,000 jobs due in one second: p99 lateness"),
        "lateness": lambda: _grown(
            figures,
            r"([\d,]+)/s (even|at once)",
            ("lateness",),
            ("p50 ms", "p99 ms"),
            "Start lateness",
            "runs a second",
        ),
        "growth-jobs": lambda: _grown(
            figures,
            r"([\d,]+) (jobs)",
            ("growth",),
            ("scan ms", "plan ms"),
            "1,000 due jobs, beside all others",
            "jobs",
        ),
        "growth-backlog": lambda: _grown(
            figures,
            r"([\d,]+) (waiting)",
            ("growth",),
            ("claim ms", "settle ms"),
            "500 runs, beside a backlog",
            "waiting",
        ),
        "growth-history": lambda: _grown(
            figures,
            r"([\d,]+) (finished)",
            ("growth",),
            ("claim ms", "settle ms"),
            "500 runs, beside a history",
            "finished",
        ),
    }
    drawn = []
    for name, chart in charts.items():
        if text := chart():
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


def _by_subject(figures: Figures, case: str, shape: str, unit: str, title: str) -> str:
    found = [
        (key, values)
        for key, values in figures.values.items()
        if (key.case, key.shape, key.unit) == (case, shape, unit)
    ]
    if len(found) < 2:
        return ""
    rows = sorted((_bar(key, values, key.subject) for key, values in found), key=lambda bar: bar.value)
    is_rate = unit.endswith("/s")
    return bars(title, f"{unit}; {'more' if is_rate else 'less'} is better", rows[::-1] if is_rate else rows)


def _grown(
    figures: Figures, pattern: str, cases: tuple[str, ...], units: tuple[str, ...], title: str, over: str
) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for key, values in figures.values.items():
        match = re.fullmatch(pattern, key.shape)
        if match and key.case in cases and key.unit in units:
            word = f"{key.unit}, {match[2]}" if match[2] not in over else key.unit
            series.setdefault(word, []).append((float(match[1].replace(",", "")), median(values)))
    return lines(title, "milliseconds; less is better", over, series) if series else ""

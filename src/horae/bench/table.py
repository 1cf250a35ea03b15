"""Figures as people read them: one table of what was measured, one of what it must be."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from horae.bench.figures import Figures, Floor, Verdict


def as_text(figures: Figures, verdicts: Sequence[Verdict], floors: Sequence[Floor] = ()) -> str:
    parts = [grid(("case", "shape", "of", "median", "unit", "low", "high", "rounds"), measured(figures))]
    if figures.remarks:
        rows = [[*place, why] for place, why in figures.remarks.items()]
        parts.append(grid(("case", "shape", "of", "what is missing, and why"), rows))
    if verdicts:
        parts.append(grid(("case", "shape", "unit", "against", "value", "bound", "verdict"), judged(verdicts)))
    told = {verdict.floor for verdict in verdicts}
    if left := dict.fromkeys(_place(floor) for floor in floors if floor not in told):
        parts.append(f"Not measured, though there is a bound: {'; '.join(left)}.")
    return "\n\n".join(parts)


def _place(floor: Floor) -> str:
    over, under = floor.over, floor.under
    return f"{over.case} {over.shape}" + (f" beside {under.subject}" if under and under.subject != "horae" else "")


def measured(figures: Figures) -> list[list[str]]:
    return [
        [
            key.case,
            key.shape,
            key.subject,
            short(median(values)),
            key.unit,
            short(min(values)),
            short(max(values)),
            str(len(values)),
        ]
        for key, values in figures.values.items()
    ]


def judged(verdicts: Sequence[Verdict]) -> list[list[str]]:
    rows = []
    for verdict in verdicts:
        over, under = verdict.floor.over, verdict.floor.under
        against = "-" if under is None else under.subject if under.shape == over.shape else under.shape
        word = "good" if verdict.is_good else "MISSED" if verdict.gates else "missed (told only)"
        value = "none" if verdict.value is None else short(verdict.value)
        rows.append([over.case, over.shape, over.unit, against, value, verdict.floor.words, word])
    return rows


def short(value: float) -> str:
    """Three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

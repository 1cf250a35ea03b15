"""Charts as SVG, written by hand: bars with their spread, and lines over a scale of tens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH = 760
LEFT, RIGHT = 210, 90
ROW, GAP, TOP = 22, 6, 54
HEIGHT = 320
OURS, OTHERS = "#0f766e", "#94a3b8"
COLOURS = ("#0f766e", "#b45309", "#1d4ed8", "#be123c", "#6d28d9")
INK, FAINT = "#334155", "#cbd5e1"


class Bar(NamedTuple):
    label: str
    value: float
    low: float
    high: float
    is_ours: bool = False


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """The longest fills the width; a thin line is the spread."""
    most = max((row.high for row in rows), default=0) or 1
    room = WIDTH - LEFT - RIGHT
    parts = []
    for number, row in enumerate(rows):
        y = TOP + number * (ROW + GAP)
        width, low, high = (room * value / most for value in (row.value, row.low, row.high))
        middle = y + ROW / 2
        parts += [
            _text(LEFT - 8, middle + 4, row.label, "end"),
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{OURS if row.is_ours else OTHERS}"/>',
            _line((LEFT + low, middle), (LEFT + high, middle), INK),
            _text(LEFT + max(width, high) + 6, middle + 4, number_text(row.value), "start"),
        ]
    return _document(title, unit, TOP + len(rows) * (ROW + GAP) + 10, parts)


def lines(title: str, unit: str, over: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Points joined, both axes by powers of ten. A size of zero stands at the left edge, a height of zero nowhere."""
    points = [(x, y) for each in series.values() for x, y in each if x >= 0 and y > 0]
    if not points:
        return _document(title, unit, HEIGHT, [_text(WIDTH / 2, HEIGHT / 2, "nothing was measured", "middle")])
    left, bottom, right, top = 80, HEIGHT - 50, WIDTH - 190, TOP
    sizes = [x for x, _ in points if x > 0] or [1]
    has_none = len(sizes) < len(points)
    scaled, up = _scale(sizes, left + (40 if has_none else 0), right), _scale([y for _, y in points], bottom, top)

    def across(x: float) -> float:
        return scaled(x) if x > 0 else left

    parts = []
    for value in [*([0.0] if has_none else []), *_tens(sizes)]:
        parts += [
            _line((across(value), top), (across(value), bottom), FAINT),
            _text(across(value), bottom + 16, number_text(value), "middle"),
        ]
    for value in _tens([y for _, y in points]):
        parts += [
            _line((left, up(value)), (right, up(value)), FAINT),
            _text(left - 6, up(value) + 4, number_text(value), "end"),
        ]
    parts.append(_text((left + right) / 2, bottom + 36, over, "middle"))
    for number, (name, each) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = [(across(x), up(y)) for x, y in sorted(each) if x >= 0 and y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in drawn]
        y = top + 18 * number
        parts.append(f'<rect x="{right + 20}" y="{y}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(right + 36, y + 9, name, "start"))
    return _document(title, unit, HEIGHT, parts)


def number_text(value: float) -> str:
    """Short: 12 K, 3.4 M, 0.25."""
    for size, word in ((1e6, " M"), (1e3, " K")):
        if value >= size:
            return f"{value / size:.3g}{word}"
    return f"{value:.3g}"


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    return lambda value: start + (math.log10(value) - low) / (high - low) * (end - start)


def _tens(values: Sequence[float]) -> list[float]:
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    return [10.0**power for power in range(low, high + 1)]


def _line(start: tuple[float, float], end: tuple[float, float], colour: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _document(title: str, unit: str, height: float, parts: Sequence[str]) -> str:
    head = f'<text x="16" y="24" font-size="15" font-weight="600">{escape(title)}</text>'
    told = f'<text x="16" y="42">{escape(unit)}</text>'
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
    style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}" role="img"'
    opening = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', f"<title>{escape(title)}</title>"]
    ground = f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([*opening, ground, head, told, *parts, "</svg>", ""])

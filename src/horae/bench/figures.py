"""Figures of a benchmark: what was measured how often, ratios between them, and whether a floor holds. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import ceil
from statistics import median
from typing import Any, NamedTuple


class Key(NamedTuple):
    """What is measured: of which case, in which shape of it, of whom, in which unit."""

    case: str
    shape: str
    subject: str
    unit: str


# No machine is to blame for more than this.
FAR = 3


@dataclass(frozen=True, slots=True)
class Floor:
    """A ratio that must be at least, or at most, so much. Without `under`, the figure itself: told and no more unless
    it is far off, or `is_exact`, the same on any machine; then the worst one counts.
    """

    over: Key
    under: Key | None
    least: float | None = None
    most: float | None = None
    row: str = ""
    is_exact: bool = False

    def holds(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def is_far_from(self, value: float) -> bool:
        return not self.holds(value * FAR if self.most is None else value / FAR)

    def worse(self, a: float, b: float) -> float:
        return min(a, b) if self.most is None else max(a, b)

    @property
    def words(self) -> str:
        sign, bound = (">=", self.least) if self.least is not None else ("<=", self.most)
        return f"{sign} {bound:g}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Without a value the other side of the ratio was not measured, though it should have been."""

    floor: Floor
    value: float | None
    is_good: bool

    @property
    def gates(self) -> bool:
        """Figures of this very machine are told while they are near; ratios decide, and what is the same on any."""
        if self.value is None or self.floor.under is not None or self.floor.is_exact:
            return True
        return self.floor.is_far_from(self.value)

    def is_worse_than(self, other: Verdict) -> bool:
        """Of the same floor."""
        if self.value is None or other.value is None:
            return self.value is None
        return self.value != other.value and self.floor.worse(self.value, other.value) == self.value


@dataclass(slots=True)
class Figures:
    values: dict[Key, list[float]] = field(default_factory=dict)
    remarks: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Why there is no figure, by case, shape and subject."""
    failed: list[str] = field(default_factory=list)
    """Cases that broke, of ours or of a peer."""

    def add(self, case: str, shape: str, subject: str, measured: Mapping[str, float]) -> None:
        """One round: a value for each unit."""
        for unit, value in measured.items():
            self.values.setdefault(Key(case, shape, subject, unit), []).append(value)

    def remark(self, case: str, shape: str, subject: str, why: str) -> None:
        self.remarks[case, shape, subject] = why

    def fail(self, case: str, shape: str, why: str, subject: str = "horae") -> None:
        self.remark(case, shape, subject, why)
        self.failed.append(case)

    def is_good(self, verdicts: Iterable[Verdict]) -> bool:
        return not self.failed and all(verdict.is_good for verdict in verdicts if verdict.gates)

    def judge(self, floors: Iterable[Floor], expected: Container[tuple[str, str]] = ()) -> list[Verdict]:
        """Of every floor whose figures were measured; of ours too that have nothing to stand beside, though one of the
        `expected` subjects (case and name) should have been there.
        """
        verdicts = []
        for floor in floors:
            value = self._worst(floor) if floor.is_exact else self.ratio(floor.over, floor.under)
            if value is not None:
                verdicts.append(Verdict(floor, value, floor.holds(value)))
            elif floor.under and floor.over in self.values and self._is_missed(floor.under, expected):
                verdicts.append(Verdict(floor, None, is_good=False))
        return verdicts

    def left_out(self, floors: Iterable[Floor]) -> list[Key]:
        """What an exact floor is of and nobody could measure, though the case was run."""
        run = {key[:3] for key in self.values}
        return [
            floor.over for floor in floors if floor.is_exact and floor.over not in self.values and floor.over[:3] in run
        ]

    def _worst(self, floor: Floor) -> float | None:
        values = self.values.get(floor.over)
        return reduce(floor.worse, values) if values else None

    def _is_missed(self, under: Key, expected: Container[tuple[str, str]]) -> bool:
        return under in self.values or (under.case, under.subject) in expected

    def ratio(self, over: Key, under: Key | None) -> float | None:
        """The median of the ratios of each round, since both sides of a round had the same noise."""
        upper = self.values.get(over)
        if not upper or under is None:
            return median(upper) if upper else None
        lower = self.values.get(under)
        if not lower or not all(lower):
            return None
        if len(upper) == len(lower):
            return median(a / b for a, b in zip(upper, lower, strict=True))
        return median(upper) / median(lower)

    def as_json(self, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        return {
            "figures": [
                {**key._asdict(), "median": median(values), "low": min(values), "high": max(values), "values": values}
                for key, values in self.values.items()
            ],
            "remarks": [
                {"case": case, "shape": shape, "subject": subject, "why": why}
                for (case, shape, subject), why in self.remarks.items()
            ],
            "verdicts": [
                {
                    "over": verdict.floor.over._asdict(),
                    "under": verdict.floor.under._asdict() if verdict.floor.under else None,
                    "value": verdict.value,
                    "floor": verdict.floor.words,
                    "row": verdict.floor.row,
                    "is_good": verdict.is_good,
                    "gates": verdict.gates,
                }
                for verdict in verdicts
            ],
            "is_good": self.is_good(verdicts),
        }


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    """p50, p99 and the highest, each a value that was measured."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    p50, p99 = (ordered[ceil(part * len(ordered) / 100) - 1] for part in (50, 99))
    return p50, p99, ordered[-1]

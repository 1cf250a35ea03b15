"""How a worker's free slots are shared out: urgent first, but never all to them; even between tenants."""

from __future__ import annotations

from horae.core.job import Bucket

RESERVE = 10  # one slot in ten goes to the lower priorities, so that they never starve


def share(lines: list[tuple[str, Bucket]], room: int, turn: int) -> list[tuple[str, int]]:
    """`lines` are the waiting lines that have something due. `turn` rotates who comes first among equals."""
    by_priority: dict[int, list[str]] = {}
    for text, bucket in sorted(lines):
        by_priority.setdefault(bucket.priority, []).append(text)
    levels = [by_priority[priority] for priority in sorted(by_priority)]
    if not levels or room <= 0:
        return []
    reserved = min(max(1, room // RESERVE), room - 1) if len(levels) > 1 else 0
    shares = _even(levels[0], room - reserved, turn)
    for level in levels[1:]:
        if reserved <= 0:
            break
        part = _even(level, max(1, reserved // (len(levels) - 1)), turn)
        reserved -= sum(n for _, n in part)
        shares += part
    return shares


def _even(lines: list[str], room: int, turn: int) -> list[tuple[str, int]]:
    start = turn % len(lines)
    rotated = lines[start:] + lines[:start]
    base, more = divmod(room, len(rotated))
    shares = [(line, base + (1 if index < more else 0)) for index, line in enumerate(rotated)]
    return [(line, n) for line, n in shares if n > 0]

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
    lower = levels[1:]
    # With less room than a tenth of it makes a slot, every tenth turn is theirs.
    reserved = (room + turn % RESERVE) // RESERVE if lower else 0
    shares = _even(levels[0], room - reserved, turn)
    for number in range(len(lower)):
        level = lower[(number + turn // RESERVE) % len(lower)]
        part = _even(level, -(-reserved // (len(lower) - number)), turn)
        reserved -= sum(n for _, n in part)
        shares += part
    return shares


def _even(lines: list[str], room: int, turn: int) -> list[tuple[str, int]]:
    start = turn % len(lines)
    rotated = lines[start:] + lines[:start]
    base, more = divmod(room, len(rotated))
    shares = [(line, base + (1 if index < more else 0)) for index, line in enumerate(rotated)]
    return [(line, n) for line, n in shares if n > 0]

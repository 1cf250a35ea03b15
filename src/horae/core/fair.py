"""How a worker's free slots are shared out: urgent first, but never all to them; between tenants by weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

from horae.core.job import Bucket

RESERVE = 10  # one slot in ten goes to the lower priorities, so that they never starve


def share(
    lines: list[tuple[str, Bucket]], room: int, turn: int, weights: Mapping[str, int] | None = None
) -> list[tuple[str, int]]:
    """`lines` are the waiting lines that have something due. `turn` rotates who comes first among equals. A tenant that
    is not among the `weights` weighs 1.
    """
    given = weights or {}
    by_priority: dict[int, list[tuple[str, str]]] = {}
    for text, bucket in sorted(lines, key=itemgetter(0)):
        by_priority.setdefault(bucket.priority, []).append((text, bucket.tenant))
    levels = [by_priority[priority] for priority in sorted(by_priority)]
    if not levels or room <= 0:
        return []
    lower = levels[1:]
    # With less room than a tenth of it makes a slot, every tenth turn is theirs.
    reserved = (room + turn % RESERVE) // RESERVE if lower else 0
    shares = _weighted(levels[0], room - reserved, turn, given)
    for number in range(len(lower)):
        level = lower[(number + turn // RESERVE) % len(lower)]
        part = _weighted(level, -(-reserved // (len(lower) - number)), turn, given)
        reserved -= sum(n for _, n in part)
        shares += part
    return shares


def _weighted(lines: list[tuple[str, str]], room: int, turn: int, weights: Mapping[str, int]) -> list[tuple[str, int]]:
    """A wheel with as many spokes for each tenant as it weighs: a claim takes spokes from where its turn begins. The
    lines of one tenant share what it gets evenly.
    """
    tenants: dict[str, list[str]] = {}
    for text, tenant in lines:
        tenants.setdefault(tenant, []).append(text)
    wheel = [tenant for tenant in tenants for _ in range(weights.get(tenant, 1))]
    start = turn % len(wheel)
    whole, more = divmod(room, len(wheel))
    extra = Counter((wheel[start:] + wheel[:start])[:more])
    shares = []
    for tenant, texts in tenants.items():
        shares += _even(texts, whole * weights.get(tenant, 1) + extra[tenant], turn)
    return shares


def _even(lines: list[str], room: int, turn: int) -> list[tuple[str, int]]:
    start = turn % len(lines)
    rotated = lines[start:] + lines[:start]
    base, more = divmod(room, len(rotated))
    shares = [(line, base + (1 if index < more else 0)) for index, line in enumerate(rotated)]
    return [(line, n) for line, n in shares if n > 0]

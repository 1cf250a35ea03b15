"""The figures to reach, one row each: ratios measured in one run, which decide, and absolute ones, which are told."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from horae.bench.failover import LEASE_SECONDS
from horae.bench.figures import Floor, Key
from horae.bench.sizes import FULL

BESIDE_PEERS = {"peers": "drain", "crowds": "herd"}  # what is measured of peers too, by the cases of `make bench`
PEERS = ("procrastinate", "celery", "dramatiq", "taskiq", "rq", "huey redis", "arq", "dbos", "saq")

PLAN = "plan: >= 20,000 runs/s, >= 0.5 of the same SQL run bare"
DRAIN = "no-op runs end to end: one worker process >= 1.3 x pgqueuer, two >= 1.1 x, >= 2 x every other peer"
PATH = "whole path with planning >= 0.5 of the bare ceiling"
ON_SQLITE = "no-op runs end to end on SQLite: >= 2 x huey on SQLite"
LATENESS = "start lateness, 1,000 runs/s steady: p99 <= 100 ms"
HERD = "jobs due in the same second: all staged before it; 10,000: p99 <= 0.6 x pgqueuer's; 100,000: max <= 0.7 x"
GROWTH = "due scan and plan cost, 10 K to 10 M jobs: <= 1.5 x"
MEMORY = "memory of a scheduler at 10 M jobs: <= 200 MB"
FAILOVER = "scheduler failover after kill -9: <= lease + 1 s; planned restart: <= 1 s"
CREATE = "create over HTTP: p99 <= 100 ms under load; batch >= 10,000 jobs/s"
HTTP = "http jobs per worker process: >= 0.8 of the bare HTTP client"
IDLE = "idle: <= 1 % of a core, <= 5 statements/s for one host"
SOAK = "no decay over a soak at full rate: last minute >= 0.9 of the second; a transaction held open: as bare"
GATES = "runs that are checked against their siblings (overlap, max_concurrency): >= 0.3 of plain ones"
KEPT = "no target names it, and yet it must not fall off: two thirds of what was measured, or twice the time"
START = "horae dev ready in 2 s, under 120 MB; worker under 100 MB; CLI under 100 ms"

RUNS = "runs/s"


def _beside(subject: str, case: str, shape: str, unit: str, least: float, row: str) -> Floor:
    return Floor(Key(case, shape, "horae", unit), Key(case, shape, subject, unit), least=least, row=row)


Bound = float | None


def _told(case: str, shape: str, unit: str, row: str, *, least: Bound = None, most: Bound = None) -> Floor:
    return Floor(Key(case, shape, "horae", unit), None, least, most, row)


def _exact(case: str, shape: str, unit: str, row: str, *, least: Bound = None, most: Bound = None) -> Floor:
    return Floor(Key(case, shape, "horae", unit), None, least, most, row, is_exact=True)


def _herd(shape: str, unit: str, most: float) -> Floor:
    ours, theirs = (Key("herd", shape, subject, unit) for subject in ("horae", "pgqueuer"))
    return Floor(ours, theirs, most=most, row=HERD)


def _grown(shape: str, unit: str) -> Floor:
    large, small = (Key("growth", f"{shape} jobs", subject, unit) for subject in ("horae", "10,000 jobs"))
    return Floor(large, small, most=1.5, row=GROWTH)


def _kept(case: str, shape: str, unit: str, beside: str, *, least: Bound = None, most: Bound = None) -> Floor:
    over, under = (Key(case, each, "horae", unit) for each in (shape, beside))
    return Floor(over, under, least, most, row=KEPT)


FLOORS = [
    *(_beside("bare", "plan", database, RUNS, 0.5, PLAN) for database in ("postgres", "sqlite")),
    _told("plan", "postgres", RUNS, PLAN, least=20_000),
    *(_beside("bare", "path", database, RUNS, 0.5, PATH) for database in ("postgres", "sqlite")),
    _beside("pgqueuer", "drain", "1 process", RUNS, 1.3, DRAIN),
    _beside("pgqueuer", "drain", "2 processes", RUNS, 1.1, DRAIN),
    *(_beside(peer, "drain", shape, RUNS, 2, DRAIN) for peer in PEERS for shape in ("1 process", "2 processes")),
    _beside("huey", "drain", "sqlite, 1 process", RUNS, 2, ON_SQLITE),
    _told("lateness", "1,000/s even", "p99 ms", LATENESS, most=100),
    _told("lateness", "1,000/s at once", "p99 ms", LATENESS, most=100),
    *(_exact("lateness", f"1,000/s {how}", "% done", LATENESS, least=100) for how in ("even", "at once")),
    _herd("10,000", "p99 ms", 0.6),
    _herd("100,000", "max ms", 0.7),
    *(
        _exact("herd", count, unit, HERD, least=100)
        for count in ("10,000", "100,000")
        for unit in ("% staged before", "% done")
    ),
    *(_grown(size, unit) for size in ("100,000", "1,000,000", "10,000,000") for unit in ("scan ms", "plan ms")),
    _exact("growth", "10,000,000 jobs", "scheduler MB", MEMORY, most=200),
    _exact("growth", "10,000,000 jobs", "host statements/s", IDLE, most=5),
    _told("growth", "10,000,000 jobs", "host % of a core", IDLE, most=1),
    _exact("failover", "kill -9", "s", FAILOVER, most=LEASE_SECONDS + 1),
    _exact("failover", "stop", "s", FAILOVER, most=1),
    _told("create", "http, one at a time", "p99 ms", CREATE, most=100),
    _told("create", "http, batches", "jobs/s", CREATE, least=10_000),
    _beside("bare", "http", "1 process", RUNS, 0.8, HTTP),
    _exact("idle", "one host", "statements/s", IDLE, most=5),
    _told("idle", "one host", "% of a core", IDLE, most=1),
    *(
        Floor(
            Key("gates", f"postgres, {rule}", "horae", RUNS),
            Key("gates", "postgres, plain", "horae", RUNS),
            0.3,
            row=GATES,
        )
        for rule in ("overlap: skip", "max_concurrency: 5")
    ),
    Floor(
        Key("soak", f"path, {FULL.soak_seconds:g} s, late", "horae", RUNS),
        Key("soak", f"path, {FULL.soak_seconds:g} s, early", "horae", RUNS),
        0.9,
        row=SOAK,
    ),
    _beside("bare", "soak", f"transaction held open, {FULL.held_seconds:g} s", "part left", 0.9, SOAK),
    _beside("bare", "create", "postgres", "jobs/s", 0.25, KEPT),
    _beside("bare", "create", "sqlite", "jobs/s", 0.18, KEPT),
    *(_beside("bare", "drain", database, RUNS, 0.4, KEPT) for database in ("postgres", "sqlite")),
    _kept("drain", "8 processes", RUNS, "1 process", least=0.55),
    _kept("growth", "1,000 tenants", RUNS, "1 tenants", least=0.4),
    *(
        _kept("growth", f"{count} {what}", unit, f"{few} {what}", most=2)
        for few, what, counts in (
            ("1,000", "waiting", ("100,000", "1,000,000")),
            ("0", "finished", ("1,000,000", "10,000,000")),
        )
        for count in counts
        for unit in ("claim ms", "settle ms")
    ),
    _told("start", "dev", "ready s", START, most=2),
    _exact("start", "dev", "MB", START, most=120),
    _exact("start", "worker", "MB", START, most=100),
    _told("start", "cli", "ms", START, most=100),
]
ALONE = [floor for floor in FLOORS if not floor.under or floor.under.subject not in ("pgqueuer", "huey", *PEERS)]
"""What can be measured without a peer."""


def expected(cases: Collection[str], peers: Iterable[str]) -> set[tuple[str, str]]:
    """Who should have left figures, and of what, in a run of these cases beside these peers."""
    bare = {(floor.under.case, "bare") for floor in FLOORS if floor.under and floor.under.subject == "bare"}
    return bare | {(BESIDE_PEERS[name], peer) for peer in peers for name in BESIDE_PEERS if name in cases}

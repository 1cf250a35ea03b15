"""`make bench`: private servers, horae and its peers in turn, one table, JSON and charts; 1 when a ratio is too low."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import uvloop

from bench import contest
from bench.pictures import draw
from bench.services import folder, postgres, redis
from horae.bench.figures import Figures
from horae.bench.floors import FLOORS
from horae.bench.place import Place
from horae.bench.run import CASES, ONCE, Bench, add_path, attempt, drain_by, drain_here, processes_of
from horae.bench.sizes import FULL, NORMAL, QUICK, Size
from horae.bench.table import as_text
from horae.cli.server import run_loop
from horae.telemetry import quiet
from tests.services import MissingServiceError

OUT = Path(__file__).parent / "out"
ON_SQLITE = ("create", "plan", "drain")
PEERS = ("peers", "crowds")
RIVALS = ("pgqueuer", "huey")  # measured in every round; the others in some
OTHER_ROUNDS = 2
TOGETHER = (1, 2)


def main() -> int:
    options = _options()
    size = FULL if options.full else QUICK if options.quick else NORMAL
    size = replace(size, rounds=options.rounds or size.rounds)
    wanted = [name for name in options.cases.split(",") if name] or [*CASES, *PEERS]
    unknown = [name for name in wanted if name not in (*CASES, *PEERS)]
    if unknown:
        print(f"There is no case {unknown[0]}; there are {', '.join((*CASES, *PEERS))}.", file=sys.stderr)
        return 2
    quiet()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    figures = Figures()
    try:
        _measure(figures, size, wanted, options.peers.split(",") if options.peers else None)
    except MissingServiceError as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 4
    except (KeyboardInterrupt, SystemExit):
        print("bench: stopped; this is what was measured until then.", file=sys.stderr)
        _report(figures, wanted, time.monotonic() - began, options.out)
        return 130
    return _report(figures, wanted, time.monotonic() - began, options.out)


def _measure(figures: Figures, size: Size, wanted: list[str], only: list[str] | None) -> None:
    if "crowds" in wanted:  # measured there, in turn with the others
        wanted = [name for name in wanted if name != "herd"]
    if "peers" in wanted:
        size = replace(size, workers=tuple(count for count in size.workers if count not in TOGETHER))
    with postgres() as url, folder() as home:
        bench = Bench(Place(url), size, figures, _tell)
        on_file = Bench(Place(str(home / "bench.db")), size, figures, _tell)
        run_loop(_ours(bench, on_file, wanted))  # as a server runs, its garbage collection too
        if set(PEERS) & set(wanted):
            with redis() as redis_url:
                _contests(bench, on_file, contest.Servers(url, redis_url), wanted, only)


async def _ours(bench: Bench, on_file: Bench, wanted: list[str]) -> None:
    for number in range(1, bench.size.rounds + 1):
        for name in (name for name in wanted if name in CASES):
            if number > 1 and name in ONCE:
                continue
            for each in (bench, on_file) if name in ON_SQLITE else (bench,):
                _tell(f"round {number} of {bench.size.rounds}: {name} on {each.place.dialect}")
                await attempt(each, name)
    for each in (bench, on_file):
        await each.place.wipe()
        add_path(bench.figures, each.place.dialect)


def _contests(
    bench: Bench, on_file: Bench, servers: contest.Servers, wanted: list[str], only: list[str] | None
) -> None:
    """In turn: horae, then each peer, then again, so that noise hits all of them."""
    chosen = [peer for peer in contest.peers() if only is None or peer.name in only]
    rivals = [peer for peer in chosen if peer.name in RIVALS]
    for number in range(1, bench.size.rounds + 1):
        if "peers" in wanted:
            _drain_file(on_file, number)
            _drains(bench, servers, chosen if number <= OTHER_ROUNDS else rivals, number)
        if "crowds" in wanted:
            _crowds(bench, servers, chosen if number == 1 else rivals, number)


def _drain_file(on_file: Bench, number: int) -> None:
    """SQLite is drained by the one process that it serves."""
    _tell(f"round {number} of {on_file.size.rounds}: horae drains on sqlite")
    rate = uvloop.run(drain_here(on_file))
    on_file.figures.add("drain", "sqlite", "horae", {"runs/s": rate})


def _drains(bench: Bench, servers: contest.Servers, peers: list[contest.Peer], number: int) -> None:
    figures = bench.figures
    for processes in TOGETHER:
        shape = processes_of(processes)
        _tell(f"round {number} of {bench.size.rounds}: horae drains with {shape}")
        rate, _ = uvloop.run(drain_by(bench, processes))
        figures.add("drain", shape, "horae", {"runs/s": rate})
        for peer in peers:
            if peer.cannot_drain:
                figures.remark("drain", "any", peer.name, peer.cannot_drain)
                continue
            _tell(f"round {number} of {bench.size.rounds}: {peer.name} drains with {shape}")
            place = shape if peer.needs != "file" else "sqlite" if processes == 1 else f"sqlite, {shape}"
            count = min(peer.jobs, bench.size.waiting)
            _guarded(figures, ("drain", place), peer, partial(contest.drain, peer, servers, processes, count))


def _crowds(bench: Bench, servers: contest.Servers, peers: list[contest.Peer], number: int) -> None:
    figures = bench.figures
    _tell(f"round {number} of {bench.size.rounds}: horae with a crowd due at once")
    uvloop.run(attempt(bench, "herd"))
    for count in bench.size.herd:
        for peer in peers:
            if peer.cannot_herd:
                figures.remark("herd", "any", peer.name, peer.cannot_herd)
                continue
            _tell(f"round {number} of {bench.size.rounds}: {peer.name} with {count:,} due at once")
            lead = 2 * contest.START_SECONDS + 3 + count / _enqueue_rate(figures, peer)
            _guarded(figures, ("herd", f"{count:,}"), peer, partial(contest.herd, peer, servers, count, lead))


def _enqueue_rate(figures: Figures, peer: contest.Peer) -> float:
    """As measured before, with a margin; where it was not, slow."""
    rates = [
        value
        for key, values in figures.values.items()
        if key.subject == peer.name and key.unit == "enqueued/s"
        for value in values
    ]
    return min(rates) * 0.5 if rates else 300.0


def _guarded(
    figures: Figures, place: tuple[str, str], peer: contest.Peer, work: Callable[[], dict[str, float]]
) -> None:
    """What a peer cannot do is told; the others go on."""
    try:
        figures.add(*place, peer.name, work())
    except (contest.PeerError, OSError, ValueError) as error:
        figures.remark(*place, peer.name, str(error))


def _report(figures: Figures, wanted: list[str], seconds: float, out: Path) -> int:
    verdicts = figures.judge(FLOORS)
    out.mkdir(parents=True, exist_ok=True)
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cases": wanted,
        "seconds": round(seconds),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
    }
    (out / "bench.json").write_text(json.dumps({"about": about, **figures.as_json(verdicts)}, indent=2))
    charts = draw(figures, out)
    print(as_text(figures, verdicts))
    print(f"\n{seconds:.0f} s; {out / 'bench.json'}; {', '.join(charts) or 'no charts'}")
    bad = [verdict for verdict in verdicts if verdict.gates and not verdict.is_good]
    for verdict in bad:
        print(f"below its floor: {verdict.floor.row}", file=sys.stderr)
    return 0 if figures.is_good(verdicts) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--cases", default="", help=f"any of {','.join((*CASES, *PEERS))}")
    parser.add_argument("--peers", default="", help="only these peers, by name")
    parser.add_argument("--rounds", type=int, help="so many instead of those of the size")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for bench.json and the charts")
    parser.add_argument("--full", action="store_true", help="every size; takes hours")
    parser.add_argument("--quick", action="store_true", help="small and once: whether it works")
    return parser.parse_args()


def _tell(told: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {told}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

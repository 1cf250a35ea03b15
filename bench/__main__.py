"""`make bench`: private servers, horae and its peers in turn, one table, JSON and charts; 1 when a ratio is too low."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import uvloop

from bench import contest
from bench.services import postgres, redis, rest
from horae.bench.figures import Figures, Verdict
from horae.bench.floors import BESIDE_PEERS, FLOORS, expected
from horae.bench.orphans import own_folder, stop_as_by_ctrl_c
from horae.bench.place import Place
from horae.bench.report import about, check_folder, in_memory, write
from horae.bench.run import CASES, Bench, Case, attempt, crowd, drain_by, processes_of, run
from horae.bench.sizes import FULL, NORMAL, QUICK, Size
from horae.bench.table import as_text
from horae.cli.server import guarded, run_loop
from horae.telemetry import quiet
from tests.services import MissingServiceError, on_server

OUT = Path(__file__).parent / "out"
ON_SQLITE = ("create", "plan", "drain", "path")
PEERS = tuple(BESIDE_PEERS)
CROWD_RIVAL = "pgqueuer"
RIVALS = (CROWD_RIVAL, "huey")  # measured in every round; the others in some
OTHER_ROUNDS = 2
TOGETHER = (1, 2)
ON_FILE = "sqlite, 1 process"
PAIRS = 3  # a crowd is over in half a second or some, a drain of a file in one and a half: so many of them in a round

Turns = Sequence[Callable[[], None]]


def main() -> int:
    options = _options()
    size = FULL if options.full else QUICK if options.quick else NORMAL
    size = replace(size, rounds=options.rounds or size.rounds)
    chosen = _words(options.peers) or [peer.name for peer in contest.peers()]
    wanted = _words(options.cases) or [*CASES, *PEERS]
    unknown = [name for name in wanted if name not in (*CASES, *PEERS)]
    if unknown:
        print(f"There is no case {unknown[0]}; there are {', '.join((*CASES, *PEERS))}.", file=sys.stderr)
        return 2
    if strange := set(chosen) - {peer.name for peer in contest.peers()}:
        names = ", ".join(peer.name for peer in contest.peers())
        print(f"There is no peer {min(strange)}; there are {names}.", file=sys.stderr)
        return 2
    guarded(partial(check_folder, options.out))
    quiet()
    if kind := in_memory(Path(tempfile.gettempdir())):
        print(
            f"bench: {tempfile.gettempdir()} is {kind}, in memory: nothing is written to a disk there, and figures"
            " are too good. Name a folder on a disk: TMPDIR=/var/tmp make bench",
            file=sys.stderr,
        )
    stop_as_by_ctrl_c()
    began, told = time.monotonic(), about(size, wanted) | {"commit": _commit(), "peers": chosen, "stopped": False}
    figures = Figures()
    try:
        _measure(figures, size, wanted, chosen, told)
    except MissingServiceError as missing:
        print(f"bench: {missing}", file=sys.stderr)
        if not figures.values:
            return 4
        figures.fail("bench", "any", str(missing))
    except KeyboardInterrupt:
        print("bench: stopped; this is what was measured until then.", file=sys.stderr)
        told["stopped"] = True
    except Exception as error:  # noqa: BLE001 such as a server that has died: hours of figures must not be lost for it
        figures.fail("bench", "any", f"{type(error).__name__}: {error}")
    told["seconds"] = round(time.monotonic() - began)
    verdicts = figures.judge(FLOORS, expected(wanted, chosen))
    _tell_left_out(figures, is_whole=options.full and not options.cases and not options.peers)
    _report(figures, told, options.out, verdicts)
    if told["stopped"]:
        return 130
    # Small figures say nothing about speed, but a peer that did not work leaves none.
    works = not figures.failed and all(verdict.value is not None for verdict in verdicts)
    return 0 if (works if options.quick else figures.is_good(verdicts)) else 1


def _tell_left_out(figures: Figures, *, is_whole: bool) -> None:
    """A bound that nobody measured is not one that holds."""
    for key in figures.left_out(FLOORS):
        figures.fail(key.case, key.shape, f"{key.unit} could not be measured here, and a bound is of it")
    if is_whole and len(figures.judge(FLOORS)) < len(FLOORS):
        figures.fail("bench", "any", "not every bound was measured, though all cases and peers were asked for")


def _measure(figures: Figures, size: Size, wanted: list[str], chosen: list[str], told: dict[str, Any]) -> None:
    if "crowds" in wanted:  # measured there, in turn with the others
        wanted = [name for name in wanted if name != "herd"]
    if "peers" in wanted:
        size = replace(size, workers=tuple(count for count in size.workers if count not in TOGETHER))
    peers = [peer for peer in contest.peers() if peer.name in chosen and set(PEERS) & set(wanted)]
    with own_folder() as home, ExitStack() as stack:
        # Before hours of measuring: what a peer needs must be there.
        redis_url = stack.enter_context(redis()) if any(peer.needs == "redis" for peer in peers) else ""
        on_file = Bench(
            Place(str(home / "bench.db")), size, figures, _tell, [name for name in wanted if name in ON_SQLITE]
        )
        with postgres() as url:
            told["postgres"] = on_server(url, "SHOW server_version")
            ours = [name for name in wanted if name in CASES]
            # As a server runs, its garbage collection too.
            run_loop(run(Bench(Place(url), size, figures, _tell, ours, partial(rest, url)), on_file))
        if peers:
            # A server of their own: the other one may still write what a soak left behind.
            with postgres() as url:
                bench = Bench(Place(url), size, figures, _tell)
                _contests(bench, on_file, contest.Servers(url, redis_url), wanted, peers)


def _contests(
    bench: Bench, on_file: Bench, servers: contest.Servers, wanted: list[str], chosen: list[contest.Peer]
) -> None:
    """In turn: horae, then each peer, then again, so that noise hits all of them."""
    rivals = [peer for peer in chosen if peer.name in RIVALS]
    for number in range(1, bench.size.rounds + 1):
        if "peers" in wanted:
            _drains(bench, on_file, servers, chosen if number <= OTHER_ROUNDS else rivals, number)
        if "crowds" in wanted:
            _crowds(bench, servers, chosen if number == 1 else rivals, number)


def _drains(bench: Bench, on_file: Bench, servers: contest.Servers, peers: list[contest.Peer], number: int) -> None:
    """Those on a file beside each other, then the others; horae first in one round, last in the next."""
    files = [peer for peer in peers if peer.needs == "file"]
    for processes in TOGETHER:
        # SQLite is drained by the one process that it serves.
        ours = [partial(_drain_ours, on_file, 1, ON_FILE, number)] if processes == 1 else []
        theirs = [partial(_drain_peer, bench, servers, peer, processes, number) for peer in files]
        for turn in range(PAIRS if ours else 1):
            _in_turn(servers, ours, theirs, number + turn)
        others = [partial(_drain_peer, bench, servers, peer, processes, number) for peer in peers if peer not in files]
        shape = processes_of(processes)
        _in_turn(servers, [partial(_drain_ours, bench, processes, shape, number)], others, number)


def _in_turn(servers: contest.Servers, ours: Turns, theirs: Turns, number: int) -> None:
    for turn in [*ours, *theirs] if number % 2 else [*theirs[::-1], *ours]:
        rest(servers.postgres)
        turn()


def _drain_ours(bench: Bench, processes: int, shape: str, number: int) -> None:
    _tell(f"round {number} of {bench.size.rounds}: horae drains with {shape}")

    async def drained(bench: Bench) -> None:
        await drain_by(bench, processes, shape)
        await bench.place.wipe()

    uvloop.run(attempt(bench, "drain", drained))


def _drain_peer(bench: Bench, servers: contest.Servers, peer: contest.Peer, processes: int, number: int) -> None:
    if peer.cannot_drain:
        bench.figures.remark("drain", "any", peer.name, peer.cannot_drain)
        return
    shape = processes_of(processes)
    _tell(f"round {number} of {bench.size.rounds}: {peer.name} drains with {shape}")
    place = shape if peer.needs != "file" else f"sqlite, {shape}"
    count = min(peer.jobs, bench.size.waiting)
    _guarded(bench.figures, ("drain", place), peer.name, partial(contest.drain, peer, servers, processes, count))


def _crowds(bench: Bench, servers: contest.Servers, peers: list[contest.Peer], number: int) -> None:
    """Horae first in one turn, last in the next; after the first turn of a round each crowd beside the peer alone that
    it is measured by.
    """
    sizes = bench.size.herd
    theirs: Turns = [partial(_crowd_peer, bench, servers, peer, count, number) for count in sizes for peer in peers]
    _in_turn(servers, [partial(_crowd_ours, bench, number)], theirs, number)
    for rival in (peer for peer in peers if peer.name == CROWD_RIVAL):
        for turn, count in product(range(1, PAIRS), sizes):
            again = partial(_crowd_ours, bench, number, partial(crowd, count=count))
            _in_turn(servers, [again], [partial(_crowd_peer, bench, servers, rival, count, number)], number + turn)


def _crowd_ours(bench: Bench, number: int, case: Case | None = None) -> None:
    _tell(f"round {number} of {bench.size.rounds}: horae with a crowd due at once")
    uvloop.run(attempt(bench, "herd", case))


def _crowd_peer(bench: Bench, servers: contest.Servers, peer: contest.Peer, count: int, number: int) -> None:
    _tell(f"round {number} of {bench.size.rounds}: {peer.name} with {count:,} due at once")
    lead = 2 * contest.START_SECONDS + 3 + count / _enqueue_rate(bench.figures, peer)
    work = partial(contest.herd, peer, servers, count, lead)
    is_asked_of_all = count == bench.size.herd[0] or peer.name == CROWD_RIVAL
    _guarded(bench.figures, ("herd", f"{count:,}"), peer.name, work, may_pass=not is_asked_of_all)


def _enqueue_rate(figures: Figures, peer: contest.Peer) -> float:
    """As measured before, with a margin. Where it was not, a guess: who is slower gets another try."""
    rates = [
        value
        for key, values in figures.values.items()
        if key.subject == peer.name and key.unit == "enqueued/s"
        for value in values
    ]
    return min(rates) * 0.5 if rates else 3_000.0


def _guarded(
    figures: Figures,
    place: tuple[str, str],
    peer: str,
    work: Callable[[], dict[str, float]],
    *,
    may_pass: bool = False,
) -> None:
    """What a peer cannot do is told; the others go on. If it `may_pass`, that is no failure: no bound is of it."""
    try:
        figures.add(*place, peer, work())
    except contest.PeerError as error:
        if may_pass:
            figures.remark(*place, peer, str(error))
        else:
            figures.fail(*place, str(error), peer)
    except Exception as error:  # noqa: BLE001 whatever it is, hours of the others must not be lost for it
        figures.fail(*place, f"{type(error).__name__}: {error}", peer)


def _report(figures: Figures, told: dict[str, Any], out: Path, verdicts: list[Verdict]) -> None:
    files = write(out, told, figures, verdicts)  # first: whoever reads what is printed may be gone by now
    print(as_text(figures, verdicts, FLOORS))
    print(f"\n{told['seconds']} s; {out}: {', '.join(files)}")
    for verdict in verdicts:
        if verdict.gates and not verdict.is_good:
            print(f"missed: {verdict.floor.row}", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--cases", default="", help=f"any of {','.join((*CASES, *PEERS))}")
    parser.add_argument("--peers", default="", help="only these peers, by name")
    parser.add_argument("--rounds", type=_count, help="so many instead of those of the size")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for bench.json and the charts")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="every size; takes hours")
    sizes.add_argument("--quick", action="store_true", help="small and once: whether it works, not how fast it is")
    return parser.parse_args()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of rounds: at least 1')
    return int(text)


def _commit() -> str:
    """Which sources these are, and whether they were changed since."""
    words = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _tell(told: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {told}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`make soak`: random faults for a long time; memory, backlog, processes, sockets and files stay where they are."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.chaos.judge import judge
from tests.chaos.run import OUT
from tests.chaos.servers import Postgres, children
from tests.chaos.world import TTL, Node, World, opened

WARM_UP = 0.2  # part of the time that fills caches and pools
GROWTH = 1.15  # of resident memory, from the first quarter after that to the last
ROOM_KB = 8 * 1024
MORE_FILES = 8
BETWEEN = 3.0


@dataclass(frozen=True)
class Sample:
    at: float
    kilobytes: int
    files: int
    threads: int
    children: int


def look(pid: int) -> Sample:
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    kilobytes = int(status["VmRSS"].split()[0])
    return Sample(time.time(), kilobytes, files, int(status["Threads"]), len(children(pid)))


class Soak:
    """The elders are never killed: they must stay as small as they were. The others come and go."""

    def __init__(self, world: World, server: Postgres) -> None:
        self._world = world
        self._server = server
        self.elders = [world.start(role, link=True) for role in ("scheduler", "worker")] + world.of("api")[:1]
        self._young = {"scheduler": world.start("scheduler"), "worker": world.start("worker")}
        self.samples: dict[int, list[Sample]] = {elder.pid: [] for elder in self.elders}
        self.done: dict[str, int] = {}
        self.faults: list[Callable[[], None]] = [
            self.kill_one,
            self.freeze_one,
            self.replace_one,
            self.cut_links,
            self.hold_links,
            self.lose_replies,
            self.terminate_backends,
            self.restart_server,
            self.kill_server,
        ]

    def step(self) -> None:
        fault = self._world.dice.choice(self.faults)
        since = time.time()
        fault()
        self._world.recover(since, 120)
        self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
        time.sleep(self._world.dice.random() * BETWEEN)
        for elder in self.elders:
            self.samples[elder.pid].append(look(elder.pid))

    def _role(self) -> str:
        return self._world.dice.choice(("scheduler", "worker"))

    def kill_one(self) -> None:
        role = self._role()
        self._world.kill(self._young[role])
        self._young[role] = self._world.start(role)

    def replace_one(self) -> None:
        role = self._role()
        old, self._young[role] = self._young[role], self._world.start(role)
        self._world.terminate(old)

    def freeze_one(self) -> None:
        victim: Node = self._world.dice.choice([*self.elders, *self._young.values()])
        victim.freeze()
        time.sleep(self._world.dice.uniform(0.2, 2 * TTL))
        victim.thaw()

    def cut_links(self) -> None:
        for elder in self.elders:
            if elder.link:
                elder.link.cut()

    def hold_links(self) -> None:
        for elder in self.elders:
            if elder.link:
                elder.link.faults.answers = False
        time.sleep(self._world.dice.uniform(0.5, 2 * TTL))
        for elder in self.elders:
            if elder.link:
                elder.link.heal()

    def lose_replies(self) -> None:
        for elder in self.elders:
            if elder.link:
                elder.link.lose_reply("COMMIT", request=self._world.dice.random() < 0.5)

    def terminate_backends(self) -> None:
        self._world.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'horae'"
        )

    def restart_server(self) -> None:
        self._server.restart()

    def kill_server(self) -> None:
        self._server.kill()
        self._server.start()

    def complaints(self) -> list[str]:
        found = []
        for elder in self.elders:
            samples = self.samples[elder.pid]
            steady = samples[round(len(samples) * WARM_UP) :]
            quarter = max(1, len(steady) // 4)
            early, late = steady[:quarter], steady[-quarter:]
            before, after = (median(each.kilobytes for each in part) for part in (early, late))
            if after > before * GROWTH + ROOM_KB:
                found.append(f"{elder.role}: memory went from {before} to {after} kB")
            for name in ("files", "threads", "children"):
                was, is_ = (max(getattr(each, name) for each in part) for part in (early, late))
                if is_ > was + MORE_FILES:
                    found.append(f"{elder.role}: {name} went from {was} to {is_}")
        return found

    def leftovers(self) -> list[str]:
        """Processes that still live in this world's folder, and connections that nobody closed."""
        mine = self._world.folder
        found = []
        for path in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if path.readlink() == mine:
                    found.append(f"process {path.parent.name} is left")
            except OSError:
                continue
        count = self._world.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'horae'")
        return [*found, *([f"{count} connections are left"] if count else [])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    server = Postgres()
    try:
        with opened(World(options.seed, server=server)) as world:
            return _soak(world, server, options.minutes)
    finally:
        server.close()


def _soak(world: World, server: Postgres, minutes: float) -> int:
    world.fleet(0, 0)
    soak = Soak(world, server)
    world.load(10, 2)
    world.wait_steady()
    began = time.time()
    while time.time() < began + minutes * 60:
        soak.step()
        print(f"{time.time() - began:6.0f} s  {sum(soak.done.values())} faults", flush=True)
    verdict = judge(world, settle=120)
    complaints = [*soak.complaints(), *soak.leftovers(), *verdict.violations, *verdict.witnesses]
    elders = {}
    for elder in soak.elders:
        first, last = soak.samples[elder.pid][0], soak.samples[elder.pid][-1]
        for name in ("kilobytes", "files", "threads", "children"):
            elders[f"{elder.role} {name}"] = [getattr(first, name), getattr(last, name)]
    report = {"minutes": minutes, "faults": soak.done, "first and last": elders, "complaints": complaints}
    report |= {"verdict": verdict.as_json()}
    OUT.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    (OUT / f"soak-{stamp}.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))
    return 0 if verdict.is_good and not complaints else 1


if __name__ == "__main__":
    sys.exit(main())

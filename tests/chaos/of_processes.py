"""Faults of horae's own processes and of the way between them and the database: P01 to P25."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.chaos.case import Case
from tests.chaos.judge import overlap
from tests.chaos.servers import Firewall
from tests.chaos.world import TTL, World

PLAN = "WITH lease AS MATERIALIZED"
SETTLE = "DELETE FROM runs"
CLAIM = "FOR UPDATE SKIP LOCKED"
TABLES = ("runs", "history")


def kill_a_scheduler(world: World, reps: int) -> None:
    for _ in range(reps):
        world.start("scheduler")
        time.sleep(world.dice.random())
        world.recover(world.kill(world.dice.choice(world.of("scheduler"))))


def freeze_briefly(world: World, reps: int) -> None:
    """Shorter than the lease: nobody takes over."""
    world.start("scheduler")
    world.start("worker")
    time.sleep(2 * TTL)
    before = world.ask("SELECT sum(epoch) FROM leases")
    for _ in range(reps):
        since = time.time()
        victims = [world.dice.choice(world.of(role)) for role in ("scheduler", "worker")]
        for victim in victims:
            victim.freeze()
        time.sleep(TTL * 0.4)
        for victim in victims:
            victim.thaw()
        world.recover(since)
    world.figures.notes["takeovers"] = int(world.ask("SELECT sum(epoch) FROM leases") - before)


def rolling_restart(world: World, reps: int) -> None:
    """All schedulers, one after another, around the top of a minute."""
    for _ in range(reps):
        time.sleep((58.5 - time.time()) % 60)
        since = time.time()
        for old in world.of("scheduler"):
            world.start("scheduler")
            world.terminate(old)
        world.recover(since)


def schedulers_away(world: World, reps: int) -> None:
    """Nobody plans for a while; each misfire policy has its say about what was missed."""
    policies: list[dict[str, Any]] = [{"policy": "skip"}, {"policy": "run_once"}, {"policy": "catch_up", "max": 5}]
    for misfire in policies:
        world.load(1, 0, misfire=misfire)
        world.loads[-1].is_steady = False
    away = 60 if reps > 1 else 15
    for _ in range(reps):
        for node in world.of("scheduler") + world.of("worker"):
            world.terminate(node)
        time.sleep(away)
        since = time.time()
        world.start("scheduler", wait=False)
        world.start("worker", wait=False)
        world.recover(since)
    skipped = "SELECT sum(CASE WHEN skip_count > 0 THEN skip_count ELSE 1 END) FROM history WHERE status = 'skipped'"
    world.figures.notes["skipped"] = int(world.ask(skipped) or 0)


def started_twice(world: World, reps: int) -> None:
    """The very same command and settings once more, on the same host."""
    for _ in range(reps):
        twins = [world.start("scheduler", HORAE_PORT="0") for _ in range(2)]
        world.recover(time.time())
        for twin in twins:
            world.terminate(twin)


def partition(world: World, reps: int) -> None:
    _cut(world, reps, 30 if reps > 1 else 6, "firewall")


def replies_lost(world: World, reps: int) -> None:
    """What is asked arrives and is done; no answer comes back."""
    _cut(world, reps, 10, "firewall", asks=False)


def link_cut(world: World, reps: int) -> None:
    _cut(world, reps, 5, "proxy")


def link_one_way(world: World, reps: int) -> None:
    _cut(world, reps, 5, "proxy", asks=False)


def _cut(world: World, reps: int, seconds: float, how: str, *, asks: bool = True) -> None:
    wall = Firewall() if how == "firewall" else None
    victim = world.start("scheduler,worker", link=True)
    assert victim.link
    for _ in range(reps):
        world.wait_steady()
        since = time.time()
        if wall:
            wall.drop(victim.link.port, asks=asks)
        else:
            victim.link.faults.asks, victim.link.faults.answers = not asks, False
        time.sleep(seconds)
        if wall:
            wall.clear()
        else:
            victim.link.heal()
        world.recover(since)
        for table in ("schedulers", "workers"):  # it is back without a restart
            living = f"SELECT count(*) FROM {table} WHERE expires_us > horae_now()"
            world.wait(lambda living=living: world.ask(living) == 2)


def lost_replies_to(statement: str, role: str, within: str = "") -> Any:
    """PostgreSQL did it; whoever asked only sees a broken connection. Every other time it did not even arrive."""

    def act(world: World, reps: int) -> None:
        victim = world.start(role, link=True)
        assert victim.link
        for number in range(reps):
            world.wait_steady()
            victim.link.lose_reply(statement, within, request=number % 2 == 1)
            world.wait(lambda number=number: victim.link.faults.lost > number)
            world.recover(time.time())
        world.figures.notes["replies_lost"] = victim.link.faults.lost

    return act


def random_resets(world: World, reps: int) -> None:
    victims = [world.start(role, link=True) for role in ("scheduler", "worker")]
    for _ in range(reps):
        since = time.time()
        for victim in victims:
            assert victim.link
            victim.link.faults.reset = 0.02
        time.sleep(6)
        for victim in victims:
            assert victim.link
            victim.link.heal()
        world.recover(since)


def slow_link(world: World, reps: int) -> None:
    """300 ms each way and as much jitter, with the lease times of production."""
    for node in world.of("scheduler") + world.of("worker"):
        world.terminate(node)
    slow = [world.start(role, link=True) for role in ("scheduler", "scheduler", "worker")]
    time.sleep(3)
    world.wait_steady()
    before = world.ask("SELECT sum(epoch) FROM leases")
    for _ in range(reps):
        since = time.time()
        for node in slow:
            assert node.link
            node.link.faults.delay, node.link.faults.jitter = 0.3, 0.3
        time.sleep(20)
        for node in slow:
            assert node.link
            node.link.heal()
        world.recover(since)
    world.figures.notes["leases_lost"] = int(world.ask("SELECT sum(epoch) FROM leases") - before)


def scale(world: World, reps: int) -> None:
    """1 to 8 to 2 schedulers under load."""
    for _ in range(reps):
        since = time.time()
        more = [world.start("scheduler", wait=False) for _ in range(7)]
        world.wait(lambda: world.ask("SELECT count(*) FROM schedulers WHERE expires_us > horae_now()") >= 8)
        world.figures.notes["rebalance_s"] = round(_even(world, 8, since), 1)
        world.recover(since)
        since = time.time()
        for node in more[:6]:
            node.process.signal(15)
        world.recover(since)
        world.terminate(more[6])


def _even(world: World, parts: int, since: float) -> float:
    most = "SELECT max(n) FROM (SELECT count(*) AS n FROM leases WHERE expires_us > horae_now() GROUP BY owner) held"
    world.wait(lambda: world.ask(most) <= -(-64 // parts) + 1, 40)
    return time.time() - since


def kill_a_worker(world: World, reps: int) -> None:
    for _ in range(reps):
        world.start("worker")
        time.sleep(0.5 + world.dice.random())
        world.recover(world.kill(world.dice.choice(world.of("worker"))))


def worker_cut_off(world: World, reps: int) -> None:
    """The worker reaches its targets but not the database: it ends its work before others are given it."""
    for _ in range(reps):
        victim = world.start("worker", link=True)
        assert victim.link
        time.sleep(2)
        victim.link.faults.asks = victim.link.faults.answers = False
        since = time.time()
        time.sleep(3 * TTL)
        victim.link.heal()
        world.recover(since)
        world.terminate(victim)
    seconds = overlap(world.witness.calls)
    world.figures.notes["overlap_s"] = round(seconds, 3)
    assert seconds == 0, f"attempts of one run overlapped by {seconds:.3f} s"


def ignores_the_end(world: World, reps: int) -> None:
    """A command that outlives its timeout, ignores SIGTERM and leaves children in sessions of their own."""
    mark = f"horae-chaos-{os.getpid()}"
    command = f"trap '' TERM; setsid sh -c 'trap \"\" TERM; : {mark}; sleep 300' & : {mark}; while :; do sleep 1; done"
    for number in range(reps):
        retry = {"max_retries": 1, "delay": "200ms"}
        name = f"stubborn-{number}"
        world.create(name, type="shell", target={"command": command}, schedule="@now", timeout="1s", retry=retry)
        world.wait(lambda name=name: world.call("GET", f"/jobs/{name}/status")[1]["status"] == "FAILED", 30)
    world.wait_steady()
    left = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(path)]
    world.figures.notes["processes_left"] = len(left)
    assert not left, f"left behind: {left}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def drain(world: World, reps: int) -> None:
    """SIGTERM with work under way: it ends, nobody has to take it back."""
    for _ in range(reps):
        old = world.of("worker")
        world.start("worker")
        time.sleep(1)
        since = time.time()
        for node in old:
            world.terminate(node)
        world.recover(since)
    reaped = world.ask("SELECT count(*) FROM attempts WHERE reason = 'worker_lost'")
    world.figures.notes["reaped"] = reaped
    assert reaped == 0


def poison(world: World, reps: int) -> None:
    """A job that kills its worker each time: its attempts are used up, the others go on."""
    for number in range(reps):
        name, deaths = f"poison-{number}", 0
        pid = world.folder / "victim"
        victim = world.start("worker", HORAE_WORKER_QUEUES="poison")
        pid.write_text(str(victim.pid))
        fields = {"queue": "poison", "retry": {"max_retries": 2, "delay": "100ms"}, "schedule": "@now"}
        world.create(name, type="shell", target={"command": f"kill -9 $(cat {pid}); sleep 60"}, **fields)
        while world.call("GET", f"/jobs/{name}/status")[1]["status"] != "FAILED":
            if not victim.is_alive:
                deaths += 1
                assert deaths <= 3, "it was tried more often than allowed"
                victim = world.start("worker", HORAE_WORKER_QUEUES="poison", wait=False)
                pid.write_text(str(victim.pid))
            time.sleep(0.1)
        world.recover(time.time())
        world.terminate(victim)
        world.figures.notes["workers_killed"] = deaths


def bad_targets(world: World, reps: int) -> None:
    """500s, 429 with Retry-After, hangs, resets, a slow drip; `horae verify` checks the waits between attempts."""
    paths = ("status/500", "status/429/2", "hang", "reset", "drip")
    for number in range(reps):
        for path in paths:
            name = f"bad-{path.replace('/', '-')}-{number}"
            retry = {"max_retries": 2, "delay": "300ms", "backoff": "exponential"}
            target = {"url": f"{world.witness.url}/{path}"}
            world.create(name, target=target, schedule="@now", timeout="1s", retry=retry)
            world.wait(lambda name=name: world.call("GET", f"/jobs/{name}/status")[1]["status"] == "FAILED", 90)
    world.wait_steady(150)


def replayed_twice(world: World, reps: int) -> None:
    """Attempts used up, then two replays of the dead letter at once."""
    for number in range(reps):
        name = f"dead-{number}"
        world.create(name, type="shell", target={"command": "exit 3"}, schedule="@now", retry={"max_retries": 0})
        world.wait(lambda name=name: world.call("GET", f"/jobs/{name}/status")[1]["status"] == "FAILED")
        run = world.call("GET", f"/jobs/{name}/runs")[1][0]["run_id"]
        path = f"/dead-letters/{run}/replay"
        with ThreadPoolExecutor(2) as two:
            answers = list(two.map(lambda path: world.call("POST", path, {}), [path, path]))
        made = sum(int(world.ask(f"SELECT count(*) FROM {table} WHERE parent_id = '{run}'")) for table in TABLES)
        assert made == 1, f"{made} replays of one dead letter: {answers}"


def receiver_down(world: World, reps: int) -> None:
    """The receiver is away for a while; nothing is lost, and it is not stormed when it is back."""
    for _ in range(reps):
        world.witness.is_down = True
        time.sleep(20)
        world.witness.is_down = False
        since = time.time()
        world.recover(since, 150)
        first = sum(1 for call in world.witness.calls if since <= call.arrived < since + 1)
        world.figures.notes["calls_in_the_first_second"] = first


def cases() -> list[Case]:
    slow = {"jobs": 6, "path": "/slow/0.5"}
    slower = {"jobs": 6, "path": "/slow/1"}
    calm = {"LEASE_SECONDS": "15", "VISIBILITY_SECONDS": "15", "HEARTBEAT_SECONDS": "5", "LOOKAHEAD_SECONDS": "15"}
    bounded = {"once": 0, "retry": {"max_retries": 100, "delay": "500ms", "backoff": "fixed"}}
    return [
        Case("P01", "kill -9 of a scheduler that holds shards", 20, kill_a_scheduler),
        Case("P05", "freeze shorter than the lease", 5, freeze_briefly),
        Case("P06", "rolling restart of schedulers at the top of a minute", 3, rolling_restart, schedulers=2),
        Case("P07", "nobody there for 60 s; catch_up, run_once, skip", 3, schedulers_away),
        Case("P08", "the same process started twice", 3, started_twice),
        Case("P09", "kernel drops all packets of a node for 30 s", 3, partition),
        Case("P10", "kernel drops the database's answers to a node for 10 s", 3, replies_lost),
        Case("P09b", "proxy holds both ways for 5 s", 3, link_cut),
        Case("P10b", "proxy holds the answers for 5 s", 3, link_one_way),
        Case("P11", "reply of a plan lost", 10, lost_replies_to(PLAN, "scheduler")),
        Case("P11b", "reply of a claim lost", 10, lost_replies_to(CLAIM, "worker")),
        Case("P12", "300 ms each way, with jitter", 3, slow_link, settings=calm),
        Case("P12b", "connections reset at random", 3, random_resets),
        Case("P13", "schedulers 1 to 8 to 2", 3, scale),
        Case("P14b", "kill -9 of a worker at random", 10, kill_a_worker, load=slow),
        Case(
            "P15",
            "the same, eight of ten jobs at most once",
            10,
            kill_a_worker,
            load={"jobs": 2, "once": 8, "path": "/slow/0.5"},
        ),
        Case("P17", "reply of the COMMIT of outcomes lost", 10, lost_replies_to("COMMIT", "worker", SETTLE)),
        Case("P17b", "reply of the COMMIT of a lease lost", 10, lost_replies_to("COMMIT", "scheduler")),
        Case("P19", "worker loses the database, not its targets", 3, worker_cut_off, load=slower),
        Case("P20", "a command that ignores its end", 3, ignores_the_end),
        Case("P21", "SIGTERM with work under way", 10, drain, load=slow),
        Case("P22", "a job that kills its worker", 3, poison),
        Case("P23", "targets that fail in every way", 1, bad_targets),
        Case("P24", "two replays of one dead letter at once", 10, replayed_twice),
        Case("P25", "receiver down for 20 s", 3, receiver_down, load=bounded),
    ]

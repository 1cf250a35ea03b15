"""Kills and freezes at every fault point: a process that is armed joins the fleet, takes its part and is hit."""

from __future__ import annotations

import signal
import time

from tests.chaos.case import Act, Case
from tests.chaos.world import TTL, Node, World

FROZEN = TTL + 1.5  # longer than any lease, so somebody else has its work meanwhile

SCHEDULER = (
    "scan.before",
    "scan.after",
    "plan.before_commit",
    "plan.after_commit",
    "lease.before_keep",
    "lease.after_keep",
)
WORKER = (
    "claim.before_commit",
    "claim.after_commit",
    "attempt.before_start",
    "attempt.after_effect",
    "settle.before_commit",
    "settle.after_commit",
    "heartbeat.before",
    "heartbeat.after",
)
RETRYING = ("requeue.before_commit", "requeue.after_commit")
REAPING = ("reap.before_commit", "reap.after_commit")
LEAVING = {"lease.handover": "scheduler", "drain.before_leave": "worker"}
STORE = ("store.before_commit", "store.after_commit")
ALL_IN_ONE = ("plan.after_commit", "claim.after_commit", "attempt.after_effect", "settle.after_commit", *STORE)

# What the table of faults in docs/chaos.md calls these moments.
NAMES = {
    ("scan.after", "kill"): "P02",
    ("plan.after_commit", "kill"): "P03",
    ("scan.after", "stop"): "P04",
    ("attempt.after_effect", "kill"): "P16",
    ("attempt.after_effect", "stop"): "P18",
    ("attempt.before_start", "kill"): "P14",
}


def joining(role: str, point: str, action: str) -> Act:
    def act(world: World, reps: int) -> None:
        for _ in range(reps):
            nth = world.dice.randrange(1, 5)
            victim = world.start(role, f"{point}={action}@{nth}", wait=False)
            _hit(world, victim, action)

    return act


def leaving(role: str, point: str, action: str) -> Act:
    """Hit while it says goodbye."""

    def act(world: World, reps: int) -> None:
        for _ in range(reps):
            victim = world.start(role, f"{point}={action}")
            time.sleep(1.5 + world.dice.random())
            victim.process.signal(signal.SIGTERM)
            _hit(world, victim, action, is_leaving=True)

    return act


def reaping(point: str, action: str) -> Act:
    """The only scheduler is hit while it takes back what a dead worker held."""

    def act(world: World, reps: int) -> None:
        for _ in range(reps):
            (old,) = world.of("scheduler")
            armed = world.start("scheduler", f"{point}={action}@1")
            world.terminate(old)
            world.wait_steady()
            time.sleep((0.3 - time.time()) % 1)  # in the middle of the work of this second
            for worker in world.of("worker"):
                world.kill(worker)
            world.start("worker", wait=False)
            fresh = world.start("scheduler", wait=False)
            if action == "kill":
                since = world.wait_dead(armed)
            else:
                world.wait_stopped(armed)
                time.sleep(FROZEN)
                armed.thaw()
                since = time.time()
            world.recover(since)
            if armed.is_alive:
                world.terminate(armed)
            assert fresh.is_alive

    return act


def all_in_one(point: str) -> Act:
    """SQLite: the whole horae dies and is started again."""

    def act(world: World, reps: int) -> None:
        for _ in range(reps):
            for node in world.of("all"):
                world.kill(node)
            nth = world.dice.randrange(5, 60) if point in STORE else world.dice.randrange(1, 8)
            victim = world.start("all", f"{point}=kill@{nth}", wait=False)
            since = world.wait_dead(victim)
            world.start("all")
            world.recover(since)

    return act


def _hit(world: World, victim: Node, action: str, *, is_leaving: bool = False) -> None:
    if action == "kill":
        world.recover(world.wait_dead(victim))
        return
    since = world.wait_stopped(victim)
    time.sleep(FROZEN)
    victim.thaw()
    world.recover(since)
    if is_leaving:
        world.wait_dead(victim)
    elif victim.is_alive:
        world.terminate(victim)


def cases() -> list[Case]:
    slow = {"jobs": 6, "path": "/slow/0.3"}
    slower = {"jobs": 3, "once": 1, "path": "/slow/0.8"}
    flaky = {"jobs": 6, "once": 0, "path": "/flaky", "retry": {"max_retries": 50, "delay": "200ms", "backoff": "fixed"}}
    found = []
    for action, reps, word in (("kill", 10, "kill -9"), ("stop", 3, "freeze past the lease")):
        add = [(point, joining("scheduler", point, action), {}) for point in SCHEDULER]
        add += [(point, joining("worker", point, action), slow) for point in WORKER]
        add += [(point, joining("worker", point, action), flaky) for point in RETRYING]
        add += [(point, reaping(point, action), slower) for point in REAPING]
        add += [(point, leaving(role, point, action), {}) for point, role in LEAVING.items()]
        add += [(point, joining("scheduler,worker", point, action), slow) for point in STORE]
        for point, act, load in add:
            name = NAMES.get((point, action), f"{'K' if action == 'kill' else 'S'}:{point}")
            # So few slots that one worker cannot take everything before the other has looked.
            found.append(Case(name, f"{word} at {point}", reps, act, load=load, settings={"WORKER_SLOTS": "5"}))
    for point in ALL_IN_ONE:
        fault = f"kill -9 of SQLite all-in-one at {point}"
        found.append(Case(f"L:{point}", fault, 10, all_in_one(point), store="sqlite"))
    return found

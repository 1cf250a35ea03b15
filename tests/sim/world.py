"""One simulated life of a fleet: real movers and real SQL on a virtual clock, with faults drawn from a seed.

Faults are injected where they happen in the world: between a node and its store (delays, lost requests, lost answers,
outages), on a node (crash, freeze), and in the store's clock. After a while everything heals, and the history that is
left must keep the promise.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from horae.commands import Caller, Commands, RunRequest
from horae.config import Settings
from horae.core.errors import HoraeError, Unavailable
from horae.node import Node, Tools
from horae.ports import Log, Outcome, Request
from horae.store.database import Transaction
from horae.store.sqlite import MemoryDatabase
from horae.store.store import Store
from horae.testing import START_US, VAULT, VirtualLoop
from horae.verify.predicates import Violation
from horae.verify.report import Report, check

BEGIN_US = START_US - 45_000_000  # 45 seconds before midnight in Los Angeles, where calendars change their mind
TROUBLE_SECONDS = 90.0
QUIET_SECONDS = 80.0
CALLER = Caller("default", "sim")
ACTIONS = (
    *("edit", "describe", "pause", "pause_for", "resume", "run", "run", "cancel", "delete"),
    *("retry", "replay", "discard", "pause_queue"),
)


@dataclass(slots=True)
class Life:
    """What one seed led to."""

    seed: int
    report: Report
    faults: Counter[str]
    effects: list[tuple[str, int, str]]
    trace: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[Violation]:
        return self.report.violations


Plant = Callable[["World"], None]


def live(seed: int, plant: Plant | None = None) -> Life:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(World(seed).live(plant))


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.effects: list[tuple[str, int, str]] = []
        self.successes: dict[tuple[str, int], int] = {}
        self.trace: list[str] = []
        self.down_until = 0.0
        self.skew_us = 0
        self.is_quiet = False
        self._numbers = itertools.count(1)
        self.machines: list[Machine] = []
        self.group = asyncio.TaskGroup()
        # Swarm: each life leaves some kinds of trouble out, so that the others meet undisturbed.
        kinds = ("crash", "freeze", "outage", "clock", "lost_request", "lost_answer", "slow")
        self.kinds = {kind for kind in kinds if self.dice.random() < 0.7}

    async def live(self, plant: Plant | None) -> Life:
        self.memory = MemoryDatabase(self.now_us)
        self.outside = Store(self.memory)
        await self.outside.migrate()
        if plant is not None:
            plant(self)
        async with self.group:
            for role in ("scheduler", "scheduler", "worker", "worker", "scheduler,worker"):
                self.machines.append(Machine(self, role))
            self.commands = Commands(self.outside, VAULT, self.new_id, lambda: None)
            await self._make_jobs()
            people = self.group.create_task(self._people())
            await self._trouble()
            people.cancel()
            await self._heal()
            await asyncio.sleep(QUIET_SECONDS)
            for machine in self.machines:
                machine.node.kill()
        report = await self._check()
        await self.memory.close()  # SQLite holds the clock, which holds this world: no collector sees that circle
        return Life(self.seed, report, self.faults, self.effects, self.trace)

    def now_us(self) -> int:
        return BEGIN_US + round(asyncio.get_running_loop().time() * 1e6) + self.skew_us

    def new_id(self) -> str:
        return f"00000000-0000-7000-8000-{next(self._numbers):012x}"

    def note(self, *words: object) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():.6f} {' '.join(map(str, words))}")

    # What people do

    async def _make_jobs(self) -> None:
        for number in range(8):
            await self.commands.jobs.create(CALLER, self._document(number), None)

    def _document(self, number: int) -> dict[str, Any]:
        dice = self.dice
        document: dict[str, Any] = {
            "name": f"job-{number}",
            "type": "noop",
            "schedule": dice.choice(
                ["*/5 * * * * *", "*/7 * * * * *", "@every 11s", "*/20 * * * * *", ["@now", "@every 9s"]]
            ),
            "misfire": dice.choice(["skip", "run_once", {"policy": "catch_up", "window": "40s", "max": 1}]),
            "overlap": dice.choice(["allow", "allow", "skip", "queue", "replace"]),
            "delivery": dice.choice(["at_least_once", "at_least_once", "at_most_once"]),
            "retry": {"max_retries": dice.choice([0, 2, 5]), "delay": "1s"},
            "priority": dice.choice(["HIGH", "MEDIUM", "LOW"]),
            "timeout": "60s",
        }
        if dice.random() < 0.2:
            document["max_concurrency"] = dice.choice([1, 2])
        if dice.random() < 0.2:
            document["jitter"] = "3s"
        if dice.random() < 0.15:
            document["max_runs"] = dice.choice([3, 6])
        if dice.random() < 0.2:
            calendar = dice.choice([{"exclude": ["2027-01-15"]}, {"include": ["2027-01-15"]}])
            document |= {"timezone": "America/Los_Angeles", "calendar": calendar}
        if number and dice.random() < 0.2:
            upstream = f"job-{dice.randrange(number)}"
            document |= {"schedule": None, "after": {"job": upstream, "on": dice.choice(["success", "always"])}}
            document.pop("calendar", None)
            document.pop("max_runs", None)
        return document

    async def _people(self) -> None:
        """Edits, pauses, requests, and now and then a deletion."""
        while True:
            await asyncio.sleep(self.dice.uniform(0.5, 6))
            name = f"job-{self.dice.randrange(8)}"
            action = self.dice.choice(ACTIONS)
            try:
                await self._act(action, name)
            except HoraeError:
                continue
            self.note(action, name)

    async def _act(self, action: str, name: str) -> None:
        commands, dice = self.commands, self.dice
        match action:
            case "edit":
                schedule = dice.choice(["*/6 * * * * *", "@every 8s", "*/13 * * * * *"])
                await commands.jobs.change(CALLER, name, {"schedule": schedule}, None, None)
            case "describe":
                await commands.jobs.change(CALLER, name, {"description": str(dice.random())}, None, None)
            case "pause":
                await commands.jobs.pause(CALLER, name, None, None, None)
            case "pause_for":
                await commands.jobs.pause(CALLER, name, self.now_us() + dice.randrange(20) * 1_000_000, None, None)
            case "resume":
                await commands.jobs.resume(CALLER, name, None)
            case "run":
                await commands.runs.trigger(CALLER, name, [RunRequest()] * dice.choice([1, 3]), None)
            case "delete" if dice.random() < 0.1:
                await commands.jobs.delete(CALLER, name, None)
            case _:
                await self._act_on_runs(action, name)

    async def _act_on_runs(self, action: str, name: str) -> None:
        commands, dice = self.commands, self.dice
        match action:
            case "cancel":
                if run := await self._some_run(name, lambda row: row["ended_us"] is None):
                    await commands.runs.cancel(CALLER, run, None)
            case "retry":
                if run := await self._some_run(name, lambda row: row["status"] in ("failed", "cancelled", "unknown")):
                    await commands.runs.retry(CALLER, run, None)
            case "replay":
                if run := await self._some_run(name, lambda row: row["status"] == "failed"):
                    await commands.letters.replay(CALLER, run, None)
            case "discard":
                if run := await self._some_run(name, lambda row: row["status"] == "failed"):
                    await commands.letters.discard(CALLER, run)
            case "pause_queue":
                self._pause_queue(is_paused=True)
                asyncio.get_running_loop().call_later(dice.uniform(0.5, 8), lambda: self._pause_queue(is_paused=False))

    async def _some_run(self, name: str, fits: Callable[[Any], bool]) -> str | None:
        names = ("status", "queue", "priority", "worker", "reason", "due_after_us", "due_before_us")
        rows = (await self.outside.runs(CALLER.tenant, name, dict.fromkeys(names), None, 20)).rows
        fitting = [row["id"] for row in rows if fits(row)]
        return self.dice.choice(fitting) if fitting else None

    def _pause_queue(self, *, is_paused: bool) -> None:
        self.memory.raw.execute(
            "INSERT INTO limits (tenant, queue, max_running, is_paused) VALUES ('default', 'default', NULL, :is_paused)"
            " ON CONFLICT (tenant, queue) DO UPDATE SET is_paused = :is_paused",
            {"is_paused": is_paused},
        )

    # What goes wrong

    async def _trouble(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < TROUBLE_SECONDS:
            await asyncio.sleep(self.dice.uniform(1, 8))
            kind = self.dice.choice(["crash", "freeze", "freeze", "outage", "clock", "nothing"])
            if kind in self.kinds:
                self.faults[kind] += 1
                self._hurt(kind, self.dice.choice(self.machines))

    def _hurt(self, kind: str, machine: Machine) -> None:
        now = asyncio.get_running_loop().time()
        self.note(kind, machine.name)
        match kind:
            case "crash":
                machine.crash(self.dice.uniform(0.1, 12))
            case "freeze":
                machine.freeze(self.dice.uniform(1, 20))
            case "outage":
                # Now and then so long that the misfire policies have to choose.
                longest = 50 if self.dice.random() < 0.3 else 12
                self.down_until = max(self.down_until, now + self.dice.uniform(0.5, longest))
            case "clock":
                self.skew_us += round(self.dice.uniform(0, 2) * 1e6)

    async def _heal(self) -> None:
        self.is_quiet = True
        self.down_until = 0.0
        for machine in self.machines:
            machine.frozen_until = 0.0
        self.note("heal")

    # What must be true

    async def _check(self) -> Report:
        report = check([line async for block in self.outside.export(10**15) for line in block.splitlines()])
        report.violations.extend(self._left_lying())
        report.violations.extend(self._effects_against_promise())
        return report

    def _left_lying(self) -> list[Violation]:
        """I23: after a quiet time every run whose time came has ended, but for those that nobody may take."""
        raw = self.memory.raw
        rows = raw.execute(
            "SELECT id, job_id, state, attempt, reason FROM runs"
            " WHERE coalesce(started_us, available_us) < ? AND due_us < ?",
            (self.now_us() - 45_000_000, self.now_us() - 45_000_000),
        ).fetchall()
        return [
            Violation("I23", row["job_id"], f"run {row['id']} is still {row['state']} ({row['reason']})")
            for row in rows
        ]

    def _effects_against_promise(self) -> list[Violation]:
        raw = self.memory.raw
        once = {row["id"] for row in raw.execute("SELECT id FROM jobs WHERE is_once").fetchall()}
        ended = raw.execute("SELECT id, job_id, status, token, ended_us FROM history").fetchall()
        count = Counter(run for run, _, _ in self.effects)
        asked = Counter(row["run_id"] for row in raw.execute("SELECT run_id FROM events WHERE kind = 'retried'"))
        found = [
            Violation("I11", row["job_id"], f"run {row['id']} had {count[row['id']]} effects")
            for row in ended
            if row["job_id"] in once and count[row["id"]] > 1 + asked[row["id"]]
        ]
        found += [
            Violation("I10", row["job_id"], f"run {row['id']} succeeded without an effect")
            for row in ended
            if row["status"] == "succeeded" and not count[row["id"]]
        ]
        found += [
            Violation("I8", row["job_id"], f"run {row['id']} was ended by a result that was not of its current attempt")
            for row in ended
            if row["status"] == "succeeded"
            and self.successes.get((row["id"], row["token"]), row["ended_us"] + 1) > row["ended_us"]
        ]
        return found


class Machine:
    """One process on a host of its own, which crashes and freezes as a whole."""

    def __init__(self, world: World, roles: str) -> None:
        self.world = world
        self.roles = roles
        self.frozen_until = 0.0
        self._start()

    def _start(self) -> None:
        self._is_down = False
        world = self.world
        self.name = f"{self.roles}#{next(world._numbers)}"
        store = Store(Wire(world, self))
        settings = Settings(
            roles=self.roles,
            lease_seconds=3,
            heartbeat_seconds=1,
            visibility_seconds=4,
            lookahead_seconds=5,
            worker_slots=world.dice.choice([2, 5, 20]),
        )
        self.node = Node(store, settings, Tools({"noop": Work(world, self)}, (), VAULT), world.new_id, self.name)
        self.node.start(world.group)

    def crash(self, seconds: float) -> None:
        if self._is_down:
            return
        self._is_down = True
        self.node.kill()
        self.frozen_until = 0.0
        asyncio.get_running_loop().call_later(seconds, self._start)

    def freeze(self, seconds: float) -> None:
        """Nothing moves, alarms neither: those that came due meanwhile go off shortly after the thaw."""
        self.frozen_until = asyncio.get_running_loop().time() + seconds
        worker = self.node.worker
        if worker is not None and worker._self_stop is not None:
            worker._arm(self.frozen_until + self.world.dice.uniform(0, 0.1))

    async def gate(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < self.frozen_until:  # noqa: ASYNC110 a freeze may be prolonged while it lasts
            await asyncio.sleep(self.frozen_until - loop.time())


class Wire:
    """The way to the store: it takes time, and either leg may fail."""

    dialect = "sqlite"

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine

    async def run(self, transaction: Transaction[Any]) -> Any:
        world = self._world
        await self._machine.gate()
        await asyncio.sleep(self._latency())
        self._may_fail("lost_request", 0.01)
        answer = world.memory.run_now(transaction)
        self._may_fail("lost_answer", 0.02)
        await asyncio.sleep(self._latency())
        await self._machine.gate()
        return answer

    def _latency(self) -> float:
        dice = self._world.dice
        if "slow" in self._world.kinds and not self._world.is_quiet and dice.random() < 0.02:
            return dice.uniform(0.2, 5)
        return dice.choice([0.0005, 0.001, 0.003, 0.01])

    def _may_fail(self, kind: str, chance: float) -> None:
        world = self._world
        if asyncio.get_running_loop().time() < world.down_until:
            raise Unavailable("the store is away")
        if kind in world.kinds and not world.is_quiet and world.dice.random() < chance:
            world.faults[kind] += 1
            raise Unavailable(kind)

    async def close(self) -> None:
        return


class Work:
    """An executor whose every attempt leaves a mark outside of horae."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine

    async def run(self, request: Request, log: Log) -> Outcome:
        world = self._world
        await self._machine.gate()
        world.effects.append((request.run_id, request.attempt, self._machine.name))
        await asyncio.sleep(world.dice.choice([0, 0.01, 0.5, 3, 8]))
        await self._machine.gate()
        if world.dice.random() < 0.15:
            return Outcome(succeeded=False, reason="exception", error="told by the dice")
        world.successes[request.run_id, request.fence] = world.now_us()
        return Outcome(succeeded=True)

    async def close(self) -> None:
        return

"""The verdict on a case: the witness' record against what was due, and `horae verify` on the history."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from tests.chaos.witness import Call
from tests.chaos.world import Load, World

EARLY = 0.001  # two readings of one clock
SETTLE_US = 60_000_000  # `horae verify` leaves the last minute alone


@dataclass
class Verdict:
    """`redelivered` is what at-least-once allows: the same run, with the same id, called once more."""

    lost: int = 0
    doubled: int = 0
    early: int = 0
    redelivered: int = 0
    decided: int = 0
    calls: int = 0
    recovery: float = 0.0
    lateness: float = 0.0
    violations: list[str] = field(default_factory=list)
    witnesses: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.doubled or self.early or self.violations)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"good": self.is_good}


def judge(world: World, *, settle: float = 60) -> Verdict:
    """Waits until all that is due up to now is over, stops the fleet and compares."""
    until_us = world.settled_us or world.settle(settle)
    world.stop()
    url = f"sqlite:///{world.data}/horae.db" if world.is_sqlite else world.url
    facts = [json.loads(line) for line in world.horae("export", "--database-url", url).splitlines()]
    verdict = Verdict(recovery=max(world.figures.recoveries, default=0.0), notes=dict(world.figures.notes))
    verdict.calls = len(world.witness.calls)
    _verify(world, facts, until_us, verdict)
    _account(world, facts, until_us, verdict)
    _acknowledged(world, facts, verdict)
    for load in world.loads:
        _witnessed(world, load, verdict)
    verdict.witnesses = verdict.witnesses[:20]
    return verdict


def _verify(world: World, facts: list[dict[str, Any]], until_us: int, verdict: Verdict) -> None:
    """With the moment of the export moved, so that the check reaches to the last settled due time."""
    facts[0]["now_us"] = until_us + SETTLE_US
    file = world.folder / "history.ndjson"
    file.write_text("\n".join(map(json.dumps, facts)))
    report = json.loads(world.horae("verify", str(file), "--json", codes=(0, 3)))
    verdict.violations = [f"{each['id']} {each['witness']}" for each in report["violations"]][:20]
    verdict.notes["late_results"] = report["counts"]["late_results"]


def _account(world: World, facts: list[dict[str, Any]], until_us: int, verdict: Verdict) -> None:
    """Every second of every job that is due each second: one run, or one skip that covers it."""
    jobs = {fact["name"]: fact for fact in facts if fact["type"] == "job"}
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for fact in facts:
        if fact["type"] == "run" and fact["cause"] == "schedule":
            runs[fact["job_id"]].append(fact)
    for load in world.loads:
        job = jobs[load.name]
        first = job["created_us"] // 1_000_000 + 1
        expected = range(first, until_us // 1_000_000 + 1)
        decided: dict[int, int] = defaultdict(int)
        for run in runs[job["id"]]:
            last = run["due_us"] if run["skip_until_us"] is None else run["skip_until_us"]
            for due in range(run["due_us"] // 1_000_000, last // 1_000_000 + 1):
                decided[due] += 1
            if run["status"] == "succeeded" and not world.witness.of_job(load.name).get(run["due_us"] / 1e6):
                verdict.lost += 1
                verdict.witnesses.append(f"{load.name}: {run['due_us']} succeeded, but nobody called")
            if run["status"] in ("failed", "cancelled") or (run["status"] == "unknown" and not load.is_once):
                verdict.lost += 1
                verdict.witnesses.append(f"{load.name}: {run['due_us']} ended {run['status']} ({run['reason']})")
        for due in expected:
            verdict.decided += decided[due]
            if decided[due] != 1:
                verdict.lost += decided[due] == 0
                verdict.doubled += max(0, decided[due] - 1)
                verdict.witnesses.append(f"{load.name}: {due} was decided {decided[due]} times")


def _acknowledged(world: World, facts: list[dict[str, Any]], verdict: Verdict) -> None:
    """What a client was told is saved is there, under the id it was told."""
    there = {(fact["name"], fact["id"]) for fact in facts if fact["type"] == "job"}
    gone = [each for each in world.figures.acked if each not in there]
    verdict.lost += len(gone)
    verdict.witnesses += [f"acknowledged and gone: {name}" for name, _ in gone]
    if world.figures.acked:
        verdict.notes |= {"acknowledged": len(world.figures.acked), "unanswered": world.figures.unknown}


def _witnessed(world: World, load: Load, verdict: Verdict) -> None:
    starts = [at for at, _ in world.shifts]
    for due, calls in world.witness.of_job(load.name).items():
        ids = {call.run_id for call in calls}
        verdict.doubled += len(ids) - 1
        if len(ids) > 1:
            verdict.witnesses.append(f"{load.name}: {due} was called under {ids}")
        if load.is_once:
            verdict.doubled += len(calls) - len(ids)
            if len(calls) > len(ids):
                verdict.witnesses.append(f"{load.name}: {due}, at most once, was called {len(calls)} times")
        else:
            wanted = 2 if load.path == "/flaky" else 1  # it refuses the first attempt of every run
            verdict.redelivered += max(0, len(calls) - wanted * len(ids))
        first = min(call.arrived + world.shifts[bisect_right(starts, call.arrived) - 1][1] for call in calls)
        if first < due - EARLY:
            verdict.early += 1
            verdict.witnesses.append(f"{load.name}: {due} was called {due - first:.3f} s early")
        if load.is_steady:
            verdict.lateness = max(verdict.lateness, first - due)


def overlap(calls: list[Call]) -> float:
    """Seconds during which two attempts of one run were under way at the same time."""
    runs: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        runs[call.run_id].append(call)
    total = 0.0
    for attempts in runs.values():
        attempts.sort(key=lambda call: call.arrived)
        for one, two in pairwise(attempts):
            total += max(0.0, (one.ended or two.arrived) - two.arrived)
    return total

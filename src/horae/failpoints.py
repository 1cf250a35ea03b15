"""Fault points: named places where a test may kill, freeze, delay or fail this process. Off unless a test arms them.

`plan.after_commit=kill@3;heartbeat.before=sleep:4%0.1` kills at the third plan and delays a tenth of the heartbeats.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from dataclasses import dataclass

from horae.core.errors import Fault, Invalid, Unavailable

POINTS = {
    "scan.before": "The planner is about to read due timers.",
    "scan.after": "It has read them and decided nothing yet.",
    "plan.before_commit": "Due times are decided; nothing is saved.",
    "plan.after_commit": "The decisions are saved; nobody has been told.",
    "claim.before_commit": "A worker is about to claim.",
    "claim.after_commit": "Runs are claimed; none has started.",
    "attempt.before_start": "One attempt is about to call its executor.",
    "attempt.after_effect": "The executor has returned; the outcome is only in memory.",
    "settle.before_commit": "A batch of outcomes is about to be saved.",
    "settle.after_commit": "It is saved; the worker has not noted that yet.",
    "requeue.before_commit": "Runs are about to be given back.",
    "requeue.after_commit": "They are given back.",
    "heartbeat.before": "A worker is about to say that it lives.",
    "heartbeat.after": "It has said so; its own alarm is not set yet.",
    "lease.before_keep": "A scheduler is about to renew, take or give back shards.",
    "lease.after_keep": "It has done so and does not know yet.",
    "lease.handover": "A scheduler that stops is about to release its shards.",
    "drain.before_leave": "A worker that stops has ended its work; its row still stands.",
    "reap.before_commit": "The janitor is about to take runs back.",
    "reap.after_commit": "It has taken them back.",
    "change.before_commit": "A request to the API is about to be saved.",
    "change.after_commit": "It is saved; the caller has no answer.",
    "store.before_commit": "A transaction has done all its work and not committed.",
    "store.after_commit": "It has committed; whoever asked does not know.",
}
ACTIONS = ("kill", "stop", "sleep", "error")

_RULE = re.compile(
    r"(?P<name>[a-z_.]+)=(?P<action>[a-z]+)(:(?P<seconds>[0-9.]+))?(@(?P<nth>[0-9]+))?(%(?P<part>[0-9.]+))?"
)


@dataclass(slots=True)
class _Rule:
    """`nth` is the only hit that counts, `part` the part of all hits that do; without both, every one."""

    action: str
    seconds: float
    nth: int
    part: float
    hits: int = 0

    def is_up(self) -> bool:
        self.hits += 1
        if self.nth:
            return self.hits == self.nth
        return self.part >= 1 or _dice.random() < self.part


Rules = dict[str, _Rule]

_dice = random.Random()
_armed: Rules | None = None


def hit(name: str) -> None:
    """Does what a test asked for here. An error is one of an unknown outcome, as a lost connection is."""
    if _armed is not None and (rule := _armed.get(name)) is not None and rule.is_up():
        _act(name, rule)


def arm(rules: Rules) -> None:
    global _armed  # noqa: PLW0603 one process, one set of points; a parameter through every layer would cost more
    _armed = rules or None


def parse(text: str) -> Rules:
    """Raises Invalid, so that a misspelt point does not pass for a fault that was survived."""
    rules: Rules = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = _RULE.fullmatch(part)
        if match is None or match["action"] not in ACTIONS:
            hint = f"Write point=action, point=action@3 or point=action%0.1; actions: {', '.join(ACTIONS)}."
            raise Invalid([Fault("HORAE_FAILPOINTS", f'"{part}" is not a fault.', hint)], "settings")
        if match["name"] not in POINTS:
            hint = f"Choose from {', '.join(POINTS)}."
            raise Invalid([Fault("HORAE_FAILPOINTS", f'"{match["name"]}" is not a fault point.', hint)], "settings")
        try:
            seconds, portion = float(match["seconds"] or 1), float(match["part"] or 1)
        except ValueError:
            raise Invalid([Fault("HORAE_FAILPOINTS", f'"{part}" holds what is no number.')], "settings") from None
        rules[match["name"]] = _Rule(match["action"], seconds, int(match["nth"] or 0), portion)
    return rules


def _act(name: str, rule: _Rule) -> None:
    match rule.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "sleep":
            time.sleep(rule.seconds)  # on purpose the whole thread: nothing else of it moves meanwhile
        case _:
            raise Unavailable(f"The fault point {name} was armed.")

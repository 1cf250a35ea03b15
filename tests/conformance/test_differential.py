"""The same operations on SQLite and on PostgreSQL: the answers and what is kept agree, step by step.

A short search in every run of the suite, always the same; HORAE_TEST_DIFFERENTIAL=2000 makes it long and random.
"""

from __future__ import annotations

import asyncio
import os
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from horae.store import plans, results
from horae.store.database import Statement
from tests.conformance.twins import Twins
from tests.sim.planted import mutated

EXAMPLES = int(os.environ.get("HORAE_TEST_DIFFERENTIAL", "30"))
IS_LONG = "HORAE_TEST_DIFFERENTIAL" in os.environ

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(0, 9)
SCHEDULES = st.sampled_from(
    ["*/5 * * * * *", "@every 7s", "*/20 * * * * *", "@manual", ["@now", "@every 30s"], "2027-01-15T08:00:20Z"]
)
POLICIES: dict[str, st.SearchStrategy[Any]] = {
    "misfire": st.sampled_from(["skip", "run_once", {"policy": "catch_up", "window": "40s", "max": 2}]),
    "overlap": st.sampled_from(["allow", "skip", "queue", "replace"]),
    "delivery": st.sampled_from(["at_least_once", "at_most_once"]),
    "retries": st.sampled_from([0, 2]),
}
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        **POLICIES,
        "schedule": SCHEDULES,
        "priority": st.sampled_from(["HIGH", "MEDIUM", "LOW"]),
        "max_concurrency": st.sampled_from([None, 1, 2]),
        "concurrency_key": st.sampled_from([None, "shared"]),
        "jitter": st.sampled_from(["0s", "3s"]),
        "max_runs": st.sampled_from([None, 1, 3]),
        "queue": st.sampled_from(["default", "other"]),
        "labels": st.sampled_from([{}, {"team": "x"}]),
        "after": st.sampled_from([None, {"job": "a", "on": "success"}, {"job": "b", "on": "always"}]),
        "timezone": st.sampled_from(["UTC", "America/Los_Angeles"]),
        "calendar": st.sampled_from([None, {"exclude": ["2027-01-15"]}, {"include": ["2027-01-15"]}]),
        "start_at": st.sampled_from([None, "2027-01-15T08:00:30Z"]),
        "end_at": st.sampled_from([None, "2027-01-15T08:01:00Z"]),
    },
)
SECONDS = st.sampled_from([None, 0, 10, 60])


def _op(name: str, *words: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(name), *words)


CREATE = st.builds(lambda name, fields: ("create", {"name": name, "type": "noop", **fields}), NAMES, FIELDS)
FIRST = st.builds(
    lambda schedule, fields: ("create", {"name": "a", "type": "noop", "schedule": schedule, **fields}),
    st.sampled_from(["*/5 * * * * *", "@every 7s"]),
    st.fixed_dictionaries({}, optional=POLICIES),
)
PLAN = _op("plan", st.sampled_from(["node-1", "node-1", "node-2"]))
ADVANCE = _op("advance", st.sampled_from([0.5, 1, 5, 10, 16, 60]))
CLAIM = _op("claim", st.sampled_from(["w1", "w2"]))
OPERATIONS = st.one_of(
    CREATE,
    _op("edit", NAMES, FIELDS),
    _op("pause", NAMES, SECONDS),
    _op("resume", NAMES),
    _op("delete", NAMES),
    _op("trigger", NAMES, st.sampled_from([None, "HIGH"]), SECONDS),
    PLAN,
    ADVANCE,
    CLAIM,
    _op("beat", st.sampled_from(["w1", "w2"])),
    _op("settle", NUMBERS, st.just("succeeded"), st.none()),
    _op("settle", NUMBERS, st.sampled_from(["failed", "cancelled", "unknown"]), st.just("exception")),
    _op("requeue", NUMBERS, st.sampled_from([0, 5]), st.booleans()),
    *(_op("run", st.just(verb), NUMBERS) for verb in ("cancel", "retry", "replay", "discard", "show")),
    _op("reap"),
    _op("gate"),
    _op("overdue"),
    _op("chores"),
    _op("job", NAMES),
    _op("versions", NAMES),
    _op("jobs", st.sampled_from(["name", "-updated_at", "next_fire_time"]), st.sampled_from([None, "PAUSED"])),
    _op("runs", st.one_of(st.none(), NAMES), st.sampled_from([None, "QUEUED", "FAILED", "SKIPPED"])),
    _op("dead"),
    _op("explain", NAMES, st.sampled_from([None, -10, -5, 0, 5, 10])),
    _op("verify"),
)
# Whatever people do in between, time goes on and somebody plans and works.
ROUNDS = st.lists(st.tuples(OPERATIONS, PLAN, OPERATIONS, ADVANCE, CLAIM, OPERATIONS), min_size=4, max_size=8)


@pytest.mark.timeout(120 + EXAMPLES * 10)
def test_both_stores_say_and_keep_the_same(postgres_database: str) -> None:
    _search(postgres_database, EXAMPLES)


@pytest.mark.parametrize(
    ("statement", "change"),
    [
        (results.KEEP, ("r.started_us, horae_now()", "r.started_us, horae_now() + 1")),
        (plans.MOVE, ("fired + due.fires", "fired + 1")),
    ],
    ids=["settle", "plan"],
)
def test_a_planted_difference_is_found(postgres_database: str, statement: Statement, change: tuple[str, str]) -> None:
    """The statements are SQLite's half of a pair."""
    with mutated(statement, change), pytest.raises(AssertionError, match="differ"):
        _search(postgres_database, EXAMPLES)


def _search(url: str, examples: int) -> None:
    with asyncio.Runner() as runner:
        twins = Twins(url)
        runner.run(twins.open())

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=not IS_LONG,
            database=None,
            phases=[Phase.generate, Phase.shrink] if IS_LONG else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(first=FIRST, rounds=ROUNDS)
        def search(first: tuple[Any, ...], rounds: list[tuple[tuple[Any, ...], ...]]) -> None:
            runner.run(_live(twins, [first, *chain.from_iterable(rounds), ("verify",)]))

        try:
            search()
        finally:
            runner.run(twins.close())


async def _live(twins: Twins, steps: list[tuple[Any, ...]]) -> None:
    await twins.begin()
    try:
        for name, *words in steps:
            await twins.step(name, *words)
    except AssertionError as error:
        error.add_note("\n".join(map(str, steps)))
        raise
    finally:
        await twins.end()

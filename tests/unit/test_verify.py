"""The verifier, tested by histories that are wrong on purpose: one for each predicate."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from horae.core.job import shard_of
from horae.core.run import run_id, scheduled_key
from horae.verify.records import read_history
from horae.verify.report import as_text, check

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
NOW = START + 200 * SECOND
Facts = list[dict[str, Any]]


def run(number: int, **fields: Any) -> dict[str, Any]:
    due = START + number * 10 * SECOND
    return {
        "type": "run",
        "id": run_id("job", scheduled_key(due), due),
        "job_id": "job",
        "tenant": "default",
        "queue": "default",
        "version": 1,
        "cause": "schedule",
        "status": "succeeded",
        "due_us": due,
        "run_at_us": due,
        "available_us": due,
        "queued_us": due - 5 * SECOND,
        "started_us": due + 1000,
        "ended_us": due + 2000,
        "attempt": 1,
        "max_attempts": 3,
        "token": number,
        "epoch": 1,
        "is_once": False,
        "reason": None,
        "parent_id": None,
        "skip_until_us": None,
        "skip_count": 0,
    } | fields


def attempt(of: dict[str, Any], number: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "attempt",
        "run_id": of["id"],
        "number": number,
        "token": 0,
        "started_us": of["due_us"] + 100,
        "ended_us": of["due_us"] + 200,
        "reason": "worker_lost",
        "worker": "w",
        "is_reaped": False,
    } | fields


def event(kind: str, at_us: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "event",
        "seq": 1,
        "at_us": at_us,
        "kind": kind,
        "job_id": "job",
        "run_id": None,
        "detail": "{}",
    } | fields


def history(spec: dict[str, Any] | None = None) -> Facts:
    """A job that fires every ten seconds and did so 19 times; the last ones are too young to judge."""
    definition = {"name": "j", "type": "noop", "schedule": ["*/10 * * * * *"]} | (spec or {})
    job = {"id": "job", "tenant": "default", "name": "j", "state": "active", "created_us": START + 1}
    return [
        {"type": "store", "now_us": NOW, "kept_since_us": 0},
        {"type": "job", "due_us": NOW + 10 * SECOND, "fired": 19} | job,
        {"type": "version", "job_id": "job", "version": 1, "spec": json.dumps(definition), "created_us": START + 1},
        event("lease", START, job_id=None, detail=json.dumps({str(shard_of("job")): 1})),
        *(run(number) for number in range(1, 20)),
    ]


def violations(facts: Facts) -> set[str]:
    return {violation.id for violation in check(read_history(json.dumps(fact) for fact in facts)).violations}


def test_a_good_history_is_clean() -> None:
    report = check(read_history(json.dumps(fact) for fact in history()))

    assert report.is_clean
    assert report.counts["succeeded"] == 19
    assert "clean" in as_text(report)


def of(facts: Facts, number: int) -> dict[str, Any]:
    return [fact for fact in facts if fact["type"] == "run"][number - 1]


def doubled(facts: Facts) -> None:
    facts.append(run(5, id="another"))


def silent(facts: Facts) -> None:
    facts.remove(of(facts, 5))


def early(facts: Facts) -> None:
    of(facts, 5)["started_us"] -= SECOND


def phantom(facts: Facts) -> None:
    facts.append(run(5, due_us=START + 55 * SECOND))


def wrong_epoch(facts: Facts) -> None:
    of(facts, 5)["epoch"] = 7


def a_gap_in_the_attempts(facts: Facts) -> None:
    of(facts, 5)["attempt"] = 3


def an_old_token(facts: Facts) -> None:
    of(facts, 5).update(attempt=2)
    facts.append(attempt(of(facts, 5), 1, token=99))


def ended_twice(facts: Facts) -> None:
    facts.append(of(facts, 5) | {"ended_us": NOW})


def given_up_early(facts: Facts) -> None:
    of(facts, 5).update(status="failed", reason="timeout")
    facts.append({"type": "dead_letter", "run_id": of(facts, 5)["id"], "replayed_as": None})


def a_foreign_key(facts: Facts) -> None:
    of(facts, 5)["id"] = "made-up"


def too_many_attempts(facts: Facts) -> None:
    of(facts, 5).update(attempt=2, max_attempts=1)
    facts.append(attempt(of(facts, 5), 1, token=-1))


def not_in_the_dead_letters(facts: Facts) -> None:
    of(facts, 5).update(status="failed", reason="exception", max_attempts=1)


def in_a_pause(facts: Facts) -> None:
    facts.insert(4, event("paused", START + 45 * SECOND, detail=json.dumps({"until_us": START + 55 * SECOND})))


def taken_from_a_live_worker(facts: Facts) -> None:
    of(facts, 5).update(attempt=2, started_us=of(facts, 5)["due_us"] + 500)
    facts += [{"type": "worker", "id": "w", "expires_us": NOW}, attempt(of(facts, 5), 1, token=-1, is_reaped=True)]


def an_orphan(facts: Facts) -> None:
    facts.append(run(5, id="x", job_id="nobody"))


def a_stuck_cursor(facts: Facts) -> None:
    facts[0]["now_us"] = NOW + 1000 * SECOND


CASES: list[tuple[Callable[[Facts], None], str]] = [
    (doubled, "I1"),
    (silent, "I2"),
    (early, "I3"),
    (phantom, "I4"),
    (wrong_epoch, "I6"),
    (a_gap_in_the_attempts, "I7"),
    (an_old_token, "I8"),
    (ended_twice, "I9"),
    (given_up_early, "I10"),
    (a_foreign_key, "I12"),
    (too_many_attempts, "I14"),
    (not_in_the_dead_letters, "I15"),
    (in_a_pause, "I20"),
    (taken_from_a_live_worker, "I22"),
    (a_stuck_cursor, "I23"),
    (an_orphan, "I27"),
]


@pytest.mark.parametrize(("break_it", "id_"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_planted_violation_is_named(break_it: Callable[[Facts], None], id_: str) -> None:
    facts = history()
    break_it(facts)

    assert id_ in violations(facts)


def test_at_most_once_overlap_order_and_caps() -> None:
    once = history({"delivery": "at_most_once"})
    of(once, 5).update(attempt=2)
    once.append(attempt(of(once, 5), 1, token=-1))
    assert "I11" in violations(once)

    forbidden = history({"overlap": "skip"})
    of(forbidden, 5)["ended_us"] += 20 * SECOND
    assert "I16" in violations(forbidden)

    queued = history({"overlap": "queue"})
    of(queued, 5).update(started_us=START + 61 * SECOND, ended_us=START + 62 * SECOND)
    assert "I18" in violations(queued)

    capped = history({"max_concurrency": 1})
    of(capped, 5)["ended_us"] += 20 * SECOND
    assert "I17" in violations(capped)

"""The verifier, tested by histories that are wrong on purpose: one for each predicate."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from horae import verify
from horae.core.errors import Invalid
from horae.core.job import shard_of
from horae.core.run import run_id, scheduled_key
from horae.verify.report import as_text, check
from tests.histories import lines

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
        "actor": "somebody",
        "detail": "{}",
    } | fields


def a_job(id_: str = "job", **fields: Any) -> dict[str, Any]:
    return {
        "type": "job",
        "id": id_,
        "tenant": "default",
        "name": "j",
        "state": "active",
        "version": 1,
        "created_us": START + 1,
        "read_us": NOW,
        "due_us": NOW + 10 * SECOND,
        "fired": 19,
    } | fields


def version(number: int = 1, job_id: str = "job", **spec: Any) -> dict[str, Any]:
    definition = {"name": "j", "type": "noop", "schedule": ["*/10 * * * * *"]} | spec
    return {
        "type": "version",
        "job_id": job_id,
        "version": number,
        "spec": json.dumps(definition),
        "created_us": START + 1,
        "actor": "somebody",
    }


def lease(at_us: int, epoch: int) -> dict[str, Any]:
    return event("lease", at_us, job_id=None, detail=json.dumps({str(shard_of("job")): epoch}))


def history(spec: dict[str, Any] | None = None) -> Facts:
    """A job that fires every ten seconds and did so 19 times; the last ones are too young to judge."""
    return [
        {"type": "store", "now_us": NOW, "kept_since_us": 0},
        lease(START, 1),
        a_job(),
        version(**(spec or {})),
        *(run(number) for number in range(1, 20)),
    ]


def exported(facts: Facts) -> list[str]:
    """In the order of an export: what belongs to a run follows it, and runs stand in the order of their ids."""
    hanging = [fact for fact in facts if fact["type"] in ("attempt", "dead_letter")]
    ordered: Facts = []
    for fact in sorted(facts, key=lambda fact: (_rank(fact), fact["id"] if fact["type"] == "run" else "")):
        if fact in hanging:
            continue
        ordered.append(fact)
        if fact["type"] == "run":
            ordered += [each for each in hanging if each["run_id"] == fact["id"]]
    return [json.dumps(fact) for fact in [*ordered, {"type": "end", "lines": len(ordered)}]]


def _rank(fact: dict[str, Any]) -> tuple[str, int]:
    """Whose fact it is, and its place among those; first what is about no job."""
    place = ("store", "worker", "job", "version", "event", "run", "attempt", "dead_letter").index(fact["type"])
    return (fact["id"] if fact["type"] == "job" else fact.get("job_id") or ""), place


def violations(facts: Facts, **more: Any) -> set[str]:
    return {violation.id for violation in check(exported(facts), **more).violations}


def test_due_times_of_a_time_without_schedulers_are_not_silent() -> None:
    """The misfire policy will decide them; while anybody is there, they are."""
    facts = history()
    later = {"type": "store", "now_us": NOW + 3_600_000_000, "kept_since_us": 0}

    away = check(exported([later | {"held_until_us": NOW}, *facts[1:]]))
    assert away.violations == []
    assert "no scheduler since" in as_text(away)

    assert violations([later | {"held_until_us": NOW + 3_600_000_000}, *facts[1:]]) >= {"I2"}


def test_a_good_history_is_clean() -> None:
    report = check(exported(history()))

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


def an_epoch_that_was_over(facts: Facts) -> None:
    facts.append(lease(START + 30 * SECOND, 2))
    for each in [fact for fact in facts if fact["type"] == "run" and fact["queued_us"] > START + 30 * SECOND]:
        each["epoch"] = 2
    of(facts, 5)["epoch"] = 1


def an_epoch_that_went_back(facts: Facts) -> None:
    facts.append(lease(START + 1, 1))


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


def a_state_that_is_none(facts: Facts) -> None:
    of(facts, 5)["status"] = "wonderful"


def skipped_for_no_reason(facts: Facts) -> None:
    of(facts, 5).update(status="skipped", reason="because")


def succeeded_without_a_token(facts: Facts) -> None:
    of(facts, 5)["token"] = 0


def too_many_attempts(facts: Facts) -> None:
    of(facts, 5).update(attempt=2, max_attempts=1)
    facts.append(attempt(of(facts, 5), 1, token=-1))


def not_in_the_dead_letters(facts: Facts) -> None:
    of(facts, 5).update(status="failed", reason="exception", max_attempts=1)


def a_letter_of_a_good_run(facts: Facts) -> None:
    facts.append({"type": "dead_letter", "run_id": of(facts, 5)["id"], "replayed_as": None})


def two_letters_replayed_as_one(facts: Facts) -> None:
    for number in (5, 6):
        of(facts, number).update(status="failed", reason="exception", max_attempts=1)
        facts.append({"type": "dead_letter", "run_id": of(facts, number)["id"], "replayed_as": "x"})


def a_letter_twice(facts: Facts) -> None:
    of(facts, 5).update(status="failed", reason="exception", max_attempts=1)
    letter = {"type": "dead_letter", "run_id": of(facts, 5)["id"], "replayed_as": None}
    facts += [letter, dict(letter)]


def replayed_as_nothing(facts: Facts) -> None:
    of(facts, 5).update(status="failed", reason="exception", max_attempts=1)
    gone = run_id("job", "replay:1", START)
    facts.append({"type": "dead_letter", "run_id": of(facts, 5)["id"], "replayed_as": gone})


def in_another_queue(facts: Facts) -> None:
    of(facts, 5)["queue"] = "elsewhere"


def of_a_version_that_is_none(facts: Facts) -> None:
    of(facts, 5)["version"] = 2


def ended_before_it_started(facts: Facts) -> None:
    of(facts, 5)["ended_us"] = of(facts, 5)["started_us"] - 1


def with_a_worker_long_gone(facts: Facts) -> None:
    facts[0]["now_us"] = NOW + 1000 * SECOND
    facts[2]["due_us"] = NOW + 1010 * SECOND
    facts.append({"type": "worker", "id": "w", "expires_us": NOW})
    of(facts, 5).update(status="running", ended_us=None, worker="w")


def passed_by_others(facts: Facts) -> None:
    of(facts, 5).update(started_us=START + 900 * SECOND, ended_us=START + 901 * SECOND)


def of_another_tenant(facts: Facts) -> None:
    of(facts, 5)["tenant"] = "stranger"


def after_a_stranger(facts: Facts) -> None:
    facts += [a_job("upstream", tenant="stranger", fired=0), version(job_id="upstream", schedule=[])]
    facts[3] = version(after=[{"job": "u", "job_id": "upstream", "on": "success"}])


def a_version_without_a_record(facts: Facts) -> None:
    facts.append(version(3))
    facts[2]["version"] = 3


def a_change_by_nobody(facts: Facts) -> None:
    facts[3]["actor"] = ""


def paused_without_a_record(facts: Facts) -> None:
    facts[2]["state"] = "paused"


def never_started(facts: Facts) -> None:
    of(facts, 5)["started_us"] = None


def a_miscount(facts: Facts) -> None:
    facts[2]["fired"] = 20


def in_a_pause(facts: Facts) -> None:
    facts.append(event("paused", START + 45 * SECOND, detail=json.dumps({"until_us": START + 55 * SECOND})))


def started_after_the_deletion(facts: Facts) -> None:
    facts.append(event("deleted", NOW))
    facts.append(
        run(99, cause="manual", due_us=NOW, run_at_us=NOW, started_us=NOW + 61 * SECOND, ended_us=NOW + 62 * SECOND)
    )


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
    (an_epoch_that_was_over, "I6"),
    (an_epoch_that_went_back, "I6"),
    (a_gap_in_the_attempts, "I7"),
    (an_old_token, "I8"),
    (succeeded_without_a_token, "I8"),
    (ended_twice, "I9"),
    (given_up_early, "I10"),
    (never_started, "I10"),
    (a_foreign_key, "I12"),
    (too_many_attempts, "I14"),
    (not_in_the_dead_letters, "I15"),
    (a_letter_of_a_good_run, "I15"),
    (two_letters_replayed_as_one, "I15"),
    (a_letter_twice, "I15"),
    (replayed_as_nothing, "I15"),
    (passed_by_others, "I19"),
    (in_a_pause, "I20"),
    (started_after_the_deletion, "I20"),
    (taken_from_a_live_worker, "I22"),
    (a_stuck_cursor, "I23"),
    (with_a_worker_long_gone, "I23"),
    (of_another_tenant, "I25"),
    (after_a_stranger, "I25"),
    (a_version_without_a_record, "I26"),
    (a_change_by_nobody, "I26"),
    (paused_without_a_record, "I26"),
    (an_orphan, "I27"),
    (a_miscount, "I27"),
    (a_state_that_is_none, "I27"),
    (skipped_for_no_reason, "I27"),
    (in_another_queue, "I27"),
    (of_a_version_that_is_none, "I27"),
    (ended_before_it_started, "I27"),
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


def test_caps_hold_between_the_jobs_that_share_a_key() -> None:
    shared = {"max_concurrency": 1, "concurrency_key": "printer"}
    other = [run(5, id=f"z{number}", job_id="other", cause="manual", status="succeeded") for number in range(1)]

    facts = [*history(shared), a_job("other", fired=0), version(job_id="other", schedule=[], **shared), *other]

    assert violations(facts) == {"I17"}


def test_what_was_acknowledged_is_there() -> None:
    facts = history()

    assert violations(facts, acked=["job", of(facts, 5)["id"]]) == set()
    assert violations(facts, acked=["job", "lost"]) == {"I5"}


def test_lateness_has_a_bound_when_one_is_asked_for() -> None:
    facts = history()
    of(facts, 5).update(started_us=START + 53 * SECOND, ended_us=START + 54 * SECOND)

    assert violations(facts, most_late_us=5 * SECOND) == set()
    assert violations(facts, most_late_us=2 * SECOND) == {"I21"}


def test_a_clock_that_jumped_ahead_in_error_makes_no_stale_epoch() -> None:
    facts = history()
    facts[1:2] = [lease(START - 10 * SECOND, 1), lease(START + 3600 * SECOND, 2), lease(START + 100 * SECOND, 3)]
    for number in range(1, 20):
        of(facts, number)["epoch"] = 1 if number < 3 else 2 if number < 11 else 3

    assert violations(facts) == set()


def test_a_retry_on_request_is_one_more_attempt_even_at_most_once() -> None:
    facts = history({"delivery": "at_most_once"})
    of(facts, 5).update(attempt=2)
    facts.append(attempt(of(facts, 5), 1, token=-1))
    facts.append(event("retried", NOW, run_id=of(facts, 5)["id"]))

    assert violations(facts) == set()


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (exported(history())[:-1], "breaks off"),
        (exported(history())[:-3] + exported(history())[-1:], "breaks off"),
        (["what?"], "not a line of an export"),
        ([json.dumps({"type": "run", "id": 5})], "not a line of an export"),
        ([json.dumps(a_job()), json.dumps(version() | {"spec": "{"})], "not a line of an export"),
        ([*exported(history())[:4], *reversed(exported(history())[4:-1]), exported(history())[-1]], "not in the order"),
    ],
)
def test_a_file_that_is_no_whole_export_is_refused(lines: list[str], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        check(lines)


def test_every_predicate_that_is_checked_was_planted() -> None:
    """And is told of in the table of docs/guarantees.md, which names all of them."""
    rooms = Path(verify.__file__).parent.glob("*.py")
    checked = {id_ for room in rooms for id_ in re.findall(r'Violation\(\s*"(I\d+)"', room.read_text())}
    planted = set(re.findall(r'"(I\d+)"', Path(__file__).read_text()))
    table = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text()
    told = dict(re.findall(r"^\| (I\d+) \|.*\|([^|]*)\|$", table, re.MULTILINE))

    assert checked <= planted
    assert list(told) == [f"I{number}" for number in range(1, 28)]
    assert {id_ for id_, by in told.items() if "`verify`" in by} == checked


def test_a_long_history_is_read_quickly() -> None:
    """A million takes some ten seconds; see tests/histories.py for the real figures."""
    history = list(lines(100, 500))
    began = time.process_time()

    report = check(history)

    assert report.is_clean
    assert report.counts["runs"] == 50_000
    assert time.process_time() - began < 10


def test_a_job_that_was_judged_is_let_go_of() -> None:
    """Ten thousand runs at once would be five megabytes and more."""
    tracemalloc.start()
    check(lines(200, 50))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < 3e6

"""The states of a run, the arrows between them, and what an outcome makes of it."""

from __future__ import annotations

import itertools
import re
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.explain import WORDS
from horae.core.job import Definition, Retry
from horae.core.run import ARROWS, ENDED, LIVE, REASONS, Attempt, Verdict, backoff_us, fraction, judge, run_id

SECOND = 1_000_000


def job(**retry: object) -> Definition:
    return Definition(name="j", type="noop", retry=Retry(**retry))  # type: ignore[arg-type]


def verdict(definition: Definition, number: int, **outcome: object) -> Verdict:
    most = definition.retry.max_retries + 1
    said = {"succeeded": False, "is_retryable": True, "retry_after_us": None} | outcome
    return judge(definition.retry, Attempt("run", number, most), **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(("one", "two"), list(itertools.product(sorted(LIVE | ENDED), repeat=2)))
def test_every_pair_of_states_is_either_an_arrow_or_not(one: str, two: str) -> None:
    assert one in ARROWS
    if one in ENDED and two in ARROWS[one]:
        assert two == "queued", "an ended run only comes back by a retry on request"
    assert one not in ARROWS[one]


def test_a_run_id_is_a_uuid_that_sorts_by_time_and_depends_on_job_and_trigger() -> None:
    early, late = run_id("a", "schedule:1", 1_000_000), run_id("a", "schedule:2", 2_000_000)

    assert uuid.UUID(early).version == 8
    assert early < late
    assert run_id("a", "k", 5) == run_id("a", "k", 5)
    assert len({run_id("a", "k", 5), run_id("b", "k", 5), run_id("a", "l", 5)}) == 3


def test_backoff_is_2_4_8_seconds_by_default() -> None:
    assert [backoff_us(Retry(), "r", n) // SECOND for n in (1, 2, 3)] == [2, 4, 8]


def test_backoff_linear_and_fixed() -> None:
    assert [backoff_us(Retry(backoff="linear"), "r", n) // SECOND for n in (1, 2, 3)] == [2, 4, 6]
    assert [backoff_us(Retry(backoff="fixed"), "r", n) // SECOND for n in (1, 2, 3)] == [2, 2, 2]


@given(attempt=st.integers(1, 10_000), factor=st.floats(1, 100), jitter=st.floats(0, 1))
def test_backoff_never_passes_its_limit(attempt: int, factor: float, jitter: float) -> None:
    retry = Retry(factor=factor, jitter=jitter)

    assert 0 <= backoff_us(retry, "run", attempt) <= retry.max_delay_us


def test_success_ends_a_run() -> None:
    assert verdict(job(), 1, succeeded=True).status == "succeeded"


def test_a_failure_is_tried_again_until_the_attempts_are_used() -> None:
    assert verdict(job(max_retries=2), 2).status is None
    assert verdict(job(max_retries=2), 3).status == "failed"


def test_what_cannot_be_retried_fails_at_once() -> None:
    assert verdict(job(), 1, is_retryable=False).status == "failed"


def test_retry_after_is_honoured_up_to_the_largest_delay() -> None:
    assert verdict(job(), 1, retry_after_us=30 * SECOND).delay_us == 30 * SECOND
    assert verdict(job(max_delay_us=10 * SECOND), 1, retry_after_us=30 * SECOND).delay_us == 10 * SECOND


def test_an_open_circuit_waits_for_its_next_probe_and_uses_up_an_attempt() -> None:
    """A destination that stays dead must not keep runs for ever."""
    assert verdict(job(max_retries=1), 1, retry_after_us=50 * SECOND).delay_us == 50 * SECOND
    assert verdict(job(max_retries=1), 2, retry_after_us=50 * SECOND).status == "failed"


@given(st.lists(st.text(), min_size=1))
def test_a_fraction_is_in_range_and_stable(words: list[str]) -> None:
    assert 0 <= fraction(*words) < 1
    assert fraction(*words) == fraction(*words)


def test_every_reason_in_the_source_is_of_the_closed_list() -> None:
    source = Path(__file__).parents[2] / "src" / "horae"
    pattern = re.compile(r"reason=\"([a-z_]+)\"|failed\(\"([a-z_]+)\"")
    found = {
        match
        for file in source.rglob("*.py")
        for groups in pattern.findall(file.read_text())
        for match in groups
        if match
    }

    assert found - REASONS == set()


def test_every_reason_has_a_sentence_and_no_sentence_is_left_over() -> None:
    assert WORDS.keys() == REASONS
    assert all(re.fullmatch(r"[A-Z].{10,90}\.", sentence) for sentence in WORDS.values())

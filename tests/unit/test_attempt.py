from __future__ import annotations

from typing import Any

from horae.core.job import Definition, Retry
from horae.ports import Claimed, Outcome
from horae.worker.attempt import PATIENCE_US, report
from horae.worker.results import Results

LEFT_ALONE = Outcome(succeeded=False, reason="rate_limited", error="down", retry_after_seconds=10, is_unsent=True)


def reported(waited_us: int) -> Results:
    results = Results(store=None, worker="w")  # type: ignore[arg-type]
    claimed = Claimed("run", "job", "t", 1, "schedule", 0, 0, 1, 1, 7, None, None, waited_us)
    definition: Any = Definition(name="job", type="http", retry=Retry(max_retries=0))
    report(results, claimed, definition, LEFT_ALONE)
    return results


def test_a_destination_left_alone_costs_no_attempt() -> None:
    (again,) = reported(waited_us=0)._again

    assert (again.counts, again.delay_us, again.reason) == (False, 10_000_000, "rate_limited")


def test_a_destination_that_stays_dead_does_not_keep_runs_for_ever() -> None:
    (ending,) = reported(waited_us=PATIENCE_US)._endings

    assert (ending.status, ending.reason) == ("failed", "rate_limited")

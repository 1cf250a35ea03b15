"""A few faults of the chaos suite, once each; `make chaos` has all of them with their repetitions."""

from __future__ import annotations

import pytest

from tests.chaos.case import carry_out
from tests.chaos.run import all_cases

CASES = {case.id: case for case in all_cases()}
QUICK = ("P02", "P04", "P11", "P16", "P17", "P26", "P47", "L:store.after_commit")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK, ids=[f"{name} {CASES[name].fault}" for name in QUICK])
def test_nothing_is_lost_doubled_or_early(name: str, postgres_url: str) -> None:
    verdict = carry_out(CASES[name], postgres_url, reps=1)

    assert verdict.calls > 30
    assert (verdict.lost, verdict.doubled, verdict.early) == (0, 0, 0), verdict.witnesses
    assert verdict.violations == []


def test_no_two_cases_share_a_name() -> None:
    assert len(CASES) == len(all_cases())

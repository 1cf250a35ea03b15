"""The simulator is worth something only if it finds what we broke on purpose."""

from __future__ import annotations

import pytest

from tests.sim.planted import PLANTED
from tests.sim.world import live

WITHIN = 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    with PLANTED[name]():
        found = any(live(seed).violations for seed in range(WITHIN))

    assert found

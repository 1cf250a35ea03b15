"""Two hundred lives of a fleet under faults. `make sim SEEDS=10000` for a long night; one seed replays exactly."""

from __future__ import annotations

import os

import pytest

from tests.sim.world import live

SEEDS = int(os.environ.get("HORAE_TEST_SIM_SEEDS", "200"))
PIECES = 20


@pytest.mark.timeout(300 + SEEDS)  # a life takes about a second on a busy machine
@pytest.mark.parametrize("piece", range(PIECES))
def test_no_seed_breaks_the_promise(piece: int) -> None:
    for seed in range(piece, SEEDS, PIECES):
        life = live(seed)

        assert life.violations == [], f"seed {seed}: {life.violations[:5]}\n" + "\n".join(life.trace[-50:])


def test_a_seed_replays_exactly() -> None:
    one, two = live(3), live(3)

    assert one.trace == two.trace
    assert one.effects == two.effects
    assert one.report == two.report


def test_the_faults_do_happen() -> None:
    faults = sum((live(seed).faults for seed in range(6)), start=type(live(0).faults)())

    assert {"crash", "freeze", "outage", "clock", "lost_request", "lost_answer"} <= faults.keys()

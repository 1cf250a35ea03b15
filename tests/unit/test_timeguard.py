"""The store's clock under suspicion."""

from __future__ import annotations

from horae.core.timeguard import CONSISTENT, TimeGuard

SECOND = 1_000_000


def test_a_steady_clock_is_trusted() -> None:
    guard = TimeGuard()
    for n in range(10):
        guard.observe(n * 5 * SECOND, n * 5.0)

    assert guard.held is None


def test_a_step_back_holds_until_the_clock_has_caught_up() -> None:
    guard = TimeGuard()
    guard.observe(1000 * SECOND, 0)

    guard.observe(910 * SECOND, 5)
    assert guard.held
    guard.observe(1001 * SECOND, 96)
    assert guard.held is None


def test_a_process_that_just_started_sees_a_step_back_by_the_high_mark() -> None:
    guard = TimeGuard()

    guard.observe(100 * SECOND, 0, high_us=200 * SECOND)

    assert guard.held


def test_a_large_step_forwards_is_held_until_it_proves_steady() -> None:
    guard = TimeGuard()
    guard.observe(0, 0)
    guard.observe(3600 * SECOND, 5)
    assert guard.held

    for n in range(1, CONSISTENT + 1):
        assert guard.held
        guard.observe((3600 + n) * SECOND, 5 + n)
    assert guard.held is None


def test_a_small_step_forwards_is_let_through() -> None:
    guard = TimeGuard()
    guard.observe(0, 0)
    guard.observe(20 * SECOND, 5)

    assert guard.held is None

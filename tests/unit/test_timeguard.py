"""The store's clock under suspicion."""

from __future__ import annotations

from horae.core.timeguard import STEADY_SECONDS, TimeGuard

SECOND = 1_000_000


def test_a_steady_clock_is_trusted() -> None:
    guard = TimeGuard()
    for n in range(10):
        guard.observe(n * 5 * SECOND, n * 5.0, n * 5.0)

    assert guard.held is None


def test_a_step_back_holds_until_the_clock_has_caught_up() -> None:
    guard = TimeGuard()
    guard.observe(1000 * SECOND, 0, 0)

    guard.observe(910 * SECOND, 5, 5)
    assert guard.held
    guard.observe(1001 * SECOND, 96, 96)
    assert guard.held is None


def test_a_process_that_just_started_sees_a_step_back_by_the_high_mark() -> None:
    guard = TimeGuard()

    guard.observe(100 * SECOND, 0, 0, high_us=200 * SECOND)

    assert guard.held


def test_a_large_step_forwards_is_held_until_it_proves_steady() -> None:
    guard = TimeGuard()
    guard.observe(0, 0, 0)
    guard.observe(3600 * SECOND, 5, 5)
    assert guard.held

    guard.observe(3604 * SECOND, 5 + STEADY_SECONDS - 1, 5 + STEADY_SECONDS - 1)
    assert guard.held
    guard.observe(3605 * SECOND, 5 + STEADY_SECONDS, 5 + STEADY_SECONDS)
    assert guard.held is None


def test_back_from_a_jump_that_was_not_believed_it_goes_on_at_once() -> None:
    guard = TimeGuard()
    guard.observe(0, 0, 0)
    guard.observe(3600 * SECOND, 5, 5)

    guard.observe(6 * SECOND, 6, 6)

    assert guard.held is None


def test_a_small_step_forwards_is_let_through() -> None:
    guard = TimeGuard()
    guard.observe(0, 0, 0)
    guard.observe(20 * SECOND, 5, 5)

    assert guard.held is None


def test_a_slow_answer_is_an_old_reading_and_no_step_back() -> None:
    guard = TimeGuard()
    guard.observe(100 * SECOND, 100, 100)
    guard.observe(105 * SECOND, 105, 105)

    guard.observe(102 * SECOND, 102, 106)

    assert guard.held is None

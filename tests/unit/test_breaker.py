"""A destination that is down is left alone, and found again."""

from horae.executors.breaker import (
    FAILURES_TO_OPEN,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MOST_DESTINATIONS,
    WINDOW_SECONDS,
    Breaker,
)

HERE, THERE = "http://here:80", "http://there:80"


def report(breaker, now, *, is_healthy, destination=HERE):
    breaker.settle(destination, breaker.admit(destination, now), now, is_healthy=is_healthy)


def opened(now=0.0):
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        report(breaker, now, is_healthy=False)
    return breaker


def test_it_opens_after_failures_in_a_row_and_says_how_long_to_wait():
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN - 1):
        report(breaker, 1.0, is_healthy=False)
    assert breaker.admit(HERE, 1.0).wait_seconds == 0

    report(breaker, 2.0, is_healthy=False)

    assert breaker.admit(HERE, 5.0).wait_seconds == FIRST_PAUSE_SECONDS - 3.0


def test_other_destinations_are_not_touched():
    assert opened().admit(THERE, 0.0).wait_seconds == 0


def test_a_success_between_failures_starts_the_count_again():
    breaker = Breaker()
    for step in range(3 * FAILURES_TO_OPEN):
        report(breaker, float(step), is_healthy=step % 4 == 3)

    assert breaker.admit(HERE, 20.0).wait_seconds == 0


def test_failures_far_apart_do_not_add_up():
    breaker = Breaker()
    for step in range(3 * FAILURES_TO_OPEN):
        report(breaker, step * (WINDOW_SECONDS / 2), is_healthy=False)

    assert breaker.admit(HERE, 1e6).wait_seconds == 0


def test_after_the_pause_one_probe_goes_at_a_time():
    breaker = opened()
    later = FIRST_PAUSE_SECONDS

    assert breaker.admit(HERE, later).is_probe
    assert breaker.admit(HERE, later).wait_seconds > 0


def test_a_probe_that_succeeds_closes_it():
    breaker = opened()
    report(breaker, FIRST_PAUSE_SECONDS, is_healthy=True)

    assert breaker.admit(HERE, FIRST_PAUSE_SECONDS).wait_seconds == 0


def test_a_probe_that_fails_doubles_the_pause_up_to_a_limit():
    breaker = opened()
    now, pauses = FIRST_PAUSE_SECONDS, []
    for _ in range(7):
        report(breaker, now, is_healthy=False)
        pauses.append(breaker.admit(HERE, now).wait_seconds)
        now += pauses[-1]

    assert pauses[:3] == [20.0, 40.0, 80.0]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def test_a_probe_that_was_cut_short_lets_the_next_one_go():
    breaker = opened()
    report(breaker, FIRST_PAUSE_SECONDS, is_healthy=None)

    assert breaker.admit(HERE, FIRST_PAUSE_SECONDS).is_probe


def test_requests_that_were_under_way_when_it_opened_do_not_lengthen_the_pause():
    breaker = Breaker()
    under_way = [breaker.admit(HERE, 0.0) for _ in range(50)]
    for step, admission in enumerate(under_way):
        breaker.settle(HERE, admission, step * 0.1, is_healthy=False)

    assert breaker.admit(HERE, FIRST_PAUSE_SECONDS + 0.5).is_probe


def test_an_attempt_that_tells_nothing_changes_nothing():
    breaker = Breaker()
    for _ in range(2 * FAILURES_TO_OPEN):
        report(breaker, 0.0, is_healthy=None)

    assert breaker.admit(HERE, 0.0).wait_seconds == 0


def test_many_failing_destinations_do_not_fill_the_memory():
    breaker = Breaker()
    for number in range(MOST_DESTINATIONS + 100):
        report(breaker, 0.0, is_healthy=False, destination=f"http://h{number}:80")

    assert len(breaker._circuits) == MOST_DESTINATIONS

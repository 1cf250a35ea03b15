"""Decisions about due times: normal, late, and at the edges. Every due time is decided exactly once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from horae.core.job import Definition, Misfire
from horae.core.plan import GRACE_US, Cursor, Plan, plan
from horae.core.schedule import Schedule, next_after, parse_schedule

SECOND = 1_000_000
MINUTE = 60 * SECOND
START = 1_800_000_000 * SECOND


def cursor(text: str, *, due_us: int | None = None, fired: int = 0, **fields: object) -> Cursor:
    schedule = parse_schedule(text, zone="UTC", anchor_us=START)
    definition = Definition(name="j", type="noop", schedule=(text,), **fields)  # type: ignore[arg-type]
    first = next_after(schedule, START) if due_us is None else due_us
    assert first is not None
    return Cursor("job", definition, schedule, first, fired)


def decided(made: Plan, schedule: Schedule) -> list[int]:
    """Every due time that a plan decides, expanded, in order."""
    times = [slot.due_us for slot in made.slots]
    for skip in made.skips:
        at: int | None = skip.from_us
        count = 0
        while at is not None and at <= skip.until_us:
            times.append(at)
            count += 1
            at = next_after(schedule, at)
        assert count == skip.count
    return sorted(times)


def test_due_times_within_the_look_ahead_become_slots_and_the_cursor_moves_past_them() -> None:
    made = plan(cursor("*/5 * * * * *"), START, START + 15 * SECOND)

    assert [slot.due_us - START for slot in made.slots] == [5 * SECOND, 10 * SECOND, 15 * SECOND]
    assert made.next_us == START + 20 * SECOND
    assert made.skips == []


def test_a_due_time_within_the_grace_is_on_time_whatever_the_policy() -> None:
    made = plan(cursor("* * * * *", misfire=Misfire(policy="skip")), START + MINUTE + GRACE_US - 1, START + MINUTE)

    assert [slot.due_us for slot in made.slots] == [START + MINUTE]


def test_jitter_is_bounded_and_the_same_every_time() -> None:
    one = plan(cursor("* * * * *", jitter_us=30 * SECOND), START, START + MINUTE)
    two = plan(cursor("* * * * *", jitter_us=30 * SECOND), START + 3, START + MINUTE)

    assert one.slots == two.slots
    assert 0 <= one.slots[0].run_at_us - one.slots[0].due_us < 30 * SECOND


def test_max_runs_leaves_no_next_time() -> None:
    made = plan(cursor("* * * * * *", max_runs=5, fired=3), START, START + 15 * SECOND)

    assert len(made.slots) == 2
    assert made.next_us is None


def test_a_full_batch_is_not_the_end_of_a_schedule() -> None:
    misfire = Misfire(policy="catch_up", window_us=86_400 * SECOND, max=1000)
    now = START + 3600 * SECOND

    made = plan(cursor("* * * * * *", misfire=misfire), now, now + 15 * SECOND)

    assert len(made.slots) == 1000
    assert made.next_us is not None


def test_behind_the_last_allowed_run_nothing_is_skipped() -> None:
    misfire = Misfire(policy="catch_up", window_us=3600 * SECOND, max=2)
    now = START + 10 * MINUTE

    made = plan(cursor("* * * * *", misfire=misfire, max_runs=2), now, now)

    assert len(made.slots) == 2
    assert made.skips == []
    assert made.next_us is None


def test_a_year_of_missed_seconds_is_one_record_and_takes_no_time() -> None:
    late = START + 366 * 86_400 * SECOND

    made = plan(cursor("* * * * * *"), late, late)

    assert len(made.skips) == 1
    assert made.slots[0].due_us == late - GRACE_US


@given(
    policy=st.sampled_from(["skip", "run_once", "catch_up"]),
    most=st.integers(1, 20),
    window=st.integers(1, 40),
    outage=st.integers(0, 60),
    text=st.sampled_from(["* * * * *", "*/7 * * * *", "@every 90s", "30 */2 * * * *"]),
)
def test_every_due_time_is_decided_exactly_once(policy: str, most: int, window: int, outage: int, text: str) -> None:
    misfire = Misfire(policy=policy, window_us=window * MINUTE, max=most)  # type: ignore[arg-type]
    job = cursor(text, misfire=misfire)
    now = START + outage * MINUTE
    horizon = now + 15 * SECOND
    made = plan(job, now, horizon)

    expected = []
    at: int | None = job.due_us
    while at is not None and at <= horizon:
        expected.append(at)
        at = next_after(job.schedule, at)
    assert decided(made, job.schedule) == expected
    assert made.next_us == at
    assert [slot.due_us for slot in made.slots] == sorted({slot.due_us for slot in made.slots})


@given(most=st.integers(1, 5), window=st.integers(5, 30))
def test_catch_up_runs_the_oldest_of_the_window_up_to_the_limit(most: int, window: int) -> None:
    misfire = Misfire(policy="catch_up", window_us=window * MINUTE, max=most)
    now = START + 60 * MINUTE + GRACE_US + SECOND
    made = plan(cursor("* * * * *", misfire=misfire), now, now)

    late = [slot.due_us for slot in made.slots if slot.due_us <= now - GRACE_US]
    assert len(late) == most
    assert all(at >= now - window * MINUTE for at in late)
    assert late[0] - MINUTE < now - window * MINUTE

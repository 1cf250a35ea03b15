"""Free slots shared out over waiting lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from horae.core.fair import share
from horae.core.job import make_bucket, read_bucket


def line(priority: int, tenant: str) -> str:
    return make_bucket(is_gated=False, queue="q", need="", priority=priority, tenant=tenant)


def shared(lines: list[str], room: int, turn: int = 0) -> dict[str, int]:
    return dict(share([(text, read_bucket(text)) for text in lines], room, turn))


def test_one_line_gets_everything() -> None:
    assert shared([line(2, "a")], 50) == {line(2, "a"): 50}


def test_high_comes_first_but_low_never_starves() -> None:
    made = shared([line(1, "a"), line(3, "a")], 100)

    assert made == {line(1, "a"): 90, line(3, "a"): 10}


def test_low_gets_its_turn_even_when_slots_come_one_by_one() -> None:
    lines = [line(1, "a"), line(2, "a"), line(3, "a")]

    served = [next(iter(shared(lines, 1, turn))) for turn in range(100)]

    assert (served.count(lines[0]), served.count(lines[1]), served.count(lines[2])) == (90, 5, 5)


def test_tenants_of_one_priority_share_evenly() -> None:
    made = shared([line(2, "a"), line(2, "b"), line(2, "c")], 9)

    assert set(made.values()) == {3}


def test_a_tenant_has_as_much_as_it_weighs() -> None:
    lines = [line(2, name) for name in "abc"]

    made = dict(share([(text, read_bucket(text)) for text in lines], 10, 0, {"a": 3}))

    assert made == {line(2, "a"): 6, line(2, "b"): 2, line(2, "c"): 2}


def test_weights_hold_when_slots_come_one_by_one() -> None:
    lines = [(line(2, name), read_bucket(line(2, name))) for name in "ab"]

    served = [share(lines, 1, turn, {"a": 4})[0][0] for turn in range(100)]

    assert (served.count(line(2, "a")), served.count(line(2, "b"))) == (80, 20)


def test_a_tenant_with_many_queues_has_no_more_than_one_with_a_single_queue() -> None:
    queues = [make_bucket(is_gated=False, queue=f"q{n}", need="", priority=2, tenant="a") for n in range(9)]

    made = shared([*queues, line(2, "b")], 20)

    assert made[line(2, "b")] == 10
    assert sum(made[queue] for queue in queues) == 10


def test_with_fewer_slots_than_tenants_turns_are_taken() -> None:
    lines = [line(2, name) for name in "abcd"]

    served = [next(iter(shared(lines, 1, turn))) for turn in range(4)]

    assert sorted(served) == sorted(lines)


def test_a_bucket_reads_back() -> None:
    text = make_bucket(is_gated=True, queue="q.1", need="handler:a|b", priority=3, tenant="t-1")

    read = read_bucket(text)

    assert (read.is_gated, read.queue, read.need, read.priority, read.tenant) == (True, "q.1", "handler:a|b", 3, "t-1")


@given(
    lines=st.sets(st.tuples(st.integers(1, 3), st.sampled_from("abcdef")), min_size=1),
    room=st.integers(1, 500),
    turn=st.integers(0, 1000),
)
def test_never_more_than_the_room_and_all_of_it_is_offered(lines: set[tuple[int, str]], room: int, turn: int) -> None:
    made = shared([line(*one) for one in lines], room, turn)

    assert 0 < sum(made.values()) <= room
    assert all(n > 0 for n in made.values())

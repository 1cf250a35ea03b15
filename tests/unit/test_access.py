"""Roles, keys, token buckets, the chain of the audit log, and what of a change is left out of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.access import ROLES, includes, key_hash, key_prefix, key_text
from horae.core.audit import GENESIS, HASHED, MASK, Chain, difference, link, masked, written
from horae.core.rate import SECOND_US, take


def test_each_role_may_do_what_those_below_it_may() -> None:
    allowed = {(role, least) for role in ROLES for least in ROLES if includes(role, least)}

    assert len(allowed) == 10
    assert all(ROLES.index(role) >= ROLES.index(least) for role, least in allowed)
    assert not includes("owner", "viewer")


def test_a_key_carries_256_bits_and_shows_eight_letters() -> None:
    key = key_text(bytes(range(32)))

    assert key.startswith("horae_")
    assert len(key) == 49
    assert len(key_prefix(key)) == 14
    assert len(key_hash(key)) == 64


@given(
    rate=st.integers(1, 5000),
    steps=st.lists(st.tuples(st.integers(0, 3 * SECOND_US), st.integers(1, 100)), max_size=60),
)
def test_a_bucket_never_gives_more_than_its_rate_and_one_second(rate: int, steps: list[tuple[int, int]]) -> None:
    free_us, now_us, granted = 0, 10 * SECOND_US, 0
    for wait_us, want in steps:
        now_us += wait_us
        taken = take(free_us, now_us, want, rate)
        free_us = taken.free_us
        granted += taken.granted
        assert 0 <= taken.granted <= want
    interval_us = SECOND_US // rate

    assert granted <= rate + (now_us - 10 * SECOND_US) // interval_us


@given(rate=st.integers(1, 5000), burst=st.integers(1, 500))
def test_an_empty_bucket_has_a_token_after_the_time_it_says_and_not_before(rate: int, burst: int) -> None:
    now_us = 10 * SECOND_US
    empty = take(0, now_us, burst, rate, burst)
    assert (empty.granted, empty.left) == (burst, 0)

    assert take(empty.free_us, now_us + empty.wait_us - 1, 1, rate, burst).granted == 0
    assert take(empty.free_us, now_us + empty.wait_us, 1, rate, burst).granted == 1


def chained(count: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    rows, previous = [], GENESIS
    for seq in range(1, count + 1):
        row = {name: f"{name} {seq}" for name in HASHED} | {"id": 10 * seq, "at_us": seq, "seq": seq}
        previous = row["hash"] = link(previous, row)
        rows.append(row)
    return rows, {"seq": count, "hash": previous}


def breaks_of(rows: list[dict[str, Any]], head: dict[str, Any] | None) -> list[tuple[int, str]]:
    chain = Chain()
    for row in rows:
        chain.feed(row)
    chain.finish(head)
    return [(each.seq, each.what.partition(":")[0]) for each in chain.breaks]


@given(count=st.integers(1, 8), place=st.integers(0, 7), field=st.sampled_from([n for n in HASHED if n != "seq"]))
def test_a_changed_row_is_named(count: int, place: int, field: str) -> None:
    rows, head = chained(count)
    assert breaks_of(rows, head) == []
    place %= count
    rows[place][field] = "changed"

    assert breaks_of(rows, head) == [(place + 1, "changed")]


@given(count=st.integers(1, 8), place=st.integers(0, 7))
def test_a_deleted_row_is_named(count: int, place: int) -> None:
    rows, head = chained(count)
    del rows[place % count]

    assert breaks_of(rows, head) == [(place % count + 1, "deleted")]


def test_a_row_that_was_rehashed_breaks_the_one_behind_it() -> None:
    rows, head = chained(4)
    rows[1]["actor"] = "nobody"
    rows[1]["hash"] = link(rows[0]["hash"], rows[1])

    assert breaks_of(rows, head) == [(3, "changed")]
    rows, head = chained(2)
    rows[1]["hash"] = link(rows[0]["hash"], rows[1] | {"actor": "nobody"})
    assert breaks_of(rows, None)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"Authorization": "x"}, {"Authorization": MASK}),
        ({"headers": {"x-signing-key": "x", "Accept": "y"}}, {"headers": {"x-signing-key": MASK, "Accept": "y"}}),
        ({"password": ["x", "y"]}, {"password": [MASK, MASK]}),
        ({"token": "Bearer {{ secret.T }}"}, {"token": "Bearer {{ secret.T }}"}),
        ({"url": "https://a/?api_key=x&n=1"}, {"url": f"https://a/?api_key={MASK}&n=1"}),
        ({"concurrency_key": "k", "n": 1, "flag": None}, {"concurrency_key": "k", "n": 1, "flag": None}),
    ],
)
def test_what_looks_like_a_secret_is_left_out(value: Any, left: Any) -> None:
    assert masked(value) == left


def test_what_is_too_long_is_left_out_and_nothing_is_nothing() -> None:
    assert written(None) is None
    assert "left_out" in json.loads(written({"a": "x" * 100_000}) or "")


def test_only_what_differs_is_told() -> None:
    assert difference({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ({"b": 2, "c": None}, {"b": 3, "c": 4})

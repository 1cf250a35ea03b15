"""Hints are made to be pasted: where they stand, and what the nearest right name is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.checks import beside, choice, escape, snippet, unknown_field
from horae.core.errors import Invalid

WORDS = st.text(min_size=1, max_size=8).filter(lambda word: not word.isdecimal())
PARTS = st.lists(st.one_of(WORDS, st.integers(0, 99).map(str)), max_size=5)
HEADS = WORDS.filter(lambda word: word not in ("headers", "query", "path"))


@given(HEADS, PARTS, st.one_of(st.text(), st.integers(), st.lists(st.booleans())))
def test_what_is_to_be_pasted_is_json_with_the_value_where_the_pointer_leads(head, parts, example):
    pointer = "".join(f"/{escape(part)}" for part in [head, *parts])

    found = json.loads("{" + snippet(pointer, example) + "}")

    for part in [head, *parts]:
        assert len(found) == 1
        found = found[0] if part.isdecimal() else found[part]
    assert found == example


@pytest.mark.parametrize(
    ("pointer", "pasted"),
    [
        ("/headers/X-Horae-Tenant", "X-Horae-Tenant: default"),
        ("/query/bucket", "bucket=default"),
        ("/path/worker", "default"),
        ("/queue", '"queue": "default"'),
        ("/queues/3", '"queues": ["default"]'),
        ("/a~1b/0/c~0d", '"a/b": [{"c~d": "default"}]'),
        ("", '"default"'),
    ],
)
def test_a_hint_is_written_as_it_stands_in_its_place(pointer, pasted):
    assert snippet(pointer, "default") == pasted


def test_what_a_record_needs_stands_beside_the_field_in_question():
    with pytest.raises(Invalid) as refused:
        choice("failure", "success")("fail", "/notify/0/on")

    (fault,) = beside(refused.value, "on", {"channel": "ops"}).faults

    assert fault.hint == 'Did you mean "notify": [{"channel": "ops", "on": "failure"}]?'


def test_an_unknown_field_is_told_with_the_nearest_or_with_all():
    near, far = (unknown_field(name, "/retry", ("delay", "factor"), 'of "retry"') for name in ("dely", "x/y"))

    assert (near.pointer, near.hint) == ("/retry/dely", 'Write "delay".')
    assert near.detail == '"dely" is not a field of "retry"; did you mean "delay"?'
    assert (far.pointer, far.hint) == ("/retry/x~1y", "The fields are delay, factor.")

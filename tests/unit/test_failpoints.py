"""Fault points: what a rule says, when it is up, and that every named point is somewhere in the code."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from horae.config import read_settings
from horae.core.errors import Invalid, Unavailable
from horae.failpoints import POINTS, arm, hit, parse

SOURCE = Path(__file__).parents[2] / "src" / "horae"


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm({})


def failures(name: str, times: int) -> list[int]:
    """Which of so many hits failed, from 1."""
    failed = []
    for number in range(1, times + 1):
        try:
            hit(name)
        except Unavailable:
            failed.append(number)
    return failed


def test_an_unarmed_point_does_nothing() -> None:
    assert failures("plan.after_commit", 3) == []

    arm(parse("scan.after=error"))

    assert failures("plan.after_commit", 3) == []


def test_a_rule_is_up_every_time_or_at_its_nth_hit() -> None:
    arm(parse("plan.after_commit=error; scan.after=error@2"))

    assert failures("plan.after_commit", 3) == [1, 2, 3]
    assert failures("scan.after", 4) == [2]


def test_a_rule_with_a_part_is_up_about_that_often() -> None:
    arm(parse("scan.after=error%0.25"))

    assert 150 < len(failures("scan.after", 1000)) < 350


@pytest.mark.parametrize(("action", "code"), [("kill", -signal.SIGKILL), ("sleep:0.01", 0)])
def test_kill_kills_and_sleep_goes_on(action: str, code: int) -> None:
    program = (
        f"from horae.failpoints import *; arm(parse('scan.after={action}@2')); hit('scan.after'); hit('scan.after')"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == code


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scan.afer=kill", "not a fault point"),
        ("scan.after=explode", "not a fault"),
        ("scan.after", "not a fault"),
        ("scan.after=kill@x", "not a fault"),
        ("scan.after=sleep:1.2.3", "no number"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        parse(text)
    with pytest.raises(Invalid, match=words):
        read_settings({"HORAE_FAILPOINTS": text, "HORAE_TESTING": "1"}, {})


def test_fault_points_are_refused_outside_tests() -> None:
    with pytest.raises(Invalid, match="for tests"):
        read_settings({"HORAE_FAILPOINTS": "scan.after=kill"}, {})


def test_every_point_is_in_the_code_once_a_place_and_no_other() -> None:
    named = {name for path in SOURCE.rglob("*.py") for name in re.findall(r'hit\("([a-z_.]+)"\)', path.read_text())}

    assert named == set(POINTS)

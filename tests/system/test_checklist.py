"""docs/security-checklist.md against the tests: every number is there, and every test that it names is collected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security-checklist.md"
SOURCE = ROOT / "src" / "horae"
NUMBERS = [f"S{number:02}" for number in range(1, 41)]


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| S\d\d \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_attack_has_a_row_a_place_and_a_test() -> None:
    assert [row[0] for row in rows()] == NUMBERS
    for number, attack, done, where, tests in rows():
        assert attack, number
        assert done, number
        assert named(tests), number
        for place in named(where):
            assert (SOURCE / place).exists(), f"{number}: {place}"


def test_every_test_that_is_named_is_collected() -> None:
    wanted = {test for row in rows() for test in named(row[-1])}
    files = sorted({test.partition("::")[0] for test in wanted})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", *files]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)

    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert collected, done.stdout + done.stderr
    assert not wanted - collected


def test_a_test_that_bears_a_number_is_named_in_its_row() -> None:
    told = {row[0]: {test.partition("::")[2] for test in named(row[-1])} for row in rows()}
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        for name, numbers in re.findall(r"def (test_((?:s\d\d_(?:and_)?)+)\w+)", path.read_text()):
            for number in re.findall(r"s\d\d", numbers):
                assert name in told.get(number.upper(), {name}), f"{name} is not in the row of {number.upper()}"

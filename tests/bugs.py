"""Makes a bug of docs/bug-table.md happen again: `python -m tests.bugs 3`, or `all`.

The commit before the fix is unpacked, the tests of the fix are laid over it, and those named in the table must fail
there; on the commit of the fix they must pass.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "bug-table.md"
FAILED = 1  # of pytest: tests were run, and some failed; anything else is no reproduction


class Bug(NamedTuple):
    number: int
    fix: str
    tests_of: str
    tests: list[str]


def bugs() -> list[Bug]:
    found = []
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].isdigit():
            commits = re.findall(r"`([0-9a-f]{7,})`", cells[3])
            found.append(Bug(int(cells[0]), commits[0], commits[-1], re.findall(r"`(tests/[^`]+)`", cells[4])))
    return found


def is_reproduced(bug: Bug) -> bool:
    before = _run(f"{bug.fix}^", bug)
    after = _run(bug.fix, bug)
    print(f"bug {bug.number}: before the fix {_told(before)}, with it {_told(after)}", flush=True)
    return before == FAILED and after == 0


def _run(commit: str, bug: Bug) -> int:
    with tempfile.TemporaryDirectory() as folder:
        _unpack(commit, folder)
        _unpack(bug.tests_of, folder, "tests")
        tests = [_then(Path(folder), test) for test in bug.tests]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        environment = os.environ | {"PYTHONPATH": f"{folder}/src{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if "-v" in sys.argv:
            print(done.stdout)
        return done.returncode


def _then(folder: Path, test: str) -> str:
    """Where the test was then: it may have moved to another file since."""
    name = test.partition("::")[2]
    for path in sorted((folder / "tests").rglob("test_*.py")):
        if f"def {name}(" in path.read_text():
            return f"{path.relative_to(folder)}::{name}"
    return test


def _unpack(commit: str, folder: str, *paths: str) -> None:
    archive = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def _told(code: int) -> str:
    return {0: "all pass", FAILED: "they fail"}.get(code, f"pytest ends with {code}")


def main(word: str) -> int:
    chosen = [bug for bug in bugs() if word in ("all", str(bug.number))]
    if not chosen:
        print(f"There is no bug {word} in {TABLE.name}.")
        return 2
    failed = [bug.number for bug in chosen if not is_reproduced(bug)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "all"))

"""The whole suite, for `make test`: everything but the browser tests, then those in a process of their own.

Two processes, because the event loop of the browser's driver keeps asynchronous tests of its process from theirs.
Where at most MOST_UNSTEADY tests failed, they are run once more, alone: real processes on a busy machine sometimes come
too late. One that passes then is named as unsteady, which is a bug of the test or of horae, to be mended.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROWSER = "tests/browser"
SPREAD = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadgroup"]
LAST_FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"  # gathers from run to run, so it is emptied before each
NOTHING_CHOSEN = 5
FAILED = 1
MOST_UNSTEADY = 3


def parts(words: list[str]) -> dict[str, list[str]]:
    """The words of each process, by its name. Paths go to the one that they belong to; other words go to both."""
    named = [word for word in words if not word.startswith("-") and (ROOT / word.split("::")[0]).exists()]
    others = [word for word in words if word not in named]
    of_browser = [word for word in named if word.startswith(BROWSER)]
    rest = [word for word in named if word not in of_browser]
    found = {"suite": [*SPREAD, "--ignore", BROWSER, *rest, *others], "browser": [*(of_browser or [BROWSER]), *others]}
    if named and not rest:
        del found["suite"]
    if named and not of_browser:
        del found["browser"]
    return found


def verdict(codes: dict[str, int]) -> int:
    """The first failure; a part of which the words choose nothing is none, unless both are such."""
    if all(code == NOTHING_CHOSEN for code in codes.values()):
        return NOTHING_CHOSEN
    return next((code for code in codes.values() if code not in (0, NOTHING_CHOSEN)), 0)


def pytest(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False).returncode


def failures() -> list[str]:
    """The tests that failed in the run that just ended."""
    return list(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def main(words: list[str]) -> int:
    codes: dict[str, int] = {}
    lines: list[str] = []
    for name, given in parts(words).items():
        began = time.monotonic()
        LAST_FAILED.unlink(missing_ok=True)
        codes[name] = pytest(*given)
        failed = failures() if codes[name] == FAILED else []
        if 0 < len(failed) <= MOST_UNSTEADY and pytest(*failed) == 0:
            codes[name] = 0
            lines += [f"tests: UNSTEADY {test}: failed, then passed alone" for test in failed]
        said = {0: "passed", NOTHING_CHOSEN: "nothing chosen"}.get(codes[name], f"FAILED (exit code {codes[name]})")
        lines.append(f"tests: {name:<8} {said}, {time.monotonic() - began:.0f} s")
        if codes[name] == 2:  # interrupted
            break
    print("\n".join(lines), flush=True)
    return verdict(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The whole suite, for `make test`: everything but the browser tests, then those in a process of their own.

Two processes, because the event loop of the browser's driver keeps asynchronous tests of its process from theirs.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROWSER = "tests/browser"
SPREAD = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadgroup"]
NOTHING_CHOSEN = 5


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


def main(words: list[str]) -> int:
    codes: dict[str, int] = {}
    lines: list[str] = []
    for name, given in parts(words).items():
        began = time.monotonic()
        codes[name] = subprocess.run([sys.executable, "-m", "pytest", *given], cwd=ROOT, check=False).returncode
        said = {0: "passed", NOTHING_CHOSEN: "nothing chosen"}.get(codes[name], f"FAILED (exit code {codes[name]})")
        lines.append(f"tests: {name:<8} {said}, {time.monotonic() - began:.0f} s")
        if codes[name] == 2:  # interrupted
            break
    print("\n".join(lines), flush=True)
    return verdict(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`make chaos`: every case with its repetitions, one table, JSON beside it; not zero when anything was lost.

Each case runs in a process of its own, a few at a time, inside a network namespace of its own where root allows it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.chaos import at_points, of_processes, of_requests, of_stores
from tests.chaos.case import Case, carry_out, shared_server
from tests.chaos.servers import MissingToolError

ROOT = Path(__file__).parents[2]
OUT = ROOT / ".chaos"
COLUMNS = (
    "id",
    "fault",
    "reps",
    "lost",
    "doubled",
    "early",
    "redelivered",
    "recovery s",
    "worst lateness s",
    "verdict",
)


def all_cases() -> list[Case]:
    rooms = (of_processes, of_stores, of_requests, at_points)
    return sorted((case for room in rooms for case in room.cases()), key=lambda case: (case.id[0] != "P", case.id))


def main() -> int:
    options = _options()
    cases = {case.id: case for case in all_cases()}
    if options.child:
        return _child(cases[options.child], options)
    if os.environ.get("HORAE_TEST_NETNS") != "1" and _can_isolate():
        return _inside_a_namespace()
    wanted = _wanted(cases, options.cases)
    OUT.mkdir(exist_ok=True)
    url, end = shared_server()
    os.environ["HORAE_TEST_CHAOS_URL"] = url
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda case: _spawn(case, options), wanted))
    finally:
        end()
    _write(results, round(time.monotonic() - began))
    return 0 if all(result["verdict"] in ("good", "left out") for result in results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--cases", default="", help="ids or beginnings of ids, separated by commas")
    parser.add_argument("--reps", type=int, help="instead of each case's own number")
    parser.add_argument("--jobs", type=int, default=3, help="cases at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", default="")
    return parser.parse_args()


def _wanted(cases: dict[str, Case], text: str) -> list[Case]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    found = [case for case in cases.values() if not words or any(case.id.startswith(word) for word in words)]
    if not found:
        raise SystemExit(f"no case is called {text}; there are {', '.join(cases)}")
    # The long ones first, so that none of them is alone at the end.
    return sorted(found, key=lambda case: -case.reps)


def _child(case: Case, options: argparse.Namespace) -> int:
    """One case; its result is the last line that is printed."""
    reps = options.reps or case.reps
    result: dict[str, Any] = {"id": case.id, "fault": case.fault, "reps": reps, "seed": options.seed}
    began = time.monotonic()
    try:
        found = carry_out(case, os.environ["HORAE_TEST_CHAOS_URL"], reps, options.seed).as_json()
        result |= found | {"verdict": "good" if found["good"] else "bad"}
    except MissingToolError as missing:
        result |= {"verdict": "left out", "why": str(missing)}
    except Exception as error:  # noqa: BLE001 every case must have its line in the table
        result |= {"verdict": "broken", "why": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    result["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(result))
    return 0


def _spawn(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.chaos.run", "--child", case.id, "--seed", str(options.seed)]
    command += ["--reps", str(options.reps)] if options.reps else []
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        result = {"id": case.id, "fault": case.fault, "reps": case.reps, "verdict": "broken", "why": done.stdout[-500:]}
    print(_line(result), flush=True)
    for word in [result.get("why", ""), *result.get("violations", [])[:5], *result.get("witnesses", [])[:5]]:
        if word:
            print(f"    {word}", flush=True)
    return result


def _cells(result: dict[str, Any]) -> list[str]:
    numbers = [str(result.get(name, "-")) for name in ("lost", "doubled", "early", "redelivered")]
    times = [f"{result[name]:.2f}" if name in result else "-" for name in ("recovery", "lateness")]
    return [result["id"], result["fault"], str(result["reps"]), *numbers, *times, result["verdict"]]


def _line(result: dict[str, Any]) -> str:
    widths = (22, 58, 5, 5, 8, 6, 12, 11, 17, 8)
    return " ".join(f"{cell:<{width}}" for cell, width in zip(_cells(result), widths, strict=True))


def _write(results: list[dict[str, Any]], seconds: int) -> None:
    results.sort(key=lambda result: (result["id"][0] != "P", result["id"]))
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(_cells(result))} |" for result in results]
    table = "\n".join(lines)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    (OUT / f"chaos-{stamp}.json").write_text(json.dumps({"seconds": seconds, "results": results}, indent=1))
    (OUT / "table.md").write_text(table + "\n")
    print(f"\n{table}\n\n{len(results)} cases in {seconds} s; JSON in {OUT.name}/chaos-{stamp}.json")


def _can_isolate() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode == 0


def _inside_a_namespace() -> int:
    """Only loopback is there: no other process of the machine can be met, and packets may be dropped at will."""
    words = " ".join(f"'{word}'" for word in sys.argv[1:])
    script = f"ip link set lo up && exec '{sys.executable}' -m tests.chaos.run {words}"
    environment = os.environ | {"HORAE_TEST_NETNS": "1"}
    return subprocess.run(["unshare", "-n", "sh", "-c", script], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

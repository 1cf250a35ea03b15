"""Every list within a second at size: `make size`. A store made by `horae demo load`, a real server, a real browser.

A page is timed from the start of the navigation to the first rows in the document, by the browser's own clock; the
middle of three visits counts. Exit code 1 if one takes longer than a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import Server, find_chromium
from tests.system.harness import Process

TARGET_MS = 1000
ROWS = "tr[data-row]"
TABLE = ".panel .small-table tbody tr"
# What is looked at, and what shows that it is there.
PAGES = {
    "/jobs": ROWS, "/jobs?sort=next_fire_time": ROWS, "/jobs?sort=-updated_at": ROWS, "/jobs?f=ads-00000": ROWS,
    "/jobs?f=label:team:ads": ROWS, "/jobs?f=queue:reports priority:LOW": ROWS, "/jobs?f=due:1h": ROWS,
    "/jobs?f=status:paused": ".empty", "/runs": ROWS, "/runs?all=1": ROWS, "/runs?f=status:dead": ROWS,
    "/runs?f=status:skipped": ROWS, "/runs?f=reason:exception": ROWS, "/runs?f=queue:reports": ROWS,
    "/runs?f=job:demo-billing-0000000": ROWS, "/runs?f=worker:demo-worker-3": ROWS, "/dead-letters": "section.group",
    "/dead-letters?f=queue:reports": "section.group, .empty", "/queues": TABLE, "/workers": TABLE,
    "/audit": f"{ROWS}, .empty", "/jobs/demo-billing-0000000": ROWS, "/alerts": ".panel .empty",
    "/": ".attention li, .calm",
}  # fmt: skip
# When the first of them came, by the clock that starts with the navigation.
WATCH = """(() => {
    const look = () => {
        if (window.shownAt || !document.querySelector(SELECTOR)) return;
        window.shownAt = performance.now();
    };
    new MutationObserver(look).observe(document, {childList: true, subtree: true});
})();"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5_000_000)
    parser.add_argument("--data", type=Path, help="a folder that has been filled before, or is to be kept")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data: Path = (words.data or Path(folder)).resolve()
        file = data / "horae.db"
        if not file.exists():
            data.mkdir(exist_ok=True, parents=True)
            fill(file, words.jobs, words.runs)
        process = Process(Path(folder), "dev", "--data", str(data))
        try:
            process.wait_ready()
            slow = measure(Server(process))
        finally:
            process.terminate()
    print(f"{len(slow)} of {len(PAGES)} pages take more than {TARGET_MS} ms" if slow else "every page within a second")
    return 1 if slow else 0


def fill(file: Path, jobs: int, runs: int) -> None:
    began = time.monotonic()
    size = ["--jobs", str(jobs), "--runs", str(runs)]
    environment = os.environ | {"HORAE_DATABASE_URL": f"sqlite:///{file}"}
    subprocess.run([sys.executable, "-m", "horae", "demo", "load", *size], env=environment, check=True)
    print(f"filled in {time.monotonic() - began:.0f} s")


def measure(server: Server) -> list[str]:
    slow = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        visit(browser, server, "/workers", TABLE)  # the first one pays for the start of the browser
        print(f"{'page':<40} {'middle':>9} {'worst':>9}")
        for path, selector in PAGES.items():
            taken = [visit(browser, server, path, selector) for _ in range(3)]
            middle = statistics.median(taken)
            slow += [path] if middle > TARGET_MS else []
            print(f"{path:<40} {middle:>6.0f} ms {max(taken):>6.0f} ms{'  SLOW' if middle > TARGET_MS else ''}")
        browser.close()
    return slow


def visit(browser: Browser, server: Server, path: str, selector: str) -> float:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.add_init_script(WATCH.replace("SELECTOR", repr(selector)))
    tab.goto(server.url + path)
    tab.locator(selector).first.wait_for(state="attached", timeout=60_000)
    taken = float(tab.evaluate("window.shownAt"))
    context.close()
    return taken


if __name__ == "__main__":
    sys.exit(main())

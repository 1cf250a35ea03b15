"""Takes the pictures of the docs: `make pictures`. Made-up jobs, a real server, a real browser.

With a folder as an argument, every page in both themes, wide and narrow, goes there to be looked at.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright

from tests.browser.conftest import Server, find_chromium
from tests.system.harness import Process

FOLDER = Path(__file__).parents[2] / "docs" / "images"
PARTNER = "echo POST https://api.partner.example/v2/sync; sleep 0.4; echo 503 Service Unavailable; exit 1"
JOBS = [
    ("billing-sync", "@every 12s", "shell", {"command": PARTNER}, {"team": "billing"}),
    ("load-orders", "@every 1s", "noop", {"sleep": "300ms"}, {"team": "shop"}),
    ("send-receipts", "@every 2s", "noop", {"sleep": "700ms"}, {"team": "shop"}),
    ("refresh-search", "@every 3s", "shell", {"command": "echo shard 1 of 4; sleep 1; echo done"}, {"team": "search"}),
    ("warm-cache", "@every 4s", "noop", {"sleep": "150ms"}, {"team": "search"}),
    ("daily-report", "0 9 * * 1-5", "shell", {"command": "seq 1 400 | sed 's/^/line /'"}, {"team": "data"}),
    ("monthly-invoices", "0 6 1 * *", "noop", {}, {"team": "billing"}),
    ("warehouse-export", "30 2 * * *", "noop", {}, {"team": "data"}),
    ("train-ranking", "@every 30s", "noop", {}, {"team": "search"}),
]
SECONDS = 75
PAGES = (
    "/", "/jobs", "/jobs/daily-report", "/jobs/billing-sync?tab=durations", "/jobs/billing-sync?tab=calendar",
    "/jobs/daily-report?tab=changes", "/jobs/daily-report?tab=upcoming",
    "/jobs/daily-report?tab=alerts", "/jobs/new", "/runs", "/runs?group=error",
    "/dead-letters", "/queues", "/workers", "/alerts", "/audit", "/settings", "/settings?tab=keys",
    "/settings?tab=tenants",
)  # fmt: skip


class Shot(NamedTuple):
    name: str
    path: str
    theme: str
    width: int = 1280


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        process = Process(Path(folder), "dev")
        try:
            process.wait_ready()
            take(fill(Server(process)))
        finally:
            process.kill()


def fill(server: Server) -> Server:
    for name, schedule, kind, target, labels in JOBS:
        document = {"schedule": schedule, "type": kind, "target": target, "labels": labels, "timezone": "Europe/Berlin"}
        queue = {"queue": "gpu"} if name == "train-ranking" else {}
        retry = {"retry": {"max_retries": 2, "delay": "500ms", "backoff": "exponential"}}
        server.call("PUT", f"/jobs/{name}", document | queue | retry)
    server.call("POST", "/jobs/warehouse-export/pause", {"reason": "migration of the warehouse"})
    for _ in range(3):
        server.run("daily-report")
    server.call("PATCH", "/jobs/daily-report", {"timeout": "45s"})
    time.sleep(SECONDS)
    return server


def take(server: Server) -> None:
    dead = server.call("GET", "/dead-letters?limit=1")["dead_letters"][0]["run_id"]
    hour = (int(time.time()) // 3600 + 1) * 3_600_000
    forecast = f"/forecast?hour={hour}&minute={hour}"
    shots = [
        Shot("overview", "/", "dark"), Shot("overview-light", "/", "light"), Shot("run", f"/runs/{dead}", "light"),
        Shot("new-job", "/jobs/new", "light"), Shot("jobs", "/jobs", "dark"),
        Shot("dead-letters", "/dead-letters", "light"), Shot("forecast", forecast, "dark"),
        Shot("phone", f"/runs/{dead}", "light", 375),
    ]  # fmt: skip
    folder = FOLDER
    if sys.argv[1:]:
        folder = Path(sys.argv[1])
        folder.mkdir(exist_ok=True, parents=True)
        pages = [*PAGES, f"/runs/{dead}", f"/runs/{dead}?tab=attempts", f"/runs/{dead}?tab=facts", forecast]
        looks = [("light", 1440), ("dark", 1440), ("light", 375), ("dark", 375)]
        shots = [Shot(f"{number:02d}-{theme}-{width}", path, theme, width) for number, path in enumerate(pages)
                 for theme, width in looks]  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        for shot in shots:
            look = {"viewport": {"width": shot.width, "height": 860}, "color_scheme": shot.theme}
            context = browser.new_context(**look, timezone_id="Europe/Berlin")
            tab = context.new_page()
            tab.goto(server.url + shot.path)
            tab.get_by_text("Live", exact=True).wait_for()
            tab.wait_for_timeout(2500)
            tab.screenshot(path=folder / f"{shot.name}.png", full_page=folder != FOLDER)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()

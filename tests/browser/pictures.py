"""Takes the pictures of the docs: `make pictures`. Made-up jobs, a real server, a real browser."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

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
    shots = {
        "overview": ("/", "dark"), "overview-light": ("/", "light"), "run": (f"/runs/{dead}", "light"),
        "new-job": ("/jobs/new", "light"), "jobs": ("/jobs", "dark"),
    }  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        for name, (path, theme) in shots.items():
            look = {"viewport": {"width": 1280, "height": 860}, "color_scheme": theme}
            tab = browser.new_context(**look, timezone_id="Europe/Berlin").new_page()
            tab.goto(server.url + path)
            tab.get_by_text("Live", exact=True).wait_for()
            tab.wait_for_timeout(2500)
            tab.screenshot(path=FOLDER / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()

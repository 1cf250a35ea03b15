"""A real Chromium from the distribution, and real servers with something to show."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from horae.dashboard.static import DIST
from tests.services import install
from tests.system.harness import Process

NAMES = ("chromium", "chromium-browser", "google-chrome")
ADMIN = "an-admin-key-for-the-browser-tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has the browser and the servers."""
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("browser"))


def missing(why: str) -> None:
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """For one module, not longer: while it is there, its event loop keeps other tests of this process from theirs."""
    if not (DIST / "index.html").exists():
        missing("the dashboard is not built: `make setup` says why")
    if find_chromium() is None:
        install("chromium")
    path = find_chromium()
    if path is None:
        missing("no Chromium: install the package `chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Server:
    def __init__(self, process: Process, key: str = "") -> None:
        self.process = process
        self.key = key
        self.url = f"http://127.0.0.1:{process.port}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.process.call(method, f"/api/v1{path}", body, self.key)
        assert status < 300, answer
        return answer

    def wait_run(self, run_id: str, *states: str) -> Any:
        deadline = time.monotonic() + 30
        while True:
            run = self.call("GET", f"/runs/{run_id}")
            if run["status"] in (states or ("SUCCEEDED", "FAILED", "CANCELLED")):
                return run
            assert time.monotonic() < deadline, run
            time.sleep(0.05)

    def run(self, job: str) -> Any:
        return self.wait_run(self.call("POST", f"/jobs/{job}/run", {})["run_id"])


SHELL = "shell"
JOBS: list[dict[str, Any]] = [
    {"name": "daily-report", "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "type": SHELL,
     "target": {"command": "for i in $(seq 1 400); do echo line $i of the report; done"}, "labels": {"team": "data"},
     "description": "Yesterday's numbers, for the board."},
    {"name": "billing-sync", "schedule": "@manual", "type": SHELL, "priority": "HIGH", "labels": {"team": "billing"},
     "target": {"command": "echo POST https://api.partner.example/v2/sync; echo 503 Service Unavailable; exit 1"},
     "retry": {"max_retries": 1, "delay": "100ms", "backoff": "fixed"}},
    {"name": "load-orders", "schedule": "30 2 * * *", "timezone": "America/New_York", "type": "noop"},
    {"name": "ml-train", "schedule": "@manual", "type": "noop", "queue": "gpu"},
    {"name": "nightly-export", "schedule": "15 1 * * *", "type": "noop", "labels": {"team": "data"}},
]  # fmt: skip


@pytest.fixture(scope="session")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A `horae dev` with jobs that succeed, die, wait and are paused."""
    folder = tmp_path_factory.mktemp("browser")
    process = Process(folder, "dev")
    try:
        process.wait_ready()
        server = Server(process)
        for job in JOBS:
            server.call("PUT", f"/jobs/{job['name']}", job)
        server.call("PATCH", "/jobs/daily-report", {"timeout": "45s"})
        server.call("POST", "/jobs/nightly-export/pause", {"reason": "migration"})
        server.call("POST", "/jobs/ml-train/run", {})
        for name in ("daily-report", "daily-report", "load-orders", "billing-sync", "billing-sync", "billing-sync"):
            server.run(name)
        server.call("POST", "/webhooks", {"name": "on-call", "url": "https://example.com/h", "events": ["run.failed"]})
        yield server
    finally:
        process.kill()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A `horae serve`, which asks for keys."""
    folder = tmp_path_factory.mktemp("guarded")
    settings = {"HORAE_ADMIN_KEY": ADMIN, "HORAE_DATABASE_URL": f"sqlite:///{folder}/horae.db", "HORAE_SHELL": "on"}
    process = Process(folder, "serve", **settings)
    try:
        process.wait_ready()
        server = Server(process, ADMIN)
        server.call("PUT", "/jobs/daily-report", {"schedule": "0 9 * * 1-5", "type": "noop"})
        yield server
    finally:
        process.kill()


Visit = Callable[..., Page]


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context(viewport={"width": 1440, "height": 900}, timezone_id="Europe/Berlin")
    made.set_default_timeout(15_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab whose mistakes fail the test."""
    tab = context.new_page()
    told = watch(tab)
    yield tab
    assert told == []


def watch(tab: Page) -> list[str]:
    """Collects errors of the script and of the policy; answers of the server that a test asks for are no mistakes."""
    told: list[str] = []
    tab.on("pageerror", lambda error: told.append(str(error)))

    def take(line: ConsoleMessage) -> None:
        if line.type == "error" and "Failed to load resource" not in line.text:
            told.append(line.text)

    tab.on("console", take)
    return told


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, as npm brought it."""
    file = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        missing("no axe-core: `make setup` brings it when the page is built")
    return file.read_text()


def serious(tab: Page, source: str) -> list[str]:
    """Serious findings of axe on the page as it stands, in words; run from outside, where the policy does not reach."""
    tab.evaluate(source)
    found = tab.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {json.dumps([node['html'][:160] for node in each['nodes'][:3]])}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]

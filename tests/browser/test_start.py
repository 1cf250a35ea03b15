"""A server without jobs: three doors, and each of them leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Dialog, Locator, Page, Route, expect

from tests.browser.conftest import Server, serious
from tests.system.harness import Process

TABLE = """CRON_TZ=Europe/Berlin
BACKUP_TO=/mnt/backup
# every night
15 2 * * * /usr/local/bin/backup.sh --all
99 * * * * /bin/broken
@reboot /bin/once
*/10 * * * * curl -fsS https://example.com/ping
"""


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    process = Process(tmp_path_factory.mktemp("bare"), "dev", "--data", str(tmp_path_factory.mktemp("data")))
    try:
        process.wait_ready()
        yield Server(process)
    finally:
        process.kill()


def paste(page: Page, server: Server, table: str) -> None:
    page.goto(f"{server.url}/import")
    page.get_by_label("Paste what crontab -l prints").fill(table)


def test_a_crontab_is_read_by_the_server_and_taken_over(page: Page, bare: Server, axe: str) -> None:
    page.goto(bare.url)
    expect(page.get_by_text("crontab -l | horae import crontab -")).to_be_visible()
    assert serious(page, axe) == []
    page.get_by_role("link", name="Import a crontab").click()
    page.get_by_label("Paste what crontab -l prints").fill(TABLE)
    rows = page.get_by_label("What the lines mean").locator("li")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("02:15")
    expect(rows.nth(0).locator("time")).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("99")
    expect(rows.nth(1).locator(".tone-failed")).to_be_visible()
    expect(rows.nth(2)).to_contain_text("@reboot has no time")
    assert serious(page, axe) == []
    page.get_by_role("button", name="Make 2 jobs").click()

    expect(page.get_by_role("region", name="Not imported")).to_contain_text("/bin/broken")
    page.get_by_role("link", name="See the jobs").click()
    expect(page.locator("tr[data-row]")).to_have_count(2)
    backup = bare.call("GET", "/jobs/backup")
    assert backup["timezone"] == "Europe/Berlin"
    assert backup["target"]["command"] == "/usr/local/bin/backup.sh --all"
    assert backup["target"]["env"] == {"BACKUP_TO": "/mnt/backup"}
    assert backup["description"] == "every night"
    assert (backup["max_retries"], backup["labels"]) == (0, {"imported": "crontab"})


def test_an_import_says_what_cron_still_runs_and_can_be_undone(
    page: Page, bare: Server, axe: str, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    paste(page, bare, TABLE)
    page.get_by_role("button", name="Make 2 jobs").click()

    todo = page.get_by_role("region", name="What is left to do")
    expect(todo).to_contain_text("cron still runs the same lines")
    todo.get_by_role("button", name="Copy the lines").click()
    assert page.evaluate("navigator.clipboard.readText()").split("\n") == [
        "# 15 2 * * * /usr/local/bin/backup.sh --all",
        "# */10 * * * * curl -fsS https://example.com/ping",
    ]
    expect(todo).to_contain_text("horae job delete --yes backup curl")
    assert serious(page, axe) == []
    todo.get_by_role("button", name="Delete the 2 jobs made").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".picks")).to_contain_text("backup")
    assert len(bare.call("GET", "/jobs")["jobs"]) == 2
    dialog.get_by_role("button", name="Delete 2").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 of 2. Done.")
    dialog.get_by_role("button", name="Close").click()
    expect(todo).to_contain_text("The import was undone")
    assert bare.call("GET", "/jobs")["jobs"] == []


def test_a_pasted_crontab_is_not_lost_without_a_question(page: Page, dev: Server) -> None:
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", stay)
    page.goto(f"{dev.url}/jobs")
    page.get_by_role("link", name="Import a crontab").click()
    box = page.get_by_label("Paste what crontab -l prints")
    box.fill(TABLE)
    box.press("Escape")
    page.get_by_role("navigation").get_by_role("link", name="Runs", exact=True).click()

    expect(box).to_have_value(TABLE)
    assert len(asked) == 1
    assert "lost" in asked[0]
    box.fill("")
    page.get_by_role("navigation").get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("crontab")
    page.get_by_role("option", name="Import a crontab").click()
    expect(box).to_be_visible()


def test_an_escaped_percent_is_a_percent_and_a_bare_one_is_refused_with_the_reason(page: Page, bare: Server) -> None:
    bad = "0 2 * * * mail -s x me%Hello%there\n"
    paste(page, bare, f"CRON_TZ=Asia/Tokyo\n0 1 * * * /bin/save /b/$(date +\\%F).tgz\n{bad}")
    rows = page.get_by_label("What the lines mean").locator("li")
    expect(rows.nth(1)).to_contain_text("cron ends the command there and hands it the rest as standard input")
    page.get_by_role("button", name="Make 1 job").click()

    expect(page.get_by_label("Lines to comment out")).to_have_text("# 0 1 * * * /bin/save /b/$(date +\\%F).tgz")
    expect(page.get_by_role("region", name="Not imported")).to_contain_text("mail -s x")
    assert bare.call("GET", "/jobs/save")["target"]["command"] == "/bin/save /b/$(date +%F).tgz"
    page.get_by_role("button", name="Change these lines and import again").click()
    expect(page.get_by_label("Paste what crontab -l prints")).to_have_value(f"CRON_TZ=Asia/Tokyo\n{bad}")
    page.get_by_label("Paste what crontab -l prints").fill("")


def test_an_import_copied_as_a_command_makes_the_same_jobs(page: Page, bare: Server, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    paste(page, bare, "15 2 * * * /usr/local/bin/backup.sh 'a b'\n0 1 * * * /bin/save $(date +\\%F)\n")
    page.get_by_label("Time zone of the table").fill("Asia/Tokyo")
    page.get_by_role("button", name="Copy as CLI").click()
    line = page.evaluate("navigator.clipboard.readText()")
    assert line.startswith("horae import crontab - --tz 'Asia/Tokyo'")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(["/bin/sh", "-c", line], env=os.environ | {"PATH": path}, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    page.get_by_label("Paste what crontab -l prints").fill("")

    made = {job["name"]: job for job in bare.call("GET", "/jobs")["jobs"]}
    assert made["backup"]["target"]["command"] == "/usr/local/bin/backup.sh 'a b'"
    assert made["save"]["target"]["command"] == "/bin/save $(date +%F)"
    assert made["save"]["timezone"] == "Asia/Tokyo"


def load(page: Page, server: Server) -> Locator:
    page.goto(server.url)
    page.get_by_role("button", name="Load demo data").click()
    demo = page.get_by_role("group", name="Demo data")
    expect(demo).to_contain_text("demo: 8 jobs")
    expect(page.get_by_role("region", name="Needs attention")).to_contain_text("demo-broken-export", timeout=30_000)
    return demo


def remove(page: Page, demo: Locator) -> None:
    demo.get_by_role("button", name="Remove the demo data").click()
    dialog = page.get_by_role("dialog", name="Remove: 8 demo jobs")
    expect(dialog.locator(".picks li")).to_have_count(8)
    dialog.get_by_role("button", name="Remove 8").click()


def test_demo_data_is_labelled_and_goes_after_a_question(page: Page, bare: Server) -> None:
    demo = load(page, bare)
    made = bare.call("GET", "/jobs?label=demo:true")["jobs"]
    assert len(made) == 8
    assert all(job["name"].startswith("demo-") for job in made)
    demo.get_by_role("button", name="Remove the demo data").click()
    expect(page.get_by_role("dialog")).to_contain_text("demo-heartbeat")
    page.get_by_role("dialog").press("Escape")
    assert len(bare.call("GET", "/jobs")["jobs"]) == 8
    remove(page, demo)

    expect(page.get_by_role("button", name="Load demo data")).to_be_visible(timeout=30_000)
    assert bare.call("GET", "/jobs")["jobs"] == []
    assert bare.call("GET", "/dead-letters:groups")["run_count"] == 0


def test_jobs_of_somebody_are_no_demo_data_whatever_their_labels(page: Page, bare: Server) -> None:
    demo = load(page, bare)
    bare.call("PUT", "/jobs/mine", {"type": "noop", "schedule": "@manual", "labels": {"demo": "true"}})
    copied = bare.call("GET", "/jobs/demo-cleanup")
    copy = {field: copied[field] for field in ("type", "schedule", "labels")}
    bare.call("PUT", "/jobs/demo-cleanup-copy", copy)
    remove(page, demo)
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("8 of 8. Done.", timeout=30_000)

    left = bare.call("GET", "/jobs")["jobs"]
    assert sorted(job["name"] for job in left) == ["demo-cleanup-copy", "mine"]


def test_a_demo_run_that_dies_while_its_job_is_removed_is_discarded_too(page: Page, bare: Server) -> None:
    demo = load(page, bare)
    broken = bare.call("GET", "/jobs/demo-broken-export")["job_id"]
    told: set[str] = set()

    def first_time(route: Route, answer: dict[str, Any]) -> None:
        """As if its last attempt had not ended yet."""
        if broken not in route.request.url or route.request.url in told:
            route.continue_()
            return
        told.add(route.request.url)
        route.fulfill(json=answer)

    none = {"groups": [], "group_count": 0, "run_count": 0, "next_cursor": None}
    page.route("**/dead-letters:groups?job=*", lambda route: first_time(route, none))
    page.route("**/runs?job=*", lambda route: first_time(route, {"runs": [{"run_id": "x"}], "next_cursor": None}))
    remove(page, demo)

    expect(page.get_by_role("button", name="Load demo data")).to_be_visible(timeout=30_000)
    assert len(told) == 2
    assert bare.call("GET", "/dead-letters:groups")["run_count"] == 0


def test_demo_data_that_was_removed_and_loaded_again_is_shown_once(page: Page, bare: Server) -> None:
    remove(page, load(page, bare))
    expect(page.get_by_role("button", name="Load demo data")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Load demo data").click()
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention).to_contain_text("demo-broken-export", timeout=30_000)

    show = attention.get_by_role("button", name="new")
    if show.count():
        show.click()
    expect(attention.get_by_text("demo-broken-export", exact=True)).to_have_count(1)
    page.goto(f"{bare.url}/dead-letters")
    expect(page.get_by_role("link", name="demo-broken-export")).to_have_count(1)
    page.goto(f"{bare.url}/jobs")
    expect(page.locator("tr[data-row]")).to_have_count(8)

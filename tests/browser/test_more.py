"""Files, saved views, commands, tenants; and that charts and groups are true."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Server


def test_the_charts_tell_what_the_api_tells(page: Page, dev: Server) -> None:
    # The stretch that goes on is not shown.
    while not any(point["finished"] for point in dev.call("GET", "/stats/series?window=6m")["points"][:-2]):
        time.sleep(0.5)
    page.goto(dev.url)
    chart = page.get_by_role("figure", name="Throughput")
    chart.get_by_role("button", name="As a table").click()
    rows = [row.split() for row in chart.locator("tbody").inner_text().splitlines()]
    shown = {at: tuple(map(int, counts)) for at, *counts in rows}
    told = {}
    for window in ("6m", "30m", "1h"):  # the page looks back as far as there is something to see
        for point in dev.call("GET", f"/stats/series?window={window}")["points"]:
            at = datetime.fromisoformat(point["at"]).astimezone(ZoneInfo("Europe/Berlin"))
            told[window, f"{at:%H:%M:%S}"] = (point["due"], point["started"], point["finished"])
    # The newest may have gone on between the two readings, the oldest have gone.
    compared = list(shown.items())[1:-2]
    agreeing = [window for window in ("6m", "30m", "1h") if all(told.get((window, at)) == n for at, n in compared)]

    assert len(agreeing) == 1
    assert sum(sum(counts) for counts in shown.values()) > 10
    late = page.get_by_role("figure", name="Lateness")
    expect(late).to_contain_text(re.compile("p50 .*, p95 .*, p99 .*; target 1"))
    late.get_by_role("button", name="As a table").click()
    expect(late.get_by_role("columnheader", name="p99")).to_be_visible()


def test_dead_letters_are_grouped_over_all_of_them(page: Page, dev: Server) -> None:
    """Errors that differ in a number: one group, one count, one replay."""
    target = {"command": "echo order $(date +%N) is gone; exit 3"}
    dev.call("PUT", "/jobs/many-dead", {"type": "shell", "target": target, "retries": 0, "schedule": "@manual"})
    for _ in range(3):
        dev.run("many-dead")
    page.goto(f"{dev.url}/dead-letters?f=job:many-dead")
    group = page.get_by_role("region", name="many-dead")

    expect(page.locator("section.group")).to_have_count(1)
    expect(group).to_contain_text("\N{MULTIPLICATION SIGN}3")
    expect(group).to_contain_text("exit code 3: order … is gone")
    group.get_by_role("button", name="Open the runs of many-dead").click()
    expect(group.locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Replay", exact=True).first.click()
    expect(page.get_by_role("dialog")).to_contain_text("3 runs would be made anew")


def test_a_list_is_saved_as_a_file(page: Page, dev: Server, tmp_path: Path) -> None:
    page.goto(f"{dev.url}/jobs?f=label:team:data")
    expect(page.get_by_role("link", name="daily-report")).to_be_visible()
    for kind in ("CSV", "JSON"):
        with page.expect_download() as found:
            page.get_by_role("button", name=f"Save as {kind}").click()
        found.value.save_as(tmp_path / found.value.suggested_filename)
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    documents = json.loads((tmp_path / "jobs.json").read_text())

    assert [row["name"] for row in rows] == [each["name"] for each in documents] == ["daily-report", "nightly-export"]
    assert json.loads(rows[0]["labels"]) == {"team": "data"}
    expect(page.locator(".note")).to_contain_text("2 rows saved as jobs.json")


def test_a_view_is_saved_opened_and_forgotten(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/runs?f=status:dead")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_label("Name").fill("the dead")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.goto(f"{dev.url}/runs")
    page.get_by_role("button", name="the dead", exact=True).click()

    expect(page).to_have_url(re.compile(r"f=status%3Adead|f=status:dead"))
    page.get_by_role("button", name="Forget the view the dead").click()
    expect(page.get_by_role("button", name="the dead", exact=True)).to_have_count(0)


def test_a_write_copied_as_a_command_does_the_same(page: Page, dev: Server, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    dev.call("PUT", "/jobs/by-command", {"type": "noop", "schedule": "0 3 * * *"})
    page.goto(f"{dev.url}/jobs/by-command")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("dialog").get_by_label("Why").fill("it's $HOME; `date`")
    page.get_by_role("dialog").get_by_role("button", name="Copy as CLI").click()
    pause = page.evaluate("navigator.clipboard.readText()")
    page.goto(f"{dev.url}/jobs/by-command/edit")
    page.get_by_label("Timeout").fill("77s")
    expect(page.locator(".preview .diff")).to_contain_text("77s")
    page.get_by_role("button", name="Copy as CLI").click()
    edit = page.evaluate("navigator.clipboard.readText()")
    for line in (pause, edit):
        words = shlex.split(line)
        assert words[0] == "horae"
        done = subprocess.run(
            [str(Path(sys.executable).with_name("horae")), *words[1:]],
            env=os.environ | {"HORAE_URL": dev.url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    page.on("dialog", lambda asked: asked.accept())  # there is something unsaved

    job = dev.call("GET", "/jobs/by-command")
    assert (job["status"], job["pause_reason"], job["timeout"]) == ("PAUSED", "it's $HOME; `date`", "1m17s")


def test_a_tenant_is_made_edited_and_looked_at(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/settings?tab=tenants")
    page.get_by_role("button", name="New tenant").click()
    page.get_by_label("Name").fill("team-b")
    page.get_by_label("Most jobs").fill("5")
    page.get_by_role("button", name="Make it").click()
    row = page.get_by_role("row", name="team-b")
    expect(row).to_contain_text("at most 5")
    row.get_by_role("button", name="Edit").click()
    page.get_by_label("Most jobs").fill("7")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(row).to_contain_text("at most 7")
    row.get_by_role("button", name="Look").click()
    expect(page.get_by_role("button", name="Tenant team-b")).to_be_visible()
    page.goto(f"{dev.url}/jobs")

    expect(page.get_by_text("No jobs yet")).to_be_visible()


def test_the_forecast_goes_from_the_week_to_the_hour_to_the_minute_to_the_jobs(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/forecast")
    page.get_by_role("group", name="Runs due in each hour").get_by_role(
        "button", name=re.compile("[1-9]\\d* runs?$")
    ).last.click()
    minutes = page.get_by_role("group", name="Runs due in each minute")
    minutes.get_by_role("button", name=re.compile(", [1-9]\\d* runs?$")).first.click()

    table = page.get_by_role("region", name=re.compile("Jobs due at"))
    expect(table.get_by_role("row").nth(1)).to_contain_text(re.compile("default|gpu"))


def test_failing_jobs_are_one_click_away(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs")
    page.get_by_role("button", name="Failing").click()

    expect(page.get_by_role("link", name="billing-sync")).to_be_visible()
    expect(page.get_by_role("link", name="daily-report")).to_have_count(0)
    assert "health%3Afailing" in page.url or "health:failing" in page.url
    page.get_by_role("button", name=re.compile("^All")).click()
    expect(page.get_by_role("link", name="daily-report")).to_be_visible()


def test_a_group_of_dead_runs_is_discarded_when_their_number_is_typed(page: Page, dev: Server) -> None:
    dev.call("POST", "/jobs", {"name": "hopeless", "type": "noop", "target": {"fail": 1}, "retries": 0})
    dev.call("POST", "/runs:batch", {"job": "hopeless", "runs": [{}, {}]})
    page.goto(f"{dev.url}/dead-letters?f=job:hopeless")
    group = page.get_by_role("region", name="hopeless").first
    expect(group).to_contain_text("\u00d72")
    group.get_by_role("button", name="Discard").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Discard")).to_be_disabled()
    dialog.get_by_label("To go on, type 2").fill("2")
    dialog.get_by_role("button", name="Discard").click()

    expect(page.get_by_text("No dead run matches this filter")).to_be_visible()
    assert dev.call("GET", "/dead-letters?job=hopeless")["dead_letters"] == []


SAYS_IT = """echo "it's" >&2; exit 1"""


def test_a_group_of_dead_runs_has_a_command_that_discards_it_alone(
    page: Page, dev: Server, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    dev.call("PUT", "/jobs/grouped", {"type": "shell", "target": {"command": SAYS_IT}, "retries": 0})
    dev.run("grouped")
    dev.call("PATCH", "/jobs/grouped", {"target": {"command": "echo other >&2; exit 3"}})
    dev.run("grouped")
    page.goto(f"{dev.url}/dead-letters?f=job:grouped")
    group = page.get_by_role("region", name=re.compile("grouped: .*it's"))
    group.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Copy as CLI")).to_be_visible()
    page.get_by_role("dialog").press("Escape")
    group.get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Copy as CLI").click()
    words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    horae = str(Path(sys.executable).with_name("horae"))
    done = subprocess.run([horae, *words[1:]], env=os.environ, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    (left,) = dev.call("GET", "/dead-letters?job=grouped")["dead_letters"]
    assert "other" in left["error_message"]
    # The overview shows ten causes; those of later tests must find room.
    dev.call("DELETE", f"/dead-letters/{left['run_id']}")

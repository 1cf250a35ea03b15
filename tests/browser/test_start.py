"""A server without jobs: three doors, and each of them leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

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


def test_a_crontab_is_read_by_the_server_and_taken_over(page: Page, bare: Server, axe: str) -> None:
    page.goto(bare.url)
    expect(page.get_by_text("crontab -l | horae import crontab -")).to_be_visible()
    assert serious(page, axe) == []
    page.get_by_role("button", name="Import a crontab").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Paste what crontab -l prints").fill(TABLE)
    rows = dialog.get_by_label("What the lines mean").locator("li")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("02:15")
    expect(rows.nth(0).locator("time")).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("99")
    expect(rows.nth(1).locator(".tone-failed")).to_be_visible()
    expect(rows.nth(2)).to_contain_text("@reboot has no time")
    assert serious(page, axe) == []
    dialog.get_by_role("button", name="Make 2 jobs").click()

    expect(page.locator("tr[data-row]")).to_have_count(2)
    backup = bare.call("GET", "/jobs/backup")
    assert backup["timezone"] == "Europe/Berlin"
    assert backup["target"]["command"] == "/usr/local/bin/backup.sh --all"
    assert backup["target"]["env"] == {"BACKUP_TO": "/mnt/backup"}
    assert backup["description"] == "every night"
    assert (backup["max_retries"], backup["labels"]) == (0, {"imported": "crontab"})


def test_demo_data_is_labelled_and_goes_with_one_click(page: Page, bare: Server) -> None:
    page.goto(bare.url)
    page.get_by_role("button", name="Load demo data").click()
    demo = page.get_by_role("group", name="Demo data")
    expect(demo).to_contain_text("demo: 8 jobs")
    made = bare.call("GET", "/jobs?label=demo:true")["jobs"]
    assert len(made) == 8
    assert all(job["name"].startswith("demo-") for job in made)
    expect(page.get_by_role("region", name="Needs attention")).to_contain_text("demo-broken-export", timeout=30_000)
    demo.get_by_role("button", name="Remove the demo data").click()

    expect(page.get_by_role("button", name="Load demo data")).to_be_visible(timeout=30_000)
    assert bare.call("GET", "/jobs")["jobs"] == []
    assert bare.call("GET", "/dead-letters:groups")["run_count"] == 0

"""Steps that can be gone back, tabs that share a key, and numbers that keep their digits."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import ADMIN, Server, watch


def test_each_filter_is_a_step_that_can_be_gone_back(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/workers")
    page.keyboard.press("g")
    page.keyboard.press("r")
    quick = page.get_by_role("group", name="Quick filters")
    quick.get_by_role("button", name=re.compile("^Dead")).click()
    expect(page).to_have_url(re.compile("status%3Adead$"))
    box = page.get_by_role("combobox", name="Filter")
    box.fill("status:dead queue:default")
    expect(page).to_have_url(re.compile("queue%3Adefault$"))
    box.press_sequentially("x")  # goes on with what was typed
    expect(page).to_have_url(re.compile("queue%3Adefaultx$"))
    page.get_by_role("button", name=re.compile("^status:dead")).click()
    expect(page).to_have_url(re.compile(r"f=queue%3Adefaultx$"))

    for wanted in ("queue%3Adefaultx$", "status%3Adead$", "/runs$", "/workers$"):
        page.go_back()
        expect(page).to_have_url(re.compile(wanted))
        if wanted == "status%3Adead$":
            expect(box).to_have_value("status:dead")


def test_a_tab_opened_from_another_has_its_key(context: BrowserContext, guarded: Server) -> None:
    first = context.new_page()
    told = watch(first)
    first.goto(guarded.url)
    first.get_by_label("API key").fill(ADMIN)
    first.get_by_role("button", name="Open").click()
    link = first.get_by_role("link", name="Jobs", exact=True)
    expect(link).to_be_visible()
    expect(first.get_by_role("button", name="Tenant default")).to_be_visible()
    with context.expect_page() as opened:
        link.click(modifiers=["Control"])
    second = opened.value

    expect(second.get_by_role("link", name="daily-report")).to_be_visible()
    assert second.evaluate("Object.values(localStorage).join()").find(ADMIN) == -1
    second.goto(f"{guarded.url}/settings")
    second.get_by_role("button", name="Forget the key and sign out").click()
    expect(second.get_by_label("API key")).to_be_visible()
    expect(first.get_by_label("API key")).to_be_visible()
    second.reload()
    expect(second.get_by_label("API key")).to_be_visible()
    assert told == []


def test_whole_numbers_of_any_length_are_shown_as_they_are(page: Page, dev: Server) -> None:
    big = 9223372036854775806
    dev.call("PUT", "/jobs/big-numbers", {"type": "noop", "schedule": "@manual", "payload": {"id": big}})
    dev.call("PATCH", "/jobs/big-numbers", {"payload": {"id": big + 1}})
    page.goto(f"{dev.url}/jobs/big-numbers?tab=definition")
    page.get_by_text("As JSON").click()
    expect(page.locator(".json pre")).to_contain_text(f'"id": {big + 1}')
    expect(page.locator(".facts")).to_contain_text(f'{{"id":{big + 1}}}')
    page.get_by_role("tab", name=re.compile("^Changes")).click()
    expect(page.locator(".diff .plus").first).to_contain_text(f":{big + 1}}}")


def test_dead_letters_of_a_deleted_job_are_reached_from_the_overview(page: Page, dev: Server) -> None:
    dies = {
        "type": "shell",
        "target": {"command": "echo the first of two is dead; exit 17"},
        "retries": 0,
        "schedule": "@manual",
    }
    dev.call("PUT", "/jobs/dead-twice", dies)
    for _ in range(6):  # the overview shows the largest causes, and other tests leave theirs
        dev.run("dead-twice")
    gone = dev.call("GET", "/jobs/dead-twice")["job_id"]
    dev.call("DELETE", "/jobs/dead-twice")
    dev.call("PUT", "/jobs/dead-twice", {"type": "noop", "schedule": "@manual"})
    page.goto(f"{dev.url}/dead-letters?f=job:{gone}")
    expect(page.locator("section.group")).to_contain_text("dead-twice")
    page.goto(dev.url)
    link = page.locator(".attention").get_by_role("link", name="dead-twice")
    expect(link).to_have_attribute("href", re.compile(gone))


@pytest.mark.parametrize(("path", "row"), [("/dead-letters", "section.group"), ("/runs", "tr[data-row]")])
def test_the_past_of_a_deleted_job_is_found_by_its_name(page: Page, dev: Server, path: str, row: str) -> None:
    dies = {"type": "shell", "target": {"command": "exit 1"}, "retries": 0, "schedule": "@manual"}
    dev.call("PUT", "/jobs/gone-for-good", dies)
    dev.run("gone-for-good")
    dev.call("DELETE", "/jobs/gone-for-good")
    page.goto(f"{dev.url}{path}?f=job:gone-for-good")
    page.get_by_role("button", name=re.compile("^gone-for-good, changed last")).first.click()
    expect(page.locator(row).first).to_contain_text("gone-for-good")


def test_a_log_that_was_cut_says_how_much_is_missing(page: Page, dev: Server) -> None:
    dev.call(
        "PUT", "/jobs/talks-a-lot", {"type": "shell", "target": {"command": "seq 1 600000"}, "schedule": "@manual"}
    )
    run = dev.run("talks-a-lot")
    page.goto(f"{dev.url}/runs/{run['run_id']}")
    expect(page.get_by_text("This log is cut")).to_contain_text("2.9 MiB more were not")
    page.get_by_label("Find in the log").fill("150000")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()


def test_quick_filters_say_how_many(page: Page, dev: Server) -> None:
    for number in range(3):
        dev.call("PUT", f"/jobs/held-{number}", {"type": "noop", "schedule": "0 3 * * *"})
        dev.call("POST", f"/jobs/held-{number}/pause", {})
    paused = len(dev.call("GET", "/jobs?status=PAUSED")["jobs"])
    page.goto(f"{dev.url}/jobs")
    quick = page.get_by_role("group", name="Quick filters")
    expect(quick.get_by_role("button", name=re.compile("^Paused"))).to_contain_text(str(paused))

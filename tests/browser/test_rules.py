"""The rules of a job in its form: each has its field, and advice is taken with one click."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Server

RULES = {
    "A time that the clocks leave out": "skip",
    "A time that comes twice": "both",
    "Delivery": "at_most_once",
    "Due times passed": "catch_up",
}
LIMITS = {
    "Made up for if passed within": "2h",
    "At most so many made up for": "4",
    "Not before": "2030-01-01T09:00",
    "Not after": "2031-01-01T00:00:00Z",
    "Runs in all": "12",
    "Runs at the same time": "2",
    "Counted together with": "shop-database",
}


def field(page: Page, label: str) -> Locator:
    """By how its label begins; the rest is a hint."""
    return page.get_by_role("main").get_by_label(re.compile(f"^{label}"))


def start(page: Page, server: Server, name: str) -> None:
    page.goto(f"{server.url}/jobs/new")
    field(page, "Name").fill(name)
    field(page, "Type").select_option("noop")
    page.locator("details summary").click()


def test_every_rule_can_be_set_in_the_form(page: Page, dev: Server) -> None:
    start(page, dev, "by-the-rules")
    field(page, "Time zone").fill("Europe/Berlin")
    for label, value in RULES.items():
        field(page, label).select_option(value)
    for label, value in LIMITS.items():
        field(page, label).fill(value)
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("by-the-rules")

    job = dev.call("GET", "/jobs/by-the-rules")
    assert job["dst"] == {"gap": "skip", "fold": "both"}
    assert job["misfire"] == {"policy": "catch_up", "window": "2h", "max": 4}
    assert (job["delivery"], job["max_runs"], job["max_concurrency"]) == ("at_most_once", 12, 2)
    assert (job["start_at"], job["end_at"]) == ("2030-01-01T08:00:00Z", "2031-01-01T00:00:00Z")
    assert job["concurrency_key"] == "shop-database"


def test_rules_that_are_taken_away_are_gone_and_the_others_stay(page: Page, dev: Server) -> None:
    rules = {"max_runs": 5, "start_at": "2030-01-01T00:00:00Z", "dst": {"gap": "skip", "fold": "last"}}
    dev.call("PUT", "/jobs/ruled", {"type": "noop", "schedule": "0 3 * * *", **rules})
    page.goto(f"{dev.url}/jobs/ruled/edit")
    field(page, "Runs in all").fill("")
    field(page, "A time that comes twice").select_option("first")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ruled")

    job = dev.call("GET", "/jobs/ruled")
    assert (job["max_runs"], job["start_at"]) == (None, "2030-01-01T00:00:00Z")
    assert job["dst"] == {"gap": "skip", "fold": "first"}


def test_defaults_are_shown_and_not_sent(page: Page, dev: Server) -> None:
    start(page, dev, "plain-rules")
    expect(field(page, "A time that the clocks leave out")).to_have_value("shift")
    expect(field(page, "Delivery")).to_have_value("at_least_once")
    with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/jobs")) as asked:
        page.get_by_role("button", name="Make the job").click()

    sent = asked.value.post_data_json
    assert not {"dst", "delivery", "start_at", "end_at", "max_runs", "max_concurrency"} & set(sent)
    assert sent["misfire"] == {"policy": "run_once"}
    expect(page.get_by_role("heading", level=1)).to_have_text("plain-rules")


@pytest.mark.parametrize(
    ("schedule", "button", "label", "value", "outcome"),
    [
        ("30 2 * * *", "Use dst.gap skip", "A time that the clocks leave out", "skip", "horae leaves it out"),
        ("30 2 * * *", "Use dst.fold both", "A time that comes twice", "both", "horae runs at both"),
    ],
)
def test_the_advice_of_a_warning_is_taken_with_one_click(
    page: Page, dev: Server, schedule: str, button: str, label: str, value: str, outcome: str
) -> None:
    start(page, dev, "advised")
    field(page, "Time zone").fill("Europe/Berlin")
    field(page, "Schedule").fill(schedule)
    page.get_by_role("button", name=button).click()

    expect(field(page, label)).to_have_value(value)
    expect(page.locator("#preview")).to_contain_text(outcome)
    page.evaluate("localStorage.clear()")


def test_a_zone_without_summer_time_is_changed_with_one_click(page: Page, dev: Server) -> None:
    start(page, dev, "zoned")
    field(page, "Time zone").fill("EST")
    page.get_by_role("button", name="Use America/New_York").click()

    expect(field(page, "Time zone")).to_have_value("America/New_York")
    expect(page.locator("#preview")).to_contain_text("America/New_York time")
    page.evaluate("localStorage.clear()")

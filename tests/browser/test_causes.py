"""What is wrong, by cause: each with its own, those that recovered apart, and one row however many jobs it has hit."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Server


def dies(words: str) -> dict[str, object]:
    command = f"echo {words}; exit 9"
    return {"type": "shell", "target": {"command": command}, "retries": 0, "schedule": "@manual"}


def test_what_is_wrong_has_its_cause_however_many_others_there_are(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/small-trouble", dies("a rare thing"))
    dev.run("small-trouble")

    def others(route: Route) -> None:
        if "job=" in route.request.url:
            return route.continue_()
        return route.fulfill(json={"groups": [], "group_count": 100_000, "run_count": 900_000})

    page.route("**/api/v1/dead-letters:groups*", others)
    page.goto(f"{dev.url}/alerts")
    row = page.get_by_role("region", name="What is wrong now").locator("tr", has_text="small-trouble")
    expect(row).to_contain_text("1 dead run")
    expect(row).to_contain_text("a rare thing")
    expect(row.locator("time")).to_have_count(1)


def test_a_job_that_recovered_is_not_said_to_fail(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/got-well", dies("a passing thing"))
    dev.run("got-well")
    page.goto(f"{dev.url}/alerts")
    wrong = page.get_by_role("region", name="What is wrong now")
    expect(wrong.locator("tr", has_text="got-well")).to_contain_text("failing")

    dev.call("PATCH", "/jobs/got-well", {"target": {"command": "true"}})
    assert dev.run("got-well")["status"] == "SUCCEEDED"
    page.reload()
    waits = page.get_by_role("region", name="Dead letters that wait").locator("tr", has_text="got-well")
    expect(waits).to_contain_text("recovered")
    expect(waits).to_contain_text("a passing thing")
    expect(wrong.locator("tr", has_text="got-well")).to_have_count(0)


def test_one_cause_of_many_jobs_is_one_row(page: Page, dev: Server) -> None:
    for number in range(4):
        dev.call("PUT", f"/jobs/hit-{number}", dies("the shared disk is full"))
        dev.run(f"hit-{number}")
    page.goto(dev.url)
    row = page.locator(".attention li", has_text="the shared disk is full")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(re.compile("4.*4 jobs: hit-"))
    expect(row.get_by_role("link", name="the shared disk is full")).to_have_attribute("href", "/dead-letters")


def test_more_causes_than_were_read_are_not_left_out_of_the_number(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/small-trouble", dies("a rare thing"))
    dev.run("small-trouble")

    def many(route: Route) -> None:
        told = route.fetch()
        route.fulfill(response=told, body=json.dumps(told.json() | {"group_count": 400}))

    page.route("**/api/v1/dead-letters:groups*", many)
    page.goto(dev.url)
    expect(page.get_by_role("heading", name=re.compile(r"^Needs attention \(\d+\+\)$"))).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\d+\+ to look at"))

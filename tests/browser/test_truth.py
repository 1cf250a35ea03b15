"""What the page says agrees with what is so: keys that came late, counts, causes, and errors of any characters."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import ADMIN, Server, serious


def test_a_refusal_that_comes_after_the_key_was_borrowed_is_asked_again(
    context: BrowserContext, guarded: Server
) -> None:
    first = context.new_page()
    first.goto(guarded.url)
    first.get_by_label("API key").fill(ADMIN)
    first.get_by_role("button", name="Open").click()
    expect(first.get_by_role("button", name="Tenant default")).to_be_visible()
    second = context.new_page()
    held: list[Route] = []

    def hold(route: Route) -> None:
        route.continue_() if "authorization" in route.request.headers else held.append(route)

    second.route("**/api/v1/jobs?*", hold)
    second.goto(f"{guarded.url}/jobs")
    expect(second.get_by_role("link", name="daily-report")).to_be_visible()
    assert held
    late = held[0].request.url
    with second.expect_response(lambda answer: answer.url == late and answer.status == 200):
        for route in held:
            route.continue_()
    expect(second.get_by_role("link", name="daily-report")).to_be_visible()
    expect(second.get_by_label("API key")).to_have_count(0)


COLOURED = {
    "type": "shell",
    "schedule": "@manual",
    "retries": 0,
    "target": {"command": r"printf '\033[31mred\033[0m herring \007\n' >&2; exit 3"},
}


def test_a_group_whose_error_has_colours_is_replayed_and_discarded(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/colourful", COLOURED)
    dev.run("colourful")
    dev.run("colourful")
    page.goto(f"{dev.url}/dead-letters?f=job:colourful")
    group = page.locator("section.group")
    expect(group).to_contain_text("red herring")
    group.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 runs would be made anew")
    dialog.get_by_role("button", name="Close").click()
    group.get_by_role("button", name="Discard").click()
    dialog.get_by_role("textbox").fill("2")
    dialog.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("2 runs discarded.").first).to_be_visible()


NAMED_AS_SEEN = "() => axe.run(document.querySelector('.heat'), { runOnly: ['label-content-name-mismatch'] })"


def test_a_cell_of_the_forecast_is_called_what_it_shows(page: Page, dev: Server, axe: str) -> None:
    start = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    dev.call("PUT", "/jobs/each-second", {"type": "noop", "schedule": "@every 1s", "start_at": start})
    page.goto(f"{dev.url}/forecast")
    cell = page.locator(".heat button", has_text="3.6k").first
    expect(cell).to_have_attribute("aria-label", re.compile(r"3\.6k runs: 3,60\d$"))
    page.evaluate(axe)
    found = page.evaluate(NAMED_AS_SEEN)
    dev.call("DELETE", "/jobs/each-second")
    assert (found["violations"], len(found["passes"])) == ([], 1)


def with_p95(page: Page, late_ms: int) -> None:
    def answer(route: Route) -> None:
        told = route.fetch()
        stats: dict[str, Any] = told.json()
        stats["recent"]["lateness_ms"]["p95"] = late_ms
        stats["waiting"] = []
        route.fulfill(response=told, body=json.dumps(stats))

    page.route("**/api/v1/stats", answer)


@pytest.mark.parametrize(("late_ms", "words"), [(13_000, "Late: p95 13 s, target 1 s"), (200, "On time")])
def test_late_is_said_when_the_figure_is_above_the_target(page: Page, dev: Server, late_ms: int, words: str) -> None:
    with_p95(page, late_ms)
    page.goto(f"{dev.url}/workers")
    expect(page.locator(".top .health")).to_contain_text(words)


def test_without_the_server_nothing_is_said_to_be_on_time(page: Page, dev: Server) -> None:
    with_p95(page, 200)
    page.add_init_script("delete window.SharedWorker;")  # so that its stream is this page's
    page.goto(f"{dev.url}/workers")
    health = page.locator(".top .health")
    expect(health).to_contain_text("On time")
    page.unroute("**/api/v1/stats")
    page.route("**/api/v1/stats", lambda route: route.abort())
    expect(health).to_have_text("Not known whether runs start", timeout=30_000)


def test_on_a_phone_health_and_zone_are_in_the_menu(page: Page, dev: Server, axe: str) -> None:
    with_p95(page, 200)
    page.set_viewport_size({"width": 375, "height": 800})
    page.goto(f"{dev.url}/workers")
    page.get_by_role("button", name="Pages").click()
    menu = page.get_by_role("navigation", name="Pages")
    expect(menu.get_by_text("On time")).to_be_in_viewport()
    zone = menu.get_by_label("Time zone")
    expect(zone).to_be_in_viewport()
    zone.select_option("utc")
    assert page.evaluate("Object.values(localStorage)").count("utc") == 1
    assert serious(page, axe) == []


def test_the_log_of_a_run_that_is_over_opens_at_its_end(page: Page, dev: Server) -> None:
    run = dev.run("daily-report")
    page.goto(f"{dev.url}/runs/{run['run_id']}")
    log = page.get_by_role("log")
    expect(log.get_by_text("line 400 of the report", exact=True)).to_be_in_viewport()
    log.evaluate("(box) => { box.scrollTop = 0; }")
    expect(log.get_by_text("line 1 of the report", exact=True)).to_be_in_viewport()
    page.goto(f"{dev.url}/runs/{run['run_id']}#L7")
    page.reload()
    expect(log.get_by_text("line 7 of the report", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize("path", ["/settings", "/jobs/daily-report"])
def test_a_tab_that_does_not_exist_is_the_first_one(page: Page, dev: Server, path: str) -> None:
    page.goto(f"{dev.url}/workers")
    page.goto(f"{dev.url}{path}?tab=zzz")
    expect(page.locator('[role="tab"]').first).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(f"{dev.url}{path}")
    page.go_back()
    expect(page).to_have_url(f"{dev.url}/workers")


def test_a_conflict_is_told_to_a_person(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/shared-work", {"type": "noop", "schedule": "0 5 * * *"})
    page.goto(f"{dev.url}/jobs/shared-work/edit")
    page.get_by_label("Description").fill("mine")
    dev.call("PATCH", "/jobs/shared-work", {"description": "theirs"})
    page.get_by_role("button", name=re.compile("^Save")).first.click()
    expect(page.get_by_text("Somebody else saved version 2")).to_be_visible()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("nothing that you wrote is lost")
    expect(told).not_to_contain_text(re.compile("If-Match|ETag|Read the job"))


def tab(page: Page, word: str) -> Any:
    return (
        page.get_by_role("group", name="Quick filters")
        .get_by_role("button", name=re.compile(f"^{word}"))
        .locator(".count")
    )


def test_counts_follow_what_is_done_elsewhere_and_keep_to_the_other_filters(page: Page, dev: Server) -> None:
    for number in range(3):
        job = {"type": "noop", "schedule": "0 3 * * *", "labels": {"of": "counted"}}
        dev.call("PUT", f"/jobs/counted-{number}", job)
    page.goto(f"{dev.url}/jobs?f=label:of:counted")
    for word, wanted in (("All", "3"), ("Active", "3"), ("Paused", "0")):
        expect(tab(page, word)).to_have_text(re.compile(rf"\b{wanted}$"), timeout=30_000)
    expect(page.locator("tr[data-row]")).to_have_count(3)

    dev.call("POST", "/jobs/counted-1/pause", {})
    for word, wanted in (("All", "3"), ("Active", "2"), ("Paused", "1")):
        expect(tab(page, word)).to_have_text(re.compile(rf"\b{wanted}$"), timeout=30_000)
    dev.call("PUT", "/jobs/counted-3", {"type": "noop", "schedule": "0 3 * * *", "labels": {"of": "counted"}})
    expect(tab(page, "All")).to_have_text(re.compile(r"\b4$"), timeout=30_000)


def test_a_count_is_never_below_the_rows_that_are_shown(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/aaa-held", {"type": "noop", "schedule": "0 3 * * *"})  # in view, as it stands first
    dev.call("POST", "/jobs/aaa-held/pause", {})

    def stale(route: Route) -> None:
        told = route.fetch()
        body = told.json() | ({"jobs": 0} if "/stats" in route.request.url else {"jobs": [], "next_cursor": None})
        route.fulfill(response=told, body=json.dumps(body))

    page.route("**/api/v1/stats", stale)
    page.route("**/api/v1/jobs?status=PAUSED*limit=100", stale)
    page.goto(f"{dev.url}/jobs")
    expect(page.locator("tr[data-row]", has_text="aaa-held")).to_contain_text("Paused")
    expect(tab(page, "Paused")).to_have_text(re.compile(r"\b[1-9]\d*$"), timeout=30_000)
    expect(tab(page, "All")).to_have_text(re.compile(r"\b[1-9]\d*$"))


def test_of_a_search_that_stopped_nothing_is_counted(page: Page, dev: Server) -> None:
    def stopped(route: Route) -> None:
        route.fulfill(json={"jobs": [], "next_cursor": "bm90"})

    page.route("**/api/v1/jobs?health=never_run*", stopped)
    page.goto(f"{dev.url}/jobs")
    expect(tab(page, "Deleted")).to_have_text(re.compile(r"\d"), timeout=30_000)  # it is counted last
    expect(tab(page, "Never ran")).to_have_text("")

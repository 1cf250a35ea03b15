"""What is looked for is found, or the page says within a moment how far it has looked."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import Server


def test_a_long_search_stops_and_says_how_far_it_got(page: Page, dev: Server) -> None:
    asked: list[str] = []

    def nothing_yet(route: Route) -> None:
        asked.append(route.request.url)
        answer = {"runs": [], "next_cursor": f"c{len(asked)}", "searched_back_to": "2026-11-12T08:00:00Z"}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(answer))

    page.route(re.compile(r"/api/v1/runs\?"), nothing_yet)
    page.goto(f"{dev.url}/runs?f=worker:nobody")
    expect(page.get_by_text("Nothing found so far")).to_be_visible()
    expect(page.locator("main")).to_contain_text("2026-11-12 09:00 CET")
    until = len(asked)
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
    assert len(asked) == until
    page.unroute(re.compile(r"/api/v1/runs\?"))

    def as_if_all(route: Route) -> None:
        asked_for = re.sub(r"(cursor|worker)=[^&]*&?", "", route.request.url)
        route.continue_(url=asked_for)

    page.route(re.compile(r"/api/v1/runs\?"), as_if_all)
    page.get_by_role("button", name="Search further back").click()
    expect(page.locator("tr[data-row]").first).to_be_visible()


def find(page: Page, text: str, wanted: str | re.Pattern[str]) -> None:
    """By the keyboard alone: opened, typed, moved to and entered."""
    page.keyboard.press("Control+k")
    page.keyboard.type(text)
    options = page.get_by_role("dialog", name="Find").get_by_role("option")
    expect(options.filter(has_text=wanted).first).to_be_visible()
    for _ in range(30):
        if options.and_(page.locator("[aria-selected=true]")).filter(has_text=wanted).count():
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_the_palette_finds_queues_workers_and_runs_by_the_start_of_their_id(page: Page, dev: Server) -> None:
    run = dev.run("load-orders")["run_id"]
    worker = dev.call("GET", "/workers")["workers"][0]
    page.goto(f"{dev.url}/workers")
    find(page, "gpu", re.compile("^gpu.*queue"))
    expect(page).to_have_url(re.compile(r"/queues\?f=gpu"))
    find(page, worker["worker_id"][:12], re.compile(re.escape(worker["worker_id"])))
    expect(page).to_have_url(re.compile(r"/runs\?f=worker"))
    find(page, run[:10], run)
    expect(page).to_have_url(f"{dev.url}/runs/{run}")


def test_the_palette_does_things_to_jobs(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/palette-job", {"type": "noop", "schedule": "0 3 * * *"})
    page.goto(f"{dev.url}/workers")
    find(page, "pause palette-j", "Pause palette-job")
    page.get_by_role("dialog", name="Pause palette-job").get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".note")).to_contain_text("palette-job is paused")
    find(page, "palette-job", "Resume palette-job")
    page.get_by_role("dialog", name="Resume palette-job").get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator(".note")).to_contain_text("palette-job is active again")
    find(page, "run palette-job now", "Run palette-job now")
    page.get_by_role("dialog", name="Run palette-job now").get_by_role("button", name="Run now").click()
    expect(page.locator(".note")).to_contain_text("palette-job was started")
    find(page, "zone: utc", "Time zone: UTC")
    expect(page.get_by_label("Time zone")).to_have_value("utc")
    find(page, "theme: dark", "Theme: dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_crumb_of_a_job_is_its_name(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/daily-report")

    expect(page.locator(".crumbs")).to_have_text("Jobs / daily-report")


def test_on_a_phone_the_forecast_begins_with_the_present_hour(chromium: Browser, dev: Server) -> None:
    # A zone in which it is afternoon, whatever time it is.
    ahead = (16 - datetime.now(UTC).hour + 11) % 24 - 11
    context = chromium.new_context(viewport={"width": 375, "height": 812}, timezone_id=f"Etc/GMT{-ahead:+d}")
    page = context.new_page()
    page.goto(f"{dev.url}/forecast")
    today = page.locator(".heat button:not([disabled])").first
    expect(today).to_be_visible()
    hour = today.get_attribute("aria-label")
    seen, day = today.bounding_box(), page.locator(".heat .day").first.bounding_box()
    context.close()

    assert hour is not None
    assert hour[11:13] in ("16", "17")
    assert seen is not None
    assert day is not None
    assert day["x"] >= 0
    assert day["x"] + day["width"] <= seen["x"]
    assert seen["x"] + seen["width"] <= 375

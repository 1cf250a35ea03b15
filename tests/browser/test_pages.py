"""Every page, in both themes and at both widths: it shows what it should, fits, and hides nothing from anybody."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Server, serious, watch

# What proves that the page has come.
PAGES = {
    "/": "Needs attention",
    "/jobs": "daily-report",
    "/jobs/daily-report": "Every weekday",
    "/jobs/daily-report?tab=upcoming": "Upcoming",
    "/jobs/daily-report?tab=durations": "succeeded",
    "/jobs/daily-report?tab=changes": "Version 2",
    "/jobs/new": "What this means",
    "/jobs/daily-report/edit": "What this means",
    "/runs?f=job:billing-sync": "503 Service",
    "/dead-letters": "503 Service Unavailable",
    "/queues": "No worker serves it",
    "/workers": "Lost ones first",
    "/forecast": "Seven days",
    "/alerts": "on-call",
    "/audit": "job.",
    "/settings": "Theme",
    "/settings?tab=keys": "No key yet",
}
LOOKS = [("light", 1440), ("dark", 1440), ("light", 375), ("dark", 375)]
WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HEIGHTS = "[...new Set([...document.querySelectorAll('tr[data-row]')].map((row) => row.offsetHeight))]"


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_every_page_fits_and_can_be_used_by_everybody(
    chromium: Browser, dev: Server, axe: str, theme: str, width: int
) -> None:
    dead = dev.call("GET", "/dead-letters?job=billing-sync&limit=1")["dead_letters"][0]["run_id"]
    pages = PAGES | {f"/runs/{dead}": "Dead after 2 of 2 attempts"}
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": theme, "bypass_csp": False}
    context = chromium.new_context(**look, timezone_id="Europe/Berlin")
    tab = context.new_page()
    told = watch(tab)
    findings = []
    for path, words in pages.items():
        tab.goto(dev.url + path)
        tab.get_by_text(words).first.wait_for(timeout=15_000)
        wide = tab.evaluate(WIDTH)
        findings += [f"{path}: {wide} px too wide"] if wide > 0 else []
        findings += [f"{path}: {finding}" for finding in serious(tab, axe)]
    context.close()

    assert not findings, "\n".join(findings)
    assert told == []


@pytest.mark.parametrize("width", [1280, 1000, 800, 320])
def test_lists_fit_at_every_width_and_keep_the_height_of_their_rows(chromium: Browser, dev: Server, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    found = {}
    for path in ("/jobs", "/runs", "/audit"):
        tab.goto(dev.url + path)
        tab.locator("tr[data-row]").first.wait_for()
        wide = tab.evaluate(WIDTH)
        heights = tab.evaluate(HEIGHTS)
        found[path] = (max(0, wide), len(heights))
    context.close()

    assert found == dict.fromkeys(found, (0, 1))

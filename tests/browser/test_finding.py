"""What is looked for is found, or the page says within a moment how far it has looked."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, Route, expect

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
    page.route(
        re.compile(r"/api/v1/runs\?"),
        lambda route: route.continue_(
            url=re.sub(r"[?&](cursor|worker)=[^&]*", "", route.request.url).replace("/runs&", "/runs?")
        ),
    )
    page.get_by_role("button", name="Search further back").click()
    expect(page.locator("tr[data-row]").first).to_be_visible()

"""What the page says agrees with what is so: keys that came late, counts, causes, and errors of any characters."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import ADMIN, Server


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

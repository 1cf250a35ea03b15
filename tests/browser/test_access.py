"""Keys and roles: the page asks for one, says what it may not do, and the server holds to it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import ADMIN, Server


def sign_in(page: Page, server: Server, key: str, path: str = "/") -> None:
    page.goto(server.url + path)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Open").click()


def test_a_key_is_asked_for_and_kept_in_the_tab_alone(page: Page, guarded: Server) -> None:
    sign_in(page, guarded, "not-a-key")
    expect(page.get_by_role("alert")).to_contain_text("This key is not known here")
    page.get_by_label("API key").fill(ADMIN)
    page.get_by_role("button", name="Open").click()

    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('horae.key')") == ADMIN
    assert ADMIN not in page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")


def test_a_viewer_reads_and_is_told_why_not_more(page: Page, guarded: Server) -> None:
    key = guarded.call("POST", "/keys", {"name": "reader", "role": "viewer"})["key"]
    sign_in(page, guarded, key, "/jobs/daily-report")
    button = page.get_by_role("button", name="Run now", exact=True)
    expect(button).to_have_attribute("aria-disabled", "true")
    button.click(force=True)

    expect(page.locator(".note")).to_contain_text("Your key has the role “viewer”; this needs “operator”")
    told = page.evaluate(
        """async (key) => (await fetch('/api/v1/jobs/daily-report/run',
            {method: 'POST', headers: {Authorization: `Bearer ${key}`}, body: '{}'})).status""",
        key,
    )
    assert told == 403
    page.goto(f"{guarded.url}/settings?tab=keys")
    expect(page.get_by_role("alert")).to_contain_text('this needs "admin"')


def test_the_palette_says_what_a_viewer_may_not_do(page: Page, guarded: Server) -> None:
    key = guarded.call("POST", "/keys", {"name": "palette-reader", "role": "viewer"})["key"]
    sign_in(page, guarded, key, "/jobs")
    expect(page.get_by_role("link", name="daily-report")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("run daily")
    option = page.get_by_role("option", name="Run daily-report now")
    expect(option).to_have_attribute("aria-disabled", "true")
    expect(option).to_contain_text("Your key has the role “viewer”; this needs “operator”")
    option.click(force=True)
    expect(page.locator(".note")).to_contain_text("this needs “operator”")
    page.keyboard.press("Enter")

    expect(page.get_by_role("dialog", name="Find")).to_be_visible()
    expect(page.get_by_role("dialog", name="Run daily-report now")).to_have_count(0)
    page.get_by_role("dialog").get_by_role("combobox").fill("crontab")
    expect(page.get_by_role("option", name="Import a crontab")).to_have_attribute("aria-disabled", "true")
    page.get_by_role("dialog").get_by_role("combobox").fill("why daily")
    expect(page.get_by_role("option", name="Why? daily-report")).not_to_have_attribute("aria-disabled", "true")


def test_a_new_key_is_shown_once(page: Page, guarded: Server) -> None:
    sign_in(page, guarded, ADMIN, "/settings?tab=keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("from-the-page")
    page.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog").locator("code").inner_text()

    assert shown.startswith("hk_") or len(shown) > 20
    page.get_by_role("dialog").press("Escape")
    expect(page.get_by_role("row", name="from-the-page")).to_be_visible()
    assert shown not in page.content()


def test_a_key_may_ask_what_it_may_do_whatever_its_scopes(guarded: Server) -> None:
    made = guarded.call("POST", "/keys", {"name": "narrow", "role": "operator", "scopes": ["runs"]})
    status, answer = guarded.process.call("GET", "/api/v1/whoami", key=made["key"])

    assert (status, answer["role"], answer["scopes"]) == (200, "operator", ["runs"])
    assert (answer["tenant"], answer["may_switch_tenant"]) == ("default", False)

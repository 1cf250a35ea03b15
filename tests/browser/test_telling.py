"""What a page tells is true and can be read to its end: logs, causes, charts, times, and what a filter means."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server

ESCAPE = "\x1b"
LONGER_THAN_A_BOX = """
const real = window.fetch;
window.fetch = (url, init) => {
    if (!String(url).endsWith('/logs')) return real(url, init);
    let at = 0;
    const body = new ReadableStream({
        pull(stream) {
            let text = '';
            for (const end = at + 50000; at < end; at += 1) text += 'n' + at + '\\n';
            stream.enqueue(new TextEncoder().encode(text));
            if (at >= 2500000) stream.close();
        },
    });
    return Promise.resolve(new Response(body, {headers: {'Content-Type': 'text/plain'}}));
};
"""
FIRST_SEEN = """(box) => Math.min(...[...box.querySelectorAll('.line')]
    .filter((line) => line.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 2)
    .map((line) => Number(line.querySelector('.no').textContent)))"""


def test_a_log_longer_than_a_browser_can_scroll_has_an_end(page: Page, dev: Server) -> None:
    run = dev.run("daily-report")
    page.add_init_script(LONGER_THAN_A_BOX)
    page.goto(f"{dev.url}/runs/{run['run_id']}")
    expect(page.get_by_text("2,500,000 lines")).to_be_visible(timeout=60_000)
    log = page.get_by_role("log")
    log.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    expect(log.get_by_text("n2499999", exact=True)).to_be_in_viewport()
    seen = log.evaluate(FIRST_SEEN)
    log.hover()
    page.mouse.wheel(0, -90)  # five lines

    expect(log.get_by_text(f"n{seen - 6}", exact=True)).to_be_in_viewport()
    assert seen - 8 <= log.evaluate(FIRST_SEEN) < seen
    page.get_by_label("Find in the log").fill("n1234567")
    page.get_by_label("Next match").click()
    expect(log.get_by_text("n1234567", exact=True)).to_be_in_viewport()


def test_colours_of_a_terminal_are_not_part_of_a_cause(page: Page, dev: Server) -> None:
    command = r"printf '\033[31mred \033[1malert\033[0m\n'; exit 1"
    dev.call("PUT", "/jobs/coloured", {"type": "shell", "target": {"command": command}, "retries": 0})
    dead = dev.run("coloured")
    assert ESCAPE in dead["error_message"]
    for path in (f"/runs/{dead['run_id']}", "/dead-letters?f=job:coloured", "/runs?f=job:coloured"):
        page.goto(dev.url + path)
        main = page.locator("main")
        expect(main.get_by_text("red alert").first).to_be_visible()
        assert "[31m" not in main.inner_text()
        assert ESCAPE not in main.inner_html()


def test_runs_that_did_not_succeed_are_crosses(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/billing-sync?tab=durations")
    legend = page.get_by_role("figure", name="Durations").locator(".legend")

    expect(legend.locator("span", has_text=re.compile("^not$")).locator(".swatch.cross")).to_be_visible()


def test_a_server_that_is_down_is_not_said_to_work(page: Page, dev: Server) -> None:
    page.add_init_script("delete window.SharedWorker;")  # so that its stream is this page's
    page.route("**/api/v1/events", lambda route: route.abort())
    page.goto(f"{dev.url}/runs")
    band = page.locator(".band")
    expect(band).to_contain_text("Reconnecting.")
    expect(band).not_to_contain_text("work")
    page.route("**/api/v1/stats", lambda route: route.abort())
    page.reload()

    expect(band).to_contain_text("nothing can be changed until it is back")


def test_why_takes_and_tells_times_in_the_zone_of_the_switch(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/load-orders")
    at = page.get_by_label("At which time?")
    for zone, hour, words in (
        ("utc", "09", "UTC"),
        ("mine", "08", "CET"),
        ("job", "13", ""),
    ):
        page.get_by_label("Time zone").select_option(zone)
        page.get_by_role("button", name="Why?", exact=True).first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("li").first).to_be_visible()
        at.fill("2027-03-15 09:00")
        with page.expect_request(re.compile("explain")) as asked:
            dialog.get_by_role("button", name="Ask").click()
        assert f"2027-03-15T{hour}%3A00%3A00" in asked.value.url
        expect(dialog.locator(".sentence")).to_contain_text(f"Mon 2027-03-15 09:00:00 {words}")
        expect(dialog).to_contain_text("The job was at version")
        assert not re.search(r"version_in_force|\dT\d\d:|\d\dZ", dialog.inner_text())
        page.keyboard.press("Escape")


def test_words_find_runs_by_a_part_of_the_jobs_name(page: Page, dev: Server) -> None:
    for number in range(2):
        dev.call("PUT", f"/jobs/part-of-{number}", {"type": "noop", "schedule": "@manual"})
        dev.run(f"part-of-{number}")
    page.goto(f"{dev.url}/runs?f=load-ord")
    expect(page.locator("tr[data-row]").get_by_role("link", name="load-orders").first).to_be_visible()
    page.goto(f"{dev.url}/runs?f=part-of")
    expect(page.get_by_text("2 jobs have “part-of” in their name")).to_be_visible()
    page.get_by_role("button", name="part-of-1").click()

    expect(page.locator("tr[data-row]")).to_have_count(1)
    page.goto(f"{dev.url}/runs?f=nobody-is-called-so")
    expect(page.get_by_text("No job has “nobody-is-called-so” in its name")).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/runs?f=status:dead+status:running", "/runs?f=colour:red", "/jobs?f=status:active+status:paused"]
)
def test_a_filter_that_is_not_understood_lists_nothing(page: Page, dev: Server, path: str) -> None:
    page.goto(dev.url + path)

    expect(page.get_by_role("alert")).to_contain_text(re.compile("stands here twice|is not a filter here"))
    expect(page.get_by_text("This filter cannot be read, so nothing is listed")).to_be_visible()
    expect(page.locator("tr[data-row]")).to_have_count(0)

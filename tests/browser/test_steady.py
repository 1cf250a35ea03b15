"""What stands still: under the pointer, while paused, while many are worked on; and that deleted jobs stay apart."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Server

ESCAPE = "\x1b"
DIES = {"type": "shell", "target": {"command": "cat; exit 1"}, "retries": 0, "schedule": "@manual"}

# Requests that pause a job wait until `letGo()`.
HELD_PAUSES = """
const real = window.fetch;
const held = [];
window.letGo = () => held.splice(0).forEach((go) => go());
window.fetch = async (url, init) => {
    if (/\\/pause$/.test(url)) await new Promise((go) => held.push(go));
    return real(url, init);
};
"""


def die(dev: Server, job: str, *words: str) -> None:
    """One dead run for each word, which is all that its error tells."""
    for word in words:
        dev.wait_run(dev.call("POST", f"/jobs/{job}/run", {"payload": {"word": word}})["run_id"])


def top(found: Locator) -> float:
    box = found.bounding_box()
    assert box is not None
    return box["y"]


def test_a_deleted_job_is_never_taken_for_the_live_one_of_its_name(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/twice", {"type": "noop", "schedule": "0 3 * * *"})
    gone = dev.call("GET", "/jobs/twice")["job_id"]
    dev.call("DELETE", "/jobs/twice")
    dev.call("PUT", "/jobs/twice", {"type": "noop", "schedule": "0 4 * * *"})
    page.goto(f"{dev.url}/jobs?f=twice+status:deleted")
    page.get_by_label("Select twice").check()

    bar = page.get_by_role("region", name="Selected jobs")
    expect(bar).to_contain_text("Deleted jobs stay as they are.")
    expect(bar.get_by_role("button", name=re.compile("Delete|Pause|Run"))).to_have_count(0)
    expect(page.locator("tr[data-row]").get_by_role("button", name="Run")).to_have_count(0)
    page.get_by_role("link", name="twice").click()
    expect(page.locator(".crumbs")).to_contain_text(gone)
    expect(page.locator("main .sentence")).to_contain_text("Deleted")
    expect(page.get_by_role("button", name="Delete")).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)


@pytest.mark.parametrize("path", ["/runs?f=job:pushed", "/jobs/pushed"])
def test_a_pill_takes_no_room(page: Page, dev: Server, path: str) -> None:
    dev.call("PUT", "/jobs/pushed", {"type": "noop", "schedule": "@manual"})
    dev.run("pushed")
    page.goto(dev.url + path)
    row = page.locator("tr[data-row]").last
    expect(row).to_be_visible()
    if path.startswith("/jobs"):
        expect(page.locator("main .sentence")).to_contain_text("last run")
    before = top(row)
    dev.run("pushed")

    expect(page.get_by_role("button", name="1 new run, show")).to_be_visible()
    assert top(row) == before


def test_a_pill_of_jobs_takes_no_room_and_counts_what_the_filter_shows(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/fresh-1", {"type": "noop", "schedule": "@manual", "labels": {"made": "fresh"}})
    page.goto(f"{dev.url}/jobs?f=label:made:fresh")
    row = page.locator("tr[data-row]").first
    expect(row).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    before = top(row)
    dev.call("PUT", "/jobs/other-1", {"type": "noop", "schedule": "@manual"})
    dev.call("PUT", "/jobs/fresh-2", {"type": "noop", "schedule": "@manual", "labels": {"made": "fresh"}})

    expect(page.get_by_role("button", name="1 new job, show")).to_be_visible()
    assert top(row) == before


def test_dead_letters_keep_their_order_until_the_reader_asks(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/dies-in-ways", DIES)
    die(dev, "dies-in-ways", "alpha", "alpha", "beta")
    page.goto(f"{dev.url}/dead-letters?f=job:dies-in-ways")
    groups = page.locator("section.group")
    expect(groups).to_have_count(2)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    before = top(groups.last)
    die(dev, "dies-in-ways", "beta", "beta", "gamma")

    pill = page.get_by_role("button", name="1 new cause, show")
    expect(pill).to_be_visible()
    expect(groups.nth(1)).to_contain_text("\N{MULTIPLICATION SIGN}3")
    expect(groups.nth(0)).to_contain_text("alpha")
    assert top(groups.last) == before
    pill.click()
    expect(groups).to_have_count(3)
    expect(groups.nth(0)).to_contain_text("beta")


def test_what_needs_attention_stays_where_it_is(page: Page, dev: Server) -> None:
    page.goto(dev.url)
    names = page.locator(".attention li .what")
    expect(names.first).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Right now")).to_be_visible()
    before = names.all_inner_texts()
    dev.call("PUT", "/jobs/new-trouble", DIES)
    die(dev, "new-trouble", *["trouble"] * 3)

    pill = page.get_by_role("button", name=re.compile(r"^\d+ new: .*, show$"))
    expect(pill).to_be_visible()
    assert names.all_inner_texts() == before
    pill.click()
    expect(pill).to_have_count(0)


def test_while_paused_nothing_is_read_again(page: Page, dev: Server) -> None:
    asked: list[str] = []
    page.clock.install()
    page.goto(dev.url)
    expect(page.locator("section.panel")).to_have_count(8)
    expect(page.locator("section.panel .skeleton")).to_have_count(0)
    page.keyboard.press("Space")
    expect(page.get_by_text("Paused", exact=True).first).to_be_visible()
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(120_000)
    page.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))")
    assert asked == [], asked
    page.keyboard.press("Space")
    with page.expect_request("**/api/v1/stats"):
        page.clock.run_for(5000)


def test_a_pill_counts_only_what_the_filter_shows(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/sometimes", DIES | {"target": {"command": "grep -q well"}})
    die(dev, "sometimes", "first")
    page.goto(f"{dev.url}/runs?f=status:dead+reason:exit_code+job:sometimes")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    die(dev, "sometimes", "well", "well", "not")
    dev.run("load-orders")

    expect(page.get_by_role("button", name=re.compile("new run"))).to_have_text("1 new run, show")


def test_space_acts_on_what_has_the_focus(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs?f=daily-report")
    box = page.get_by_label("Select daily-report")
    box.focus()
    page.keyboard.press("Space")

    expect(box).to_be_checked()
    expect(page.get_by_role("region", name="Selected jobs")).to_contain_text("1 job")
    expect(page.get_by_text("Paused", exact=True).locator("visible=true").and_(page.locator(".live"))).to_have_count(0)
    page.keyboard.press("Space")
    expect(box).not_to_be_checked()


def test_the_focus_returns_when_a_dialog_closes(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/daily-report")
    for name in ("Why?", "Pause"):
        button = page.get_by_role("button", name=name, exact=True).first
        for close in ("Escape", "Close"):
            button.focus()
            page.keyboard.press("Enter")
            dialog = page.get_by_role("dialog")
            expect(dialog).to_be_visible()
            if close == "Close" and name == "Pause":
                dialog.get_by_role("button", name="Close").click()
            else:
                page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            expect(button).to_be_focused()


def test_many_are_worked_on_as_they_were_when_it_began(page: Page, dev: Server) -> None:
    for number in range(12):
        dev.call("PUT", f"/jobs/fixed-set-{number:02}", {"type": "noop", "schedule": "0 3 * * *"})
    page.add_init_script(HELD_PAUSES)
    page.goto(f"{dev.url}/jobs?f=fixed-set-")
    expect(page.locator("tr[data-row]")).to_have_count(12)
    page.get_by_label("Select all loaded rows").check()
    page.get_by_role("button", name="Pause 12").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause 12").click()
    dialog.get_by_role("button", name="Stop").click()
    page.evaluate("letGo()")

    expect(dialog).to_contain_text("4 of 12. Stopped: 8 left as they were.")
    expect(page.locator("tr[data-row]").filter(has_text="Paused")).to_have_count(4)
    expect(dialog).to_contain_text("4 of 12. Stopped: 8 left as they were.")
    assert len(dev.call("GET", "/jobs?q=fixed-set-&status=PAUSED")["jobs"]) == 4


def test_many_runs_are_cancelled_only_after_a_look_at_how_many(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/held-long", {"type": "noop", "target": {"sleep": "10m"}, "schedule": "@manual"})
    runs = [dev.call("POST", "/jobs/held-long/run", {})["run_id"] for _ in range(2)]
    page.goto(f"{dev.url}/runs?f=job:held-long")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    page.get_by_label("Select all loaded rows").check()
    page.get_by_role("button", name="Cancel 2").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Runs that will be touched").locator("li")).to_have_count(2)
    expect(dialog.get_by_role("button", name="Cancel 2")).to_be_disabled()
    assert all(dev.call("GET", f"/runs/{run}")["status"] in ("QUEUED", "RUNNING") for run in runs)
    dialog.get_by_label("To go on, type the number of runs").fill("2")
    dialog.get_by_role("button", name="Cancel 2").click()

    expect(dialog).to_contain_text("2 of 2. Done.")
    for run in runs:
        assert dev.wait_run(run)["status"] == "CANCELLED"


@pytest.mark.parametrize("width", [375, 768])
def test_a_long_line_of_runs_stays_within_its_panel(page: Page, dev: Server, width: int) -> None:
    dev.call("PUT", "/jobs/ran-often", {"type": "noop", "schedule": "@manual"})
    dev.call("POST", "/runs:batch", {"job": "ran-often", "runs": [{}] * 30})
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{dev.url}/jobs/ran-often")
    expect(page.locator(".strip.big li")).to_have_count(30)
    inside = "(panel) => panel.scrollWidth - panel.clientWidth"

    assert page.get_by_role("region", name="Summary").evaluate(inside) == 0
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_all_runs_of_a_job_are_reached_and_the_place_is_kept(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/ran-a-lot", {"type": "noop", "schedule": "@manual"})
    dev.call("POST", "/runs:batch", {"job": "ran-a-lot", "runs": [{}] * 620})
    page.goto(f"{dev.url}/jobs/ran-a-lot")
    expect(page.locator("tr[data-row]").first).to_be_visible()
    page.evaluate(
        """async () => {
            const isThere = () => document.querySelector('tr[data-row="619"]');
            for (let turn = 0; turn < 1000 && !isThere(); turn += 1) {
                scrollTo(0, document.body.scrollHeight);
                await new Promise((resolve) => setTimeout(resolve, 20));
            }
        }"""
    )
    expect(page.locator('tr[data-row="619"]')).to_be_visible()
    page.evaluate("scrollBy(0, -2000)")
    row = page.locator('tr[data-row="570"]')
    expect(row).to_be_visible()
    # Seen, and remembered with the next frame.
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    link = row.get_by_role("link").first
    address, before = link.get_attribute("href"), top(row)
    link.click()
    expect(page.locator("main .sentence")).to_be_visible()
    page.go_back()

    again = page.locator("tr[data-row]").filter(has=page.locator(f'a[href="{address}"]'))
    expect(again).to_be_in_viewport()
    assert abs(top(again) - before) < 60


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
    dev.call("PUT", "/jobs/coloured", DIES | {"target": {"command": command}})
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


def test_the_palette_waits_for_the_answer_to_what_was_typed(page: Page, dev: Server) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/v1/jobs?limit=8*", hold)
    page.goto(dev.url)
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("daily-re")
    with page.expect_request(re.compile("q=daily-re$")):
        page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Looking")
    found = dev.call("GET", "/jobs?limit=8&q=daily-re")
    for route in held:
        route.fulfill(body=json.dumps(found), content_type="application/json")

    expect(page.get_by_role("heading", level=1)).to_have_text("daily-report")

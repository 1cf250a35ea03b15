"""What stands still: under the pointer, while paused, while many are worked on; and that deleted jobs stay apart."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Server

DIES = {"type": "shell", "target": {"command": "cat; exit 1"}, "retries": 0, "schedule": "@manual"}

# Requests whose address ends so wait until `letGo()`.
HELD = """
const real = window.fetch;
window.held = [];
window.letGo = () => held.splice(0).forEach(({go}) => go());
window.fetch = async (url, init) => {
    if (url.endsWith('ENDING')) await new Promise((go) => held.push({url, go}));
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
    page.get_by_role("combobox", name="Filter").fill("billing-sy")  # another list, with an order of its own
    expect(groups).to_have_count(1)
    expect(groups).to_contain_text("503 Service Unavailable")


def test_what_needs_attention_stays_where_it_is(page: Page, dev: Server) -> None:
    page.goto(dev.url)
    names = page.locator(".attention li .what")
    expect(names.first).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Right now")).to_be_visible()
    before, place = names.all_inner_texts(), top(names.last)
    dev.call("PUT", "/jobs/new-trouble", DIES)
    die(dev, "new-trouble", *["trouble"] * 3)

    pill = page.get_by_role("button", name=re.compile(r"^\d+ new: .*, show$"))
    expect(pill).to_be_visible()
    assert (names.all_inner_texts(), top(names.last)) == (before, place)
    pill.click()
    expect(pill).to_have_count(0)


def test_while_paused_nothing_is_read_again(page: Page, dev: Server) -> None:
    asked: list[str] = []
    page.clock.install()
    page.goto(dev.url)
    expect(page.locator("section.panel")).to_have_count(8)
    expect(page.locator("section.panel .skeleton")).to_have_count(0)
    expect(page.locator(".uplot").first).to_be_visible()  # its code comes by a request of its own
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
    page.add_init_script(HELD.replace("ENDING", "/pause"))
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


def test_the_palette_waits_for_the_answer_to_what_was_typed(page: Page, dev: Server) -> None:
    page.add_init_script(HELD.replace("ENDING", "q=daily-re"))
    page.goto(dev.url)
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("daily-re")
    page.keyboard.press("Enter")
    page.wait_for_function("() => held.length === 1")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate("letGo()")

    expect(page.get_by_role("heading", level=1)).to_have_text("daily-report")

"""What people come to do, from the first click to the effect on the server."""

from __future__ import annotations

import json
import re

from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import Server

# Fifty megabytes, made where they are read: sending them there would measure something else.
LONG_LOG = """
const real = window.fetch;
window.fetch = (url, init) => {
    if (!String(url).endsWith('/logs')) return real(url, init);
    const words = ' the quick brown fox jumps over the lazy dog, again and again and again\\n';
    let at = 0;
    const body = new ReadableStream({
        pull(stream) {
            let text = '';
            for (const end = at + 6000; at < end; at += 1) text += String(at).padStart(7, '0') + words;
            stream.enqueue(new TextEncoder().encode(text));
            if (at >= 600000) stream.close();
        },
    });
    return Promise.resolve(new Response(body, {headers: {'Content-Type': 'text/plain'}}));
};
"""
LONG_LIST = """
const real = window.fetch;
const sample = SAMPLE;
window.fetch = (url, init) => {
    if (/jobs\\/id-/.test(url)) return Promise.resolve(new Response('[]'));
    if (!/\\/jobs\\?/.test(url)) return real(url, init);
    const start = Number(/cursor=(\\d+)/.exec(url)?.[1] ?? 0);
    const jobs = Array.from({length: 5000}, (_, i) => {
        const n = String(start + i).padStart(6, '0');
        return {...sample, name: `job-${n}`, job_id: `id-${n}`};
    });
    const after = start + 5000 < 100000 ? String(start + 5000) : null;
    return Promise.resolve(new Response(JSON.stringify({jobs, next_cursor: after})));
};
"""


def test_a_job_is_made_with_the_servers_own_words_beside_it(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/new")
    when = page.get_by_label("Schedule", exact=True)
    when.fill("61 9 * * *")
    expect(page.locator("#preview")).to_contain_text("Minute must be 0-59")
    when.fill("0 0 13 * 5")
    expect(page.locator("#preview")).to_contain_text("cron joins day and weekday with OR")
    page.get_by_label("Name").fill("made-here")
    page.get_by_label("Type").select_option("noop")
    page.get_by_role("button", name="Make the job").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("made-here")
    assert dev.call("GET", "/jobs/made-here")["schedule"] == "0 0 13 * 5"


def test_a_refused_job_keeps_what_was_typed_and_names_the_field(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/new")
    page.get_by_label("Name").fill("has-a-bad-timeout")
    page.get_by_label("Type").select_option("shell")
    page.get_by_label("Command").fill("date")
    page.locator("summary").click()
    page.get_by_label("Timeout").fill("never")
    page.get_by_role("button", name="Make the job").click()

    expect(page.locator(".field.bad").filter(has_text="Timeout")).to_be_visible()
    expect(page.get_by_label("Command")).to_have_value("date")


def test_run_now_is_seen_to_its_end_without_a_reload(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/slow-one", {"type": "noop", "target": {"sleep": "1500ms"}, "schedule": "@manual"})
    page.goto(f"{dev.url}/jobs/slow-one")
    page.get_by_role("button", name="Run now", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The schedule does not change")
    dialog.get_by_role("button", name="Run now").click()
    page.get_by_role("link", name="Open the run").click()

    expect(page.locator("main .sentence")).to_contain_text(re.compile("Running|Waiting|Due"))
    expect(page.locator("main .sentence")).to_contain_text("Succeeded in")


def test_pausing_says_for_how_long_and_why_and_shows_it_as_curl(
    page: Page, dev: Server, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    dev.call("PUT", "/jobs/to-pause", {"type": "noop", "schedule": "0 3 * * *"})
    page.goto(f"{dev.url}/jobs/to-pause")
    page.get_by_role("button", name="Pause", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("How long").select_option(label="for 2 hours")
    dialog.get_by_label("Why").fill("move to the new rack")
    dialog.get_by_role("button", name="Copy as curl").click()
    line = page.evaluate("navigator.clipboard.readText()")
    dialog.get_by_role("button", name="Pause", exact=True).click()

    expect(page.locator("main .sentence")).to_contain_text("move to the new rack")
    job = dev.call("GET", "/jobs/to-pause")
    assert (job["status"], job["pause_reason"]) == ("PAUSED", "move to the new rack")
    assert job["paused_until"] is not None
    assert line.startswith("curl -X POST")
    assert '"reason":"move to the new rack"' in line


def test_an_edit_shows_what_will_change_and_does_not_overwrite_another(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/to-edit", {"type": "noop", "schedule": "0 3 * * *"})
    page.goto(f"{dev.url}/jobs/to-edit/edit")
    page.get_by_label("Timeout").fill("90s")
    expect(page.locator(".preview .diff")).to_contain_text("90s")
    dev.call("PATCH", "/jobs/to-edit", {"timeout": "10s"})
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_text("Somebody else saved version 2")).to_be_visible()
    assert dev.call("GET", "/jobs/to-edit")["timeout"] == "10s"


def test_a_version_is_saved_and_told_with_its_difference(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/to-save", {"type": "noop", "schedule": "0 3 * * *", "retry": {"max_retries": 5}})
    page.goto(f"{dev.url}/jobs/to-save/edit")
    page.get_by_label("Schedule", exact=True).fill("0 4 * * *")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("tab", name="Changes").click()

    expect(page.locator(".diff").first).to_contain_text('"0 4 * * *"')
    job = dev.call("GET", "/jobs/to-save")
    assert (job["version"], job["schedule"], job["max_retries"]) == (2, "0 4 * * *", 5)


def test_why_is_answered_beside_the_job(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/nightly-export")
    page.get_by_role("button", name="Why?").first.click()

    expect(page.get_by_role("dialog")).to_contain_text("job_paused")


def test_the_address_holds_the_filter(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs")
    page.get_by_role("combobox", name="Filter").fill("label:team:data")
    page.get_by_role("button", name=re.compile("^Paused")).click()  # before the box had time to think
    expect(page).to_have_url(re.compile(re.escape("label%3Ateam%3Adata+status%3Apaused")))
    page.reload()

    expect(page.get_by_role("link", name="nightly-export")).to_be_visible()
    expect(page.get_by_role("link", name="daily-report")).to_have_count(0)


def test_a_quick_filter_is_kept_by_a_page_that_is_slow_to_follow(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs")
    page.get_by_role("combobox", name="Filter").fill("label:team:data")
    busy = "button => { button.click(); const from = performance.now(); while (performance.now() - from < 500); }"
    page.get_by_role("button", name=re.compile("^Paused")).evaluate(busy)
    page.wait_for_timeout(500)  # what would take it away again comes late

    expect(page).to_have_url(re.compile(re.escape("label%3Ateam%3Adata+status%3Apaused")))


def test_a_letter_that_is_typed_while_the_page_is_slow_is_not_lost(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs")
    typing = """async box => {
        const type = text => { box.value = text; box.dispatchEvent(new Event("input", {bubbles: true})); };
        type("dai");
        await new Promise(done => setTimeout(done, 200));
        type("daily");
        await Promise.resolve();
        for (const from = performance.now(); performance.now() - from < 400;);
    }"""
    page.get_by_role("combobox", name="Filter").evaluate(typing)

    expect(page).to_have_url(re.compile("f=daily$"))
    expect(page.get_by_role("combobox", name="Filter")).to_have_value("daily")


def test_what_is_staged_for_later_does_not_stand_before_what_ran(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/ticks", {"schedule": "@every 2s", "type": "noop"})
    try:
        page.goto(f"{dev.url}/runs?f=job:ticks+status:pending")
        expect(page.get_by_role("link", name="Scheduled").first).to_be_visible(timeout=30_000)
        page.get_by_role("button", name=re.compile("^All")).click()
        expect(page.get_by_role("link", name="Succeeded").first).to_be_visible(timeout=30_000)
        expect(page.get_by_role("link", name="Scheduled")).to_have_count(0)
    finally:
        dev.call("DELETE", "/jobs/ticks")


def test_what_is_due_soon_is_a_list_that_comes_and_stays(page: Page, dev: Server) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "due" in request.url else None)
    page.goto(f"{dev.url}/jobs?f=due:24h")

    expect(page.get_by_role("link", name="load-orders")).to_be_visible()
    page.wait_for_timeout(700)
    assert 1 <= len(asked) <= 3


def test_a_search_goes_on_behind_a_page_without_rows(page: Page, dev: Server) -> None:
    found = dev.call("GET", "/runs?job=load-orders&limit=1")["runs"]
    answers = [{"runs": [], "next_cursor": "a"}, {"runs": [], "next_cursor": "b"}, {"runs": found, "next_cursor": None}]

    def answer(route: Route) -> None:
        at = {"a": 1, "b": 2}.get(route.request.url.partition("cursor=")[2], 0)
        route.fulfill(body=json.dumps(answers[at]), content_type="application/json")

    page.route("**/api/v1/runs?*", answer)
    page.goto(f"{dev.url}/runs?f=reason:exception")

    expect(page.get_by_role("link", name="load-orders")).to_be_visible()


def test_an_unknown_filter_is_named_and_not_silently_dropped(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/runs?f=colour:red")

    expect(page.get_by_role("alert")).to_contain_text("“colour:” is not a filter here")


def test_new_runs_wait_behind_a_pill_and_move_nothing(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/runs?f=job:load-orders")
    rows = page.locator("table.list tbody tr[data-row]")
    expect(rows.first).to_be_visible()
    before = rows.count()
    dev.run("load-orders")

    pill = page.get_by_role("button", name="1 new run, show")
    expect(pill).to_be_visible()
    assert rows.count() == before
    pill.click()
    expect(rows).to_have_count(before + 1)


def test_many_jobs_are_paused_at_once_after_a_look_at_which(page: Page, dev: Server) -> None:
    for number in range(3):
        dev.call("PUT", f"/jobs/bulk-{number}", {"type": "noop", "schedule": "0 3 * * *"})
    page.goto(f"{dev.url}/jobs?f=bulk-")
    expect(page.locator("tr[data-row]")).to_have_count(3)
    page.get_by_label("Select all loaded rows").check()
    page.get_by_role("button", name="Pause 3").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Jobs that will be touched")).to_contain_text("bulk-2")
    dialog.get_by_role("button", name="Pause 3").click()
    expect(dialog).to_contain_text("3 of 3. Done.")

    assert {job["status"] for job in dev.call("GET", "/jobs?q=bulk-")["jobs"]} == {"PAUSED"}


def test_a_replay_tries_a_few_and_stops_when_they_fail(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/dead-letters?f=job:billing-sync")
    page.get_by_role("button", name="Replay", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Try this many first").fill("1")
    before = len(dev.call("GET", "/dead-letters?job=billing-sync")["dead_letters"])
    dialog.get_by_role("button", name=f"Replay {before}").click()

    expect(dialog).to_contain_text("Stopped there", timeout=20_000)
    assert len(dev.call("GET", "/dead-letters?job=billing-sync")["dead_letters"]) == before


def test_a_dead_run_tells_what_changed_since_it_last_went_well(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/broken-by-an-edit", {"type": "shell", "target": {"command": "true"}, "retries": 0})
    dev.run("broken-by-an-edit")
    dev.call("PATCH", "/jobs/broken-by-an-edit", {"target": {"command": "false"}})
    dead = dev.run("broken-by-an-edit")
    page.goto(f"{dev.url}/runs/{dead['run_id']}")

    expect(page.locator("main")).to_contain_text("the job changed from v1 to v2")
    expect(page.locator(".diff .plus")).to_contain_text("false")


def test_a_log_is_followed_while_it_is_written(page: Page, dev: Server) -> None:
    command = "for i in 1 2 3; do echo part $i; sleep 1; done"
    dev.call("PUT", "/jobs/talker", {"type": "shell", "target": {"command": command}, "schedule": "@manual"})
    run_id = dev.call("POST", "/jobs/talker/run", {})["run_id"]
    dev.wait_run(run_id, "RUNNING")
    page.goto(f"{dev.url}/runs/{run_id}")

    expect(page.get_by_role("log")).to_contain_text("part 1")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("part 3")
    expect(page.locator("main .sentence")).to_contain_text("Succeeded")


def test_a_log_of_fifty_megabytes_scrolls_like_one_screen(page: Page, dev: Server) -> None:
    run = dev.run("daily-report")
    page.add_init_script(LONG_LOG)
    page.goto(f"{dev.url}/runs/{run['run_id']}")
    expect(page.get_by_text("600,000 lines")).to_be_visible(timeout=30_000)
    log = page.get_by_role("log")
    milliseconds = log.evaluate(
        """async (box) => {
            const began = performance.now();
            for (let step = 1; step <= 20; step += 1) {
                box.scrollTop = (box.scrollHeight / 20) * step;
                await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
            }
            return (performance.now() - began) / 20;
        }"""
    )

    expect(log).to_contain_text("0599999 the quick")
    assert log.locator(".line").count() < 150
    assert milliseconds < 150


def test_a_panel_fails_alone(page: Page, dev: Server) -> None:
    problem = {
        "type": "urn:horae:problem:broken", "title": "The forecast is away", "status": 500, "detail": "Made to fail.",
        "code": "broken", "errors": [], "request_id": "req_test",
    }  # fmt: skip

    def refuse(route: Route) -> None:
        route.fulfill(status=500, body=json.dumps(problem), content_type="application/problem+json")

    page.route("**/forecast?*", refuse)
    page.goto(dev.url)

    expect(page.get_by_role("alert")).to_contain_text("The forecast is away")
    expect(page.get_by_role("alert")).to_contain_text("req_test")
    expect(page.get_by_text("dead letters", exact=True)).to_be_visible()


def test_the_palette_and_the_keys_go_anywhere(page: Page, dev: Server) -> None:
    page.goto(dev.url)
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("daily-re")
    expect(page.get_by_role("option", name="daily-report").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("daily-report")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next row")
    page.keyboard.press("Escape")
    page.keyboard.press("t")

    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_the_palette_takes_the_very_next_key(page: Page, dev: Server) -> None:
    page.goto(dev.url)
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()

    # No frame is drawn between two keys of a fast hand, only the tasks that the first one left behind are done.
    focused = page.evaluate("""async () => {
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
        for (let i = 0; i < 20; i++) await Promise.resolve();
        return document.activeElement.getAttribute("role");
    }""")

    assert focused == "combobox"


def test_two_tabs_share_one_stream(context: BrowserContext, dev: Server) -> None:
    tabs = [context.new_page(), context.new_page()]
    asked: list[str] = []
    for tab in tabs:
        tab.on("request", lambda request: asked.append(request.url) if request.url.endswith("/events") else None)
        tab.goto(f"{dev.url}/runs?f=job:load-orders")
        expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    session = context.browser.new_browser_cdp_session()  # type: ignore[union-attr]
    targets = session.send("Target.getTargets")["targetInfos"]
    dev.run("load-orders")

    assert sum(target["type"] == "shared_worker" for target in targets) == 1
    assert asked == []
    for tab in tabs:
        # A hidden tab keeps what happened until it is looked at.
        tab.bring_to_front()
        expect(tab.get_by_role("button", name="new run")).to_be_visible()


def test_a_server_that_goes_away_is_said_and_come_back_to(page: Page, dev: Server, context: BrowserContext) -> None:
    page.goto(f"{dev.url}/runs")
    expect(page.locator("tr[data-row]").first).to_be_visible()
    context.set_offline(True)
    page.get_by_role("button", name="Succeeded", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("horae cannot be reached")
    context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("tr[data-row]").first).to_be_visible()


def test_a_hundred_thousand_rows_are_scrolled_through_with_few_in_the_page(page: Page, dev: Server) -> None:
    """The list itself, with answers made in the browser; the server's own share is measured with `horae demo load`."""
    sample = dev.call("GET", "/jobs/daily-report")
    page.add_init_script(LONG_LIST.replace("SAMPLE", json.dumps(sample)))
    page.goto(f"{dev.url}/jobs")
    expect(page.get_by_role("link", name="job-000000")).to_be_visible()
    page.evaluate(
        """async () => {
            for (let turn = 0; turn < 400 && document.body.scrollHeight < 100000 * 50; turn += 1) {
                scrollTo(0, document.body.scrollHeight);
                await new Promise((resolve) => setTimeout(resolve, 20));
            }
            scrollTo(0, document.body.scrollHeight);
        }"""
    )

    expect(page.get_by_role("link", name="job-099999")).to_be_visible()
    assert page.locator("tr[data-row]").count() < 80

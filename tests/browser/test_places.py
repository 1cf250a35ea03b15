"""No row moves by itself, on any page: what is new waits behind a button that takes no room."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Server

WORKER: dict[str, Any] = {
    "state": "active", "node": "node", "slots": 4, "running": 0, "queues": ["*"], "needs": [],
    "seen_at": "2026-11-16T00:00:00Z", "started_at": "2026-11-16T00:00:00Z",
}  # fmt: skip
IDLE = {"queued": 0, "oldest_age_ms": None}


def answer(page: Page, path: str, body: Any) -> None:
    """From now on this is what the page reads there."""

    def fulfil(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    page.unroute(path)
    page.route(path, fulfil)


def queue(name: str, oldest_ms: int | None) -> dict[str, Any]:
    low = {"queued": 1, "oldest_age_ms": oldest_ms} if oldest_ms else IDLE
    return {
        "queue": name, "paused": False, "max_running": None, "running": 0, "queued": low["queued"],
        "oldest_age_ms": oldest_ms, "by_priority": {"HIGH": IDLE, "MEDIUM": IDLE, "LOW": low},
    }  # fmt: skip


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name)


def names(found: Locator) -> list[str]:
    return found.locator("tbody th").all_inner_texts()


def place(found: Locator) -> float:
    box = found.bounding_box()
    assert box is not None
    return box["y"]


def test_queues_keep_their_places_until_the_reader_asks(page: Page, dev: Server) -> None:
    page.clock.install()
    for path, title in (("/queues", "By the age of the oldest run"), ("/", "Queues")):
        answer(page, "**/api/v1/queues", {"queues": [queue("alpha", 9000), queue("beta", None)]})
        page.goto(dev.url + path)
        shown = panel(page, title)
        expect(shown.locator("tbody tr")).to_have_count(2)
        expect(page.locator(".skeleton")).to_have_count(0)
        before = place(shown.locator("tbody tr").last)
        answer(page, "**/api/v1/queues", {"queues": [queue("alpha", None), queue("beta", 90_000), queue("new", 1)]})
        page.clock.run_for(20_000)

        expect(shown).to_contain_text("1 m 30 s")
        assert names(shown) == ["alpha", "beta"]
        assert place(shown.locator("tbody tr").last) == before
        shown.get_by_role("button", name="1 new queue, show").click()
        assert names(shown) == ["beta", "new", "alpha"]


def test_workers_keep_their_places_until_the_reader_asks(page: Page, dev: Server) -> None:
    page.clock.install()
    one, two = (WORKER | {"worker_id": each, "node": each} for each in ("one", "two"))
    answer(page, "**/api/v1/workers", {"workers": [one, two]})
    page.goto(f"{dev.url}/workers")
    shown = panel(page, "Lost ones first")
    expect(shown.locator("tbody tr")).to_have_count(2)
    answer(page, "**/api/v1/workers", {"workers": [one, two | {"state": "lost"}]})
    page.clock.run_for(10_000)

    expect(shown).to_contain_text("lost")
    assert [name.split("\n")[0] for name in names(shown)] == ["one", "two"]
    shown.get_by_role("button", name="In new order, show").click()
    assert [name.split("\n")[0] for name in names(shown)] == ["two", "one"]


def test_what_runs_and_what_changed_keep_their_places(page: Page, dev: Server) -> None:
    dev.call("PUT", "/jobs/stays-a-while", {"type": "noop", "target": {"sleep": "10m"}, "schedule": "@manual"})
    first = dev.call("POST", "/jobs/stays-a-while/run", {})["run_id"]
    dev.wait_run(first, "RUNNING")
    page.goto(dev.url)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    running, changed = panel(page, "Running now"), panel(page, "What changed")
    expect(running).to_contain_text("stays-a-while")
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(changed.locator("tbody tr").first).to_contain_text("stays-a-while")
    below = place(changed)
    third = dev.call("POST", "/jobs/stays-a-while/run", {})["run_id"]
    expect(running.locator("tbody tr")).to_have_count(2)  # nobody is at it
    assert place(changed) == below
    running.get_by_role("heading").hover()
    before = (place(running.locator("tbody tr").last), names(changed))
    second = dev.call("POST", "/jobs/stays-a-while/run", {})["run_id"]
    dev.call("PUT", "/jobs/comes-later", {"type": "noop", "schedule": "@manual"})

    expect(running.get_by_role("button", name=re.compile("new run"))).to_be_visible()
    expect(changed.get_by_role("button", name=re.compile("new change"))).to_be_visible()
    assert (place(running.locator("tbody tr").last), names(changed)) == before
    dev.call("POST", f"/runs/{first}/cancel", {})
    expect(running).to_contain_text("ended")
    assert place(running.locator("tbody tr").last) == before[0]
    changed.get_by_role("button", name=re.compile("new change")).click()
    expect(changed.locator("tbody tr").first).to_contain_text("comes-later")
    for run in (second, third):
        dev.call("POST", f"/runs/{run}/cancel", {})


def test_messages_and_audit_keep_their_places(page: Page, dev: Server) -> None:
    dev.call("POST", "/webhooks/on-call/test", {})
    page.clock.install()
    page.goto(f"{dev.url}/alerts")
    messages = panel(page, "Messages")
    expect(messages.locator("tbody tr").first).to_be_visible()
    count = messages.locator("tbody tr").count()
    dev.call("POST", "/webhooks/on-call/test", {})
    page.clock.run_for(15_000)
    expect(messages.get_by_role("button", name="1 new message, show")).to_be_visible()
    assert messages.locator("tbody tr").count() == count

    page.goto(f"{dev.url}/audit")
    row = page.locator("tr[data-row]").first
    expect(row).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    before = (row.inner_text(), place(row))
    dev.call("PUT", "/jobs/seen-in-audit", {"type": "noop", "schedule": "@manual"})
    pill = page.get_by_role("button", name=re.compile("new entr.*, show"))
    for _ in range(20):
        page.clock.run_for(1000)
        if pill.count():
            break
        page.wait_for_timeout(100)
    expect(pill).to_be_visible()
    assert (row.inner_text(), place(row)) == before


def test_a_lost_stream_pushes_nothing_down(page: Page, dev: Server) -> None:
    page.add_init_script("delete window.SharedWorker;")  # so that its stream is this page's
    hold: list[Route] = []

    def keep(route: Route) -> None:
        hold.append(route)

    page.route("**/api/v1/events", keep)
    page.goto(f"{dev.url}/runs")
    row = page.locator("tr[data-row]").first
    expect(row).to_be_visible()
    before = place(row)
    while not hold:
        page.wait_for_timeout(50)
    hold[0].abort()

    expect(page.locator(".band")).to_contain_text("Reconnecting.")
    assert place(row) == before


def test_a_panel_that_cannot_be_read_again_stays_where_it_is(page: Page, dev: Server) -> None:
    page.clock.install()
    page.goto(f"{dev.url}/workers")
    row = panel(page, "Lost ones first").locator("tbody tr").first
    expect(row).to_be_visible()
    before = place(row)
    page.route("**/api/v1/workers", lambda route: route.abort())
    page.clock.run_for(10_000)

    expect(page.get_by_role("alert")).to_contain_text("horae cannot be reached: data from")
    assert place(row) == before

"""Editing keeps what nobody touched, to the digit, and loses nothing that somebody typed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, Route, expect

from tests.browser.conftest import ADMIN, Server

BIG = 9007199254740993123
HTTP = {"url": "http://127.0.0.1:9/x", "headers": {"X-Team": "ads"}}
DELICATE: dict[str, dict[str, Any]] = {
    "no-payload": {"type": "noop"},
    "label-space": {"type": "noop", "labels": {"owner": "Ada Lovelace", "note": "a:b c", "empty": ""}},
    "label-edges": {"type": "noop", "labels": {"odd": " edges "}},
    "text-like-json": {"type": "http", "target": {**HTTP, "body": '{"a": 1}'}},
    "number-body": {"type": "http", "target": {**HTTP, "body": 5}},
    "big-body": {"type": "http", "target": {**HTTP, "body": {"id": BIG}}},
    "template-body": {"type": "http", "target": {**HTTP, "body": "{not json"}},
    "two-times": {"type": "noop", "schedule": ["0 9 * * *", "30 17 * * 5"]},
    "test-command": {"type": "shell", "target": {"command": "[ -f /x ] && echo y"}},
    "argv": {"type": "shell", "target": {"command": ["echo", "a b"]}},
    "big-int": {"type": "noop", "payload": {"id": BIG, "x": 1.0, "s": "x"}},
    "own-calendar": {"type": "noop", "schedule": "0 9 * * *", "calendar": {"exclude": ["2026-12-25"]}},
}
VARYING = {"version", "updated_at", "description", "last_run_status", "next_fire_time"}


def spec(job: dict[str, Any], *without: str) -> dict[str, Any]:
    return {field: value for field, value in job.items() if field not in VARYING | set(without)}


def put(server: Server, name: str, body: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = server.call("PUT", f"/jobs/{name}", {"schedule": "@manual", **body})
    return made


def edit(page: Page, server: Server, name: str) -> None:
    page.goto(f"{server.url}/jobs/{name}/edit")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Edit {name}")


def save(page: Page, name: str) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


@pytest.mark.parametrize("name", DELICATE)
def test_an_edit_changes_only_what_was_touched(page: Page, dev: Server, name: str) -> None:
    before = put(dev, name, DELICATE[name])
    edit(page, dev, name)
    expect(page.get_by_role("button", name="Save", exact=True)).to_have_attribute("title", "Nothing has changed.")
    page.get_by_label("Description").fill("only this")
    expect(page.locator(".preview .diff > div")).to_have_count(1)
    save(page, name)

    after = dev.call("GET", f"/jobs/{name}")
    assert after["description"] == "only this"
    assert json.dumps(spec(after)) == json.dumps(spec(before))


def test_the_rest_of_a_touched_field_stays_as_it_was(page: Page, dev: Server) -> None:
    def touched(name: str, label: str, text: str) -> dict[str, Any]:
        put(dev, name, DELICATE[name])
        edit(page, dev, name)
        page.get_by_label(label, exact=True).fill(text)
        save(page, name)
        found: dict[str, Any] = dev.call("GET", f"/jobs/{name}")
        return found

    other = "http://127.0.0.1:9/y"
    for name in ("text-like-json", "number-body", "big-body", "template-body"):
        job = touched(name, "URL", other)
        assert job["target"] == {**DELICATE[name]["target"], "url": other, "method": "POST", "expect": "2xx"}
    assert touched("test-command", "Command", "[ -f /x ] && echo z")["target"]["command"] == "[ -f /x ] && echo z"
    assert touched("argv", "Command", '["echo", "c d"]')["target"]["command"] == ["echo", "c d"]
    assert touched("two-times", "Schedule", "0 9 * * *\n30 18 * * 5")["schedule"] == ["0 9 * * *", "30 18 * * 5"]


def test_labels_and_json_looking_bodies_are_shown_so_that_they_can_be_edited(page: Page, dev: Server) -> None:
    put(dev, "label-space", DELICATE["label-space"])
    edit(page, dev, "label-space")
    labels = page.get_by_label("Labels")
    labels.fill(f"{labels.input_value()}\nteam:new one")
    save(page, "label-space")

    wanted = {**DELICATE["label-space"]["labels"], "team": "new one"}
    assert dev.call("GET", "/jobs/label-space")["labels"] == wanted

    put(dev, "text-like-json", DELICATE["text-like-json"])
    edit(page, dev, "text-like-json")
    body = page.get_by_label("Body")
    body.fill(body.input_value().replace("1", "2"))
    save(page, "text-like-json")

    assert dev.call("GET", "/jobs/text-like-json")["target"]["body"] == '{"a": 2}'


@pytest.mark.parametrize("text", ["", "abc", "2.5", "-1"])
def test_retries_that_are_no_count_are_refused_and_not_guessed(page: Page, dev: Server, text: str) -> None:
    put(dev, "counted", {"type": "noop", "retry": {"max_retries": 5}})
    edit(page, dev, "counted")
    page.get_by_label("Retries").fill(text)
    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.locator(".field.bad").filter(has_text="Retries")).to_contain_text("whole number from 0 to 100")
    assert dev.call("GET", "/jobs/counted")["max_retries"] == 5


def test_long_numbers_keep_their_digits_wherever_they_are_typed(page: Page, dev: Server) -> None:
    put(dev, "big-int", DELICATE["big-int"])
    edit(page, dev, "big-int")
    payload = page.get_by_label("Payload (JSON)")
    payload.fill(payload.input_value().replace('"s": "x"', '"s": "y"'))
    save(page, "big-int")
    assert json.dumps(dev.call("GET", "/jobs/big-int")["payload"]) == f'{{"id": {BIG}, "x": 1.0, "s": "y"}}'

    page.goto(f"{dev.url}/jobs/new")
    page.get_by_label("Name").fill("big-new")
    page.get_by_label("Type").select_option("noop")
    page.get_by_label("Payload (JSON)").fill(f'{{"id": {BIG}}}')
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("big-new")
    assert dev.call("GET", "/jobs/big-new")["payload"] == {"id": BIG}

    page.get_by_role("button", name="Run now", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.locator("summary").click()
    asked = dialog.get_by_label("Payload (JSON)")
    asked.fill(asked.input_value().replace("}", ', "more": 1}'))
    with page.expect_request("**/jobs/big-new/run") as sent:
        dialog.get_by_role("button", name="Run now").click()
    assert json.loads(sent.value.post_data or "") == {"payload": {"id": BIG, "more": 1}}


def test_a_duplicate_has_the_whole_definition(page: Page, dev: Server) -> None:
    rich = {
        "schedule": ["0 9 * * *", "0 17 * * *"], "type": "http",
        "target": {**HTTP, "body": '{"a": 1}', "expect": "200"},
        "payload": {"id": BIG}, "timezone": "Asia/Kolkata", "max_concurrency": 2, "delivery": "at_most_once",
        "dst": {"gap": "skip", "fold": "both"}, "start_at": "2026-01-01T00:00:00Z", "end_at": "2099-01-01T00:00:00Z",
        "max_runs": 40, "misfire": {"policy": "catch_up", "window": "3h", "max": 7},
        "calendar": {"exclude": ["2026-12-25"]}, "jitter": "5s", "labels": {"owner": "Ada Lovelace"},
        "retry": {"max_retries": 0, "factor": 3, "max_delay": "2h"},
    }  # fmt: skip
    before = put(dev, "rich", rich)
    page.goto(f"{dev.url}/jobs/rich")
    page.get_by_role("link", name="Duplicate").click()
    expect(page.get_by_label("Name")).to_have_value("rich-copy")
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rich-copy")

    after = dev.call("GET", "/jobs/rich-copy")
    own = ("job_id", "name", "created_at")
    assert spec(after, *own) == spec(before, *own)
    page.goto(f"{dev.url}/jobs/new")
    expect(page.get_by_label("Name")).to_have_value("")


def test_a_command_names_the_server_and_the_tenant_of_the_page(
    page: Page, guarded: Server, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    guarded.call("POST", "/tenants", {"tenant": "north"})
    page.goto(f"{guarded.url}/jobs/new")
    page.evaluate(f"sessionStorage.setItem('horae.key', '{ADMIN}'); sessionStorage.setItem('horae.tenant', 'north')")
    page.goto(f"{guarded.url}/jobs/new")
    page.get_by_label("Name").fill("by-terminal")
    page.get_by_label("Type").select_option("noop")
    page.get_by_label("Payload (JSON)").fill(f'{{"id": {BIG}}}')
    page.get_by_role("button", name="Copy as CLI").click()
    words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    settings = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("horae")), *words[1:]],
        env=settings | {"HORAE_API_KEY": ADMIN},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    page.goto(f"{guarded.url}/jobs/by-terminal")
    expect(page.get_by_role("heading", level=1)).to_have_text("by-terminal")


def test_the_back_button_asks_before_it_drops_an_edit(page: Page, dev: Server) -> None:
    put(dev, "left-alone", {"type": "noop"})
    asked: list[str] = []
    answers = iter([False, True])

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept() if next(answers) else dialog.dismiss()

    page.on("dialog", answer)
    page.goto(f"{dev.url}/jobs")
    page.get_by_role("link", name="left-alone", exact=True).click()
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Description").fill("unsaved")
    page.evaluate("history.back()")

    expect(page).to_have_url(f"{dev.url}/jobs/left-alone/edit")
    expect(page.get_by_label("Description")).to_have_value("unsaved")
    assert asked == ["Leave without saving?"]
    page.evaluate("history.back()")
    expect(page.get_by_role("heading", level=1)).to_have_text("left-alone")
    expect(page).to_have_url(f"{dev.url}/jobs/left-alone")
    page.evaluate("history.back()")
    expect(page).to_have_url(f"{dev.url}/jobs")
    assert len(asked) == 2


def test_an_edit_that_came_too_late_is_saved_on_top_of_the_other_one(page: Page, dev: Server) -> None:
    put(dev, "shared", {"type": "http", "target": HTTP, "timeout": "20s"})
    edit(page, dev, "shared")
    page.get_by_label("Description").fill("mine")
    page.get_by_label("URL").fill("http://127.0.0.1:9/mine")
    theirs = {"target": {**HTTP, "method": "PUT"}, "timeout": "44s", "max_runs": 3}
    dev.call("PATCH", "/jobs/shared", theirs)
    page.get_by_role("button", name="Save", exact=True).click()
    conflict = page.get_by_role("region", name="Conflict")
    for word in ("44s", "max_runs", "mine", "PUT"):
        expect(conflict).to_contain_text(word)
    expect(conflict).to_contain_text("Both of you changed target")
    conflict.get_by_role("button", name="Save mine on top of theirs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shared")

    job = dev.call("GET", "/jobs/shared")
    assert (job["description"], job["timeout"], job["max_runs"], job["version"]) == ("mine", "44s", 3, 3)
    assert (job["target"]["url"], job["target"]["method"]) == ("http://127.0.0.1:9/mine", "PUT")


def test_an_edit_of_a_job_that_got_another_name_meanwhile_is_not_lost(page: Page, dev: Server) -> None:
    put(dev, "old-name", {"type": "noop"})
    edit(page, dev, "old-name")
    page.get_by_label("Description").fill("mine")
    dev.call("PATCH", "/jobs/old-name", {"name": "other-name"})
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Save mine on top of theirs").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("other-name")
    assert dev.call("GET", "/jobs/other-name")["description"] == "mine"


def test_an_edit_that_came_too_late_can_be_dropped_for_the_other_one(page: Page, dev: Server) -> None:
    put(dev, "shared-too", {"type": "noop"})
    edit(page, dev, "shared-too")
    page.get_by_label("Description").fill("mine")
    dev.call("PATCH", "/jobs/shared-too", {"description": "theirs"})
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Read theirs, drop mine").click()

    expect(page.get_by_label("Description")).to_have_value("theirs")
    expect(page.get_by_role("button", name="Save", exact=True)).to_have_attribute("title", "Nothing has changed.")
    page.get_by_label("Timeout").fill("12s")
    save(page, "shared-too")
    job = dev.call("GET", "/jobs/shared-too")
    assert (job["description"], job["timeout"]) == ("theirs", "12s")


def crowd(page: Page, runs: dict[int, int], else_runs: int, own: list[dict[str, Any]] | None = None) -> None:
    """A forecast with these runs so many minutes after the due time: what is asked for ends 16 minutes after it."""

    def forecast(route: Route) -> None:
        end = datetime.fromisoformat(parse_qs(urlsplit(route.request.url).query)["to"][0])
        minutes = {step: end - timedelta(minutes=16 - step) for step in range(-15, 16)}
        buckets = [
            {"at": at.isoformat().replace("+00:00", "Z"), "runs": runs.get(step, else_runs), "by": []}
            for step, at in minutes.items()
        ]
        route.fulfill(json={"buckets": buckets})

    page.route("**/api/v1/forecast?*", forecast)
    page.route("**/api/v1/forecast/jobs?*", lambda route: route.fulfill(json={"jobs": own or []}))


def type_daily(page: Page, server: Server, minute: int, zone: str) -> str:
    """Half a day from now, so that no minute near it is past."""
    hour = (datetime.now(UTC).astimezone(ZoneInfo(zone)) + timedelta(hours=12)).hour
    page.goto(f"{server.url}/jobs/new")
    page.locator("input[list=zones]").fill(zone)
    page.get_by_label("Schedule", exact=True).fill(f"{minute} {hour} * * *")
    return f"{hour} * * *"


def test_a_quieter_minute_is_one_of_the_jobs_own_zone(page: Page, dev: Server) -> None:
    crowd(page, {0: 30, 5: 2}, 20)
    rest = type_daily(page, dev, 10, "Asia/Kolkata")
    expect(page.locator("#preview")).to_contain_text("30 other runs are due in that minute; at :15 there are 2.")
    page.get_by_role("button", name="Use minute 15").click()

    expect(page.get_by_label("Schedule", exact=True)).to_have_value(f"15 {rest}")


def test_a_quieter_minute_is_in_the_same_hour(page: Page, dev: Server) -> None:
    crowd(page, {0: 30, 5: 0, -4: 3}, 20)
    type_daily(page, dev, 59, "UTC")

    expect(page.get_by_role("button", name="Use minute 55")).to_be_visible()


def test_no_minute_is_offered_when_all_are_as_full(page: Page, dev: Server) -> None:
    crowd(page, {}, 20)
    type_daily(page, dev, 30, "UTC")

    expect(page.locator("#preview")).to_contain_text("20 other runs are due in that minute.")
    expect(page.get_by_role("button", name="Use minute")).to_have_count(0)


def test_the_jobs_own_runs_are_no_crowd(page: Page, dev: Server) -> None:
    job = put(dev, "often", {"type": "noop", "schedule": "0 12 * * *"})
    crowd(page, {0: 12}, 0, own=[{"job_id": job["job_id"], "runs": 1}])
    edit(page, dev, "often")
    expect(page.locator("#preview")).to_contain_text("11 other runs")

    crowd(page, {0: 12}, 0, own=[{"job_id": job["job_id"], "runs": 5}])
    with page.expect_response("**/api/v1/forecast/jobs?*"):
        page.get_by_label("Schedule", exact=True).fill("0 13 * * *")
    expect(page.locator("#preview")).not_to_contain_text("other runs")


@pytest.mark.parametrize("path", ["/jobs/100%", "/jobs/%E0%A4%A", "/nowhere", "/nowhere/at/all"])
def test_an_address_that_nobody_has_is_said_to_be_one(page: Page, dev: Server, path: str) -> None:
    page.goto(f"{dev.url}{path}")

    expect(page.locator("main")).to_contain_text("There is no such page")


def test_a_job_called_new_can_be_opened_and_edited(page: Page, dev: Server) -> None:
    put(dev, "new", {"type": "noop", "labels": {"odd": "name"}})
    try:
        page.goto(f"{dev.url}/jobs?f=label:odd:name")
        page.get_by_role("link", name="new", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("new")
        page.get_by_role("link", name="Edit", exact=True).click()
        page.get_by_label("Description").fill("it has one")
        save(page, "new")
        page.get_by_role("link", name="Jobs", exact=True).first.click()
        page.get_by_role("link", name="New job").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("New job")
        assert dev.call("GET", "/jobs/new")["description"] == "it has one"
    finally:
        dev.call("DELETE", "/jobs/new")


@pytest.mark.parametrize("text", ['{"schedule": 5, "name": "kept"}', "null", "[1]", "{"])
def test_a_broken_draft_is_passed_over(page: Page, dev: Server, text: str) -> None:
    page.goto(f"{dev.url}/jobs")
    page.evaluate("text => localStorage.setItem('horae.draft', text)", text)
    page.goto(f"{dev.url}/jobs/new")

    expect(page.get_by_label("Schedule", exact=True)).to_have_value("0 9 * * 1-5")
    expect(page.get_by_label("Name")).to_have_value("kept" if "kept" in text else "")


def test_due_times_between_minutes_are_shown_with_their_seconds(page: Page, dev: Server) -> None:
    page.goto(f"{dev.url}/jobs/new")
    page.get_by_label("Schedule", exact=True).fill("@every 5s")
    lines = page.locator("#preview .next li > span:first-child")
    expect(lines.first).to_contain_text(re.compile(r" \d\d:\d\d:\d\d "))

    assert len(set(lines.all_inner_texts())) == 8

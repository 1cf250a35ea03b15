"""How the page is served: its own addresses alone, under a strict policy, small, and kept for ever by its hashes."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Scope

from horae.core.run import REASONS
from horae.dashboard.static import DIST, Page, read_files

ROOT = Path(__file__).parents[2]
MOST_FIRST_LOAD = 200_000


async def api(scope: Scope, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"the API"})


async def ask(page: Page, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await page({"type": "http", "method": method, "path": path, "headers": raw}, None, send)  # type: ignore[arg-type]
    found = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    return told[0]["status"], found, b"".join(message.get("body", b"") for message in told[1:])


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>horae</title>")
    (tmp_path / "assets" / "index-abc.js").write_text("console.log('hello');" * 100)
    (tmp_path / ".stamp").write_text("secret of the build")
    return tmp_path


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/a%2Fb/edit", "/runs/1", "/dead-letters", "/settings"])
async def test_its_own_addresses_give_the_page(dist: Path, path: str) -> None:
    status, headers, body = await ask(Page(api, dist), path)

    assert (status, body) == (200, b"<!doctype html><title>horae</title>")
    assert headers["cache-control"] == "no-cache"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/jobs"), ("GET", "/v1/jobs"), ("GET", "/healthz"), ("GET", "/jobsx"), ("GET", "/.stamp"),
     ("GET", "/assets/gone.js"), ("GET", "/assets/../index.html"), ("POST", "/jobs"), ("GET", "//jobs")],
)  # fmt: skip
async def test_all_others_are_left_to_the_api(dist: Path, method: str, path: str) -> None:
    status, _, _ = await ask(Page(api, dist), path, method)

    assert status == 418


HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


async def test_a_browser_at_an_address_that_nobody_has_gets_the_page_and_a_program_the_api(dist: Path) -> None:
    page = Page(api, dist)
    status, headers, body = await ask(page, "/nowhere", accept=HTML)

    assert (status, body) == (404, b"<!doctype html><title>horae</title>")
    assert (await ask(page, "/nowhere", accept=HTML, if_none_match=headers["etag"]))[0] == 404
    for path, accept in [("/nowhere", "*/*"), ("/api/v1/nowhere", HTML), ("/healthz", HTML), ("/openapi.json", HTML)]:
        assert (await ask(page, path, accept=accept))[0] == 418
    assert (await ask(page, "/nowhere", "POST", accept=HTML))[0] == 418


async def test_hashed_files_are_kept_for_ever_and_sent_packed(dist: Path) -> None:
    page = Page(api, dist)
    status, headers, body = await ask(page, "/assets/index-abc.js", accept_encoding="br, gzip")

    assert status == 200
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body).startswith(b"console.log")
    assert (await ask(page, "/", if_none_match=headers["etag"]))[0] == 200
    assert (await ask(page, "/assets/index-abc.js", if_none_match=headers["etag"]))[0] == 304
    assert (await ask(page, "/", "HEAD"))[2] == b""


async def test_without_a_build_the_page_says_so(tmp_path: Path) -> None:
    page = Page(api, tmp_path / "nothing")
    status, _, body = await ask(page, "/")

    assert status == 200
    assert b"make setup" in body
    assert (await ask(page, "/api/v1/jobs"))[0] == 418


def test_the_first_load_is_small_and_comes_from_here_alone() -> None:
    files = read_files(DIST)
    if "/index.html" not in files:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("the dashboard is not built")
    index = files["/index.html"].body.decode()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', index)
    everything = [file.packed or file.body for file in files.values()]

    assert all(name in files for name in loaded)
    assert sum(map(len, everything)) < MOST_FIRST_LOAD
    assert not re.search(r"<script>|<style|style=|https?://", index)


def test_the_types_are_those_of_the_api() -> None:
    path = ROOT / "dashboard" / "api_types.py"
    spec = importlib.util.spec_from_file_location("api_types", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    wanted = made.types_text(made.api_description())

    assert made.FILE.read_text() == wanted, "run `make types`"


def test_every_reason_has_words() -> None:
    text = (ROOT / "dashboard" / "src" / "lib" / "words.ts").read_text()
    words = re.findall(r"^  (\w+): \"", text.split("REASONS:")[1].split("};")[0], re.MULTILINE)

    assert set(words) == set(REASONS)


def test_the_lock_names_no_host_and_has_a_hash_for_each_package() -> None:
    text = (ROOT / "dashboard" / "package-lock.json").read_text()

    assert "resolved" not in text
    assert text.count('"integrity"') == len(re.findall(r'^    "node_modules/', text, re.MULTILINE))

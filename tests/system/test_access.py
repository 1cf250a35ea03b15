"""Keys and the audit log of real processes: the first key, revocation across nodes, and a check from outside."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.harness import Process, wait_for

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[Process] = []

    def begin(*words: str, **environment: str) -> Process:
        process = Process(tmp_path, *words, **environment)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.process.poll() is None:
            process.kill()


def printed_keys(process: Process) -> list[str]:
    return re.findall(r"shown only now: (\S+)", process.log.read_text())


def verify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "horae", "verify", "--audit", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_s02_a_fresh_serve_has_no_default_key_and_one_that_it_made(start: Any, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'h.db'}"
    first = start("serve", "--database-url", database)
    first.wait_ready()
    (key,) = printed_keys(first)
    assert first.call("GET", "/v1/jobs")[0] == 401
    for guess in ("admin", "default_token", "horae", "horae_admin"):
        assert first.call("GET", "/v1/jobs", key=guess)[0] == 401
    assert first.call("POST", "/v1/jobs", {"name": "a", "type": "noop"}, key)[0] == 201
    assert key not in first.log.read_text().replace(f"shown only now: {key}", "")
    wait_for(lambda: first.call("GET", "/v1/audit/verify", key=key)[1]["rows"] == 1)
    first.terminate()

    second = start("serve", "--database-url", database)
    second.wait_ready()
    assert printed_keys(second) == []
    (listed,) = second.call("GET", "/v1/keys", key=key)[1]["keys"]
    assert (listed["name"], listed["role"], listed["prefix"]) == ("first admin key", "admin", key[:14])
    whole = verify(tmp_path, "--database-url", database)
    second.terminate()
    assert (whole.returncode, whole.stdout.split(",")[0]) == (0, "default: whole")

    with sqlite3.connect(tmp_path / "h.db") as raw:
        raw.execute("DROP TRIGGER audit_is_not_changed")
        raw.execute("UPDATE audit SET actor = 'nobody'")
    raw.close()
    broken = verify(tmp_path, "--database-url", database)
    assert broken.returncode == 3
    assert "place 1" in broken.stdout


def test_s12_a_key_in_the_address_is_not_in_the_log(start: Any, tmp_path: Path) -> None:
    key = "root-key-in-the-address"
    server = start("serve", "--database-url", f"sqlite:///{tmp_path}/h.db", HORAE_ADMIN_KEY=key)
    server.wait_ready()

    for path in (f"/v1/jobs?key={key}", f"/v1/nothing?token={key}"):
        assert server.call("GET", path, key=key)[0] in (404, 422)
    server.terminate()

    assert key not in server.log.read_text()


@pytest.mark.parametrize(("key", "is_told"), [("short-one", True), ("sixteen-or-more!", False)])
def test_a_short_admin_key_is_taken_with_a_warning(start: Any, tmp_path: Path, key: str, is_told: bool) -> None:
    server = start("serve", "--database-url", f"sqlite:///{tmp_path}/h.db", HORAE_ADMIN_KEY=key)
    server.wait_ready()
    assert server.call("GET", "/v1/whoami", key=key)[0] == 200
    server.terminate()

    log = server.log.read_text()
    assert ("access.short_key" in log) == is_told
    assert key not in log


def test_s05_a_key_revoked_on_one_node_is_dead_on_the_other_within_five_seconds(
    start: Any, postgres_database: str
) -> None:
    environment = {"HORAE_DATABASE_URL": postgres_database, "HORAE_SECRET_KEY": SECRET, "HORAE_ADMIN_KEY": "root-key"}
    subprocess.run(
        [sys.executable, "-m", "horae", "migrate", "--database-url", postgres_database], check=True, timeout=60
    )
    here, there = (start("serve", "--roles", "api", **environment) for _ in range(2))
    here.wait_ready()
    there.wait_ready()
    _, made = here.call("POST", "/v1/keys", {"name": "ci", "role": "viewer"}, "root-key")
    assert there.call("GET", "/v1/jobs", key=made["key"])[0] == 200

    here.call("DELETE", f"/v1/keys/{made['key_id']}", key="root-key")
    began = time.monotonic()
    wait_for(lambda: there.call("GET", "/v1/jobs", key=made["key"])[0] == 401, seconds=5)

    assert time.monotonic() - began < 5
    assert here.call("GET", "/v1/jobs", key=made["key"])[0] == 401

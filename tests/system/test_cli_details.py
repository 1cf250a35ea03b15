"""Small promises of the command line: what is shown once, what goes where, what is refused instead of passed over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.system.harness import Process
from tests.system.shell import Shell


def changed(horae: Shell, *words: str) -> dict[str, Any]:
    (change,) = horae.ok(*words, "--dry-run", "--json").json["changes"]
    found: dict[str, Any] = change["after"]
    return found


def test_a_dry_run_speaks_of_the_fields_of_the_docs(horae: Shell) -> None:
    horae.ok("job", "create", "known", "--manual", "--noop")

    create = ("job", "create", "new", "--every", "1h", "--noop", "--timeout", "10m", "--backoff", "fixed:5s")
    created = changed(horae, *create, "--set", 'start_at="2100-01-01T00:00:00Z"')
    assert (created["schedule"], created["timeout"], created["start_at"]) == (
        "@every 1h", "10m", "2100-01-01T00:00:00Z",
    )  # fmt: skip
    assert created["retry"]["delay"] == "5s"
    assert "queue" not in created  # its default
    (edited,) = horae.ok("job", "edit", "known", "--timeout", "10m", "--dry-run", "--json").json["changes"]
    assert (edited["before"]["timeout"], edited["after"]["timeout"]) == ("30s", "10m")
    assert changed(horae, "pause", "known", "--until", "2100-01-01T00:00:00Z")["until"] == "2100-01-01T00:00:00Z"
    key = changed(horae, "key", "create", "k", "--role", "viewer")
    webhook = changed(horae, "webhook", "create", "w", "--to", "https://a.example/", "--event", "run.failed")
    assert (key["expires_at"], webhook["late_after"], webhook["events"]) == (None, "1m", ["run.failed"])
    for told in (created, edited, key, webhook):
        assert "_us" not in json.dumps(told)


def test_a_backfill_to_a_file_keeps_its_progress_to_itself(horae: Shell) -> None:
    horae.ok("job", "create", "often", "--noop", "--schedule", "* * * * *")
    words = ("backfill", "often", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T23:30:00Z", "--dry-run")

    done = horae.ok(*words)
    assert len(done.table) == 2851
    assert done.err == "2851 runs would start. Nothing was started.\n"


def test_a_wide_list_has_each_column_once(horae: Shell) -> None:
    horae.ok("job", "create", "wide", "--every", "1h", "--noop")

    heads = re.split(r"\s{2,}", horae.ok("job", "list", "-o", "wide").out.splitlines()[0].strip())
    assert heads.count("SCHEDULE") == 1
    assert "TIMEZONE" in heads


@pytest.mark.parametrize("verb", ["apply", "diff"])
def test_a_prune_without_a_label_is_refused(horae: Shell, verb: str) -> None:
    done = horae(verb, "-", "--prune", "", input="name: pruned\ntype: noop\n")
    assert (done.code, '--prune: "" is no label' in done.err) == (2, True)


def test_a_context_is_kept_for_the_server_of_the_environment(server: Process, tmp_path: Path) -> None:
    here, there = f"http://127.0.0.1:{server.port}", "http://other.example"
    horae = Shell(tmp_path, server.port)

    horae.ok("context", "add", "kept", "--no-key")
    assert horae.ok("context", "ls").table[0]["URL"] == here
    horae.ok("context", "add", "default", "--url", there, "--no-key")
    horae.ok("login", "--key-file", "-", input="none")
    assert {row["NAME"]: row["URL"] for row in horae.ok("context", "ls").table} == {"kept": here, "default": here}

"""Every client command against a real horae: what it does, and what it says of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.system.harness import Process, free_port, wait_for
from tests.system.shell import Shell


def test_a_job_is_created_shown_listed_edited_and_deleted(horae: Shell) -> None:
    horae.ok("job", "create", "life", "--schedule", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--command", "true",
             "--retries", "1", "--backoff", "fixed:5s", "--label", "team=ops", "--payload", '{"a": 1}',
             "--set", 'dst.gap="skip"', "--timeout", "2m", "--overlap", "skip", "--priority", "high")  # fmt: skip

    shown = horae.ok("job", "show", "life", "-o", "json").json
    assert shown["schedule"] == "0 9 * * 1-5"
    assert shown["retry"]["backoff"] == "fixed"
    assert shown["retry"]["delay"] == "5s"
    assert shown["labels"] == {"team": "ops"}
    assert shown["dst"]["gap"] == "skip"
    assert shown["payload"] == {"a": 1}
    (row,) = [each for each in horae.ok("job", "list", "--label", "team:ops").table if each["NAME"] == "life"]
    assert row["SCHEDULE"] == "0 9 * * 1-5 (Europe/Berlin)"
    assert row["NEXT"].endswith("Z")
    assert horae.ok("job", "list", "-q", "--search", "life").out == "life\n"
    assert horae.ok("job", "ls", "--search", "life", "-o", "jsonl").json["name"] == "life"

    assert horae.ok("job", "edit", "life", "--description", "mine", "-o", "json").json["version"] == 2
    assert horae("job", "edit", "life", "--description", "late", "--if-version", "1").code == 6
    history = horae.ok("job", "history", "life").table
    assert [each["VERSION"] for each in history] == ["2", "1"]
    assert 'description "" → "mine"' in history[0]["WHAT"]

    assert horae("job", "delete", "life").code == 2  # nobody to ask
    horae.ok("job", "delete", "life", "--yes")
    assert "life" not in horae.ok("job", "list", "-q").out.split()


def test_a_name_that_is_taken_is_a_conflict_unless_it_may_be(horae: Shell) -> None:
    horae.ok("job", "create", "taken", "--noop")

    again = horae("job", "create", "taken", "--noop")
    assert (again.code, "error[" in again.err) == (6, True)
    assert horae.ok("job", "create", "taken", "--command", "x", "--if-absent", "-o", "json").json["type"] == "noop"


def test_a_dry_run_creates_nothing(horae: Shell) -> None:
    shown = horae.ok("job", "create", "draft", "--http", "https://example.com/x", "--dry-run", "-o", "json").json

    assert shown["changes"][0]["after"]["target"]["url"] == "https://example.com/x"
    assert horae("job", "show", "draft").code == 4


def test_runs_are_waited_for_and_their_end_is_the_exit_code(horae: Shell) -> None:
    horae.ok("job", "create", "good", "--command", "echo one; echo two")
    horae.ok("job", "create", "bad-end", "--command", "echo no; exit 3", "--retries", "0")
    horae.ok("job", "create", "slow", "--noop", "--set", 'target={"sleep": "30s"}')

    good = horae.ok("job", "run", "good", "--follow")
    assert good.out == "one\ntwo\n"
    assert "✓ succeeded" in good.err
    waited = horae.ok("job", "run", "good", "--wait", "-o", "json")
    assert waited.json["status"] == "SUCCEEDED"
    bad = horae("job", "run", "bad-end", "--wait")
    assert (bad.code, "exit_code" in bad.err) == (3, True)
    late = horae("job", "run", "slow", "--wait", "--timeout", "300ms")
    assert (late.code, "error[timeout]" in late.err) == (8, True)

    (running,) = horae.ok("run", "list", "--job", "slow", "-q").out.split()
    horae.ok("run", "cancel", running)
    wait_for(lambda: horae.ok("run", "show", running, "-o", "json").json["status"] == "CANCELLED")
    assert horae("run", "wait", running).code == 3
    assert horae("run", "cancel", running).code == 6


def test_logs_are_shown_and_followed(horae: Shell) -> None:
    horae.ok("job", "create", "talker", "--command", "echo first; sleep 1; echo last")
    run = horae.ok("job", "run", "talker", "-q").out.strip()

    assert horae.ok("run", "logs", "-f", run).out == "first\nlast\n"
    assert horae.ok("run", "logs", run).out == "first\nlast\n"
    assert horae.ok("run", "logs", run, "-o", "json").json == {"run_id": run, "text": "first\nlast\n"}


def test_the_dead_are_listed_replayed_retried_and_discarded(horae: Shell) -> None:
    horae.ok("job", "create", "dying", "--command", "exit 1", "--retries", "0")
    for _ in range(3):
        assert horae("job", "run", "dying", "--wait").code == 3

    first, second, third = horae.ok("dead", "list", "--job", "dying", "-q").out.split()
    assert horae.ok("dead", "replay", "--job", "dying", "--dry-run").out == "would replay\t3\n"
    assert horae("dead", "replay", "--job", "dying").code == 2  # nobody to ask
    replayed = horae.ok("dead", "replay", first, "-q").out.strip()
    assert horae("run", "wait", replayed).code == 3
    assert horae.ok("run", "show", replayed, "-o", "json").json["replay_of"] == first
    assert horae("run", "retry", second, "--wait").code == 3
    assert horae.ok("run", "show", second, "-o", "json").json["attempt_number"] == 2
    horae.ok("dead", "discard", third, "--yes")
    some = horae("dead", "discard", second, "no-such-run", "--yes")
    assert (some.code, "1 done, 1 failed: no-such-run" in some.err) == (10, True)
    assert horae.ok("dead", "replay", "--job", "dying", "--yes", "-o", "json").json["count"] >= 1


def test_the_dead_of_one_error_are_replayed_and_discarded_alone(horae: Shell) -> None:
    horae.ok("job", "create", "two-ways", "--command", "echo blue >&2; exit 1", "--retries", "0")
    assert horae("job", "run", "two-ways", "--wait").code == 3
    horae.ok("job", "edit", "two-ways", "--command", "echo red >&2; exit 2")
    for _ in range(2):
        assert horae("job", "run", "two-ways", "--wait").code == 3
    dead = ["dead", "list", "--job", "two-ways", "-o", "json"]
    groups = horae.ok("api", "GET", "/dead-letters:groups?job=two-ways").json["groups"]
    assert sorted(group["runs"] for group in groups) == [1, 2]
    red = next(group["error"] for group in groups if group["runs"] == 2)

    assert horae.ok("dead", "replay", "--error", red, "--job", "two-ways", "--dry-run").out == "would replay\t2\n"
    assert len(horae.ok(*dead, "--error", red).json) == 2
    horae.ok("dead", "discard", "--job", "two-ways", "--error", red, "--yes")
    assert len(horae.ok(*dead).json) == 1


def test_ids_come_from_standard_input(horae: Shell) -> None:
    for name in ("line-a", "line-b"):
        horae.ok("job", "create", name, "--noop")

    horae.ok("job", "pause", "-", "--reason", "why not", input="line-a\nline-b\n")
    assert horae.ok("job", "list", "--status", "PAUSED", "-q").out.split() == ["line-a", "line-b"]
    horae.ok("job", "resume", "line-a", "line-b")
    assert horae.ok("job", "list", "--status", "PAUSED", "-q").out == ""


def test_why_answers_for_a_job_and_for_a_run(horae: Shell) -> None:
    horae.ok("job", "create", "asked", "--noop", "--schedule", "0 9 * * *")
    run = horae.ok("job", "run", "asked", "--wait", "-o", "json").json["run_id"]

    assert horae.ok("why", "asked", "-o", "json").json["verdict"] == "will_run"
    past = horae.ok("why", "asked", "--at", "-2d")
    assert "did not run" in past.out
    assert "The job did not exist before" in past.out
    assert horae.ok("why", run, "-o", "json").json["run_id"] == run


def test_upcoming_is_what_the_scheduler_will_do(horae: Shell) -> None:
    horae.ok("calendar", "set", "no-days", "--include", "2030-01-02")
    horae.ok("job", "create", "soon", "--noop", "--schedule", "0 9 * * *", "--tz", "Europe/Berlin", "--label", "up=1")
    horae.ok("job", "create", "spread", "--noop", "--schedule", "H 10 * * *", "--label", "up=1")
    horae.ok("job", "create", "rare", "--noop", "--schedule", "0 11 * * *", "--calendar", "no-days", "--label", "up=1")

    listed = horae.ok("upcoming", "--label", "up:1", "--for", "48h", "--count", "100").table
    assert {each["JOB"] for each in listed} == {"soon", "spread"}
    assert [each["DUE"] for each in listed] == sorted(each["DUE"] for each in listed)
    for name in ("soon", "spread", "rare"):
        first = horae.ok("upcoming", name, "--count", "1").table[0]["DUE"]
        assert first == horae.ok("job", "show", name, "-o", "json").json["next_fire_time"]
    assert "and more" in horae.ok("upcoming", "soon", "--count", "1", "--for", "7d").err


def test_upcoming_counts_by_time_and_by_job(horae: Shell) -> None:
    for name, cron in (("nine", "0 9 * * *"), ("also-nine", "0 9 * * *"), ("often", "0 * * * *")):
        horae.ok("job", "create", name, "--cron", cron, "--tz", "UTC", "--noop", "--label", "counted=1")
    day = ("--label", "counted:1", "--from", "2030-05-01T00:00:00Z", "--for", "24h")

    by_job = {each["JOB"]: each["RUNS"] for each in horae.ok("upcoming", *day, "--group", "job").table}
    assert by_job == {"often": "24", "nine": "1", "also-nine": "1"}
    by_hour = horae.ok("upcoming", *day, "--group", "hour", "--count", "24", "-o", "json").json
    assert [each["runs"] for each in by_hour] == [1] * 9 + [3] + [1] * 14
    assert (by_hour[9]["hour"], by_hour[9]["jobs"]) == ("2030-05-01T09:00:00Z", 3)
    at_nine = horae.ok("upcoming", "--label", "counted:1", "--at", "2030-05-01T09:00:00Z").table
    assert sorted(each["JOB"] for each in at_nine) == ["also-nine", "nine", "often"]
    assert horae("upcoming", "--at", "09:00", "--from", "10:00").code == 2


def test_a_deleted_job_is_restored_as_it_was(horae: Shell) -> None:
    horae.ok("job", "create", "back", "--cron", "0 9 * * *", "--noop", "--label", "team=ops")
    horae.ok("job", "edit", "back", "--priority", "high")
    old = horae.ok("job", "show", "back", "--fields", "job_id").out
    assert horae("job", "restore", "back").code == 4  # it is there
    horae.ok("job", "delete", "back", "--yes")

    assert horae.ok("job", "restore", "back", "--dry-run", "-o", "json").json["changes"][0]["action"] == "job.created"
    horae.ok("job", "restore", "back", "--paused")

    job = horae.ok("job", "show", "back", "-o", "json").json
    assert (job["schedule"], job["priority"], job["labels"], job["status"]) == (
        "0 9 * * *", "HIGH", {"team": "ops"}, "PAUSED",
    )  # fmt: skip
    assert job["job_id"] not in old
    assert horae("job", "restore", "nobody").code == 4


def test_schedules_are_explained_without_a_server(closed: Shell) -> None:
    words = ("schedule", "explain", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2030-03-30", "--count", "2")

    means, *lines = (line.split("\t") for line in closed.ok(*words).out.splitlines())
    assert (means[0], means[1][:38]) == ("means", "Every day at 02:30, Europe/Berlin time")
    assert [each[1] for each in lines if each[0] == "next"] == ["2030-03-30T01:30:00Z", "2030-03-31T01:00:00Z"]
    assert lines[-1][0] == "note"
    answer = closed.ok(*words, "-o", "json").json
    assert answer["warnings"]
    code, shown = closed.on_terminal(*words)
    assert (code, "Sun 2030-03-31 03:00:00 CEST" in shown) == (0, True)


def test_a_backfill_lists_starts_and_waits(horae: Shell) -> None:
    horae.ok("job", "create", "filled", "--noop", "--schedule", "0 * * * *")
    words = ("backfill", "filled", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T05:30:00Z")

    assert len(horae.ok(*words, "--dry-run").table) == 6
    assert horae.ok(*words, "--max", "2", "--wait", "-q").out == "2\n"
    assert horae.ok(*words, "--wait", "-q").out == "4\n"
    assert horae.ok(*words, "-q").out == "0\n"


def test_queues_are_listed_paused_and_limited(horae: Shell) -> None:
    horae.ok("queue", "pause", "side")
    horae.ok("job", "create", "waits", "--noop", "--queue", "side")
    horae.ok("job", "run", "waits")

    assert horae.ok("queue", "limit", "side", "3", "-o", "json").json["max_running"] == 3
    (row,) = [each for each in horae.ok("queue", "list").table if each["QUEUE"] == "side"]
    assert (row["PAUSED"], row["WAITING"], row["MOST_AT_ONCE"]) == ("yes", "1", "3")
    told = horae("doctor")
    assert "the queue is paused" in told.out
    horae.ok("queue", "resume", "side")
    horae.ok("queue", "limit", "side", "none")
    told = horae("doctor")
    assert (told.code, "no worker serves it" in told.out) == (1, True)
    run = horae.ok("run", "list", "--job", "waits", "-q").out.strip()
    horae.ok("run", "cancel", run)


def test_workers_are_listed_and_drained(tmp_path: Path) -> None:
    process = Process(tmp_path, "dev")
    try:
        process.wait_ready()
        horae = Shell(tmp_path, process.port)
        (worker,) = horae.ok("worker", "list", "-q").out.split()
        assert horae.ok("doctor").code == 0
        horae.ok("worker", "drain", worker)
        wait_for(lambda: horae.ok("worker", "list", "-o", "json").json[0]["state"] != "active")
        horae.ok("job", "create", "x", "--noop")
        told = horae("doctor", "-o", "json")
        assert (told.code, [each["state"] for each in told.json if each["check"] == "workers"]) == (1, ["bad"])
    finally:
        process.terminate()


def test_calendars_webhooks_and_secrets(horae: Shell) -> None:
    horae.ok("calendar", "set", "days", "--exclude", "2030-12-24", "--exclude", "2030-12-31")
    assert horae.ok("calendar", "show", "days", "-o", "json").json["exclude"] == ["2030-12-24", "2030-12-31"]
    assert "days" in horae.ok("calendar", "list", "-q").out.split()
    horae.ok("calendar", "delete", "days")

    hook = horae.ok("webhook", "create", "ops", "--to", "http://127.0.0.1:9/hook", "--event", "run.failed")
    assert "secret" in hook.out or hook.out.startswith("whsec_")
    horae.ok("webhook", "edit", "ops", "--event", "run.failed", "--event", "run.succeeded", "--inactive")
    shown = horae.ok("webhook", "show", "ops", "-o", "json").json
    assert (sorted(shown["events"]), shown["is_active"]) == (["run.failed", "run.succeeded"], False)
    old = hook.out.strip()
    assert horae.ok("webhook", "rotate", "ops", "-q").out.strip() != old
    horae.ok("webhook", "edit", "ops", "--active")
    sent = horae.ok("webhook", "test", "ops", "-q").out.strip()
    assert sent in horae.ok("webhook", "deliveries", "ops", "-q").out.split()
    assert sent in horae.ok("webhook", "deliveries", "-q").out.split()
    assert horae("webhook", "resend", sent).code in (0, 6)
    assert horae.ok("webhook", "list", "-q").out == "ops\n"
    horae.ok("webhook", "delete", "ops")

    horae.ok("secret", "set", "token", input="s3cret\n")
    assert horae.ok("secret", "list").table[0]["NAME"] == "token"
    horae.ok("job", "create", "uses", "--command", 'test "$T" = s3cret', "--set",
             'target.env={"T": "{{ secret.token }}"}', "--retries", "0")  # fmt: skip
    horae.ok("job", "run", "uses", "--wait")
    horae.ok("secret", "delete", "token")


def test_no_command_takes_a_secret_on_its_line() -> None:
    help_text = "".join(
        subprocess.run(
            [sys.executable, "-m", "horae", *words, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for words in (["secret", "set"], ["context", "add"], ["job", "list"])
    )

    assert "--value" not in help_text
    assert "--key " not in help_text
    assert "--api-key" not in help_text


def test_audit_shows_exports_and_verifies(horae: Shell) -> None:
    horae.ok("job", "create", "audited", "--noop")

    assert horae.ok("audit", "list", "--action", "job.created", "--limit", "1").table[0]["ACTION"] == "job.created"
    lines = horae.ok("audit", "export").out.splitlines()
    assert all(json.loads(line) for line in lines)
    assert horae.ok("audit", "verify", "-o", "json").json["ok"] is True


def test_the_editor_changes_what_was_changed(horae: Shell, tmp_path: Path) -> None:
    horae.ok("job", "create", "edited", "--noop", "--schedule", "0 9 * * *", "--description", "old")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/^description: old/description: new/; /^schedule:/d' \"$1\"\n")
    editor.chmod(0o755)

    horae.ok("job", "edit", "edited", EDITOR=str(editor))
    shown = horae.ok("job", "show", "edited", "-o", "json").json
    assert (shown["description"], shown["schedule"]) == ("new", "@manual")
    assert "Nothing changed" in horae.ok("job", "edit", "edited", EDITOR="true").err
    editor.write_text("#!/bin/sh\necho 'name: [' > \"$1\"\n")
    refused = horae("job", "edit", "edited", EDITOR=str(editor))
    assert refused.code == 7
    kept = re.search(r"kept in (\S+\.yaml)", refused.err)
    assert kept is not None
    assert Path(kept[1]).read_text() == "name: [\n"
    Path(kept[1]).unlink()
    editor.write_text("#!/bin/sh\nsed -i 's/^timeout: .*/timeout: soon/; s/^schedule: .*/schedule: ninety/' \"$1\"\n")
    refused = horae("job", "edit", "edited", EDITOR=str(editor))
    kept = re.search(r"kept in (\S+\.yaml)", refused.err)
    assert (refused.code, kept is not None) == (7, True), refused
    assert kept is not None
    assert "timeout: soon" in Path(kept[1]).read_text()
    Path(kept[1]).unlink()
    assert "no terminal" in horae("job", "edit", "edited", EDITOR="", VISUAL="").err


def test_contexts_lead_to_servers_and_keep_their_keys_to_themselves(server: Process, tmp_path: Path) -> None:
    horae = Shell(tmp_path, None)
    other = free_port()
    horae.ok("context", "add", "here", "--url", f"http://127.0.0.1:{server.port}", "--key-file", "-", input="hk_x\n")
    horae.ok("context", "add", "away", "--url", f"http://127.0.0.1:{other}", "--no-key", "--as-tenant", "ads")
    config = tmp_path / ".config" / "horae" / "config.toml"

    assert config.stat().st_mode & 0o777 == 0o600
    assert "hk_x" not in horae.ok("context", "ls", "-o", "json").out
    assert [each["is_current"] for each in horae.ok("context", "ls", "-o", "json").json] == [True, False]
    horae.ok("job", "list")
    assert horae("job", "list", "--context", "away").code == 9
    assert horae("job", "list", HORAE_CONTEXT="away").code == 9
    horae.ok("context", "use", "away")
    assert horae("job", "list").code == 9
    horae.ok("job", "list", HORAE_URL=f"http://127.0.0.1:{server.port}")
    horae.ok("context", "rm", "away")
    assert horae.ok("context", "ls", "-q").out == "here\n"
    config.write_text("contexts = 3\n")
    assert horae("job", "list").code == 2


def test_completion_is_printed_and_completes_names_of_jobs(horae: Shell) -> None:
    horae.ok("job", "create", "complete-me", "--noop")

    for shell in ("bash", "zsh", "fish"):
        assert "_HORAE_COMPLETE" in horae.ok("completion", shell).out
    asked = {"_HORAE_COMPLETE": "bash_complete", "COMP_WORDS": "horae job show comp", "COMP_CWORD": "3"}
    done = subprocess.run(
        [Path(sys.executable).with_name("horae")],
        env=horae.environment | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "complete-me" in done.stdout


def test_keys_tenants_and_refusals_of_a_closed_server(tmp_path: Path) -> None:
    admin = "admin-key-of-this-test-0123456789"
    process = Process(tmp_path, "serve", HORAE_ADMIN_KEY=admin, HORAE_DATABASE_URL=f"sqlite:///{tmp_path / 'h.db'}")
    try:
        process.wait_ready()
        nobody, horae = Shell(tmp_path, process.port), Shell(tmp_path, process.port, HORAE_API_KEY=admin)
        refused = nobody("job", "list")
        assert (refused.code, "HORAE_API_KEY" in refused.err) == (5, True)
        assert nobody("doctor").code == 1

        key = horae.ok("key", "create", "reader", "--role", "viewer", "--expires-in", "1h", "-q").out.strip()
        reader = Shell(tmp_path, process.port, HORAE_API_KEY=key)
        reader.ok("job", "list")
        assert reader("job", "create", "x", "--noop").code == 5
        (row,) = [each for each in horae.ok("key", "list").table if each["NAME"] == "reader"]
        assert horae.ok("key", "show", row["KEY"], "-o", "json").json["role"] == "viewer"
        fresh = horae.ok("key", "rotate", row["KEY"], "-o", "json").json
        horae.ok("key", "revoke", fresh["key_id"])
        assert Shell(tmp_path, process.port, HORAE_API_KEY=fresh["key"])("job", "list").code == 5

        horae.ok("tenant", "create", "ads", "--max-jobs", "1")
        horae.ok("job", "create", "one", "--noop", "--tenant", "ads")
        assert horae("job", "create", "two", "--noop", "--tenant", "ads").code != 0
        horae.ok("tenant", "edit", "ads", "--max-jobs", "none", "--weight", "3")
        assert horae.ok("tenant", "show", "ads", "-o", "json").json["weight"] == 3
        assert "ads" in horae.ok("tenant", "list", "-q").out.split()
    finally:
        process.terminate()

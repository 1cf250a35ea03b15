"""`--dry-run` of every command that changes something: it is tried, told, and nothing is other than before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from horae.cli.root import main
from tests.system.shell import Shell

# Verbs that change nothing, and commands that are servers or tools by themselves.
READERS = {
    "list", "show", "history", "logs", "wait", "deliveries", "ls", "verify", "explain", "next", "between", "check",
    "path", "export",
}  # fmt: skip
OTHERS = {
    "dev", "serve", "verify", "export", "status", "why", "upcoming", "forecast", "logs", "validate", "diff", "plan",
    "conform", "bench", "doctor", "top", "open", "whoami", "help", "worker run",
}  # fmt: skip


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from leaves(found, (*words, name))
    else:
        yield " ".join(words), command


def test_every_command_that_changes_something_can_be_tried_first() -> None:
    without = {
        words
        for words, command in leaves(main)
        if not any("--dry-run" in parameter.opts for parameter in command.params)
    }

    assert {words for words in without - OTHERS if words.split()[-1] not in READERS} == set()


def everything(horae: Shell) -> dict[str, Any]:
    paths = (
        "/jobs",
        "/jobs?status=CANCELLED",
        "/runs",
        "/dead-letters",
        "/queues",
        "/workers",
        "/calendars",
        "/webhooks",
    )
    paths += ("/secrets", "/keys", "/tenants", "/audit")
    told = {path: horae.ok("api", "GET", path).json for path in paths}
    for worker in told["/workers"]["workers"]:
        worker.pop("seen_at")
    for tenant in told["/tenants"]["tenants"]:
        tenant.pop("usage")
    for entry in told["/audit"]["entries"]:  # chained within a second, whatever else happens
        entry |= {"seq": None, "hash": None}
    config = horae.home / ".config/horae/config.toml"
    return told | {"config": config.read_text() if config.exists() else None}


@pytest.fixture
def filled(horae: Shell) -> dict[str, str]:
    """Something of every kind, by the name that commands have for it."""
    horae.ok("job", "create", "one", "--manual", "--noop", "--priority", "low")
    horae.ok("job", "edit", "one", "--priority", "high")
    horae.ok("job", "create", "doomed", "--manual", "--command", "false", "--retries", "0")
    horae("run", "doomed", "--wait")
    horae.ok("job", "create", "two", "--manual", "--noop")
    horae.ok("pause", "two")
    horae.ok("calendar", "set", "days", "--exclude", "2030-12-24")
    horae.ok("secret", "set", "token", input="some value")
    horae.ok("webhook", "create", "ops", "--to", "https://127.0.0.1:9/", "--event", "run.late")
    horae.ok("webhook", "edit", "ops", "--inactive")
    horae.ok("tenant", "create", "acme")
    horae.ok("queue", "pause", "idle")
    horae.ok("context", "add", "here", "--url", horae.environment["HORAE_URL"], "--no-key")
    horae.ok("context", "add", "there", "--url", "http://127.0.0.1:1", "--no-key")
    waiting = horae.ok("run", "one", "--at", "+5h", "-q").out.strip()
    (dead,) = horae.ok("dead", "list", "-q").out.split()
    delivery = horae.ok("webhook", "test", "ops", "-o", "json").json["delivery_id"]
    key = horae.ok("key", "create", "ci", "-o", "json").json["key_id"]
    (worker,) = horae.ok("worker", "list", "-q").out.split()
    return {"run": waiting, "dead": dead, "key": key, "delivery": delivery, "worker": worker}


TRIED = [
    ("job.created", "job create new --noop --every 1h"),
    ("job.changed", "job edit one --timeout 5m"),
    ("job.paused", "job pause one --reason why"),
    ("job.resumed", "resume two"),
    ("job.run", "run one --wait --timeout 1s"),
    ("job.deleted", "job delete one"),
    ("job.created", "job copy one three --paused"),
    ("job.changed", "job rename one uno"),
    ("job.changed", "job rollback one --to 1"),
    ("run.cancelled", "run cancel {run}"),
    ("run.retried", "retry {dead} --wait"),
    ("run.replayed", "replay {dead}"),
    ("run.discarded", "dead discard {dead}"),
    ("queue.changed", "queue pause default"),
    ("queue.changed", "queue resume idle"),
    ("queue.changed", "queue limit default 3"),
    ("queue.changed", "queue drain default"),
    ("worker.drained", "worker drain {worker}"),
    ("calendar.set", "calendar set days --exclude 2031-12-24"),
    ("calendar.deleted", "calendar delete days"),
    ("secret.set", "secret set token"),
    ("secret.deleted", "secret delete token"),
    ("webhook.created", "webhook create b --to https://example.com/ --event run.failed"),
    ("webhook.changed", "webhook edit ops --to https://example.com/"),
    ("webhook.rotated", "webhook rotate ops"),
    ("webhook.tested", "webhook test ops"),
    ("delivery.resent", "webhook resend {delivery}"),
    ("webhook.deleted", "webhook delete ops"),
    ("key.created", "key create other --role admin"),
    ("key.rotated", "key rotate {key}"),
    ("key.revoked", "key revoke {key}"),
    ("tenant.created", "tenant create second"),
    ("tenant.changed", "tenant edit acme --max-jobs 3"),
    ("job.deleted", "api DELETE /jobs/one"),
    ("context.used", "context use there"),
    ("context.kept", "context add third --url http://127.0.0.1:2 --no-key"),
    ("context.forgotten", "context rm there"),
    ("context.kept", "login fourth --key-file /dev/null"),
    ("context.logged_out", "logout here"),
    ("completion.installed", "completion install"),
]


def test_nothing_is_other_after_a_dry_run(horae: Shell, filled: dict[str, str]) -> None:
    before = everything(horae)

    for action, words in TRIED:
        given = words.format(**filled).split()
        if given[0] == "login":
            given += ["--url", horae.environment["HORAE_URL"]]
        done = horae.ok(*given, "--dry-run", "-o", "json", input="another value\n", SHELL="/bin/bash")

        assert done.json["dry_run"] is True, words
        assert [change["action"] for change in done.json["changes"]] == [action], words
    assert everything(horae) == before
    assert not (horae.home / ".local").exists()


def test_a_dry_run_fails_as_the_real_one_would(horae: Shell) -> None:
    horae.ok("job", "create", "there", "--noop")

    assert horae("job", "create", "there", "--noop", "--dry-run").code == 6
    assert horae("job", "delete", "nobody", "--dry-run").code == 4
    assert horae("job", "create", "x", "--cron", "61 * * * *", "--dry-run").code == 7
    some = horae("pause", "there", "nobody", "--dry-run")
    assert (some.code, "1 would go well, 1 failed: nobody" in some.err) == (10, True)
    assert horae.ok("job", "show", "there", "-o", "json").json["status"] != "PAUSED"


def test_people_are_told_what_would_be_other(horae: Shell) -> None:
    horae.ok("job", "create", "shown", "--noop", "--priority", "low")

    code, shown = horae.on_terminal("job", "edit", "shown", "--priority", "high", "--timeout", "5m", "--dry-run")

    assert code == 0
    assert "would be job.changed: shown" in shown
    assert 'priority "LOW" → "HIGH"' in shown
    assert 'timeout "30s" → "5m"' in shown
    assert "Nothing was changed." in shown
    assert "This would change nothing." in horae.ok("resume", "shown", "--dry-run").err


def test_a_schema_and_made_up_data_are_told_before_they_are_made(closed: Shell) -> None:
    store = ("--database-url", "sqlite:///here.db")

    assert "would apply 0001_pre_core" in closed.ok("migrate", "--dry-run", *store).out
    assert "20 jobs" in closed.ok("demo", "load", "--jobs", "20", "--dry-run", *store).out
    assert not (closed.home / "here.db").exists()
    closed.ok("migrate", *store)
    assert closed.ok("migrate", "--dry-run", *store).out == "The schema is up to date.\n"
    closed.ok("demo", "load", "--jobs", "20", "--runs", "100", *store)
    assert closed.ok("demo", "clear", "--dry-run", *store).out == "20 jobs would be gone, with their runs\n"
    assert closed.ok("demo", "clear", *store).out == "20 jobs are gone, with their runs\n"
    assert closed.ok("demo", "clear", *store).out == "0 jobs are gone, with their runs\n"

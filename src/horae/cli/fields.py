"""A job as flags: the options of `job create` and `job edit`, and the document that they make."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from horae.cli.failure import USAGE, Failure, unreadable
from horae.cli.times import read_time

PLAIN = {
    "timezone": "timezone",
    "queue": "queue",
    "priority": "priority",
    "timeout": "timeout",
    "overlap": "overlap",
    "misfire": "misfire",
    "jitter": "jitter",
    "max_concurrency": "max_concurrency",
    "max_runs": "max_runs",
    "calendar": "calendar",
    "delivery": "delivery",
    "description": "description",
}


HTTP_FLAGS = ("method", "header", "body")


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--schedule", "--cron", multiple=True, help="A cron line, '@every 5m', '@daily', …; repeatable."),
        click.option("--every", help="At this distance: 90s, 5m, 2h."),
        click.option("--at", help="Once, then: 09:00, 'tomorrow 09:00', +2h, 2030-01-04T09:00:00Z."),
        click.option("--manual", is_flag=True, help="Only on request."),
        click.option("--http", metavar="URL", help="Call this URL."),
        click.option("--method", help="With this method; default: POST."),
        click.option("--header", multiple=True, metavar="'NAME: VALUE'", help="With this header; repeatable."),
        click.option("--body", help="With this body: JSON, @file or - for standard input."),
        click.option("--command", help="Run this shell command."),
        click.option("--python", metavar="HANDLER", help="Call this handler of a worker."),
        click.option("--noop", is_flag=True, help="Do nothing, for trials."),
        click.option("--payload", help="What it works on: JSON, @file or - for standard input."),
        click.option("--timezone", "--tz", help="The zone of the schedule, such as Europe/Berlin."),
        click.option("--queue", help="Which queue."),
        click.option("--priority", help="high, medium or low."),
        click.option("--timeout", help="How long one attempt may take: 30s, 10m."),
        click.option("--retries", type=int, help="Attempts after the first."),
        click.option("--backoff", help="exponential, linear or fixed; with a first delay: exponential:10s."),
        click.option("--overlap", help="While an earlier run is unfinished: allow, skip, queue or replace."),
        click.option("--misfire", help="For missed due times: skip, run_once or catch_up."),
        click.option("--jitter", help="Delay each start by up to this length."),
        click.option("--max-concurrency", type=int, help="At most so many runs at once."),
        click.option("--max-runs", type=int, help="So many runs, then it is over."),
        click.option("--calendar", help="A calendar by name, or a country: DE, US-CA."),
        click.option("--delivery", help="at_least_once or at_most_once."),
        click.option(
            "--after", multiple=True, metavar="JOB[:ON]", help="Run after JOB: on success, failure or always."
        ),
        click.option("--label", multiple=True, metavar="NAME=VALUE", help="A label; repeatable."),
        click.option("--description", help="What it is for."),
        click.option("--set", "set_", multiple=True, metavar="FIELD=JSON", help="Any field: dst.gap='\"skip\"'."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def document_of(flags: dict[str, Any]) -> dict[str, Any]:
    """The fields that were given, and no others."""
    document = {field: flags[flag] for flag, field in PLAIN.items() if flags[flag] is not None}
    document |= _schedule(flags) | _target(flags) | _retry(flags)
    if flags["payload"] is not None:
        document["payload"] = read_json(flags["payload"], "--payload")
    if flags["label"]:
        document["labels"] = dict(read_pair(each, "--label", "team=billing") for each in flags["label"])
    if flags["after"]:
        after = [{"job": job, "on": on or "success"} for job, _, on in (each.partition(":") for each in flags["after"])]
        document["after"] = after[0] if len(after) == 1 else after
    for each in flags["set_"]:
        name, value = read_pair(each, "--set", "max_runs=5")
        _put(document, name.split("."), read_json(value, f"--set {name}"))
    return document


def read_json(text: str, flag: str) -> Any:
    """JSON from the flag itself, from `@file`, or from standard input for `-`."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(USAGE, f"{flag}: {text[1:]} cannot be read: {unreadable(error)}.", code="file") from None
    try:
        return json.loads(text)
    except ValueError as error:
        hint = f"""A text needs quotes of its own: {flag.split(maxsplit=1)[0]} '"text"'. From a file: @file.json."""
        raise Failure(USAGE, f"{flag}: not JSON: {error}.", code="json", hint=hint) from None


def _schedule(flags: dict[str, Any]) -> dict[str, Any]:
    lines = list(flags["schedule"])
    if flags["every"]:
        lines.append(f"@every {flags['every']}")
    if flags["at"]:
        lines.append(read_time(flags["at"], "--at", flags["timezone"], is_future=True))
    if flags["manual"]:
        lines.append("@manual")
    if not lines:
        return {}
    return {"schedule": lines[0] if len(lines) == 1 else lines}


def _target(flags: dict[str, Any]) -> dict[str, Any]:
    given = [name for name in ("http", "command", "python", "noop") if flags[name]]
    if len(given) > 1:
        told = " and ".join(f"--{name}" for name in given)
        raise Failure(USAGE, f"A job does one thing; {told} are several.", code="usage")
    if flags["http"]:
        return {"type": "http", "target": {"url": flags["http"], **http_part(flags)}}
    if stray := [name for name in HTTP_FLAGS if flags[name]]:
        hint = "Add --http URL, or leave it out."
        raise Failure(USAGE, f"--{stray[0]} is for jobs that call a URL.", code="usage", hint=hint)
    if not given:
        return {}
    if flags["command"]:
        return {"type": "shell", "target": {"command": flags["command"]}}
    if flags["python"]:
        return {"type": "python", "target": {"handler": flags["python"]}}
    return {"type": "noop", "target": {}}


def http_part(flags: dict[str, Any]) -> dict[str, Any]:
    """What the flags say of a call, but for where it goes."""
    part: dict[str, Any] = {}
    if flags["method"]:
        part["method"] = flags["method"].upper()
    if flags["header"]:
        part["headers"] = dict(read_header(each) for each in flags["header"])
    if flags["body"] is not None:
        part["body"] = read_json(flags["body"], "--body")
    return part


def read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        hint = "Write --header 'X-Team: billing'."
        raise Failure(USAGE, f'--header: "{text}" has no NAME: VALUE.', code="usage", hint=hint)
    return name.strip(), value.strip()


def _retry(flags: dict[str, Any]) -> dict[str, Any]:
    retry: dict[str, Any] = {} if flags["retries"] is None else {"max_retries": flags["retries"]}
    if flags["backoff"]:
        kind, _, delay = flags["backoff"].partition(":")
        retry |= {"backoff": kind} | ({"delay": delay} if delay else {})
    return {"retry": retry} if retry else {}


def read_pair(text: str, flag: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise Failure(USAGE, f'{flag}: "{text}" has no NAME=VALUE.', code="usage", hint=f"Write {flag} {example}.")
    return name, value


def _put(document: dict[str, Any], names: list[str], value: Any) -> None:
    for name in names[:-1]:
        inner = document.setdefault(name, {})
        if not isinstance(inner, dict):
            raise Failure(USAGE, f'--set {".".join(names)}: "{name}" has no fields inside.', code="usage")
        document = inner
    document[names[-1]] = value

"""`horae doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from horae.cli.failure import FAILED, UNREACHABLE, Failure
from horae.cli.output import Column
from horae.cli.session import Command, Session
from horae.cli.times import now
from horae.core.access import is_shared

if TYPE_CHECKING:
    from horae.cli.client import Client

SKEW_SECONDS = 0.5
GOOD, WARNING, BAD = "ok", "warning", "bad"
SIGNS = {GOOD: "✓", WARNING: "!", BAD: "✗"}
COLOURS = {GOOD: "green", WARNING: "yellow", BAD: "red"}


class Finding(NamedTuple):
    check: str
    state: str
    fact: str
    fix: str = ""


@click.command(cls=Command)
@click.pass_obj
def doctor(session: Session) -> None:
    """Look at server, schema, version, clock, workers and queues. Exit code 1: something is bad, 9: nobody answers."""
    findings = []
    for found in examine(session.client):
        findings.append(found)
        if session.out.form == "table":
            click.secho(f"{SIGNS[found.state]} {found.check:9} {found.fact}", fg=COLOURS[found.state])
            if found.fix:
                click.echo(f"            {found.fix}")
    if session.out.form != "table":
        columns: list[Column] = [(name, name) for name in Finding._fields]
        session.out.rows([each._asdict() for each in findings], columns, "check")
    bad = [each for each in findings if each.state == BAD]
    if bad:
        sys.exit(UNREACHABLE if bad[0].check == "server" else FAILED)


def examine(client: Client) -> Iterator[Finding]:
    try:
        answer, _ = client.exchange("GET", "/healthz")
    except Failure as error:
        yield Finding("server", BAD, error.detail, error.hint)
        return
    if answer.status != 200:
        yield Finding(
            "server", BAD, f"{client.url} answered {answer.status}: is it a horae?", "Check --url and HORAE_URL."
        )
        return
    yield Finding("server", GOOD, f"{client.url} answers")
    yield _ready(client)
    yield _version(client)
    try:
        started = time.monotonic()
        stats = client.get("/stats")
        took = time.monotonic() - started
    except Failure as error:
        yield Finding("key", BAD, error.detail, error.hint or "Set HORAE_API_KEY to a key that may read.")
        return
    yield Finding("key", GOOD, "may read")
    yield _clock(stats["at"], took)
    yield from _work(client, stats)


def _ready(client: Client) -> Finding:
    answer, data = client.exchange("GET", "/readyz")
    if answer.status == 200:
        return Finding("store", GOOD, "the store answers and its schema is current")
    try:
        told = "; ".join(json.loads(data)["reasons"])
    except (ValueError, KeyError, TypeError):
        told = f"/readyz answered {answer.status}"
    fix = "Run `horae migrate`." if "migrat" in told or "schema" in told else "Look at the database of the server."
    return Finding("store", BAD, f"not ready: {told}", fix)


def _version(client: Client) -> Finding:
    from importlib.metadata import version

    own = version("horae")
    try:
        theirs = json.loads(client.exchange("GET", "/openapi.json")[1])["info"]["version"]
    except (ValueError, KeyError, TypeError):
        return Finding("version", WARNING, "the server does not say its version")
    if theirs == own:
        return Finding("version", GOOD, f"server and command line are {own}")
    return Finding("version", WARNING, f"server {theirs}, command line {own}", "Install the same on both.")


def _clock(told: str, took: float) -> Finding:
    from datetime import datetime

    # The server looked at its clock some time between question and answer.
    ahead = (datetime.fromisoformat(told) - now()).total_seconds() + took / 2
    if abs(ahead) - took / 2 <= SKEW_SECONDS:
        return Finding("clock", GOOD, f"within {max(abs(ahead), took / 2) * 1000:.0f} ms of this machine's")
    word = "ahead of" if ahead > 0 else "behind"
    return Finding("clock", WARNING, f"the server is {abs(ahead):.1f} s {word} this machine", "Set both by NTP.")


def _work(client: Client, stats: dict[str, Any]) -> Iterator[Finding]:
    workers = [each for each in client.get("/workers")["workers"] if each["state"] == "active"]
    lines = [line for line in stats["waiting"] if line["queued"]]
    if workers:
        slots, running = (sum(each[field] for each in workers) for field in ("slots", "running"))
        state = WARNING if running >= slots else GOOD
        fix = "Start more workers, or raise HORAE_WORKER_SLOTS." if state == WARNING else ""
        yield Finding("workers", state, f"{len(workers)} alive, {running} of {slots} slots busy", fix)
    else:
        state = BAD if stats["jobs"] else WARNING
        yield Finding("workers", state, "none is alive", _fix({line["needs"] for line in lines}))
    paused = {each["queue"] for each in client.get("/queues")["queues"] if each["paused"]}
    for line in lines:
        yield _queue(line, workers, paused)
    dead = stats["dead_letters"]
    if dead:
        more = "+" if dead >= stats["counted_up_to"] else ""
        yield Finding("dead", WARNING, f"{dead}{more} runs failed for good", "horae dead list")
    else:
        yield Finding("dead", GOOD, "no dead letters")


def _queue(line: dict[str, Any], workers: list[dict[str, Any]], paused: set[str]) -> Finding:
    name, needs = line["queue"], line["needs"]
    work = f"{line['queued']} waiting in {name}" + (f" for {needs}" if needs else "")
    if name in paused:
        return Finding("queue", WARNING, f"{work}; the queue is paused", f"horae queue resume {name}")
    serving = [each for each in workers if name in each["queues"] or "*" in each["queues"]]
    if not serving:
        return Finding("queue", BAD, f"{work}; no worker serves it", _fix({needs}, f" --worker-queues {name}"))
    able = [each for each in serving if _offers(each, needs)]
    if not able:
        fix = "Set HORAE_SHELL=on for a worker." if needs == "shell" else _fix({needs}, f" --worker-queues {name}")
        return Finding("queue", BAD, f"{work}; no worker can do that", fix)
    return Finding("queue", GOOD, f"{work}; {len(able)} workers serve it")


def _offers(worker: dict[str, Any], needs: str | None) -> bool:
    """One that came over HTTP takes runs of its handlers alone."""
    return needs in worker["needs"] if needs else is_shared(worker["worker_id"])


def _fix(needs: set[str | None], flags: str = "") -> str:
    """`serve` has no handlers; where other work waits as well it is the first thing to start."""
    handlers = sorted(each.removeprefix("handler:") for each in needs if each and each.startswith("handler:"))
    if not handlers or len(handlers) < len(needs):
        return f"Start one: horae serve --roles worker{flags}"
    one = f"Start a worker with {'this handler' if len(handlers) == 1 else 'these handlers'}"
    return f"{one} ({', '.join(handlers)}): horae worker MODULE:APP{flags}"

"""`horae queue` and `horae worker`: where runs wait, and who takes them."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.completion import queue_names, worker_ids
from horae.cli.each import post_each
from horae.cli.failure import GAVE_UP, NOT_FOUND, Failure, path
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing

QUEUES: list[Column] = [
    ("queue", "queue"),
    ("waiting", lambda queue: f"{queue['queued']}{'' if queue['queued_is_exact'] else '+'}"),
    ("running", "running"),
    ("oldest", "oldest_age_ms"),
    ("paused", "paused"),
    ("most at once", "max_running"),
]
WORKERS: list[Column] = [
    ("worker", "worker_id"),
    ("node", "node"),
    ("state", "state"),
    ("running", "running"),
    ("slots", "slots"),
    ("queues", lambda worker: ",".join(worker["queues"])),
    ("can", lambda worker: ",".join(worker["needs"])),
    ("seen", "seen_at"),
]
QUEUE_NAME = click.argument("name", metavar="QUEUE", shell_complete=queue_names)
QUEUE_NAMES = click.argument("name", metavar="QUEUE...", nargs=-1, required=True, shell_complete=queue_names)


@click.group(cls=Group)
def queue() -> None:
    """Queues: where runs wait."""


@queue.command("list")
@click.pass_obj
def list_queues(session: Session) -> None:
    """What waits and what runs in each."""
    found = session.client.get("/queues")["queues"]
    session.out.rows(found, QUEUES, "queue", "No queue has been used yet.")


@queue.command("show")
@QUEUE_NAME
@click.pass_obj
def show_queue(session: Session, name: str) -> None:
    """One queue: what waits by priority, and who serves it."""
    found = _queue(session, name)
    workers = session.client.get("/workers")["workers"]
    alive = [each for each in workers if each["state"] != "lost"]
    found["workers"] = [each["node"] for each in alive if name in each["queues"] or "*" in each["queues"]]
    session.out.one(found, "queue")
    if not found["workers"]:
        session.out.say(f"No worker serves it. Start one: horae serve --roles worker --worker-queues {name}")


@queue.command("drain")
@QUEUE_NAME
@click.option("--timeout", help="Stop waiting after this long, with exit code 8; the queue stays paused.")
@changing
@click.pass_obj
def drain_queue(session: Session, name: str, timeout: str | None) -> None:
    """Pause it, and wait until nothing of it runs any more. `horae queue resume` opens it again."""
    import time

    from horae.cli.times import read_length
    from horae.cli.waiting import limit_request

    deadline = None if timeout is None else time.monotonic() + read_length(timeout, "--timeout")
    limit_request(session, timeout)
    session.client.post(path("queues", name, "pause"))
    while (found := _queue(session, name))["running"]:
        if deadline is not None and time.monotonic() >= deadline:
            hint = f"horae run list --queue {name} --status running shows them."
            detail = f"{found['running']} runs of {name} have not ended in time; the queue stays paused."
            raise Failure(GAVE_UP, detail, code="timeout", hint=hint)
        time.sleep(0.2)
    session.out.done(found, "queue", f"Drained {name}: paused, nothing runs, {found['queued']} wait.")


@queue.command("pause")
@QUEUE_NAMES
@changing
@click.pass_obj
def pause(session: Session, name: tuple[str, ...]) -> None:
    """Start no runs of it; they wait."""
    post_each(session, name, ("queues", "pause"), "queue", "Paused")


@queue.command("resume")
@QUEUE_NAMES
@changing
@click.pass_obj
def resume(session: Session, name: tuple[str, ...]) -> None:
    """Start runs again."""
    post_each(session, name, ("queues", "resume"), "queue", "Resumed")


@queue.command("limit")
@QUEUE_NAME
@click.argument("most", metavar="N|none")
@changing
@click.pass_obj
def limit(session: Session, name: str, most: str) -> None:
    """At most N of its runs at once; `none` lifts it."""
    if most != "none" and not most.isdigit():
        raise click.BadParameter(f'"{most}" is neither a number nor none.')
    body = {"max_running": None if most == "none" else int(most)}
    made = session.client.call("PATCH", path("queues", name), body)
    session.out.done(made, "queue", f"{name}: {'no limit' if most == 'none' else f'at most {most} at once'}")


def _queue(session: Session, name: str) -> dict[str, Any]:
    queues: list[dict[str, Any]] = session.client.get("/queues")["queues"]
    for each in queues:
        if each["queue"] == name:
            return each
    hint = f"Known: {', '.join(each['queue'] for each in queues) or 'none'}."
    raise Failure(NOT_FOUND, f'There is no queue "{name}".', code="no_queue", hint=hint)


@click.group(cls=Group)
def worker() -> None:
    """Workers: who runs the runs. `horae worker module:app` is one."""


@worker.command("list")
@click.pass_obj
def list_workers(session: Session) -> None:
    """The workers, and for a while those that were lost."""
    found = session.client.get("/workers")["workers"]
    session.out.rows(found, WORKERS, "worker_id", "No worker is alive. `horae serve --roles worker` is one.")


@worker.command("drain")
@click.argument("worker_id", metavar="WORKER...", nargs=-1, required=True, shell_complete=worker_ids)
@changing
@click.pass_obj
def drain(session: Session, worker_id: tuple[str, ...]) -> None:
    """No new runs for it; those it has may end."""
    post_each(session, worker_id, ("workers", "drain"), "worker_id", "Draining")

"""`horae queue` and `horae worker`: where runs wait, and who takes them."""

from __future__ import annotations

import click

from horae.cli.client import path
from horae.cli.each import post_each
from horae.cli.output import Column
from horae.cli.session import Group, Session

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


@click.group(cls=Group)
def queue() -> None:
    """Queues: where runs wait."""


@queue.command("list")
@click.pass_obj
def list_queues(session: Session) -> None:
    """What waits and what runs in each."""
    found = session.client.get("/queues")["queues"]
    session.out.rows(found, QUEUES, "queue", "No queue has been used yet.")


@queue.command("pause")
@click.argument("name", metavar="QUEUE...", nargs=-1, required=True)
@click.pass_obj
def pause(session: Session, name: tuple[str, ...]) -> None:
    """Start no runs of it; they wait."""
    post_each(session, name, ("queues", "pause"), "queue", "Paused")


@queue.command("resume")
@click.argument("name", metavar="QUEUE...", nargs=-1, required=True)
@click.pass_obj
def resume(session: Session, name: tuple[str, ...]) -> None:
    """Start runs again."""
    post_each(session, name, ("queues", "resume"), "queue", "Resumed")


@queue.command("limit")
@click.argument("name", metavar="QUEUE")
@click.argument("most", metavar="N|none")
@click.pass_obj
def limit(session: Session, name: str, most: str) -> None:
    """At most N of its runs at once; `none` lifts it."""
    if most != "none" and not most.isdigit():
        raise click.BadParameter(f'"{most}" is neither a number nor none.')
    body = {"max_running": None if most == "none" else int(most)}
    made = session.client.call("PATCH", path("queues", name), body)
    session.out.done(made, "queue", f"{name}: {'no limit' if most == 'none' else f'at most {most} at once'}")


@click.group(cls=Group)
def worker() -> None:
    """Workers: who runs the runs. `horae worker module:app` is one."""


@worker.command("list")
@click.pass_obj
def list_workers(session: Session) -> None:
    """The workers that are alive."""
    found = session.client.get("/workers")["workers"]
    session.out.rows(found, WORKERS, "worker_id", "No worker is alive. `horae serve --roles worker` is one.")


@worker.command("drain")
@click.argument("worker_id", metavar="WORKER...", nargs=-1, required=True)
@click.pass_obj
def drain(session: Session, worker_id: tuple[str, ...]) -> None:
    """No new runs for it; those it has may end."""
    post_each(session, worker_id, ("workers", "drain"), "worker_id", "Draining")

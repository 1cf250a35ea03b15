"""`horae webhook`: who is told of what, and the messages to them."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.each import delete_each, post_each
from horae.cli.failure import path
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing, paged

COLUMNS: list[Column] = [
    ("name", "name"),
    ("url", "url"),
    ("events", lambda hook: ",".join(hook["events"])),
    ("active", "is_active"),
    ("changed", "updated_at"),
]
DELIVERIES: list[Column] = [
    ("delivery", "delivery_id"),
    ("event", "event"),
    ("state", "state"),
    ("attempts", "attempts"),
    ("status", "status"),
    ("error", "error"),
    ("made", "created_at"),
]


@click.group(cls=Group)
def webhook() -> None:
    """Webhooks: who is told of what. HOOK is a name or an id.

    \b
    horae webhook create ops --to https://example.com/hook --event run.failed
    """


@webhook.command("list")
@click.pass_obj
def list_webhooks(session: Session) -> None:
    """All of them."""
    session.out.rows(session.client.get("/webhooks")["webhooks"], COLUMNS, "name", "No webhooks.")


@webhook.command("show")
@click.argument("hook")
@click.pass_obj
def show(session: Session, hook: str) -> None:
    """One webhook."""
    session.out.one(session.client.get(path("webhooks", hook)), "name")


@webhook.command("create")
@click.argument("name")
@click.option("--to", "to_url", required=True, metavar="URL", help="Where messages go.")
@click.option("--event", multiple=True, required=True, help="Such as run.failed; repeatable.")
@click.option("--late-after", help="For run.late: how late.")
@changing
@click.pass_obj
def create(session: Session, name: str, to_url: str, event: tuple[str, ...], late_after: str | None) -> None:
    """Tell URL of events. The secret that signs the messages is shown once."""
    body = {"name": name, "url": to_url, "events": list(event)} | ({"late_after": late_after} if late_after else {})
    _show_secret(session, session.client.post("/webhooks", body))


@webhook.command("edit")
@click.argument("hook")
@click.option("--to", "to_url", metavar="URL", help="Where messages go.")
@click.option("--event", multiple=True, help="All of its events anew; repeatable.")
@click.option("--late-after", help="For run.late: how late.")
@click.option("--active/--inactive", "is_active", default=None, help="Send messages or not.")
@changing
@click.pass_obj
def edit(session: Session, /, hook: str, to_url: str | None, event: tuple[str, ...], **flags: Any) -> None:
    """Change what is given."""
    body = {"url": to_url, "events": list(event) or None} | flags
    given = {key: value for key, value in body.items() if value is not None}
    made = session.client.call("PATCH", path("webhooks", hook), given)
    session.out.done(made, "name", f"Changed {made['name']}")


@webhook.command("delete")
@click.argument("hook", metavar="HOOK...", nargs=-1, required=True)
@changing
@click.pass_obj
def delete(session: Session, hook: tuple[str, ...]) -> None:
    """Tell them no more."""
    delete_each(session, hook, "webhooks", "id")


@webhook.command("rotate")
@click.argument("hook")
@changing
@click.pass_obj
def rotate(session: Session, hook: str) -> None:
    """A new secret, shown once."""
    _show_secret(session, session.client.post(path("webhooks", hook, "rotate")))


@webhook.command("test")
@click.argument("hook")
@changing
@click.pass_obj
def test(session: Session, hook: str) -> None:
    """Send a message now."""
    made = session.client.post(path("webhooks", hook, "test"))
    session.out.done(made, "delivery_id", f"Sent; see: horae webhook deliveries {hook}")


@webhook.command("deliveries")
@click.argument("hook", required=False)
@click.option("--state", help="waiting, delivered or dead.")
@paged(50)
@click.pass_obj
def deliveries(session: Session, hook: str | None, state: str | None, most: int | None) -> None:
    """Messages, newest first: of one webhook, or all."""
    where = path("webhooks", hook, "deliveries") if hook else "/deliveries"
    found = session.client.pages(where, "deliveries", most, state=state)
    session.show(found, DELIVERIES, "delivery_id", "No messages.")


@webhook.command("resend")
@click.argument("delivery", metavar="DELIVERY...", nargs=-1, required=True)
@changing
@click.pass_obj
def resend(session: Session, delivery: tuple[str, ...]) -> None:
    """Send a message once more."""
    post_each(session, delivery, ("deliveries", "resend"), "delivery_id", "Sending again:")


def _show_secret(session: Session, made: dict[str, Any]) -> None:
    session.out.done(made, "secret", f"{made['name']}: {made['url']}\nsecret, shown only now: {made['secret']}")

"""`horae login`, `logout` and `whoami`: the key of a server, kept in a context."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from horae.cli.client import Client
from horae.cli.context import DEFAULT_URL, check_name, keep, read_config
from horae.cli.failure import DENIED, NOT_FOUND, USAGE, Failure
from horae.cli.session import Command, Session, changing


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option("--url", "address", help=f"The server; default: that of NAME, HORAE_URL or {DEFAULT_URL}.")
@click.option("--as-tenant", help="The tenant to name with every request (for admin keys).")
@click.option("--key-file", type=click.File("r"), help="A file with the API key, - for standard input.")
@changing
@click.pass_obj
def login(session: Session, name: str | None, address: str | None, as_tenant: str | None, key_file: Any) -> None:
    """Try a key on a server and keep both under NAME, as the current context.

    The key is asked for, or read from a file; never from a flag.

    \b
    horae login prod --url https://horae.example.com
    horae login --key-file key.txt
    """
    config, told_url = read_config(), os.environ.get("HORAE_URL")
    is_named = name is not None
    name = name or "default"
    check_name(name)
    known = config["contexts"].get(name, {})
    url = address or (known.get("url") or told_url if is_named else told_url or known.get("url")) or DEFAULT_URL
    tenant = as_tenant or known.get("tenant") or ""
    key = key_file.read().strip() if key_file else _asked(url)
    who = Client(url, key or None, tenant or None).get("/whoami")
    config["contexts"][name] = {"url": url, "key": key, "tenant": tenant}
    keep(session, config | {"current": name}, "context.kept", name)
    told = f"Logged in to {url} as {who['actor']}: role {who['role']}, tenant {who['tenant']}. Context: {name}."
    session.out.done(who, "actor", told)


@click.command(cls=Command)
@click.argument("name", required=False)
@changing
@click.pass_obj
def logout(session: Session, name: str | None) -> None:
    """Forget the key of NAME, or of the current context. The key itself works on: `horae key revoke` ends it."""
    config = read_config()
    name = name or config.get("current")
    if not name or name not in config["contexts"]:
        known = ", ".join(config["contexts"]) or "none"
        detail = f'There is no context "{name}".' if name else "You are not logged in anywhere."
        raise Failure(NOT_FOUND, detail, code="no_context", hint=f"Known: {known}.")
    config["contexts"][name].pop("key", None)
    keep(session, config, "context.logged_out", name)
    session.out.say(f"Forgot the key of {name}.")


@click.command(cls=Command)
@click.pass_obj
def whoami(session: Session) -> None:
    """Which server this would go to, and as whom."""
    place = session.place
    try:
        who = session.client.get("/whoami")
    except Failure as error:
        if error.exit_code == DENIED:
            error.hint = f"This went to {place.url} ({place.origin}). Log in: horae login"
        raise
    session.out.one({"url": place.url, "chosen_by": place.origin} | who, "actor")


def _asked(url: str) -> str:
    if not sys.stdin.isatty():
        hint = "Give it by a file: --key-file key.txt, or --key-file - for standard input."
        raise Failure(USAGE, "Nobody is there to be asked for the key.", code="usage", hint=hint)
    key: str = click.prompt(
        f"API key for {url} (empty for none)", default="", hide_input=True, show_default=False, err=True
    )
    return key.strip()

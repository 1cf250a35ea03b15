"""`horae secret`: named values that jobs use and nobody reads back."""

from __future__ import annotations

import sys
from typing import Any

import click

from horae.cli.each import delete_each
from horae.cli.failure import USAGE, Failure, path
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing

COLUMNS: list[Column] = [("name", "name"), ("version", "version"), ("created", "created_at"), ("changed", "updated_at")]


@click.group(cls=Group)
def secret() -> None:
    """Secrets: named values that jobs use and nobody reads back.

    \b
    horae secret set api-token < token.txt
    """


@secret.command("list")
@click.pass_obj
def list_secrets(session: Session) -> None:
    """Their names, never their values."""
    session.out.rows(session.client.get("/secrets")["secrets"], COLUMNS, "name", "No secrets.")


@secret.command("set")
@click.argument("name")
@click.option("--file", type=click.File("r"), help="Take the value from this file.")
@click.option("--keep-newline", is_flag=True, help="Keep the line end at the end of the value.")
@changing
@click.pass_obj
def set_secret(session: Session, name: str, file: Any, keep_newline: bool) -> None:
    """Set a secret. The value is asked for, or comes from standard input or a file; never from a flag."""
    if file is None and sys.stdin.isatty():
        value = click.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        try:
            value = (file or sys.stdin).read()
        except UnicodeDecodeError:
            raise Failure(
                USAGE, "The value is not text in UTF-8.", code="value", hint="Encode it, as with base64."
            ) from None
        if not keep_newline:
            value = value.removesuffix("\n").removesuffix("\r")
    made = session.client.call("PUT", path("secrets", name), {"value": value})
    session.out.done(made, "name", f"Set {name}, version {made['version']}")


@secret.command("delete")
@click.argument("name", metavar="NAME...", nargs=-1, required=True)
@changing
@click.pass_obj
def delete(session: Session, name: tuple[str, ...]) -> None:
    """Forget a secret."""
    delete_each(session, name, "secrets", "name")

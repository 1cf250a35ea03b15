"""`horae config`: which settings hold here, and who set them."""

from __future__ import annotations

import os
from typing import Any

import click

from horae.cli.output import Column
from horae.cli.session import Group, Session

HIDDEN = ("admin_key", "secret_key", "old_secret_key")


@click.group(cls=Group)
def config() -> None:
    """Settings of this machine: the client's, and those that a server started here would have."""


@config.command("show")
@click.option("--origin", is_flag=True, help="Also who set each of them.")
@click.option("--dev", "is_dev", is_flag=True, help="As `horae dev` would have them.")
@click.pass_obj
def show(session: Session, origin: bool, is_dev: bool) -> None:
    """Every setting with its value. Keys and passwords are not shown."""
    items = [*_client(session), *_server(is_dev=is_dev)]
    columns: list[Column] = [("setting", "setting"), ("value", "value")]
    session.out.rows(items, [*columns, ("origin", "origin")] if origin else columns, "setting")


@config.command("path")
def where() -> None:
    """Where contexts and their keys are kept."""
    from horae.cli.context import config_path

    click.echo(str(config_path()))


def _client(session: Session) -> list[dict[str, Any]]:
    place = session.place
    from_env = bool(os.environ.get("HORAE_API_KEY", "").strip())
    key_origin = "HORAE_API_KEY" if from_env and place.key == os.environ["HORAE_API_KEY"].strip() else place.origin
    return [
        {"setting": "url", "value": place.url, "origin": place.origin},
        {
            "setting": "key",
            "value": "set" if place.key else "none",
            "origin": key_origin if place.key else "the default",
        },
        {
            "setting": "tenant",
            "value": place.tenant or "the key's",
            "origin": place.origin if place.tenant else "the default",
        },
    ]


def _server(*, is_dev: bool) -> list[dict[str, Any]]:
    from dataclasses import fields

    from horae.config import Settings, read_settings

    settings = read_settings(os.environ, {}, is_dev=is_dev, is_server=False)
    items = []
    for field in fields(Settings):
        if field.name == "is_dev":
            continue
        variable, value = f"HORAE_{field.name.upper()}", getattr(settings, field.name)
        if field.name in HIDDEN:
            value = "set" if value else ""
        elif field.name == "database_url":
            value = _without_password(value)
        origin = variable if variable in os.environ else "the default"
        items.append({"setting": field.name, "value": value, "origin": origin})
    return items


def _without_password(url: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url

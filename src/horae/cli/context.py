"""Which horae is meant: flags, variables, and contexts kept in the user's config file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import click

from horae.cli.failure import DENIED, NOT_FOUND, USAGE, Failure
from horae.cli.project import Project, find_project
from horae.cli.session import Group, Session, changing

DEFAULT_URL = "http://127.0.0.1:8700"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Place(NamedTuple):
    """Where to go, and who chose it."""

    url: str
    key: str | None
    tenant: str | None
    origin: str


def find_place(url: str | None, name: str | None) -> Place:
    """The first of --url, --context, HORAE_URL, HORAE_CONTEXT, the project's file, the current context, the default.
    The key of a context goes to no other address.
    """
    key = os.environ.get("HORAE_API_KEY", "").strip() or None
    if url or (not name and os.environ.get("HORAE_URL")):
        return Place(url or os.environ["HORAE_URL"], key, None, "--url" if url else "HORAE_URL")
    if name:
        return _of_context(read_config(), name, key, "--context")
    if name := os.environ.get("HORAE_CONTEXT"):
        return _of_context(read_config(), name, key, "HORAE_CONTEXT")
    if (project := find_project()) is not None and (project.server or project.context or project.tenant):
        return _of_project(project, key)
    return _current(key)


def _current(key: str | None) -> Place:
    config = read_config() if config_path().exists() else {}
    if name := config.get("current"):
        return _of_context(config, name, key, "the current context")
    return Place(DEFAULT_URL, key, None, "the default")


def _of_context(config: dict[str, Any], name: str, key: str | None, origin: str) -> Place:
    found = config["contexts"].get(name)
    if found is None:
        hint = f"Add it: horae context add {name} --url URL. Known: {', '.join(config['contexts']) or 'none'}."
        raise Failure(NOT_FOUND, f'There is no context "{name}" ({origin}).', code="no_context", hint=hint)
    return Place(found["url"], found.get("key") or key, found.get("tenant"), f"{name} ({origin})")


def _of_project(project: Project, key: str | None) -> Place:
    origin = str(project.path)
    if project.context:
        place = _of_context(read_config(), project.context, key, origin)
    elif project.server:
        place = Place(project.server, _key_for(project, project.server, key), None, origin)
    else:
        place = _current(key)._replace(origin=origin)
    return place._replace(tenant=project.tenant or place.tenant)


def _key_for(project: Project, server: str, key: str | None) -> str | None:
    """Whoever wrote the file chose the address: a key goes there only if its owner named that address as well."""
    for context in read_config()["contexts"].values():
        if context["url"].rstrip("/") == server.rstrip("/"):
            return context.get("key") or key
    if key and not _is_loopback(server):
        detail = f"{project.path} names {server}, and HORAE_API_KEY is not sent where only a file says."
        hint = f"If you know that server: horae login --url {server}, or set HORAE_URL={server} as well."
        raise Failure(DENIED, detail, code="unknown_server", hint=hint)
    return key


def _is_loopback(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def config_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "horae" / "config.toml"


def read_config() -> dict[str, Any]:
    import tomllib

    where = config_path()
    try:
        with where.open("rb") as file:
            config = tomllib.load(file)
    except FileNotFoundError:
        config = {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Failure(
            USAGE, f"{where} cannot be read: {error}.", code="config", hint="Mend it or move it away."
        ) from None
    contexts = config.setdefault("contexts", {})
    if not isinstance(contexts, dict) or not all(
        isinstance(each, dict) and isinstance(each.get("url"), str) for each in contexts.values()
    ):
        hint = 'Write [contexts.prod] and below it url = "https://horae.example.com".'
        raise Failure(USAGE, f"{where}: every context needs a url.", code="config", hint=hint)
    return config


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Failure(USAGE, f'"{name}" is no name of a context.', code="name", hint="Letters, digits, . _ and -.")


def write_config(config: dict[str, Any]) -> None:
    lines = [f"current = {_quoted(config['current'])}\n"] if config.get("current") else []
    for name, fields in config["contexts"].items():
        lines.append(f"\n[contexts.{_quoted(name)}]\n")
        lines += [f"{field} = {_quoted(value)}\n" for field, value in fields.items() if value]
    where = config_path()
    where.parent.mkdir(parents=True, exist_ok=True)
    fresh = where.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    # A key is inside: nobody else may read it, from the first byte on.
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("".join(lines).lstrip())
    fresh.replace(where)


def keep(session: Session, config: dict[str, Any], action: str, name: str) -> None:
    """Write it, or in a dry run say what would be other. A key is not shown."""
    if session.is_dry:
        from horae.cli.failure import Rehearsed
        from horae.cli.rehearsal import would_change

        before, after = (_shown(each, name) for each in (read_config(), config))
        raise Rehearsed(would_change(action, name, before, after))
    write_config(config)


def _shown(config: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = config["contexts"].get(name)
    if found is None:
        return None
    told = {"url": found["url"], "tenant": found.get("tenant") or None, "has_key": bool(found.get("key"))}
    return told | {"is_current": config.get("current") == name}


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)


@click.group(cls=Group)
def context() -> None:
    """Servers by name, kept in ~/.config/horae/config.toml.

    \b
    horae context add prod --url https://horae.example.com --key-file key.txt
    horae context use prod
    """


@context.command("ls")
@click.pass_obj
def list_contexts(session: Session) -> None:
    """The contexts; the current one is marked."""
    config = read_config()
    items = [
        {
            "name": name,
            "url": each["url"],
            "tenant": each.get("tenant"),
            "has_key": bool(each.get("key")),
            "is_current": name == config.get("current"),
        }
        for name, each in config["contexts"].items()
    ]
    columns = [("name", "name"), ("url", "url"), ("tenant", "tenant"), ("key", "has_key"), ("current", "is_current")]
    session.out.rows(items, columns, "name", "No contexts yet: horae context add NAME --url URL")


@context.command("use")
@click.argument("name")
@changing
@click.pass_obj
def use(session: Session, name: str) -> None:
    """Make NAME the one that is meant when nothing else is said."""
    config = _config_with(name)
    keep(session, config | {"current": name}, "context.used", name)
    session.out.say(f"Now {name}: {config['contexts'][name]['url']}")


@context.command("add")
@click.argument("name")
@click.option(
    "--url", "address", required=True, envvar="HORAE_URL", help="Such as https://horae.example.com (HORAE_URL)."
)
@click.option("--as-tenant", help="The tenant to name with every request (for admin keys).")
@click.option("--key-file", type=click.File("r"), help="A file with the API key, - for standard input.")
@click.option("--no-key", is_flag=True, help="Keep no key; do not ask for one.")
@changing
@click.pass_obj
def add(session: Session, name: str, address: str, as_tenant: str | None, key_file: Any, no_key: bool) -> None:
    """Keep a server under NAME. The key is asked for, or read from a file; never from a flag."""
    import sys

    from horae.cli.client import Client

    check_name(name)
    Client(address, None, None)
    key = key_file.read().strip() if key_file else ""
    if not key_file and not no_key and sys.stdin.isatty():
        key = click.prompt("API key (empty for none)", default="", hide_input=True, show_default=False, err=True)
    config = read_config()
    config["contexts"][name] = {"url": address, "key": key, "tenant": as_tenant or ""}
    config.setdefault("current", name)
    keep(session, config, "context.kept", name)
    session.out.say(f"Kept {name}: {address}" + (" (current)" if config["current"] == name else ""))


@context.command("rm")
@click.argument("name")
@changing
@click.pass_obj
def remove(session: Session, name: str) -> None:
    """Forget NAME and its key."""
    config = _config_with(name)
    del config["contexts"][name]
    if config.get("current") == name:
        del config["current"]
    keep(session, config, "context.forgotten", name)
    session.out.say(f"Forgot {name}")


def _config_with(name: str) -> dict[str, Any]:
    config = read_config()
    if name not in config["contexts"]:
        known = ", ".join(config["contexts"]) or "none"
        raise Failure(NOT_FOUND, f'There is no context "{name}".', code="no_context", hint=f"Known: {known}.")
    return config

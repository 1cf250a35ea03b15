"""`horae key`, `horae tenant` and `horae audit`: who may do what, and who did."""

from __future__ import annotations

import sys
from typing import Any

import click

from horae.cli.each import delete_each
from horae.cli.failure import FAILED, path
from horae.cli.output import Column
from horae.cli.session import Group, Session, changing, paged
from horae.cli.times import read_time

KEYS: list[Column] = [
    ("key", "key_id"),
    ("name", "name"),
    ("role", "role"),
    ("status", "status"),
    ("prefix", "prefix"),
    ("expires", "expires_at"),
    ("last used", "last_used_at"),
]
TENANTS: list[Column] = [
    ("tenant", "tenant"),
    ("paused", "paused"),
    ("jobs", lambda each: _used(each, "jobs", "max_jobs")),
    ("queued", lambda each: _used(each, "queued_runs", "max_queued_runs")),
    ("running", lambda each: _used(each, "running_runs", "max_running_runs")),
    ("requests/s", "requests_per_second"),
    ("weight", "weight"),
]
ENTRIES: list[Column] = [
    ("when", "at"),
    ("who", "actor"),
    ("action", "action"),
    ("what", "target"),
    ("from", "address"),
]


@click.group(cls=Group)
def key() -> None:
    """API keys. KEY is an id, not the secret.

    \b
    horae key create ci --role editor --expires-in 90d
    """


@key.command("list")
@click.pass_obj
def list_keys(session: Session) -> None:
    """The keys of the tenant."""
    session.out.rows(session.client.pages("/keys", "keys", None), KEYS, "key_id", "No keys.")


@key.command("show")
@click.argument("key_id", metavar="KEY")
@click.pass_obj
def show_key(session: Session, key_id: str) -> None:
    """One key."""
    session.out.one(session.client.get(path("keys", key_id)), "key_id")


@key.command("create")
@click.argument("name")
@click.option("--role", default="viewer", show_default=True, help="viewer, operator, editor or admin.")
@click.option("--scope", multiple=True, help="Only this much of the role; repeatable.")
@click.option("--expires-in", help="It ends after this long: 90d.")
@click.option("--requests-per-second", type=int, help="At most so many requests.")
@changing
@click.pass_obj
def create_key(session: Session, /, name: str, role: str, scope: tuple[str, ...], **limits: Any) -> None:
    """A new key, shown once. With --quiet the key alone is printed."""
    body = {"name": name, "role": role} | ({"scopes": list(scope)} if scope else {})
    body |= {field: value for field, value in limits.items() if value is not None}
    _show_key(session, session.client.post("/keys", body))


@key.command("rotate")
@click.argument("key_id", metavar="KEY")
@click.option("--overlap", help="The old one works for this much longer: 1h.")
@changing
@click.pass_obj
def rotate(session: Session, key_id: str, overlap: str | None) -> None:
    """A new key in its place, shown once."""
    _show_key(session, session.client.post(path("keys", key_id, "rotate"), {"overlap": overlap} if overlap else {}))


@key.command("revoke")
@click.argument("key_id", metavar="KEY...", nargs=-1, required=True)
@changing
@click.pass_obj
def revoke(session: Session, key_id: tuple[str, ...]) -> None:
    """Nobody comes in by it any more."""
    delete_each(session, key_id, "keys", "key_id", "Revoked")


def _show_key(session: Session, made: dict[str, Any]) -> None:
    told = f"{made['name']} ({made['role']}), id {made['key_id']}\nkey, shown only now: {made['key']}"
    session.out.done(made, "key", told)


def _quotas(command: Any) -> Any:
    options = [
        click.option("--max-jobs", help="A number, or none."),
        click.option("--max-queued-runs", help="A number, or none."),
        click.option("--max-running-runs", help="A number, or none."),
        click.option("--requests-per-second", help="A number, or none."),
        click.option("--max-payload-bytes", help="A number, or none."),
        click.option("--weight", type=int, help="Its share when slots are short."),
        click.option("--paused/--active", default=None, help="Start none of its runs, or go on."),
        click.option("--description", help="Whose it is."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _fields(flags: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for name, value in flags.items():
        if value is None:
            continue
        is_limit = name.startswith("max_") or name == "requests_per_second"
        if is_limit and value != "none" and not value.isdigit():
            raise click.BadParameter(f'--{name.replace("_", "-")}: "{value}" is neither a number nor none.')
        made[name] = (None if value == "none" else int(value)) if is_limit else value
    return made


@click.group(cls=Group)
def tenant() -> None:
    """Tenants and their quotas (admin keys)."""


@tenant.command("list")
@click.pass_obj
def list_tenants(session: Session) -> None:
    """Tenants by name, with what they use."""
    session.out.rows(session.client.pages("/tenants", "tenants", None), TENANTS, "tenant", "No tenants.")


@tenant.command("show")
@click.argument("name")
@click.pass_obj
def show_tenant(session: Session, name: str) -> None:
    """One tenant, and what it uses."""
    session.out.one(session.client.get(path("tenants", name)), "tenant")


@tenant.command("create")
@click.argument("name")
@_quotas
@changing
@click.pass_obj
def create_tenant(session: Session, /, name: str, **flags: Any) -> None:
    """A tenant with its quotas."""
    made = session.client.post("/tenants", {"tenant": name} | _fields(flags))
    session.out.done(made, "tenant", f"Created tenant {name}")


@tenant.command("edit")
@click.argument("name")
@_quotas
@changing
@click.pass_obj
def edit_tenant(session: Session, /, name: str, **flags: Any) -> None:
    """Change the quotas that are given."""
    made = session.client.call("PATCH", path("tenants", name), _fields(flags))
    session.out.done(made, "tenant", f"Changed tenant {name}")


def _used(item: dict[str, Any], used: str, most: str) -> str:
    count = item["usage"].get(used, 0)
    return f"{count}/{item[most]}" if item[most] is not None else str(count)


@click.group(cls=Group)
def audit() -> None:
    """Who changed what, in a chain that shows tampering."""


@audit.command("list")
@click.option("--actor", help="By this one.")
@click.option("--key", help="With this key, by its id.")
@click.option("--action", help="Such as job.changed.")
@click.option("--target", help="To this thing, by its id or name.")
@click.option("--since", help="After this time: -2h.")
@click.option("--until", help="Before this time.")
@paged(50)
@click.pass_obj
def list_audit(session: Session, /, since: str | None, until: str | None, most: int | None, **query: Any) -> None:
    """Changes, newest first."""
    times = {"since": since and read_time(since, "--since"), "until": until and read_time(until, "--until")}
    found = session.client.pages("/audit", "entries", most, **query, **times)
    session.show(found, ENTRIES, "id", "Nothing was changed.")


@audit.command("export")
@click.pass_obj
def export(session: Session) -> None:
    """Every change, oldest first, a line of JSON each."""
    for line in session.client.lines("/audit/export"):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


@audit.command("verify")
@click.pass_obj
def verify(session: Session) -> None:
    """Whether the chain holds; exit code 1 if not."""
    answer = session.client.get("/audit/verify")
    session.out.one(answer, "ok")
    if not answer["ok"]:
        sys.exit(FAILED)

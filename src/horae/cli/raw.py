"""`horae api`: one request to the API, with the key and the server of every other command."""

from __future__ import annotations

import json
from typing import Any

import click

from horae.cli.client import problem_of
from horae.cli.failure import USAGE, Failure
from horae.cli.session import Command, Session, changing

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@click.command(cls=Command)
@click.argument("method", metavar="METHOD", type=click.Choice(METHODS, case_sensitive=False))
@click.argument("where", metavar="PATH")
@click.option("-d", "--data", help="The body: JSON, @file or - for standard input.")
@click.option("--header", multiple=True, metavar="'NAME: VALUE'", help="With this header; repeatable.")
@click.option("--include", "is_including", is_flag=True, help="Status and headers first.")
@changing
@click.pass_obj
def api(
    session: Session, method: str, where: str, data: str | None, header: tuple[str, ...], is_including: bool
) -> None:
    """One request with your key. PATH is that of the docs, such as /jobs; the answer comes as it is.

    \b
    horae api GET '/jobs?limit=1'
    horae api PATCH /jobs/report -d '{"priority": "HIGH"}'
    """
    from uuid import uuid4

    from horae.cli.fields import read_json

    body = None if data is None else read_json(data, "--data")
    headers = dict(_header(each) for each in header)
    if method.upper() == "POST" and "idempotency-key" not in {name.lower() for name in headers}:
        headers["Idempotency-Key"] = str(uuid4())
    answer, content = session.client.exchange(method.upper(), _full(where), body, headers=headers)
    if answer.status >= 300:
        click.echo(content.decode(errors="replace").rstrip("\n"))
        raise problem_of(answer, content)
    if is_including:
        click.echo(f"{answer.status} {answer.reason}")
        click.echo("".join(f"{name}: {value}\n" for name, value in answer.headers))
    _show(session, answer.header("content-type"), content)


def _full(where: str) -> str:
    if not where.startswith("/") or not (where.isascii() and where.isprintable()) or " " in where:
        hint = "Write /jobs, /jobs/report/status or /healthz; %20 for a space."
        raise Failure(USAGE, f'"{where}" is no path of the API.', code="path", hint=hint)
    is_whole = where.startswith(("/api/", "/v1/")) or where in ("/healthz", "/readyz", "/metrics", "/openapi.json")
    return where if is_whole else f"/api/v1{where}"


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":")
    if not sign or not name.strip() or not text.isprintable() or not text.isascii():
        raise Failure(
            USAGE, f'--header: "{text}" is no header.', code="usage", hint="Write --header 'If-Match: \"v3\"'."
        )
    return name.strip(), value.strip()


def _show(session: Session, kind: str, content: bytes) -> None:
    out = session.out
    if not kind.startswith("application/json"):
        click.echo(content, nl=False)
        return
    answer: Any = json.loads(content)
    if out.form == "yaml" or out.has_fields:
        out.one(answer, "")
    elif out.form == "table":
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        click.echo(content.decode())

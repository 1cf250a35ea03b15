"""`horae conform`: whether an endpoint is safe against calls that come twice, late or out of order."""

from __future__ import annotations

import json
import sys

import click

from horae.cli.failure import UNREACHABLE
from horae.cli.server import VIOLATED


@click.command()
@click.argument("url")
@click.option("--method", default="POST", show_default=True, help="The method of the calls.")
@click.option("--body", default="{}", show_default=True, help="The body of every call.")
@click.option("--header", "headers", multiple=True, help="A header of every call, as Name: value. Any number of them.")
@click.option("--effects", help="An address that tells how often {key} has had its effect: a number, or a list.")
@click.option("--json", "is_json", is_flag=True, help="The findings as JSON.")
def conform(url: str, method: str, body: str, headers: tuple[str, ...], effects: str | None, *, is_json: bool) -> None:
    """Say whether an endpoint is safe to be called again: sends duplicates, late, reordered and concurrent calls.

    It really calls the endpoint, some thirty times with nine keys: use one of a test system.
    Exit code 0: safe, or nothing wrong as far as it was seen: without --effects the answers alone. 3: not safe.
    """
    from horae.conform import Endpoint, Unreachable, is_safe, try_out

    for name, address in (("URL", url), ("--effects", effects or "http://")):
        if not address.startswith(("http://", "https://")):
            raise click.UsageError(f'{name}: "{address}" is no address; write http://127.0.0.1:8000/path.')
    if effects and "{key}" not in effects:
        raise click.UsageError("--effects: write {key} where the key belongs, as in http://127.0.0.1:8000/count/{key}.")
    for header in headers:
        if not header.partition(":")[1]:
            raise click.UsageError(f'--header: "{header}" has no Name: value.')
    pairs = {name.strip(): value.strip() for name, _, value in (header.partition(":") for header in headers)}
    try:
        findings = try_out(Endpoint(url, method.upper(), body.encode(), pairs, effects))
    except Unreachable as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(UNREACHABLE)
    if is_json:
        told = [{"check": each.check, "verdict": each.verdict, "detail": each.detail} for each in findings]
        click.echo(json.dumps({"safe": is_safe(findings), "findings": told}, indent=2))
    else:
        click.echo("\n".join(f"{each.verdict:15}{each.check:18}{each.detail}" for each in findings))
    sys.exit(VIOLATED if is_safe(findings) is False else 0)

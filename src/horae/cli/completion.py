"""`horae completion`, and the names that are completed by asking the server."""

from __future__ import annotations

import click

from horae.cli.session import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  horae completion bash >> ~/.bashrc
    zsh:   horae completion zsh >> ~/.zshrc
    fish:  horae completion fish > ~/.config/fish/completions/horae.fish
    """
    from click.shell_completion import get_completion_class

    from horae.cli.root import main

    made = get_completion_class(shell)
    if made is None:
        raise AssertionError(shell)
    click.echo(made(main, {}, "horae", "_HORAE_COMPLETE").source())


def job_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs that begin so. A server that is away or slow completes nothing."""
    from horae.cli.client import Client, Failure
    from horae.cli.context import find_place

    try:
        place = find_place(ctx.params.get("url"), ctx.params.get("context"))
        client = Client(place.url, place.key, ctx.params.get("tenant") or place.tenant, timeout=1.0)
        found = client.get("/jobs", q=incomplete or None, sort="name", limit=200)["jobs"]
    except (Failure, OSError):
        return []
    return [each["name"] for each in found if each["name"].startswith(incomplete)]

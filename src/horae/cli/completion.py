"""`horae completion`, and the names that are completed by asking the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def _asked(where: str, list_name: str, field: str, **query: Any) -> Callable[..., list[str]]:
    """A completion by the names that the server knows. A server that is away or slow completes nothing."""

    def complete(ctx: click.Context, _: object, incomplete: str) -> list[str]:
        from horae.cli.client import Client, Failure
        from horae.cli.context import find_place

        asked = {name: (incomplete or None) if value is ... else value for name, value in query.items()}
        try:
            place = find_place(ctx.params.get("url"), ctx.params.get("context"))
            client = Client(place.url, place.key, ctx.params.get("tenant") or place.tenant, timeout=1.0)
            found = client.get(where, **asked)[list_name]
        except (Failure, OSError):
            return []
        return list(dict.fromkeys(each[field] for each in found if each[field].startswith(incomplete)))

    return complete


job_names = _asked("/jobs", "jobs", "name", q=..., sort="name", limit=200)
run_ids = _asked("/runs", "runs", "run_id", limit=50)
dead_ids = _asked("/dead-letters", "dead_letters", "run_id", limit=50)
queue_names = _asked("/queues", "queues", "queue")
worker_ids = _asked("/workers", "workers", "worker_id")

JOB = click.argument("job_name", metavar="JOB", shell_complete=job_names)

"""`horae completion`, and the names that are completed by asking the server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from horae.cli.failure import USAGE, Failure, Rehearsed
from horae.cli.session import Command, Session, changing

# Where each shell looks by itself, from home on.
PLACES = {
    "bash": ".local/share/bash-completion/completions/horae",
    "zsh": ".zsh/completions/_horae",
    "fish": ".config/fish/completions/horae.fish",
}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["install", *PLACES, "powershell"]))
@changing
@click.pass_obj
def completion(session: Session, shell: str) -> None:
    """Print the completion script of SHELL; `install` puts that of your $SHELL where it is found.

    \b
    horae completion install
    bash:  horae completion bash >> ~/.bashrc
    zsh:   horae completion zsh >> ~/.zshrc
    fish:  horae completion fish > ~/.config/fish/completions/horae.fish
    PowerShell:  horae completion powershell >> $PROFILE
    """
    if shell != "install":
        click.echo(_script(shell))
        return
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in PLACES:
        hint = f"horae completion {'|'.join(PLACES)}|powershell prints the script of one."
        raise Failure(USAGE, f'There is no completion for $SHELL "{shell}".', code="usage", hint=hint)
    place = Path.home() / PLACES[shell]
    if session.is_dry:
        from horae.cli.rehearsal import would_change

        raise Rehearsed(would_change("completion.installed", str(place)))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_script(shell) + "\n")
    session.out.say(f"Written to {place}. It works in new shells.")
    if shell == "zsh":
        session.out.say(f"If it does not, add to ~/.zshrc before compinit:  fpath=({place.parent} $fpath)")


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from horae.cli.powershell import add
    from horae.cli.root import main

    add()
    made = get_completion_class(shell)
    if made is None:
        raise AssertionError(shell)
    return made(main, {}, "horae", "_HORAE_COMPLETE").source()


def _asked(where: str, list_name: str, field: str, **query: Any) -> Callable[..., list[str]]:
    """A completion by the names that the server knows. A server that is away or slow completes nothing."""

    def complete(ctx: click.Context, _: object, incomplete: str) -> list[str]:
        from horae.cli.client import Client
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

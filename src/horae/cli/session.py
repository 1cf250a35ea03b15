"""What every client command has: the common flags, a connection, an output, and errors that end in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NoReturn

import click

from horae.cli.output import FORMS, Column, Out, visible

if TYPE_CHECKING:
    from horae.cli.client import Client
    from horae.cli.context import Place
    from horae.cli.failure import Failure

ALIASES = {"ls": "list", "rm": "delete"}


def common_options() -> list[click.Parameter]:
    return [
        click.Option(["-o", "--output"], type=click.Choice(FORMS), help="table on a terminal, tsv when piped."),
        click.Option(["--json"], is_flag=True, help="The same as -o json."),
        click.Option(["--fields"], metavar="A,B", help="These fields alone, by their names in JSON; a.b is inside a."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Names or ids alone, one a line; no remarks."),
        click.Option(["--no-header"], is_flag=True, help="No line of column names."),
        click.Option(["--color"], type=click.Choice(["auto", "always", "never"]), help="Default: on a terminal."),
        click.Option(["--debug"], is_flag=True, help="Every request on standard error."),
        click.Option(["--url"], help="The server (HORAE_URL)."),
        click.Option(["--context"], help="The server, by the name of a context (HORAE_CONTEXT)."),
        click.Option(["--tenant"], help="Act for this tenant (admin keys)."),
    ]


def changing(command: Callable[..., Any]) -> Callable[..., Any]:
    """--dry-run of a command that changes something: every change that it asks for is only tried."""
    text = "Try it and say what it would change; change nothing."
    return click.option("--dry-run", "is_dry", is_flag=True, help=text)(command)


class Session:
    """Passed to every client command."""

    def __init__(
        self,
        out: Out,
        url: str | None,
        context: str | None,
        tenant: str | None,
        *,
        is_debug: bool = False,
        is_dry: bool = False,
    ) -> None:
        self.out = out
        self.is_dry = is_dry
        self._place = (url, context, tenant)
        self._is_debug = is_debug

    @cached_property
    def place(self) -> Place:
        from horae.cli.context import find_place

        url, context, _ = self._place
        return find_place(url, context)

    @cached_property
    def client(self) -> Client:
        from horae.cli.client import Client

        place = self.place
        trace = (lambda text: click.echo(visible(text), err=True)) if self._is_debug else None
        return Client(place.url, place.key, self._place[2] or place.tenant, trace=trace, is_dry=self.is_dry)

    def show(self, found: Iterable[Any], columns: Sequence[Column], name: str, empty: str) -> None:
        """A list of the server, and whether it goes on."""
        self.out.rows(found, columns, name, empty)
        if self.client.has_more:
            self.out.say("… and more: --limit or --all shows them.")


def paged(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--limit and --all of a list; the command gets `most`, None for all."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_most(*args: Any, limit: int, is_all: bool, **rest: Any) -> Any:
            return command(*args, most=None if is_all else limit, **rest)

        limit = click.option(
            "--limit", type=click.IntRange(1), default=default, show_default=True, help="At most so many."
        )
        return limit(click.option("--all", "is_all", is_flag=True, help="All of them.")(with_most))

    return decorate


class Command(click.Command):
    """Takes the common flags, and turns errors into words and an exit code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        taken = {option for param in self.params for option in param.opts}
        self.params += [option for option in common_options() if not taken & set(option.opts)]

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = _session(ctx)
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            from horae.cli.failure import INTERRUPTED

            click.echo("", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # Whoever read us has seen enough. What is left in the buffer must not raise again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            _close_output(error)
        except click.ClickException:
            raise
        except Exception as error:  # noqa: BLE001 - what is not ours is raised again
            _show_if_rehearsed(error, ctx)
            _end(error)


def _show_if_rehearsed(error: Exception, ctx: click.Context) -> None:
    from horae.cli.failure import Rehearsed

    if isinstance(error, Rehearsed):
        from horae.cli.rehearsal import show_rehearsal

        name = ctx.params.get("job_name")
        show_rehearsal(ctx.obj, [error.answer], [name] if isinstance(name, str) else ())
        sys.exit(0)


def _close_output(error: OSError) -> NoReturn:
    """A full disk, say: what was to be written cannot be, and must not be tried again at exit."""
    from horae.cli.failure import FAILED

    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.echo(f"error[output]: {error.strerror or error}.", err=True)
    sys.exit(FAILED)


class Group(click.Group):
    """A noun: its verbs are client commands, and some have a short name besides."""

    command_class = Command

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, ALIASES.get(cmd_name, ""))


def _session(ctx: click.Context) -> Session:
    common = {option.name or "": ctx.params.pop(option.name or "", None) for option in common_options()}
    _set_colour(ctx, common["color"])
    form = common["output"] or ("json" if common["json"] else None)
    fields = [each.strip() for each in (common["fields"] or "").split(",") if each.strip()]
    out = Out(form, is_quiet=bool(common["quiet"]), has_header=not common["no_header"], fields=fields)
    flags = {"is_debug": bool(common["debug"]), "is_dry": bool(ctx.params.pop("is_dry", False))}
    return Session(out, common["url"], common["context"], common["tenant"], **flags)


def _set_colour(ctx: click.Context, wanted: str | None) -> None:
    """Click knows the terminal alone, rich the variables alone: both are told the same."""
    if wanted == "always":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR"] = "1"
    elif wanted == "never":
        os.environ["NO_COLOR"] = "1"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False
    elif os.environ.get("FORCE_COLOR"):
        ctx.color = True


def _end(error: Exception) -> NoReturn:
    """Ours in words; anything else is a bug and shows its trace."""
    from horae.cli.failure import FAILED, USAGE, Failure, refused
    from horae.core.errors import Invalid

    if isinstance(error, Invalid):
        error = refused(error)
    if isinstance(error, UnicodeEncodeError) and error.encoding.lower() not in ("utf-8", "utf8"):
        what = error.object[error.start : error.start + 1]
        detail = f'The output is {error.encoding}, which has no "{what}".'.encode("ascii", "backslashreplace").decode()
        error = Failure(FAILED, detail, code="output", hint="Set PYTHONIOENCODING=utf-8, or ask for --json.")
    if isinstance(error, UnicodeError):
        error = Failure(USAGE, "What was given is not text in UTF-8.", code="utf8")
    if not isinstance(error, Failure):
        raise error
    tell(error)
    sys.exit(error.exit_code)


def tell(error: Failure, about: str = "") -> None:
    """`error[code]: detail`, where it is, and what to do, on standard error; `about` is which of several failed."""
    head = f"error[{error.code}]: {f'{about}: ' if about else ''}"
    lines = [f"{head}{error.detail}"] if len(error.faults) != 1 else []
    for fault in error.faults:
        is_only = len(error.faults) == 1
        lines.append(f"{head}{fault['detail']}" if is_only else f"  {fault['detail']}")
        # A word of the path was an argument, which the detail quotes.
        if fault.get("pointer") and not fault["pointer"].startswith("/path"):
            lines.append(f"{'  ' if is_only else '    '}at {fault['pointer']}")
        if fault.get("hint"):
            lines.append(f"{'' if is_only else '    '}hint: {fault['hint']}")
    if len(error.faults) > 1:
        lines[0] = f"{head}{len(error.faults)} things are wrong."
    if error.hint:
        lines.append(f"hint: {error.hint}")
    if error.request_id:
        lines.append(f"request: {error.request_id}")
    for index, line in enumerate(lines):
        colour = "red" if index == 0 else "cyan" if "hint" in line else None
        click.secho(visible(line), err=True, fg=colour)

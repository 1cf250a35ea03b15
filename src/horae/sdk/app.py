"""Jobs as plain functions: what is decorated stays what it was, and nothing happens until a worker takes it up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

from horae.sdk.fields import CommonFields
from horae.sdk.wire import plain

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declared:
    """A job as its function declares it; `place` is where that stands, for messages."""

    name: str
    document: Mapping[str, Any]
    place: str


class App:
    """A collection of handlers and of jobs that they do.

    app = App()

    @app.job(schedule="*/5 * * * *")
    def report(region: str = "eu", *, ctx: Context) -> dict: ...
    """

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[..., Any]] = {}
        self.jobs: dict[str, Declared] = {}

    def job(
        self,
        name: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        secrets: Sequence[str] = (),
        **fields: Unpack[CommonFields],
    ) -> Callable[[F], F]:
        """The function does this job. Its name is the function's, with dashes; `args` are given to it by name, under
        the payload of a run; `secrets` are the names of those that `ctx.secrets` holds. The first paragraph of its
        docstring is the description.
        """

        def declare(function: F) -> F:
            job = name or function.__name__.replace("_", "-")
            self._add(job, function)
            target: dict[str, Any] = {"handler": job}
            if args:
                target["args"] = dict(args)
            if secrets:
                target["secrets"] = {each: f"{{{{ secret.{each} }}}}" for each in secrets}
            told = {"description": _description(function), **fields, "type": "python", "target": target}
            self.jobs[job] = Declared(job, plain(told), _place(function))
            return function

        return declare

    def handler(self, name: str | None = None) -> Callable[[F], F]:
        """The function does jobs that somebody else defines, by this name."""

        def declare(function: F) -> F:
            self._add(name or function.__name__.replace("_", "-"), function)
            return function

        return declare

    def _add(self, name: str, function: Callable[..., Any]) -> None:
        other = self.handlers.get(name)
        if other is not None:
            raise ValueError(f'There are two handlers "{name}": {_place(other)} and {_place(function)}.')
        self.handlers[name] = function


def _description(function: Callable[..., Any]) -> str:
    first = (function.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(first.split())


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)

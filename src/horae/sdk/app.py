"""Jobs as plain functions: what is decorated stays what it was, and nothing happens until a worker takes it up."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack, overload

from horae.sdk.fields import CommonFields
from horae.sdk.wire import plain

F = TypeVar("F", bound=Callable[..., Any])


class Misdeclared(ValueError):
    """A decorator that makes no sense, told when the module is imported."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A job as its function declares it; `place` is where that stands, for messages."""

    name: str
    document: Mapping[str, Any]
    place: str


def upstream_first(jobs: Collection[Declared]) -> list[Declared]:
    """Each after those of the same app that it runs after; a circle stays for the server to refuse."""
    left, names = list(jobs), {job.name for job in jobs}
    ordered: list[Declared] = []
    while left:
        done = {job.name for job in ordered}
        ready = [job for job in left if not (_upstreams(job) & names) - done] or left
        ordered += ready
        left = [job for job in left if job not in ready]
    return ordered


def alone(job: Declared, names: Container[str]) -> dict[str, Any]:
    """Its document without the jobs of the same app that it runs after: they may not be there yet when it is tried."""
    rules = [rule for rule in _rules(job) if _upstream(rule) not in names]
    rest = {field: value for field, value in job.document.items() if field != "after"}
    return rest | {"after": rules} if rules else rest


def _rules(job: Declared) -> list[Any]:
    after = job.document.get("after") or []
    return after if isinstance(after, list) else [after]


def _upstreams(job: Declared) -> set[str]:
    return {name for rule in _rules(job) if (name := _upstream(rule))}


def _upstream(rule: Any) -> str:
    """What makes no sense names nobody: the server says what is wrong with it."""
    name = (rule.get("job") or rule.get("job_id")) if isinstance(rule, Mapping) else rule
    return name if isinstance(name, str) else ""


class App:
    """A collection of handlers and of jobs that they do.

    app = App()

    @app.job(schedule="*/5 * * * *")
    def report(region: str = "eu", *, ctx: Context) -> dict: ...
    """

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[..., Any]] = {}
        self.jobs: dict[str, Declared] = {}

    @overload
    def job(self, name: F, /) -> F: ...

    @overload
    def job(
        self,
        name: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        secrets: str | Sequence[str] = (),
        **fields: Unpack[CommonFields],
    ) -> Callable[[F], F]: ...

    def job(
        self,
        name: F | str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        secrets: str | Sequence[str] = (),
        **fields: Unpack[CommonFields],
    ) -> F | Callable[[F], F]:
        """The function does this job. Its name is the function's, with dashes; `args` are given to it by name, under
        the payload of a run; `secrets` are the names of those that `ctx.secrets` holds. The first paragraph of its
        docstring is the description. Without parentheses, it is a job that runs when it is asked for.
        """

        def declare(function: F) -> F:
            job, place = _name(name, function), _place(function)
            _refuse_other_work(fields, place)
            target: dict[str, Any] = {"handler": job}
            if args is not None:
                target["args"] = _args(args, function)
            if secrets:
                target["secrets"] = {each: f"{{{{ secret.{each} }}}}" for each in _secrets(secrets, place)}
            told = {"description": _description(function), **fields, "type": "python", "target": target}
            document = _document(told, place)
            self._add(job, function)
            self.jobs[job] = Declared(job, document, place)
            return function

        return declare if name is None or isinstance(name, str) else declare(name)

    @overload
    def handler(self, name: F, /) -> F: ...

    @overload
    def handler(self, name: str | None = None) -> Callable[[F], F]: ...

    def handler(self, name: F | str | None = None) -> F | Callable[[F], F]:
        """The function does jobs that somebody else defines, by this name."""

        def declare(function: F) -> F:
            self._add(_name(name, function), function)
            return function

        return declare if name is None or isinstance(name, str) else declare(name)

    def _add(self, name: str, function: Callable[..., Any]) -> None:
        other = self.handlers.get(name)
        if other is not None:
            raise Misdeclared(f'There are two handlers "{name}": {_place(other)} and {_place(function)}.')
        self.handlers[name] = function


def _name(name: object, function: Callable[..., Any]) -> str:
    """`name` is the function itself where the decorator was written without parentheses."""
    own = name if isinstance(name, str) and name else getattr(function, "__name__", None)
    if not callable(function) or own is None:
        detail = f"{function!r} cannot be a job: it is no function with a name."
        raise Misdeclared(f'{detail} Write @app.job("report", …) above one.')
    return str(own) if own is name else str(own).replace("_", "-")


def _refuse_other_work(fields: Mapping[str, Any], place: str) -> None:
    for field in ("type", "target"):
        if field in fields:
            detail = f"{field}={fields[field]!r} is not for @app.job: the job calls the function."
            raise Misdeclared(f"{place}: {detail} Jobs of other types are made by a client, the CLI or a file.")


def _args(args: object, function: Callable[..., Any]) -> dict[str, Any]:
    place = _place(function)
    if not isinstance(args, Mapping):
        raise Misdeclared(f'{place}: args is {args!r}. Write the arguments by name: args={{"region": "eu"}}.')
    taken = _by_name(function)
    for name in args:
        if name == "ctx":
            raise Misdeclared(f"{place}: ctx is given by horae, not by args.")
        if taken is not None and name not in taken:
            has = f"It has {', '.join(taken)}." if taken else "It has none that can be given by name."
            raise Misdeclared(f"{place}: args has {name!r}, and the function has no such parameter. {has}")
    return dict(args)


def _by_name(function: Callable[..., Any]) -> list[str] | None:
    """The parameters that can be given by name; None when any can, or nobody knows."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name != "ctx"
    ]


def _secrets(secrets: object, place: str) -> list[str]:
    """A single one may stand alone."""
    names = [secrets] if isinstance(secrets, str) else secrets
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in names):
        raise Misdeclared(f'{place}: secrets is {secrets!r}. Write the names of secrets: secrets=["TOKEN"].')
    return list(names)


def _document(told: Mapping[str, Any], place: str) -> Any:
    try:
        document = plain(told)
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Misdeclared(f"{place}: A job is kept as JSON: {error}") from None
    return document


def _description(function: Callable[..., Any]) -> str:
    first = (function.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(first.split())


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)

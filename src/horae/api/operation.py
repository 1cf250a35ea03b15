"""One method of one path: how it is served, and how the OpenAPI file tells of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from horae.api.body import MOST_BYTES, read_json, read_object
from horae.api.query import Parameter
from horae.commands import Caller
from horae.core.access import Role
from horae.core.errors import NotFound
from horae.ports import Once

_encode = msgspec.json.Encoder().encode


Welcome: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the caller may still be answered."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that has come through the door: who asks, with which parameters, body and idempotency key.

    What takes long asks `is_welcome` now and then: a key that was revoked meanwhile, or a token that ran out, ends it.
    """

    request: Request
    request_id: str
    base: str
    caller: Caller
    query: Mapping[str, Any]
    body: bytes
    once: Once | None
    is_welcome: Welcome
    is_streamed: bool = False

    def word(self, name: str) -> str:
        """A part of the path: an id or a name."""
        word = str(self.request.path_params[name])
        if "\0" in word:
            raise NotFound(f"There is no such {name}.")
        return word

    async def document(self) -> Any:
        return await read_json(self.request, self.body)

    async def fields(self) -> Any:
        """The body of a route that can do without one."""
        return await read_object(self.request, self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    document: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        try:
            return _encode(self.document)
        except UnicodeEncodeError:
            # An error inside may quote half a character.
            return json.dumps(self.document).encode()


Serve: TypeAlias = Callable[[Call], Awaitable[Reply | Response]]


@dataclass(frozen=True, slots=True)
class Takes:
    """The body of a request, by the name of its schema. Lines of JSON may be `streamed`: served while they come."""

    schema: str
    is_optional: bool = False
    most_bytes: int = MOST_BYTES
    media_types: tuple[str, ...] = ("application/json",)
    is_streamed: bool = False


NOTHING = Takes("Nothing", is_optional=True)


@dataclass(frozen=True, slots=True)
class Operation:
    """`gives` names the schema of the answer, `also` those of other good answers by status. An operation that takes
    nothing does not look at the body.

    `role` is the least that a caller must have; roles.py says it. `is_global` is for admins of the whole installation.
    An answer that `is_secret` is kept nowhere, not even for a repeat.
    """

    method: str
    path: str
    name: str
    summary: str
    serve: Serve
    query: tuple[Parameter, ...] = ()
    takes: Takes | None = None
    gives: str = "Object"
    status: int = 200
    also: Mapping[int, str] = field(default_factory=dict)
    role: Role = "admin"
    is_global: bool = False
    is_secret: bool = False

    @property
    def scope(self) -> str:
        """The family of things that it is about: the first word of its path."""
        return self.path.strip("/").partition("/")[0].partition(":")[0]

    def takes_condition(self, header: str) -> bool:
        """Whether `If-Match` or `If-None-Match` is looked at: of jobs alone, which have versions."""
        if self.method == "GET" or not self.path.startswith("/jobs/{job}"):
            return False
        return header == "If-Match" or self.method == "PUT"


get = partial(Operation, "GET")
post = partial(Operation, "POST")
put = partial(Operation, "PUT")
patch = partial(Operation, "PATCH")
delete = partial(Operation, "DELETE")

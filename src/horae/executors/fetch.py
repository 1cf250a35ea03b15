"""Fetches small JSON documents that the operator named, such as the keys of an issuer, through the address guard."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from horae.core.egress import Allow
from horae.core.errors import Unavailable
from horae.executors.http import guarded_session, locate

MOST_BYTES = 256 * 1024
TOTAL_SECONDS = 5.0


class Fetcher:
    """One session for each document: they are rare. Redirects are not followed."""

    def __init__(self, allow: Allow, resolver: AbstractResolver | None = None) -> None:
        self._allow = allow
        self._resolver = resolver

    async def json(self, url: str) -> Any:
        """Raises Unavailable when there is no such document to be had."""
        try:
            return json.loads(await self._bytes(locate(url)[1]))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError) as error:
            raise Unavailable(f"{url} could not be fetched: {error or type(error).__name__}") from error

    async def _bytes(self, url: URL) -> bytes:
        timeout = aiohttp.ClientTimeout(total=TOTAL_SECONDS)
        async with (
            guarded_session(self._allow, self._resolver) as session,
            session.get(url, allow_redirects=False, timeout=timeout, headers={"Accept": "application/json"}) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"it answered {answer.status}")
            body = await answer.content.read(MOST_BYTES + 1)
            while len(body) <= MOST_BYTES and (more := await answer.content.read(MOST_BYTES + 1 - len(body))):
                body += more
            if len(body) > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES} bytes")
            return body

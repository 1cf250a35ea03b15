"""Fetches small JSON documents that the operator named, such as the keys of an issuer, through the address guard."""

from __future__ import annotations

import json
from typing import Any

from horae.core.egress import Allow, Proxy
from horae.core.errors import Unavailable
from horae.executors.client import AGENT, Client, locate
from horae.executors.connecting import Resolve
from horae.executors.exchange import NoAnswer

MOST_BYTES = 256 * 1024
TOTAL_SECONDS = 5.0
HEADERS = {"User-Agent": AGENT, "Accept": "application/json"}


class Fetcher:
    """A connection for each document: they are rare. Redirects are not followed."""

    def __init__(self, allow: Allow, resolve: Resolve | None = None, proxy: Proxy | None = None) -> None:
        self._allow = allow
        self._resolve = resolve
        self._proxy = proxy

    async def json(self, url: str) -> Any:
        """Raises Unavailable when there is no such document to be had."""
        try:
            return json.loads(await self._bytes(url))
        except (NoAnswer, OSError, ValueError, RecursionError) as error:
            raise Unavailable(f"{url} could not be fetched: {error or type(error).__name__}") from error

    async def _bytes(self, url: str) -> bytes:
        client = Client(self._allow, self._resolve, proxy=self._proxy)
        try:
            answer = await client.request("GET", locate(url), HEADERS, None, TOTAL_SECONDS, MOST_BYTES)
        finally:
            await client.close()
        if answer.status != 200:
            raise ValueError(f"it answered {answer.status}")
        if answer.size_bytes > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        return answer.body

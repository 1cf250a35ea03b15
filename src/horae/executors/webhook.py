"""Sends messages to webhooks, through the same address guard as http jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp.abc import AbstractResolver

from horae.core.egress import Allow
from horae.executors.http import guarded_session, locate, trouble
from horae.executors.wire import clean

TOTAL_SECONDS = 15.0
EXCERPT_BYTES = 300


class WebhookSender:
    def __init__(self, allow: Allow, resolver: AbstractResolver | None = None) -> None:
        self._allow = allow
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, str | None]:
        """The status and, if it is not a success, the beginning of the answer; or no status and why."""
        session = self._session = self._session or guarded_session(self._allow, self._resolver, limit_per_host=20)
        try:
            destination, address = locate(url)
        except ValueError as error:
            return None, clean(str(error))
        try:
            async with (
                asyncio.timeout(TOTAL_SECONDS),
                session.post(address, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                if 200 <= answer.status < 300:
                    return answer.status, None
                excerpt = await answer.content.read(EXCERPT_BYTES)
                return answer.status, clean(f"HTTP {answer.status} {excerpt.decode(errors='replace')}".strip())
        except aiohttp.ConnectionTimeoutError as error:
            return None, trouble(destination, self._allow, error)
        except TimeoutError:
            return None, f"no answer within {TOTAL_SECONDS:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return None, clean(trouble(destination, self._allow, error))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

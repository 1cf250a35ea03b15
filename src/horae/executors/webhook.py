"""Sends messages to webhooks, through the same guarded client as http jobs."""

from __future__ import annotations

from collections.abc import Mapping

from horae.core.egress import Allow, Proxy
from horae.executors.client import AGENT, Client, locate, trouble
from horae.executors.connecting import Resolve
from horae.executors.exchange import NoAnswer
from horae.executors.wire import clean

TOTAL_SECONDS = 15.0
EXCERPT_BYTES = 300
LIMIT_PER_HOST = 20


class WebhookSender:
    def __init__(self, allow: Allow, resolve: Resolve | None = None, proxy: Proxy | None = None) -> None:
        self._allow = allow
        self._client = Client(allow, resolve, LIMIT_PER_HOST, proxy)

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, str | None]:
        """The status and, if it is not a success, the beginning of the answer; or no status and why."""
        try:
            way = locate(url)
        except ValueError as error:
            return None, clean(str(error))
        told = {"User-Agent": AGENT, "Accept": "*/*", **headers}
        try:
            answer = await self._client.request("POST", way, told, body, TOTAL_SECONDS, EXCERPT_BYTES)
        except TimeoutError:
            return None, f"no answer within {TOTAL_SECONDS:g} s"
        except (NoAnswer, OSError, ValueError) as error:
            return None, clean(trouble(way.destination, self._allow, error))
        if 200 <= answer.status < 300:
            return answer.status, None
        return answer.status, clean(f"HTTP {answer.status} {answer.body.decode(errors='replace')}".strip())

    async def close(self) -> None:
        await self._client.close()

"""The wire before the door: how large and how slow the head of a request may be, and what is no HTTP at all.

Below the app nobody is known yet, so everybody has the same small room here.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from horae.api.problems import MEDIA_TYPE, Refused, problem_of
from horae.core.errors import Fault

MOST_HEAD_BYTES = 64 << 10
HEAD_SECONDS = 15.0

_STATUS_LINES = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
}


class Intake(HttpToolsProtocol):
    """While no request is being served, a clock runs: the head of the next one must arrive in time."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head_bytes = 0
        self._is_head = True
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # A single endless header is seen by nobody else before it ends.
        if self._is_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_head and self._head_bytes > MOST_HEAD_BYTES:
            self._refuse_head()
        elif self.cycle is None or self.cycle.response_complete:
            self._watch()

    def on_message_begin(self) -> None:
        self._is_head, self._head_bytes = True, self._head_bytes if self.cycle is None else 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD_BYTES:
            self._head_bytes = size
            return
        self._is_head, self._head_bytes = False, 0
        self._unwatch()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse_head()
        else:
            detail = "This is no HTTP request that can be read in one way only."
            self._refuse(400, "not_http", detail, "Send it with curl, or with a client that speaks HTTP/1.1.")

    def _refuse_head(self) -> None:
        detail = f"Address and headers have more than {MOST_HEAD_BYTES:,} bytes."
        self._refuse(431, "head_too_large", detail, "Send fewer cookies, or what is long in the body.")

    def _refuse(self, status: int, code: str, detail: str, hint: str) -> None:
        error = Refused(status, code, detail, [Fault("/headers", detail, hint)])
        body = json.dumps(problem_of(error, f"req_{secrets.token_hex(8)}")).encode()
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(_STATUS_LINES[status] + head.encode() + body)
        self.transport.close()

    def _watch(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _unwatch(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        if self._is_head and self._head_bytes:
            detail = f"The headers did not arrive within {HEAD_SECONDS:g} seconds."
            self._refuse(408, "slow_head", detail, "Send it again, over a better connection.")
        else:
            self.transport.close()

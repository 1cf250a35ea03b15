"""One connection that speaks HTTP/1.1: a request at a time, and its answer up to a cap, whatever the server sends."""

from __future__ import annotations

import asyncio
import select
import zlib
from typing import NamedTuple, cast

import httptools

HEAD_BYTES = 32 * 1024
HINT_BYTES = 256  # what an answer before the answer counts for, however short
GZIP = 16 + zlib.MAX_WBITS
GZIP_MAGIC = b"\x1f\x8b"
_WINDOWS = {"gzip": GZIP, "x-gzip": GZIP, "deflate": zlib.MAX_WBITS}


class NoAnswer(Exception):
    """Why there is no answer that can be used."""


class Lost(NoAnswer):
    """The connection ended before the answer did."""


class BadAnswer(NoAnswer):
    """What came is no HTTP."""


def _too_long() -> BadAnswer:
    return BadAnswer(f"the head of the answer is longer than {HEAD_BYTES} bytes")


class Received(NamedTuple):
    """`headers` by their names in lower case. `body` is what was read of it, unpacked, of `size_bytes` that came."""

    status: int
    headers: dict[str, str]
    body: bytes
    size_bytes: int


class Exchange(asyncio.Protocol):
    """After an answer that was read whole it `is_reusable`, as long as the server keeps it so."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[Received] | None = None
        self.is_reusable = False
        self.idle_since = 0.0

    async def ask(self, request: bytes, deadline: float, most_bytes: int, *, is_head: bool) -> Received:
        """TimeoutError when the whole answer, body included, is not there by then."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_bytes = self._idle_bytes = self._size = 0
        self._has_head = False
        self._is_head = is_head
        self._most_bytes = most_bytes
        self._body: list[bytes] = []
        self._unpacker: _Unpacker | None = None
        self.is_reusable = False
        waiter: asyncio.Future[Received] = self._loop.create_future()
        self._waiter = waiter
        # A timer of its own: `asyncio.timeout` costs as much as half of the rest.
        timer = self._loop.call_at(deadline, self._fail, TimeoutError())
        self._transport.write(request)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None
            self._body = []  # a connection that rests holds nothing
            if not self.is_reusable:
                self._transport.abort()

    def is_quiet(self) -> bool:
        """Nothing has come since the last answer: not even the end, which a busy loop may not have heard of yet."""
        return not self._news.poll(0)

    def close(self) -> None:
        self.is_reusable = False
        self._transport.abort()

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._news = select.poll()
        self._news.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # nobody asked: what else comes here would be taken for an answer
            return
        self._brings_body = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._finish(keep=False)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._fail(cause if isinstance(cause, NoAnswer) else BadAnswer(f"the answer is no HTTP: {error}"))
        # What brings no part of a body is head, hint or trailer, of which the parser keeps as much as comes.
        self._idle_bytes = 0 if self._brings_body else self._idle_bytes + len(data)
        if self._idle_bytes > 2 * HEAD_BYTES:
            self._fail(_too_long())

    def connection_lost(self, error: Exception | None) -> None:
        self.is_reusable = False
        if self._waiter is None or self._waiter.done():
            return
        coding = self._headers.get("transfer-encoding", "")
        if self._has_head and "content-length" not in self._headers and not coding and error is None:
            self._end(keep=False)  # such an answer ends with its connection
        else:
            self._fail(Lost("the answer ended early" if self._has_head else ""))

    # What the parser tells

    def on_message_begin(self) -> None:
        if self._waiter is not None and self._waiter.done():
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        self._headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", errors="replace"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._count_head(HINT_BYTES)
            return
        self._has_head = True
        window = _WINDOWS.get(self._headers.get("content-encoding", "").strip().lower())
        if window is not None:
            self._unpacker = _Unpacker(window, self._most_bytes)
        if self._is_head:
            self._finish(keep=False)  # its length tells of a body that does not come

    def on_body(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            return
        self._brings_body = True
        room = self._most_bytes - self._size
        piece = self._unpacker.take(data, room + 1) if self._unpacker is not None else data
        self._size += len(piece)
        self._body.append(piece[:room])
        if len(piece) > room or (self._unpacker is not None and self._unpacker.is_over):
            self._finish(keep=False)

    def on_message_complete(self) -> None:
        if not self._has_head:
            self._headers.clear()  # "go on", or a hint: the answer is yet to come
        else:
            self._end(keep=self._parser.should_keep_alive() and not self._parser.should_upgrade())

    def _end(self, *, keep: bool) -> None:
        if self._unpacker is not None and self._unpacker.is_torn:
            self._fail(BadAnswer("the packed body ended early"))
        else:
            self._finish(keep=keep)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            raise _too_long()

    def _finish(self, *, keep: bool) -> None:
        if self._waiter is None or self._waiter.done():
            return
        # Whatever of the request is not sent yet would stand before the next one.
        is_sent = not self._transport.get_write_buffer_size()
        self.is_reusable = keep and is_sent and not self._transport.is_closing()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._waiter.set_result(Received(self._parser.get_status_code(), self._headers, body, self._size))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class _Unpacker:
    """Never more than was asked for: a small answer can unpack to gigabytes."""

    def __init__(self, window: int, most: int) -> None:
        self._window = window
        self._most = most
        self._taken = 0
        self._work = zlib.decompressobj(window)
        self._may_be_bare = window == zlib.MAX_WBITS
        self._has_begun = False
        self.is_over = False

    @property
    def is_torn(self) -> bool:
        return self._has_begun and not self._work.eof

    def take(self, data: bytes, most: int) -> bytes:
        """`is_over` when what follows the packed body is none of it."""
        self._has_begun = True
        # Parts that unpack to nothing could come for ever.
        self._taken += len(data)
        if self._taken > self._most + HEAD_BYTES:
            raise BadAnswer("the packed body is longer than what it holds")
        pieces: list[bytes] = []
        while data and most > 0 and not self.is_over:
            pieces.append(self._decompress(data, most))
            most -= len(pieces[-1])
            data = self._work.unused_data
            if data.startswith(GZIP_MAGIC) and self._window == GZIP:
                self._work = zlib.decompressobj(self._window)  # another part, packed for itself
            else:
                self.is_over = bool(data)
        return b"".join(pieces)

    def _decompress(self, data: bytes, most: int) -> bytes:
        may_be_bare, self._may_be_bare = self._may_be_bare, False
        try:
            return self._work.decompress(data, most)
        except zlib.error as error:
            if not may_be_bare:
                raise BadAnswer(f"the body cannot be unpacked: {error}") from None
            self._work = zlib.decompressobj(-zlib.MAX_WBITS)  # some send "deflate" without its wrapping
            return self._decompress(data, most)

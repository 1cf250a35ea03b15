"""A TCP proxy between a horae process and PostgreSQL that can delay, swallow, cut, and lose single replies.

It reads the wire protocol just far enough to know which statement a reply answers: then the reply of one chosen
statement can be lost after PostgreSQL has carried it out, which is what an unknown commit is.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from dataclasses import dataclass, field

HEADER = 5
ANSWERED = b"Z\x00\x00\x00\x05"  # ReadyForQuery: whatever was asked is done and, outside a transaction, committed


@dataclass
class Faults:
    """What happens to this link now. Read by every pump before it passes anything on."""

    is_open: bool = True  # a closed link refuses and resets
    asks: bool = True  # False swallows what goes to the server
    answers: bool = True  # False swallows what comes back
    delay: float = 0.0
    jitter: float = 0.0
    reset: float = 0.0  # probability for each packet
    lose_reply_to: bytes = b""  # a piece of the statement's text
    within: bytes = b""  # and one of an earlier statement of the same transaction
    lose_request: bool = False  # with lose_reply_to: the statement does not even arrive
    losses_left: int = 0
    lost: int = 0


class Proxy:
    """One listening port; `faults` may be changed at any time from any thread."""

    def __init__(self, host: str, port: int, seed: int = 0) -> None:
        self._target = (host, port)
        self._dice = random.Random(seed)
        self.faults = Faults()
        self.connections = 0
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def cut(self) -> None:
        """Resets every open connection; new ones are taken if the link is open."""
        self._loop.call_soon_threadsafe(self._reset_all)

    def lose_reply(self, statement: str, within: str = "", *, request: bool = False) -> None:
        """Of the next statement that contains this text. With `request` it does not even arrive."""
        self.faults.lose_reply_to, self.faults.within = statement.encode(), within.encode()
        self.faults.lose_request, self.faults.losses_left = request, 1

    def heal(self) -> None:
        self.faults = Faults(lost=self.faults.lost)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = int(server.sockets[0].getsockname()[1])
        self._ready.set()
        self._loop.run_forever()
        self._loop.set_exception_handler(lambda *_: None)  # who is cut off at the end need not say so
        server.close()
        self._reset_all()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def _reset_all(self) -> None:
        for pair in list(self._pairs):
            for writer in pair:
                _reset(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self.faults.is_open:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        pair = (writer, far_writer)
        self._pairs.add(pair)
        wire = Wire()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(reader, far_writer, wire))
                group.create_task(self._answer(far_reader, writer, wire))
        except* (OSError, EOFError, asyncio.IncompleteReadError):
            pass
        finally:
            self._pairs.discard(pair)
            for each in pair:
                _reset(each)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
        while data := await reader.read(65_536):
            faults = self.faults
            asked = wire.read(data)
            if (
                faults.losses_left > 0
                and any(faults.lose_reply_to in text for text in asked)
                and wire.has(faults.within)
            ):
                faults.losses_left -= 1
                faults.lost += 1
                if faults.lose_request:
                    raise ConnectionAbortedError
                wire.is_doomed = True
            await self._disturb()
            while not self.faults.asks:  # noqa: ASYNC110 changed from other threads
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()
        raise EOFError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
        while data := await reader.read(65_536):
            if wire.is_doomed:
                if ANSWERED in data:
                    raise ConnectionAbortedError
                continue
            await self._disturb()
            while not self.faults.answers:  # noqa: ASYNC110 changed from other threads
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()
        raise EOFError

    async def _disturb(self) -> None:
        faults = self.faults
        if faults.reset and self._dice.random() < faults.reset:
            raise ConnectionResetError
        if faults.delay or faults.jitter:
            await asyncio.sleep(faults.delay + faults.jitter * self._dice.random())


@dataclass
class Wire:
    """What one client has asked: the texts of its prepared statements, and which it runs."""

    is_doomed: bool = False
    _is_started: bool = False
    _rest: bytes = b""
    _texts: dict[bytes, bytes] = field(default_factory=dict)
    _transaction: list[bytes] = field(default_factory=list)

    def read(self, data: bytes) -> list[bytes]:
        """The texts of the statements that this piece of the stream carries out."""
        data = self._rest + data
        if not self._is_started:
            if len(data) < 8:
                self._rest = data
                return []
            size, code = struct.unpack("!II", data[:8])
            self._is_started = code != 80877103  # a question whether TLS is spoken is no start yet
            data = data[size:]
        found = []
        while len(data) >= HEADER:
            kind, size = data[:1], 1 + struct.unpack("!I", data[1:HEADER])[0]
            if len(data) < size:
                break
            for text in self._message(kind, data[HEADER:size]):
                found.append(text)
                self._transaction = [text] if text.startswith(b"BEGIN") else [*self._transaction[-20:], text]
            data = data[size:]
        self._rest = data
        return found

    def has(self, piece: bytes) -> bool:
        """Whether a statement with this text belongs to the transaction under way."""
        return any(piece in text for text in self._transaction)

    def _message(self, kind: bytes, body: bytes) -> list[bytes]:
        if kind == b"Q":
            return [body]
        if kind == b"P":
            name, text = body.split(b"\0", 2)[:2]
            self._texts[name] = text
        elif kind == b"B":
            return [self._texts.get(body.split(b"\0", 2)[1], b"")]
        return []


def _reset(writer: asyncio.StreamWriter) -> None:
    """Not a polite goodbye: the other side sees its connection reset."""
    with contextlib.suppress(Exception):
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(Exception):
        writer.transport.abort()

"""A server that answers every request at once: `python -m horae.bench.answering` prints its port and serves."""

from __future__ import annotations

import asyncio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
END = b"\r\n\r\n"
LENGTH = b"content-length:"


class Answering(asyncio.Protocol):
    """One connection. Bodies are passed over by their length."""

    def __init__(self) -> None:
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while (head := self._waiting.find(END)) >= 0:
            end = head + len(END) + _length(self._waiting[:head].lower())
            if len(self._waiting) < end:
                return
            self._waiting = self._waiting[end:]
            self._transport.write(ANSWER)  # type: ignore[attr-defined]


def _length(head: bytes) -> int:
    found = head.find(LENGTH)
    return int(head[found + len(LENGTH) :].split(b"\r\n", 1)[0]) if found >= 0 else 0


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 whoever started it reads it
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())

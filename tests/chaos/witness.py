"""The witness: an HTTP server outside horae that writes down every call it gets, when, and until when it lasted."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime


@dataclass
class Call:
    """`ended` is when the answer was sent or the caller hung up."""

    job: str
    run_id: str
    attempt: int
    fence: int
    due: float
    arrived: float
    path: str
    ended: float | None = None
    is_answered: bool = False


class Witness:
    """`/ok`, `/slow/SECONDS`, `/status/CODE`, `/drip`, `/hang`, `/reset`; `is_down` refuses everybody."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._by_job: dict[str, dict[float, list[Call]]] = defaultdict(lambda: defaultdict(list))
        self.is_down = False
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of_job(self, name: str) -> dict[float, list[Call]]:
        """Calls by due time."""
        return self._by_job[name]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1000))
        self.port = int(server.sockets[0].getsockname()[1])
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not self.is_down:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                arrived = time.time()
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                if size := int(headers.get("content-length", 0)):
                    await reader.readexactly(size)
                if self.is_down:
                    break
                call = self._note(head[0].split()[1], headers, arrived)
                try:
                    await self._reply(call, reader, writer)
                finally:
                    call.ended = time.time()
        writer.transport.abort()

    def _note(self, path: str, headers: dict[str, str], arrived: float) -> Call:
        due = datetime.fromisoformat(headers["x-horae-scheduled-for"]).timestamp()
        job = headers["x-horae-job"]
        attempt, fence = int(headers["x-horae-attempt"]), int(headers["x-horae-fence"])
        call = Call(job, headers["idempotency-key"], attempt, fence, due, arrived, path)
        self.calls.append(call)
        self._by_job[job][due].append(call)
        return call

    async def _reply(self, call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, kind, *rest = call.path.split("/")
        status, extra = 200, ""
        match kind:
            case "slow":
                if await _hangs_up(reader, float(rest[0])):
                    raise ConnectionResetError
            case "hang":
                await _hangs_up(reader, 3600)
                raise ConnectionResetError
            case "reset":
                raise ConnectionResetError
            case "drip":
                for _ in range(3600):
                    writer.write(b"H")
                    await writer.drain()
                    await asyncio.sleep(0.5)
            case "flaky":
                status = 409 if call.attempt == 1 else 200
            case "status":
                status = int(rest[0])
                extra = f"Retry-After: {rest[1]}\r\n" if len(rest) > 1 else ""
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: 2\r\n{extra}\r\nok".encode())
        await writer.drain()
        call.is_answered = True


async def _hangs_up(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Whether the caller goes away before this time is over."""
    try:
        async with asyncio.timeout(seconds):
            return await reader.read(1) == b""
    except TimeoutError:
        return False

"""The whole record over HTTP: the lines of `horae export`, of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.responses import Response, StreamingResponse

from horae.api.operation import Call, Operation, get

Export = Callable[[str], AsyncIterator[bytes]]
"""The lines of a tenant's record, some of them at a time."""

NDJSON = "application/x-ndjson"
CHUNK_BYTES = 65_536


class Records:
    def __init__(self, export: Export) -> None:
        self._export = export

    def operations(self) -> list[Operation]:
        """For admins: who they are is decided where callers are, and today every key is an admin's."""
        about = "The whole history, one fact a line"
        return [get("/history/export", "exportHistory", about, self.export, gives="Lines")]

    async def export(self, call: Call) -> Response:
        lines = self._export(call.caller.tenant)
        # The first ones before the answer begins: a store that is away is a 503, not a broken stream.
        first = await anext(lines)
        return StreamingResponse(_chunks(first, lines), media_type=NDJSON)


async def _chunks(first: bytes, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A line alone is too small a thing to send."""
    pieces, size = [first], len(first)
    async for piece in lines:
        pieces.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)

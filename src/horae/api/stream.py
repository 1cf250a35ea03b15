"""Server-sent events: how one looks, and the sign of life of a stream on which nothing happens."""

from __future__ import annotations

import msgspec

from horae.ports import JsonObject

# A comment, which clients pass over. Also the first thing sent: servers hold the headers back until there is something.
SIGN_OF_LIFE = b": still here\n\n"
SIGN_OF_LIFE_SECONDS = 10.0


def frame(kind: str, document: JsonObject, id_: str) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (id_.encode(), kind.encode(), msgspec.json.encode(document))


class Quiet:
    """How long a stream has said nothing."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def is_too_long(self, seconds: float, *, has_spoken: bool) -> bool:
        """After another round of so many seconds: whether a sign of life is due."""
        self._seconds = 0.0 if has_spoken else self._seconds + seconds
        if self._seconds < SIGN_OF_LIFE_SECONDS:
            return False
        self._seconds = 0.0
        return True

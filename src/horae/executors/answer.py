"""What an answer of an http job says, and what of it is kept."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from horae.core.sound import DEEPEST, unsound
from horae.executors.wire import clean

# Others are read as UTF-8: a server must not choose a codec that is slow to decode.
_CODECS = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16"})
_CHARSET = re.compile(r"charset=[\"']?([\w-]+)", re.IGNORECASE)


class Answer(NamedTuple):
    """`headers` by their names in lower case. `body` is what was read, of `size_bytes` that came; a result keeps
    `excerpt_bytes` of it at most.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    size_bytes: int
    excerpt_bytes: int

    @property
    def text(self) -> str:
        match = _CHARSET.search(self.headers.get("content-type", ""))
        return self.body.decode(_codec(match[1]) if match else "utf-8", errors="replace")

    def result(self) -> dict[str, Any]:
        """What is kept of it: the body as JSON when it is whole and sound, as text otherwise."""
        is_truncated = self.size_bytes > self.excerpt_bytes
        content = self._excerpt() if is_truncated else self._content()
        return {"status": self.status, "body": content, "truncated": is_truncated}

    def _content(self) -> Any:
        if not self.body:
            return None
        if "json" in self.headers.get("content-type", "").lower():
            try:
                content = msgspec.json.decode(self.body)
            except (ValueError, RecursionError):
                return self._excerpt()
            if _is_simple(self.body) or not unsound(content):
                return content
        return self._excerpt()

    def _excerpt(self) -> str:
        text = self.text
        return clean(text, len(text)).encode()[: self.excerpt_bytes].decode(errors="ignore")


def _is_simple(body: bytes) -> bool:
    """Shallow and without escapes, so that nothing in it can be unsound: saves most answers the walk."""
    return b"\\" not in body and body.count(b"[") + body.count(b"{") < DEEPEST


def _codec(charset: str) -> str:
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _CODECS else "utf-8"

"""HTTP/1.1 as a command needs it, over one socket. The client of the standard library reads headers as it reads mail,
and took a third of the time of a command to be imported.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PORTS = {"http": 80, "https": 443}
LONGEST_LINE = 65_536
MOST_HEADERS = 200
BODYLESS = (204, 304)


class BrokenAnswer(ConnectionError):
    """What came is no HTTP, or ended too soon."""


class Answer(BufferedReader):
    """Reads as its body does, whole or line by line."""

    def __init__(self, status: int, reason: str, headers: list[tuple[str, str]], body: RawIOBase) -> None:
        super().__init__(body)
        self.status = status
        self.reason = reason
        self.headers = headers

    def header(self, name: str) -> str:
        return next((value for given, value in self.headers if given.lower() == name), "")


class Connection:
    """Made with the first request, and anew after an answer that ended it."""

    def __init__(self, scheme: str, host: str, port: int | None, timeout: float) -> None:
        self._scheme = scheme
        self._address = (host, PORTS[scheme] if port is None else port)
        name = f"[{host}]" if ":" in host else host
        self._host = name if port in (None, PORTS[scheme]) else f"{name}:{port}"
        self._timeout = timeout
        self._opened: tuple[socket.socket, BufferedReader] | None = None
        self._is_last = False

    def request(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        head = [f"{method} {target} HTTP/1.1", f"Host: {self._host}", "Accept-Encoding: identity"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method != "GET":
            head.append(f"Content-Length: {len(body or b'')}")
        if " " in target or any(not line.isascii() or not line.isprintable() for line in head):
            raise BrokenAnswer("the request has characters that cannot be sent")
        if self._is_last:
            self.close()
        if self._opened is None:
            self._opened = self._open()
        raw, file = self._opened
        raw.sendall("\r\n".join([*head, "", ""]).encode() + (body or b""))
        return self._answer(method, file)

    def limit_wait(self, seconds: float) -> None:
        self._timeout = seconds
        if self._opened is not None:
            self._opened[0].settimeout(seconds)

    def close(self) -> None:
        for each in self._opened or ():
            each.close()
        self._opened, self._is_last = None, False

    def _open(self) -> tuple[socket.socket, BufferedReader]:
        raw = socket.create_connection(self._address, self._timeout)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._scheme == "https":
                import ssl

                raw = ssl.create_default_context().wrap_socket(raw, server_hostname=self._address[0])
        except BaseException:
            raw.close()
            raise
        return raw, raw.makefile("rb")

    def _answer(self, method: str, file: BufferedReader) -> Answer:
        version, status, reason, headers = _head(file)
        while 100 <= status < 200:
            version, status, reason, headers = _head(file)
        told = {name.lower(): value.lower() for name, value in headers}
        self._is_last = told.get("connection", "") == "close" or version == "HTTP/1.0"
        if method == "HEAD" or status in BODYLESS:
            return Answer(status, reason, headers, _Counted(file, 0))
        if told.get("transfer-encoding", "") == "chunked":
            return Answer(status, reason, headers, _Chunked(file))
        length = told.get("content-length")
        if length is None:
            self._is_last = True
        elif not (length.isascii() and length.isdigit()):
            raise BrokenAnswer("the answer does not say how long it is")
        return Answer(status, reason, headers, _Counted(file, None if length is None else int(length)))


class _Counted(RawIOBase):
    """So many bytes; without a number, all until the end."""

    def __init__(self, file: BufferedReader, left: int | None) -> None:
        self._file = file
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._left is None:
            return self._file.readinto1(view)
        if self._left == 0:
            return 0
        n = self._file.readinto1(view[: self._left])
        if n == 0:
            raise BrokenAnswer("the answer ended too soon")
        self._left -= n
        return n


class _Chunked(RawIOBase):
    """Pieces that say how long they are, up to an empty one."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._left = 0
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if self._left == 0 and not self._is_over:
            self._begin()
        if self._is_over:
            return 0
        n = self._file.readinto1(memoryview(buffer).cast("B")[: self._left])
        if n == 0:
            raise BrokenAnswer("the answer ended too soon")
        self._left -= n
        if self._left == 0:
            _line(self._file)
        return n

    def _begin(self) -> None:
        size = _line(self._file).partition(";")[0].strip()
        try:
            self._left = int(size, 16)
        except ValueError:
            raise BrokenAnswer("the answer does not say how long it is") from None
        if self._left == 0:
            self._is_over = True
            while _line(self._file):
                pass


def _head(file: BufferedReader) -> tuple[str, int, str, list[tuple[str, str]]]:
    version, _, rest = _line(file).partition(" ")
    number, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (number.isascii() and number.isdigit()):
        raise BrokenAnswer("what answers there does not speak HTTP")
    headers: list[tuple[str, str]] = []
    while line := _line(file):
        if len(headers) == MOST_HEADERS:
            raise BrokenAnswer("the answer has too many headers")
        name, _, value = line.partition(":")
        headers.append((name.strip(), value.strip()))
    return version, int(number), reason, headers


def _line(file: BufferedReader) -> str:
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise BrokenAnswer("the answer has a line without end" if line else "the connection was closed")
    return line.decode("latin-1").rstrip("\r\n")

"""Serves the built page in front of the API. Its sources are in `dashboard/`, built into `dist/` beside this file."""

from __future__ import annotations

import gzip
import mimetypes
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

DIST = Path(__file__).parent / "dist"
INDEX = "/index.html"
ASSETS = "/assets/"
# Addresses that the page itself understands: the first word of each.
ROOMS = frozenset(
    {"jobs", "import", "runs", "dead-letters", "queues", "workers", "forecast", "alerts", "audit", "settings", "login"}
)
# First words of what the API answers itself, also to browsers.
OTHERS = frozenset({"api", "v1", "healthz", "readyz", "metrics", "openapi.json"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FOREVER = "public, max-age=31536000, immutable"
# Asked for again each time, and answered with "not modified" while it is the same.
ASK = "no-cache"
SMALLEST_PACKED = 500

NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>horae</title></head>
<body><h1>horae is running</h1>
<p>The dashboard has not been built here. With Node 20.19 or newer on the path, or a package index to take it from,
<code>make setup</code> builds it; then start horae again.</p>
<p>Everything else works: the API is under <code>/api/v1</code>, described by
<a href="/openapi.json">/openapi.json</a>.</p>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    packed: bytes
    kind: str
    tag: bytes
    keep: str


class Page:
    """The page for its own addresses, `app` for all others. Files are read once, when the process starts."""

    def __init__(self, app: ASGIApp, dist: Path = DIST) -> None:
        self._app = app
        self._files = read_files(dist)
        if INDEX not in self._files:
            self._files = {INDEX: _file(INDEX, NOT_BUILT)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if is_read and (file := self._find(scope)) is not None:
            await _answer(file, scope, send)
        elif is_read and _is_lost_reader(scope):
            await _answer(self._files[INDEX], scope, send, status=404)
        else:
            await self._app(scope, receive, send)

    def _find(self, scope: Scope) -> File | None:
        path: str = scope["path"]
        if path == "/" or path[1:].partition("/")[0] in ROOMS:
            return self._files[INDEX]
        return self._files.get(path)


def read_files(dist: Path) -> dict[str, File]:
    paths = sorted(path for path in dist.rglob("*") if path.is_file()) if dist.is_dir() else []
    named = {"/" + path.relative_to(dist).as_posix(): path for path in paths if not path.name.startswith(".")}
    return {name: _file(name, path.read_bytes()) for name, path in named.items()}


def _file(name: str, body: bytes) -> File:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    is_text = kind.startswith("text/") or kind in ("image/svg+xml", "application/javascript")
    packed = gzip.compress(body, 9, mtime=0) if len(body) >= SMALLEST_PACKED else b""
    tag = f'"{sha256(body).hexdigest()[:20]}"'.encode()
    return File(
        body, packed, f"{kind}; charset=utf-8" if is_text else kind, tag, FOREVER if name.startswith(ASSETS) else ASK
    )


def _is_lost_reader(scope: Scope) -> bool:
    """Somebody with a browser at an address that nobody has: the page says so in its own words, programs get JSON."""
    is_browser = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
    return is_browser and scope["path"][1:].partition("/")[0] not in OTHERS


async def _answer(file: File, scope: Scope, send: Send, *, status: int = 200) -> None:
    asked = dict(scope["headers"])
    is_packed = bool(file.packed) and b"gzip" in asked.get(b"accept-encoding", b"")
    body = file.packed if is_packed else file.body
    headers = [
        (b"content-type", file.kind.encode()),
        (b"cache-control", file.keep.encode()),
        (b"etag", file.tag),
        (b"vary", b"accept-encoding"),
        (b"content-security-policy", POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]
    if status == 200 and file.tag in asked.get(b"if-none-match", b""):
        status, body = 304, b""
    else:
        headers.append((b"content-length", str(len(body)).encode()))
        if is_packed:
            headers.append((b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

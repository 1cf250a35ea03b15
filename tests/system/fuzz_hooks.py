"""What schemathesis is told of this API: how lines of JSON are sent."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: Any, value: Any) -> bytes:
    """The description says text; what is not text is sent as it is, to be refused."""
    if isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "replace")

"""What every executor says to the outside about an attempt, and the form in which it brings the answer back."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import msgspec

from horae.core.duration import format_instant
from horae.core.sound import unsound
from horae.ports import Outcome, Request

MAX_ERROR_CHARACTERS = 8192
MAX_RESULT_BYTES = 64 * 1024

to_json = msgspec.json.Encoder().encode

# A crowd shares its due time: at 09:00:00 this is one computation, not one for each run.
due_text = lru_cache(maxsize=1024)(format_instant)


def rejected(error: str) -> Outcome:
    """The job itself is wrong: trying again cannot help."""
    return Outcome(succeeded=False, reason="payload_rejected", error=clean(error), is_retryable=False)


def failed(reason: str, error: str, retry_after_seconds: float | None = None) -> Outcome:
    return Outcome(succeeded=False, reason=reason, error=clean(error), retry_after_seconds=retry_after_seconds)


def timed_out(request: Request) -> Outcome:
    return failed("timeout", f"not finished after {request.timeout_seconds:g} s")


def input_of(request: Request) -> Any:
    """The payload, with what the jobs before this one returned when it has room for it."""
    payload = request.payload
    if request.upstream is not None and isinstance(payload, dict) and "upstream" not in payload:
        return {**payload, "upstream": request.upstream}
    return payload


def clean(text: str, limit: int = MAX_ERROR_CHARACTERS) -> str:
    """Text that any store can keep: no NUL, no half characters, the end kept when it is too long."""
    if len(text) > limit:
        text = f"…{text[1 - limit :]}"
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def json_result(value: Any) -> Any:
    """A result as a store can keep it, or ValueError. The copy cannot be changed by whoever returned it."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=msgspec.to_builtins).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"the result is not JSON: {error}") from error
    if len(text) > MAX_RESULT_BYTES:
        raise ValueError(f"the result is {len(text)} bytes of JSON, more than {MAX_RESULT_BYTES}")
    copy = json.loads(text)
    faults = unsound(copy)
    if faults:
        raise ValueError(f"the result cannot be kept: {faults[0].detail}")
    return copy

"""Signatures of webhooks (Standard Webhooks)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping

TOLERANCE_SECONDS = 300


class BadSignature(Exception):
    """Not from who it says, or too old. The text says which, for the log; the caller gets a plain 401."""


def verify(
    secrets: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> str:
    """Checks a signed call (Standard Webhooks) and returns its id, which is the same on every attempt.

    `secrets` are those in force, as `whsec_…`: two while one is being replaced.
    """
    told = {name.lower(): value for name, value in headers.items()}
    try:
        id_, at, signatures = (told[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        at_seconds = int(at)
    except (KeyError, ValueError):
        raise BadSignature("The headers webhook-id, webhook-timestamp and webhook-signature are missing.") from None
    if abs((time.time() if now is None else now) - at_seconds) > tolerance_seconds:
        raise BadSignature("The call is too old, or from the future.")
    signed = b"%b.%d.%b" % (id_.encode(), at_seconds, body)
    given = [each.partition(",")[2] for each in signatures.split() if each.startswith("v1,")]
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        if any(hmac.compare_digest(wanted, each) for each in given):
            return id_
    raise BadSignature("None of the signatures fits the body and the secret.")

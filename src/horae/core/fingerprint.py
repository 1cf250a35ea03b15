"""What a run died of, without what differs from run to run: errors that differ only in numbers, ids, addresses and
times are one error.
"""

from __future__ import annotations

import re

LONGEST = 200
# Of a text of megabytes only its ends are looked at.
_LOOKED_AT = 4000
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{14,}|0x[0-9a-f]+|\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b[0-9a-f]{16,}\b|\b\d{4,}\b|\b\d+(?:\.\d+){3}\b",
    re.IGNORECASE,
)


def fingerprint(error: str | None, reason: str | None) -> str:
    """The telling line of an error; the reason where there is none."""
    text = error or ""
    if len(text) > 2 * _LOOKED_AT:
        text = f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    lines = [line for each in text.splitlines() if (line := " ".join(each.replace("\0", " ").split()))]
    if not lines:
        return reason or ""
    # What a command said last tells more than the number it ended with.
    is_exit = lines[0].lower().startswith("exit code") and len(lines) > 1
    line = f"{lines[0]}: {lines[-1]}" if is_exit else lines[0]
    return _VARYING.sub("…", line)[:LONGEST].strip()

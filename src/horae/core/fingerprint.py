"""What a run died of, without what differs from run to run: errors that differ only in numbers, ids, addresses and
times are one error.
"""

from __future__ import annotations

import re

LONGEST = 200
# Of a text of megabytes only its ends are looked at.
_LOOKED_AT = 4000
# Colours, titles, and whatever else a command tells a terminal; then single control characters that are left.
_ESCAPES = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|[ -/]*[0-Z\\\\-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
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
    bare = _ESCAPES.sub("", text)
    lines = [line for each in bare.splitlines() if (line := " ".join(_CONTROL.sub(" ", each).split()))]
    if not lines:
        return reason or ""
    # What a command said last tells more than the number it ended with.
    is_exit = lines[0].lower().startswith("exit code") and len(lines) > 1
    line = f"{lines[0]}: {lines[-1]}" if is_exit else lines[0]
    return _VARYING.sub("…", line)[:LONGEST].strip()

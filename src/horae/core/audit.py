"""The chain of the audit log: what a row's hash covers, where a chain breaks, what of a change may be written down."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

GENESIS = "0" * 64
HASHED = (
    "id", "tenant", "at_us", "actor", "key_id", "address", "request_id", "action", "target", "before", "after", "seq",
)  # fmt: skip
MOST_CHARACTERS = 64 * 1024
MASK = "***"

_SECRET = re.compile(
    "authorization|cookie|passw|secret|token|api[-_]?key|x-.*key|credential|private|signature|bearer", re.IGNORECASE
)
_IN_URL = re.compile(r"([?&][^=&]*(?:token|key|secret|passw|sig|auth)[^=&]*=)[^&#\s]+", re.IGNORECASE)
_REFERENCE = re.compile(r"\{\{\s*secret\.")


def link(previous: str, row: Mapping[str, Any]) -> str:
    """The hash of a row: of the one before it, and of all that the row says, in one spelling."""
    text = json.dumps([row[name] for name in HASHED], separators=(",", ":"), ensure_ascii=True)
    return sha256(f"{previous}\n{text}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Break:
    """Where a chain does not hold: the place in it, the row if there is one, and what is wrong."""

    seq: int
    id: int | None
    what: str


@dataclass(slots=True)
class Chain:
    """Checks one tenant's rows, fed in order of `seq`; `finish` compares the end with the kept head."""

    seq: int = 0
    hash: str = GENESIS
    breaks: list[Break] = field(default_factory=list)

    def feed(self, row: Mapping[str, Any]) -> None:
        is_whole = row["seq"] == self.seq + 1
        if not is_whole:
            gone = f"{self.seq + 1}" if row["seq"] == self.seq + 2 else f"{self.seq + 1} to {row['seq'] - 1}"
            self.breaks.append(Break(self.seq + 1, None, f"deleted: there is no row at place {gone}"))
        elif link(self.hash, row) != row["hash"]:
            self.breaks.append(Break(row["seq"], row["id"], "changed: the row does not match its hash"))
        # On with what the row claims, so that one broken place is told once.
        self.seq, self.hash = row["seq"], row["hash"]

    def finish(self, head: Mapping[str, Any] | None) -> None:
        last = (0, GENESIS) if head is None else (head["seq"], head["hash"])
        if last == (self.seq, self.hash):
            return
        if last[0] > self.seq:
            what = f"deleted: the chain ends here, but place {last[0]} was given out"
            self.breaks.append(Break(self.seq + 1, None, what))
        else:
            self.breaks.append(Break(self.seq, None, "the end of the chain is not the one that was kept"))


def written(value: Any) -> str | None:
    """A state before or after a change as JSON text, without what looks like a secret, and of a bounded size."""
    if value is None:
        return None
    text = json.dumps(masked(value), separators=(",", ":"), ensure_ascii=False)
    if len(text) > MOST_CHARACTERS:
        return json.dumps({"left_out": f"{len(text):,} characters"})
    return text


def masked(value: Any, name: str = "") -> Any:
    """Values under names that speak of secrets are left out, wherever they stand. References to secrets stay."""
    match value:
        case dict():
            return {key: masked(item, key) for key, item in value.items()}
        case list() | tuple():
            return [masked(item, name) for item in value]
        case str() if _is_secret(name) and not _REFERENCE.search(value):
            return MASK
        case str():
            return _IN_URL.sub(rf"\1{MASK}", value) if "=" in value else value
        case _:
            return value


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Only the fields that differ, as they were and as they are."""
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: before.get(name) for name in changed}, {name: after.get(name) for name in changed}

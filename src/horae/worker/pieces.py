"""The log of a worker that comes over HTTP: secrets are kept out of it although it arrives in pieces.

Each piece may reach another node, so what of it may be the beginning of a secret waits in the store for the next one,
sealed.
"""

from __future__ import annotations

from horae.core.secrets import MASK, SHORTEST, Redactor
from horae.ports import Held
from horae.worker.secrets import Secrets


class Pieces:
    """Of one attempt. The store calls it while it writes, with what it holds back of the piece before."""

    def __init__(self, redactor: Redactor, secrets: Secrets, tenant: str, run: Held) -> None:
        self._redactor = redactor
        self._secrets = secrets
        self._place = (tenant, "log", run.run_id, str(run.attempt))

    def add(self, seq: int, text: str, held: str | None, *, is_next: bool, is_followed: bool) -> tuple[str, str | None]:
        """What may be kept as it is, and what is held back. Pieces that come out of order have nothing to be joined
        with: what looks like a part of a secret at their edges is masked.
        """
        text = self._opened(seq - 1, held) + text if is_next else self._redactor.without_ending(text)
        shown, rest = self._redactor.part(text)
        if is_followed:
            return shown + (MASK if len(rest) >= SHORTEST else rest), None
        return shown, self._secrets.seal(rest, *self._place, str(seq)) if rest else None

    def end(self, seq: int, held: str) -> str:
        """What was held back of the last piece, as nothing will follow."""
        return self._redactor.text(self._opened(seq, held))

    def _opened(self, seq: int, held: str | None) -> str:
        return "" if held is None else self._secrets.open(held, *self._place, str(seq)) or MASK

"""The log of a worker that comes over HTTP: secrets are kept out of it although it arrives in pieces.

Each piece may reach another node, so what of it may be the beginning of a secret waits in the store for the next one,
sealed.
"""

from __future__ import annotations

from horae.core.secrets import MASK, SHORTEST, Redactor
from horae.ports import Closing, Held, LogPieces
from horae.worker.attempt import Spec
from horae.worker.opening import Opener
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
            return shown + _masked(rest), None
        return shown, self._secrets.seal(rest, *self._place, str(seq)) if rest else None

    def end(self, seq: int, held: str, *, is_cut: bool) -> str:
        """What was held back of the last piece, as nothing will follow. Where the log was cut off, it may well be the
        first half of a secret.
        """
        text = self._opened(seq, held)
        if not is_cut:
            return self._redactor.text(text)
        shown, rest = self._redactor.part(text)
        return shown + _masked(rest)

    def _opened(self, seq: int, held: str | None) -> str:
        return "" if held is None else self._secrets.open(held, *self._place, str(seq)) or MASK


def _masked(rest: str) -> str:
    return MASK if len(rest) >= SHORTEST else rest


class Redactors:
    """What keeps the secrets of a run out of its log and its result."""

    def __init__(self, opener: Opener, secrets: Secrets) -> None:
        self._opener = opener
        self._secrets = secrets

    async def of(self, tenant: str, spec: Spec) -> Redactor | None:
        """None for a run that knows no secrets."""
        if not spec.secrets:
            return None
        opened = await self._secrets.fetch((tenant, name) for name in spec.secrets)
        return Redactor({name: value for (_, name), value in opened.items()})

    async def close(self, runs: list[tuple[str, Held]]) -> Closing:
        """For the logs of runs whose workers were lost; a port of the janitor."""
        specs = await self._opener.specs((run.job_id, run.version) for _, run in runs)
        closing: dict[tuple[str, int], LogPieces] = {}
        for tenant, run in runs:
            if redactor := await self.of(tenant, specs[run.job_id, run.version]):
                closing[run.run_id, run.token] = Pieces(redactor, self._secrets, tenant, run)
        return closing

"""Claimed runs into requests: their definitions, what upstream runs left, and secrets, each fetched for all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from horae.core.job import Work
from horae.ports import Claimed, ClaimStore, Outcome, Request
from horae.telemetry import oops
from horae.worker.attempt import Spec, no_secret, read_spec, request_of
from horae.worker.lines import Seen
from horae.worker.secrets import Secrets

SPECS_KEPT = 30_000
CHARACTERS_KEPT = 10_000_000
# Jobs come round in the same order: of more than can be kept, the oldest is always the one that is needed next. So when
# all places are taken, one in so many takes one.
ONE_IN = 8
AHEAD_US = 3_000_000
AHEAD_AT_ONCE = 250

Version = tuple[str, int]
"""A job and a version of it, which never changes."""
_NONE: Mapping[Version, str] = {}


class Opened(NamedTuple):
    """A run with what its executor is told; or with the outcome that it has because it cannot start."""

    run: Claimed
    work: Work
    request: Request | Outcome
    secrets: dict[str, str]


class Opener:
    def __init__(self, store: ClaimStore, secrets: Secrets) -> None:
        self._store = store
        self._secrets = secrets
        self._kept: dict[Version, Spec] = {}
        self._characters = 0
        self._read_until_us = 0
        self.is_short = False
        """Most of the last definitions were not here and there is no place for more: a claim had better bring them."""

    async def open(self, claimed: list[Claimed]) -> list[Opened]:
        """Without those whose definition cannot be read here."""
        versions = [(run.job_id, run.version) for run in claimed]
        brought = {version: run.spec for version, run in zip(versions, claimed, strict=True) if run.spec is not None}
        specs = await self.specs(versions, brought)
        pairs = [(run, specs[version]) for run, version in zip(claimed, versions, strict=True) if version in specs]
        parents = [run.parent_id for run, _ in pairs if run.cause == "after" and run.parent_id]
        upstream = await self._store.results_of(parents) if parents else {}
        wanted = {(run.tenant, name) for run, spec in pairs for name in spec.secrets}
        found = await self._secrets.fetch(wanted) if wanted else {}
        opened = []
        for run, (work, names, _) in pairs:
            secrets = {name: found[run.tenant, name] for name in names if (run.tenant, name) in found} if names else {}
            given = upstream.get(run.parent_id or "") if run.cause == "after" else None
            is_complete = len(secrets) == len(names)
            request = request_of(run, work, given, secrets) if is_complete else no_secret(names - secrets.keys())
            opened.append(Opened(run, work, request, secrets))
        return opened

    async def specs(self, wanted: Iterable[Version], brought: Mapping[Version, str] = _NONE) -> dict[Version, Spec]:
        """Of each version that can be read; from the store only if it is neither kept here nor `brought`."""
        found: dict[Version, Spec] = {}
        missing: set[Version] = set()
        for version in wanted:
            spec = self._kept.get(version)
            if spec is None:
                missing.add(version)
            else:
                found[version] = spec
        # Not when they are few because they are long: a run holds on to what its claim brought.
        self.is_short = len(missing) > len(found) and len(self._kept) >= SPECS_KEPT
        if missing:
            texts = {version: brought[version] for version in missing if version in brought}
            if asked := sorted(missing - texts.keys()):
                texts |= await self._store.specs(asked)
            read = _read(texts)
            found |= read
            is_full = len(self._kept) >= SPECS_KEPT or self._characters >= 0.9 * CHARACTERS_KEPT
            self._keep(dict(islice(read.items(), 0, None, ONE_IN)) if is_full else read)
        return found

    async def read_ahead(self, seen: Seen, most: int) -> int:
        """The definitions of up to so many runs that come soon: a crowd need not wait for them then. How many come."""
        until_us = seen.now_us + AHEAD_US
        lines = [line.bucket for line in seen.waiting if line.head_us <= until_us]
        if not lines:
            return 0
        coming = await self._store.coming(lines, self._read_until_us, until_us, min(most, SPECS_KEPT // 2))
        missing = [version for version in dict.fromkeys(coming) if version not in self._kept]
        for start in range(0, len(missing), AHEAD_AT_ONCE):
            self._keep(_read(await self._store.specs(missing[start : start + AHEAD_AT_ONCE])))
        self._read_until_us = until_us
        return len(coming)

    def _keep(self, read: dict[Version, Spec]) -> None:
        for version, spec in read.items():
            # One that is larger than half of them together would cost all others their place.
            if version not in self._kept and spec.characters <= CHARACTERS_KEPT // 2:
                self._kept[version] = spec
                self._characters += spec.characters
        while (over := len(self._kept) - SPECS_KEPT) > 0 or self._characters > CHARACTERS_KEPT:
            # All at once: the first one of a dict is found behind the places of those that left it before.
            for version in list(islice(self._kept, over if over > 0 else 1 + len(self._kept) // 100)):
                self._characters -= self._kept.pop(version).characters


def _read(texts: Mapping[Version, str]) -> dict[Version, Spec]:
    read = {}
    for version, text in texts.items():
        try:
            read[version] = read_spec(text)
        except msgspec.MsgspecError as error:  # of a newer release, say; the others must not wait for it
            oops("definition.unread", error, job=version[0], version=version[1])
    return read

"""Claimed runs into requests: their definitions, what upstream runs left, and secrets, each fetched for all at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from horae.core.job import Definition
from horae.ports import Claimed, ClaimStore, Outcome, Request
from horae.worker.attempt import Spec, no_secret, read_spec, request_of
from horae.worker.secrets import Secrets

SPECS_KEPT = 20_000

Version = tuple[str, int]
"""A job and a version of it, which never changes."""


class Opened(NamedTuple):
    """A run with what its executor is told; or with the outcome that it has because it cannot start."""

    run: Claimed
    definition: Definition
    request: Request | Outcome
    secrets: dict[str, str]


class Opener:
    def __init__(self, store: ClaimStore, secrets: Secrets) -> None:
        self._store = store
        self._secrets = secrets
        self._kept: dict[Version, Spec] = {}

    async def open(self, claimed: list[Claimed]) -> list[Opened]:
        versions = [(run.job_id, run.version) for run in claimed]
        specs = await self.specs(versions)
        parents = [run.parent_id for run in claimed if run.cause == "after" and run.parent_id]
        upstream = await self._store.results_of(parents) if parents else {}
        pairs = list(zip(claimed, (specs[version] for version in versions), strict=True))
        wanted = {(run.tenant, name) for run, spec in pairs for name in spec.secrets}
        found = await self._secrets.fetch(wanted) if wanted else {}
        opened = []
        for run, (definition, names) in pairs:
            secrets = {name: found[run.tenant, name] for name in names if (run.tenant, name) in found} if names else {}
            given = upstream.get(run.parent_id or "") if run.cause == "after" else None
            is_complete = len(secrets) == len(names)
            request = request_of(run, definition, given, secrets) if is_complete else no_secret(names - secrets.keys())
            opened.append(Opened(run, definition, request, secrets))
        return opened

    async def specs(self, wanted: Iterable[Version]) -> dict[Version, Spec]:
        """Of each version; from the store only if it has not been asked for of late."""
        found: dict[Version, Spec] = {}
        missing: set[Version] = set()
        for version in wanted:
            spec = self._kept.get(version)
            if spec is None:
                missing.add(version)
            else:
                found[version] = spec
        if missing:
            read = {version: read_spec(text) for version, text in (await self._store.specs(sorted(missing))).items()}
            found |= read
            self._kept |= read
            while len(self._kept) > SPECS_KEPT:
                del self._kept[next(iter(self._kept))]
        return found

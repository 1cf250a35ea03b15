"""Claimed runs into requests: their definitions, what upstream runs left, and secrets, each fetched for all at once."""

from __future__ import annotations

from collections import OrderedDict
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
        self._kept: OrderedDict[Version, Spec] = OrderedDict()

    async def open(self, claimed: list[Claimed]) -> list[Opened]:
        specs = await self.specs({(run.job_id, run.version) for run in claimed})
        parents = [run.parent_id for run in claimed if run.cause == "after" and run.parent_id]
        upstream = await self._store.results_of(parents) if parents else {}
        found = await self._secrets.fetch(
            (run.tenant, name) for run in claimed for name in specs[run.job_id, run.version].secrets
        )
        opened = []
        for run in claimed:
            definition, names = specs[run.job_id, run.version]
            secrets = {name: found[run.tenant, name] for name in names if (run.tenant, name) in found}
            given = upstream.get(run.parent_id or "") if run.cause == "after" else None
            is_complete = len(secrets) == len(names)
            request = request_of(run, definition, given, secrets) if is_complete else no_secret(names - secrets.keys())
            opened.append(Opened(run, definition, request, secrets))
        return opened

    async def specs(self, wanted: Iterable[Version]) -> dict[Version, Spec]:
        """Of each version; from the store only if it has not been asked for of late."""
        wanted = set(wanted)
        # Asked one by one: a set operation with the keys of the cache may walk all of it.
        found = {key: self._kept[key] for key in wanted if key in self._kept}
        if missing := wanted - found.keys():
            found |= {key: read_spec(text) for key, text in (await self._store.specs(sorted(missing))).items()}
        for key, spec in found.items():
            self._kept[key] = spec
            self._kept.move_to_end(key)
        while len(self._kept) > SPECS_KEPT:
            self._kept.popitem(last=False)
        return found

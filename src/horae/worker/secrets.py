"""Secrets for the runs that are about to start: fetched sealed, opened here, kept no longer than the attempt."""

from __future__ import annotations

from collections.abc import Iterable

from horae.core.errors import HoraeError
from horae.ports import SecretStore
from horae.telemetry import warn
from horae.vault import Vault

Name = tuple[str, str]
"""Tenant and name."""


class Secrets:
    def __init__(self, store: SecretStore, vault: Vault) -> None:
        self._store = store
        self._vault = vault

    async def fetch(self, wanted: Iterable[Name]) -> dict[Name, str]:
        """Those that exist and open."""
        names = sorted(set(wanted))
        found: dict[Name, str] = {}
        for secret in await self._store.find_secrets(names) if names else []:
            try:
                found[secret.tenant, secret.name] = self._vault.open(secret.sealed, secret.tenant, secret.name)
            except HoraeError as error:
                warn("secret.closed", tenant=secret.tenant, name=secret.name, why=error.detail)
        return found

    def seal(self, text: str, *place: str) -> str:
        return self._vault.seal(text, *place)

    def open(self, sealed: str, *place: str) -> str | None:
        """None when the key has been changed since."""
        try:
            return self._vault.open(sealed, *place)
        except HoraeError:
            return None

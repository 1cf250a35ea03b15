"""On whose behalf something is changed, and what their quota says to it."""

from __future__ import annotations

from dataclasses import dataclass

from horae.core.access import DEFAULT_TENANT, NO_QUOTA, KeyFacts, Quota, serves
from horae.core.errors import Fault, Invalid
from horae.ports import Asked, Once


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf: the tenant whose things are touched, and a name for the record. `home` is the tenant that the
    caller belongs to; only an admin of `default` may be elsewhere.
    """

    tenant: str
    actor: str
    role: str = "admin"
    home: str = DEFAULT_TENANT
    key: KeyFacts | None = None
    quota: Quota = NO_QUOTA
    address: str | None = None
    request_id: str | None = None
    is_dry: bool = False

    @property
    def is_keeper(self) -> bool:
        """Whether this is an admin of the whole installation, not only of a tenant."""
        return self.role == "admin" and self.home == DEFAULT_TENANT

    @property
    def is_of_the_house(self) -> bool:
        """Whether this is one of those who run the installation, in whatever role, and looks at it as such."""
        return self.home == DEFAULT_TENANT

    def may_know(self, worker: str) -> bool:
        """Shared workers and their own; who looks after the whole installation knows all of them."""
        is_everywhere = self.is_keeper and self.tenant == DEFAULT_TENANT
        return is_everywhere or serves(worker, self.tenant)

    def asked(self, once: Once | None) -> Asked:
        key_id = self.key.id if self.key else None
        return Asked(self.actor, once, key_id, self.address, self.request_id, is_dry=self.is_dry)


def check_payload(caller: Caller, payload: str | None, pointer: str = "/payload") -> None:
    """Against the quota of the tenant. `payload` is JSON text."""
    most = caller.quota.max_payload_bytes
    if most is not None and payload is not None and (size := len(payload.encode())) > most:
        detail = f'"{pointer.rpartition("/")[2]}" has {size:,} bytes; tenant "{caller.tenant}" may send {most:,}.'
        hint = "Send a reference to the data instead, or ask an admin to raise max_payload_bytes."
        raise Invalid([Fault(pointer, detail, hint)], "quota_payload")

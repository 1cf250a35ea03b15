"""Who may do what: roles, keys and quotas as plain values. Where they are kept and asked for is others' business."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

Role = Literal["viewer", "operator", "editor", "admin", "worker"]

# From least to most: each may do all that those before it may.
ROLES: tuple[Role, ...] = ("viewer", "operator", "editor", "admin")
# Beside them: takes runs and reports on them, with the secrets that they name, and looks at nothing else. Editors may
# do that too: who can send a secret anywhere can also be given it.
WORKER: Role = "worker"
KEY_ROLES: tuple[Role, ...] = (*ROLES, WORKER)
ROLE_WORDS = {
    "viewer": "looks at everything but keys and the audit log",
    "operator": "also runs, cancels, retries, pauses, replays and drains",
    "editor": "also creates, changes and deletes jobs",
    "admin": "also manages keys, tenants and the audit log",
    "worker": "only takes runs of its handlers and reports on them",
}

DEFAULT_TENANT = "default"
KEY_MARK = "horae_"
KEY_BYTES = 32
# How the record names those who came with a token of an issuer.
ISSUED = "oidc:"
_SHOWN = 8
_REMOTE = "remote"


def includes(role: str, least: str) -> bool:
    """Whether somebody in `role` may do what asks for `least`; an unknown role may do nothing."""
    if least == WORKER:
        return role in (WORKER, "editor", "admin")
    return role in ROLES and ROLES.index(role) >= ROLES.index(least)


def worker_id(tenant: str, name: str) -> str:
    """Its id in the fleet, which keeps tenants apart: nobody speaks for a worker of another one."""
    return f"{_REMOTE}:{tenant}:{name.removeprefix(f'{_REMOTE}:{tenant}:')}"


def is_shared(worker: str) -> bool:
    """Whether it is one of the house, which runs the runs of every tenant."""
    return not worker.startswith(f"{_REMOTE}:")


def serves(worker: str, tenant: str) -> bool:
    """Whether it may run runs of this tenant: those of the house may, and those that came with a key of the tenant."""
    return is_shared(worker) or worker.startswith(f"{_REMOTE}:{tenant}:")


def key_text(random: bytes) -> str:
    """A key out of 256 random bits. The mark lets scanners of leaked secrets find it."""
    return KEY_MARK + urlsafe_b64encode(random).rstrip(b"=").decode()


def key_prefix(key: str) -> str:
    """What of a key may be shown: the mark and eight letters of 43."""
    return key[: len(KEY_MARK) + _SHOWN]


def key_hash(key: str) -> str:
    """Keys carry 256 random bits, so one round of SHA-256 is enough and costs an attacker's flood nothing."""
    return sha256(key.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key that is in force. No `scopes` are all of them."""

    id: str
    tenant: str
    name: str
    role: str
    prefix: str
    scopes: tuple[str, ...] = ()
    requests_per_second: int | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may do; None is as much as it likes."""

    max_jobs: int | None = None
    max_queued: int | None = None
    requests_per_second: int | None = None
    max_payload_bytes: int | None = None


NO_QUOTA = Quota()

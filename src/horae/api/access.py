"""Who is asking: the headers of a request in, a caller out. Roles and keys of tenants are to come."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from horae.api.problems import Unauthorized
from horae.commands import Caller
from horae.core.checks import check_token
from horae.core.errors import Denied

TENANT_HEADER = "X-Horae-Tenant"
DEFAULT_TENANT = "default"

Headers = Mapping[str, str]
"""Of one request; names are found in any case."""


class Access(Protocol):
    async def caller(self, headers: Headers) -> Caller:
        """Raises Unauthorized when nobody is named, and Denied when somebody may not."""
        ...


class OpenAccess:
    """For one developer on one machine: everybody is let in, but web pages of others are not.

    A page in the developer's browser may send requests to loopback, and under a name that its owner points at
    127.0.0.1 it may even read the answers. So a request must not come from a foreign page, and must not be addressed
    by a name that somebody outside could own.
    """

    async def caller(self, headers: Headers) -> Caller:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if (origin is not None and _netloc(origin) != host.lower()) or headers.get("sec-fetch-site") == "cross-site":
            raise Denied("`horae dev` has no keys, so it takes no requests from pages of other sites.")
        if not _is_local(host):
            raise Denied("`horae dev` has no keys, so it answers to localhost and to addresses, not to other names.")
        return Caller(_tenant(headers), "anonymous")


class KeyAccess:
    """One admin key, of which only the hash is known here."""

    def __init__(self, key_hash: str) -> None:
        self._hash = key_hash

    async def caller(self, headers: Headers) -> Caller:
        key = _key(headers)
        if not key or not hmac.compare_digest(key_hash(key), self._hash):
            raise Unauthorized
        return Caller(_tenant(headers), "admin")


def _key(headers: Headers) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def key_hash(key: str) -> str:
    """Keys carry 256 random bits, so one round of SHA-256 is enough and costs an attacker's flood nothing."""
    return sha256(key.encode("utf-8", "replace")).hexdigest()


def _tenant(headers: Headers) -> str:
    return check_token(headers.get(TENANT_HEADER, DEFAULT_TENANT), f"/headers/{TENANT_HEADER}")


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_local(host: str) -> bool:
    """Names without a dot are not to be had from outside."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if "." not in name or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

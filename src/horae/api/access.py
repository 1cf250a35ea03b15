"""Who is asking: the headers of a request in, a caller out; and whether that caller may do what is asked."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from math import ceil
from typing import Protocol
from urllib.parse import urlsplit

from horae.api.operation import Operation
from horae.api.problems import Refused, Unauthorized
from horae.commands import Caller
from horae.core.access import DEFAULT_TENANT, KEY_MARK, ROLE_WORDS, KeyFacts, includes, key_hash
from horae.core.checks import check_token
from horae.core.errors import Denied, Fault, Limited
from horae.core.rate import SECOND_US, take
from horae.ports import AccessStore

__all__ = ["TENANT_HEADER", "Access", "KeyAccess", "OpenAccess", "TokenReader", "check_role", "key_hash"]

TENANT_HEADER = "X-Horae-Tenant"
# Every key may ask what it may do.
OPEN_SCOPE = "whoami"

# A key that was revoked on another node opens nothing here after this time.
KEPT_SECONDS = 2.0
MOST_KEPT = 10_000
# Bad keys from one address: so many at once, then so many a second. Good ones are not counted.
BAD_AT_ONCE = 200
BAD_A_SECOND = 10
MOST_ADDRESSES = 10_000
LONGEST_KEY = 8192
# How often it is written down which keys were used.
FLUSH_SECONDS = 30.0

Headers = Mapping[str, str]
"""Of one request; names are found in any case."""


class Access(Protocol):
    async def caller(self, headers: Headers, address: str) -> Caller:
        """Raises Unauthorized when nobody is named, and Denied when somebody may not."""
        ...


class TokenReader(Protocol):
    """Reads tokens of an issuer that we trust."""

    async def read(self, token: str) -> Caller:
        """Raises Unauthorized, or Denied if the token is good but names no role or tenant here."""
        ...


class OpenAccess:
    """For one developer on one machine: everybody is let in, but web pages of others are not.

    A page in the developer's browser may send requests to loopback, and under a name that its owner points at
    127.0.0.1 it may even read the answers. So a request must not come from a foreign page, and must not be addressed
    by a name that somebody outside could own.
    """

    async def caller(self, headers: Headers, address: str) -> Caller:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if (origin is not None and _netloc(origin) != host.lower()) or headers.get("sec-fetch-site") == "cross-site":
            detail = "`horae dev` has no keys, so it takes no requests from pages of other sites."
            hint = "Use the page at /, curl or the SDK; for other pages run `horae serve`, which has keys."
            raise Denied(detail, hint=hint, pointer="/headers/Origin")
        if not _is_local(host):
            detail = "`horae dev` has no keys, so it answers to localhost and to addresses, not to other names."
            hint = "Ask 127.0.0.1 instead of the name, or run `horae serve`, which has keys."
            raise Denied(detail, hint=hint, pointer="/headers/Host")
        return Caller(_tenant(headers, DEFAULT_TENANT), "anonymous", address=address)


@dataclass(frozen=True, slots=True)
class _Kept:
    key: KeyFacts
    until: float


class KeyAccess:
    """Keys of the store, remembered for a moment; beside them one admin key of the settings, of which only the hash is
    known here, and the tokens of an issuer.
    """

    def __init__(
        self,
        admin_hash: str = "",
        store: AccessStore | None = None,
        tokens: TokenReader | None = None,
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self._admin_hash = admin_hash
        self._store = store
        self._tokens = tokens
        self._kept_seconds = kept_seconds
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._used: set[str] = set()
        self._bad: OrderedDict[str, int] = OrderedDict()

    async def caller(self, headers: Headers, address: str) -> Caller:
        secret = _key(headers)
        try:
            caller = await self._known(secret, address)
        except Unauthorized as error:
            if not secret:
                raise
            self._count_bad(address, 1)
            if error.is_told:
                raise
            hint = "Check that it is whole, of this server and not revoked; an admin makes a key with POST /keys."
            raise Unauthorized("The key or token that was sent is not accepted.", hint=hint) from None
        if caller.is_keeper:
            tenant = _tenant(headers, caller.home)
        else:
            tenant = caller.home
            if headers.get(TENANT_HEADER, tenant) != tenant:
                raise _elsewhere(caller)
        return Caller(tenant, caller.actor, caller.role, caller.home, caller.key, address=address)

    async def flush(self) -> float:
        """Writes down which keys were used of late; says when to come again. Not on the way of any request."""
        used, self._used = self._used, set()
        if used and self._store is not None:
            try:
                await self._store.touch_keys(sorted(used))
            except BaseException:
                self._used |= used
                raise
        return FLUSH_SECONDS

    async def _known(self, secret: str, address: str) -> Caller:
        if not secret or len(secret) > LONGEST_KEY:
            raise Unauthorized
        hash_ = key_hash(secret)
        if self._admin_hash and hmac.compare_digest(hash_, self._admin_hash):
            return Caller(DEFAULT_TENANT, "admin")
        if secret.startswith(KEY_MARK) or self._tokens is None or secret.count(".") != 2:
            key = await self._key(hash_, address)
            self._used.add(key.id)
            return Caller(key.tenant, key.name, key.role, key.tenant, key)
        self._count_bad(address, 0)
        return await self._tokens.read(secret)

    async def _key(self, hash_: str, address: str) -> KeyFacts:
        """By its hash, so nothing about how close a guess was can be read off the time that it took."""
        now = asyncio.get_running_loop().time()
        kept = self._kept.get(hash_)
        if kept is not None and now < kept.until:
            self._kept.move_to_end(hash_)
            return kept.key
        if kept is None:
            # An address that guesses is not given a statement for each guess. A key that was good is asked for again.
            self._count_bad(address, 0)
        key = await self._store.find_key(hash_) if self._store is not None else None
        if key is None:
            self._kept.pop(hash_, None)
            raise Unauthorized
        self._kept[hash_] = _Kept(key, now + self._kept_seconds)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return key

    def _count_bad(self, address: str, n: int) -> None:
        """Raises Limited when this address showed too many bad keys; on this node alone, which is enough to slow it."""
        now_us = round(asyncio.get_running_loop().time() * SECOND_US)
        taken = take(self._bad.get(address, 0), now_us, n, BAD_A_SECOND, BAD_AT_ONCE)
        if taken.granted < n or (n == 0 and not taken.left):
            wait = max(taken.wait_us / SECOND_US, 1)
            headers = {
                "RateLimit-Policy": f'"bad-keys";q={BAD_AT_ONCE};w={BAD_AT_ONCE // BAD_A_SECOND}',
                "RateLimit": f'"bad-keys";r=0;t={ceil(wait)}',
            }
            detail = "Too many bad keys came from this address. Check the key, then try again."
            raise Limited(detail, "bad_keys", wait, headers)
        if n:
            self._bad[address] = taken.free_us
            self._bad.move_to_end(address)
            if len(self._bad) > MOST_ADDRESSES:
                self._bad.popitem(last=False)


def check_role(operation: Operation, caller: Caller) -> None:
    """Raises a refusal that names the role, or the scope, that is missing."""
    who = f'Key {caller.key.prefix}… ("{caller.key.name}")' if caller.key else f'"{caller.actor}"'
    if not includes(caller.role, operation.role) and operation.scope != OPEN_SCOPE:
        detail = f'{who} has the role "{caller.role}" in tenant "{caller.home}"; this needs "{operation.role}".'
        hint = f"{operation.role}: {ROLE_WORDS[operation.role]}. An admin makes such a key with POST /keys."
        raise Refused(403, "role_needed", detail, [Fault("/headers/Authorization", detail, hint)])
    if operation.is_global and not caller.is_keeper:
        detail = f'{who} belongs to tenant "{caller.home}"; this is for admins of "{DEFAULT_TENANT}" alone.'
        hint = f'Use a key of the tenant "{DEFAULT_TENANT}" with the role "admin".'
        raise Refused(403, "keeper_needed", detail, [Fault("/headers/Authorization", detail, hint)])
    scopes = caller.key.scopes if caller.key else ()
    if scopes and operation.scope not in (*scopes, OPEN_SCOPE):
        detail = f'{who} may only use {", ".join(scopes)}; this needs the scope "{operation.scope}".'
        hint = "An admin makes a key with that scope, or with none, which are all of them."
        raise Refused(403, "scope_needed", detail, [Fault("/headers/Authorization", detail, hint)])


def _elsewhere(caller: Caller) -> Refused:
    detail = f'Only an admin of "{DEFAULT_TENANT}" may name another tenant; this caller belongs to "{caller.home}".'
    hint = f"Leave {TENANT_HEADER} out, or use a key of that tenant."
    return Refused(403, "other_tenant", detail, [Fault(f"/headers/{TENANT_HEADER}", detail, hint)])


def _key(headers: Headers) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _tenant(headers: Headers, home: str) -> str:
    return check_token(headers.get(TENANT_HEADER, home), f"/headers/{TENANT_HEADER}")


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

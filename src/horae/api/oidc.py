"""Tokens of an OpenID Connect issuer: signature, times, issuer and audience are checked, claims become a caller.

Which algorithms and whose keys is settled by the settings alone; what a token says about it is not believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from horae.api.hints import AUTHORIZATION
from horae.api.problems import Refused, Unauthorized
from horae.commands import Caller
from horae.core.access import ISSUED, ROLES
from horae.core.checks import check_token
from horae.core.errors import Denied, Invalid, Unavailable
from horae.core.rate import SECOND_US
from horae.telemetry import warn

ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
LEEWAY_SECONDS = 30
# Nobody can take a token back, so one that is good for longer than a day is not taken.
LONGEST_SECONDS = 86_400
LEAST_RSA_BITS = 2048
# Keys are fetched again after this time, so that one that the issuer took back is forgotten, and at once, but not more
# often than this, when a token names a key that is not known yet.
FRESH_SECONDS = 600.0
AGAIN_SECONDS = 10.0
# While the issuer is away, known keys go on for so long.
STALE_SECONDS = 3600.0
CLOCK_SECONDS = 30.0
MOST_KEYS = 100

FetchJson = Callable[[str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Issuer:
    """`roles` says which values of the role claim stand for which role, beside the names of the roles themselves."""

    url: str
    audience: str
    tenant_claim: str
    role_claim: str
    roles: Mapping[str, str]


class OidcTokens:
    """`now` is the store's time, like every time that decides something."""

    def __init__(self, issuer: Issuer, fetch: FetchJson, now: Callable[[], Awaitable[int]]) -> None:
        try:
            import jwt
        except ImportError:
            raise Unavailable("HORAE_OIDC_ISSUER needs the extra: pip install 'horae[oidc]'.") from None
        self._jwt = jwt
        self._issuer = issuer
        self._keys = _Keys(issuer.url, fetch, jwt)
        self._clock = _Clock(now)

    async def read(self, token: str) -> Caller:
        claims = await self._claims(token)
        _check_times(claims, await self._clock.seconds())
        return self._caller(claims)

    async def _claims(self, token: str) -> dict[str, Any]:
        jwt = self._jwt
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if algorithm not in ALGORITHMS or "crit" in header or not isinstance(kid, str | None):
                raise Unauthorized
            key = await self._keys.find(kid, algorithm)
            # The times are checked against the store's clock, below.
            options = {"require": ["exp", "iss", "aud", "sub"], "verify_exp": False, "verify_nbf": False}
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._issuer.audience,
                issuer=self._issuer.url,
                options={**options, "verify_iat": False},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise Unauthorized from None
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise Unauthorized
        return claims

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        words = _words(_claim(claims, self._issuer.role_claim))
        roles = [self._issuer.roles.get(word, word) for word in words]
        role = max((role for role in roles if role in ROLES), key=ROLES.index, default=None)
        if role is None:
            detail = f'The token is good, but its claim "{self._issuer.role_claim}" names no role of horae.'
            known = ", ".join(dict.fromkeys([*ROLES, *self._issuer.roles]))
            hint = f'Have the issuer put one of {known} in "{self._issuer.role_claim}".'
            raise Denied(detail, hint=hint, pointer=AUTHORIZATION)
        tenants = _words(_claim(claims, self._issuer.tenant_claim))
        try:
            (tenant,) = (check_token(word, "/tenant") for word in tenants)
        except (ValueError, Invalid):
            detail = f'The token is good, but its claim "{self._issuer.tenant_claim}" does not name one tenant.'
            hint = f'Have the issuer put one name, such as "acme", in "{self._issuer.tenant_claim}".'
            raise Denied(detail, hint=hint, pointer=AUTHORIZATION) from None
        return Caller(tenant, _actor(claims), role, tenant)


class _Clock:
    """The store's time, asked for now and then and counted on in between."""

    def __init__(self, now: Callable[[], Awaitable[int]]) -> None:
        self._now = now
        self._asked_at = float("-inf")
        self._offset = 0.0

    async def seconds(self) -> float:
        loop_time = asyncio.get_running_loop().time
        if loop_time() - self._asked_at > CLOCK_SECONDS:
            self._offset = await self._now() / SECOND_US - loop_time()
            self._asked_at = loop_time()
        return self._offset + loop_time()


class _Keys:
    """The public keys of the issuer, by id."""

    def __init__(self, issuer: str, fetch: FetchJson, jwt: Any) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._jwt = jwt
        self._keys: dict[tuple[str | None, str], Any] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> Any:
        """Raises Unauthorized when the issuer has no such key."""
        wanted = (kid, ALGORITHMS[algorithm])
        clock = asyncio.get_running_loop().time
        is_fresh = clock() - self._fetched_at < FRESH_SECONDS
        if not is_fresh or wanted not in self._keys:
            async with self._lock:
                if clock() - self._tried_at >= AGAIN_SECONDS:
                    self._tried_at = clock()
                    await self._refresh()
        if clock() - self._fetched_at > STALE_SECONDS:
            detail = "The issuer of this token does not answer, so it cannot be checked now."
            raise Refused(503, "issuer_away", detail, headers={"Retry-After": "10"})
        if wanted not in self._keys:
            raise Unauthorized
        return self._keys[wanted]

    async def _refresh(self) -> None:
        try:
            listed = await self._listed()
        except Unavailable as error:
            warn("oidc.issuer_away", issuer=self._issuer, why=error.detail)
            return
        self._keys = dict(filter(None, (self._read(each) for each in listed[:MOST_KEYS])))
        self._fetched_at = asyncio.get_running_loop().time()

    async def _listed(self) -> list[Any]:
        about = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(about, dict) or about.get("issuer") != self._issuer:
            raise Unavailable("Its description is of another issuer.")
        address = about.get("jwks_uri")
        if not isinstance(address, str) or address.partition(":")[0] not in ("https", self._issuer.partition(":")[0]):
            raise Unavailable("Its description names no address of keys that can be trusted.")
        found = await self._fetch(address)
        listed = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise Unavailable("Its keys are not a list.")
        return listed

    def _read(self, document: Any) -> tuple[tuple[str | None, str], Any] | None:
        if not isinstance(document, dict) or document.get("use", "sig") != "sig":
            return None
        algorithm = next((name for name, kind in ALGORITHMS.items() if kind == document.get("kty")), None)
        if algorithm is None or document.get("alg", algorithm) != algorithm:
            return None
        try:
            key = self._jwt.PyJWK(document, algorithm=algorithm)
        except (self._jwt.PyJWTError, ValueError, TypeError, KeyError):
            return None
        is_weak = document["kty"] == "RSA" and key.key.key_size < LEAST_RSA_BITS
        kid = document.get("kid")
        return None if is_weak or not isinstance(kid, str | None) else ((kid, document["kty"]), key)


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    ends, begins = claims["exp"], claims.get("nbf", 0)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in (ends, begins)):
        raise Unauthorized
    if ends <= now - LEEWAY_SECONDS:
        raise Unauthorized("The token that was sent has expired.", hint="Get a new one from its issuer.")
    if not ends <= now + LONGEST_SECONDS + LEEWAY_SECONDS or begins > now + LEEWAY_SECONDS:
        raise Unauthorized


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """By its name, or by its way down: `realm_access.roles`."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _words(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def _actor(claims: Mapping[str, Any]) -> str:
    """For the record; nothing is decided by it. No key has a name like this, and a subject is nobody else's."""
    subject, name = _shown(claims["sub"]), ""
    for key in ("email", "preferred_username"):
        name = name or _shown(claims.get(key))
    return f"{ISSUED}{subject}" if name in ("", subject) else f"{ISSUED}{subject} ({name})"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:255])

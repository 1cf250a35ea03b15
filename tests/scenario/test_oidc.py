"""Tokens of a real issuer on this machine: its keys are fetched over HTTP, its signatures checked, its claims read."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from horae.api import oidc
from horae.api.access import KeyAccess
from horae.api.oidc import Issuer, OidcTokens
from horae.core.access import key_hash
from horae.core.egress import allow_ranges
from horae.core.errors import Unavailable
from horae.executors.fetch import MOST_BYTES, Fetcher
from horae.store.store import Store
from tests.conformance.conftest import START_US, StoreClock
from tests.scenario.conftest import ADDRESS, app_over

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"])

NOW = START_US // 1_000_000
AUDIENCE = "horae-api"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK_RSA = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    algorithm = (
        jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    )
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


class LocalIssuer:
    """Serves its description and its keys, and counts how often it is asked."""

    def __init__(self) -> None:
        self.keys = [jwk(RSA, "rsa-1"), jwk(EC, "ec-1"), jwk(WEAK_RSA, "weak")]
        self.asked = 0
        self.about: dict[str, Any] = {}
        self.redirect = ""
        self.url = ""

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._about)
        app.router.add_get("/jwks", self._keys)
        app.router.add_get("/large", self._large)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.about = {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}
        return runner

    async def _about(self, _: web.Request) -> web.Response:
        return web.json_response(self.about)

    async def _keys(self, _: web.Request) -> web.Response:
        self.asked += 1
        if self.redirect:
            raise web.HTTPFound(self.redirect)
        return web.json_response({"keys": self.keys})

    async def _large(self, _: web.Request) -> web.Response:
        return web.Response(body=b"[" + b" " * MOST_BYTES + b"]")


@pytest.fixture
async def issuer() -> AsyncIterator[LocalIssuer]:
    made = LocalIssuer()
    runner = await made.start()
    yield made
    await runner.cleanup()


@pytest.fixture
async def api(issuer: LocalIssuer, store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    about = Issuer(issuer.url, AUDIENCE, "org", "realm.groups", {"platform": "admin", "devs": "editor"})
    tokens = OidcTokens(about, Fetcher(allow_ranges("127.0.0.0/8")).json, store.now)
    app = app_over(store, KeyAccess(key_hash("admin"), store, tokens))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=f"{ADDRESS}/api/v1/") as client:
        yield client


def claims(issuer: LocalIssuer, **more: Any) -> dict[str, Any]:
    return {
        "iss": issuer.url,
        "aud": AUDIENCE,
        "sub": "user-1",
        "email": "eve@example.com",
        "iat": NOW,
        "exp": NOW + 300,
        "org": "acme",
        "realm": {"groups": ["x", "devs"]},
        **more,
    }


def token(claims: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa-1") -> str:
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid is not None else {})


async def status(api: httpx2.AsyncClient, text: str, path: str = "/jobs", method: str = "GET", **more: Any) -> int:
    answer = await api.request(method, path, headers={"Authorization": f"Bearer {text}"}, **more)
    return answer.status_code


async def test_a_token_is_not_taken_for_a_key_in_the_record(api: httpx2.AsyncClient, issuer: LocalIssuer):
    admin = {"Authorization": "Bearer admin"}
    here = claims(issuer, org="default", realm={"groups": ["admin"]})
    for more in ({"sub": "admin", "email": None}, {"sub": "admin", "email": "admin"}, {"preferred_username": "admin"}):
        headers = {"Authorization": f"Bearer {token({**here, **more})}"}
        assert (await api.post("/jobs", json={"type": "noop"}, headers=headers)).status_code == 201
    assert (await api.post("/jobs", json={"type": "noop"}, headers=admin)).status_code == 201

    entries = (await api.get("/audit?action=job.created", headers=admin)).json()["entries"]

    own = ["oidc:user-1 (eve@example.com)", "oidc:admin", "oidc:admin"]
    assert [entry["actor"] for entry in entries] == ["admin", *own]
    refused = await api.post("/keys", json={"name": "oidc:admin", "role": "viewer"}, headers=admin)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/name")
    for nobody in ({"sub": ""}, {"sub": 7}):
        assert await status(api, token({**here, **nobody})) == 401


async def test_a_token_comes_in_with_the_tenant_and_role_of_its_claims(api: httpx2.AsyncClient, issuer: LocalIssuer):
    good = token(claims(issuer))
    made = await api.post("/jobs", json={"name": "a", "type": "noop"}, headers={"Authorization": f"Bearer {good}"})

    assert made.status_code == 201
    assert made.json()["tenant"] == "acme"
    versions = await api.get("/jobs/a/versions", headers={"Authorization": f"Bearer {good}"})
    assert versions.json()["versions"][0]["actor"] == "oidc:user-1 (eve@example.com)"
    assert await status(api, good, "/keys") == 403
    assert await status(api, token(claims(issuer), EC, "ES256", "ec-1")) == 200
    assert issuer.asked == 1


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"realm": {"groups": ["viewer", "platform", "devs"]}}, 200),
        ({"realm": {"groups": "viewer"}}, 403),
        ({"realm": {"groups": ["nothing"]}}, 403),
        ({"realm": None}, 403),
        ({"org": "a b"}, 403),
        ({"org": ["a", "b"]}, 403),
        ({"org": None}, 403),
    ],
)
async def test_the_highest_role_counts_and_a_token_without_role_or_tenant_may_nothing(
    api: httpx2.AsyncClient, issuer: LocalIssuer, more: Any, wanted: int
):
    assert await status(api, token(claims(issuer, **more)), "/keys") == wanted


def handmade(header: dict[str, Any], body: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(part).encode() for part in (header, body)] + [signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", ""])
async def test_s07_a_token_without_a_signature_is_refused(api: httpx2.AsyncClient, issuer: LocalIssuer, algorithm: str):
    assert await status(api, handmade({"alg": algorithm, "kid": "rsa-1"}, claims(issuer))) == 401
    head, body, _ = token(claims(issuer)).split(".")
    assert await status(api, f"{head}.{body}.") == 401


async def test_s08_a_token_signed_with_the_public_key_as_a_secret_is_refused(
    api: httpx2.AsyncClient, issuer: LocalIssuer
):
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    as_jwk = json.dumps(issuer.keys[0]).encode()
    for secret in (pem, pem.strip(), as_jwk):
        for algorithm in ("HS256", "HS512"):
            unsigned = handmade({"alg": algorithm, "kid": "rsa-1", "typ": "JWT"}, claims(issuer)).rstrip(".")
            digest = hashlib.sha256 if algorithm == "HS256" else hashlib.sha512
            signature = hmac.new(secret, unsigned.encode(), digest).digest()
            forged = f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
            assert await status(api, forged) == 401


@pytest.mark.parametrize(
    "more",
    [
        {"aud": "somebody else"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"exp": None},
        {"exp": NOW - 31},
        {"exp": NOW + 10 * 365 * 86_400},
        {"exp": "soon"},
        {"exp": True},
        {"nbf": NOW + 60},
        {"sub": None},
    ],
)
async def test_s09_a_token_for_others_or_out_of_its_time_is_refused(
    api: httpx2.AsyncClient, issuer: LocalIssuer, more: Any
):
    made = {name: value for name, value in claims(issuer, **more).items() if value is not None}

    assert await status(api, handmade_signed(made)) == 401


def handmade_signed(body: dict[str, Any]) -> str:
    """As a broken issuer would: whatever the claims are."""
    unsigned = handmade({"alg": "RS256", "kid": "rsa-1"}, body).rstrip(".")
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(unsigned.encode(), RSA)
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


async def test_s09_the_leeway_is_small(api: httpx2.AsyncClient, issuer: LocalIssuer):
    assert oidc.LEEWAY_SECONDS <= 60
    assert await status(api, token(claims(issuer, exp=NOW - 20))) == 200
    assert await status(api, token(claims(issuer, nbf=NOW + 20))) == 200


@pytest.mark.parametrize("kid", ["../../dev/null", "' OR 1=1 --", "http://127.0.0.1/key", "weak", ""])
async def test_s10_only_keys_of_the_configured_issuer_are_used(api: httpx2.AsyncClient, issuer: LocalIssuer, kid: str):
    signer = WEAK_RSA if kid == "weak" else RSA
    with pytest.warns(Warning, match="2048") if kid == "weak" else _nothing():
        forged = token(claims(issuer), signer, kid=kid)
    assert await status(api, forged) == 401


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


async def test_of_a_token_that_was_sent_only_its_end_is_told(api: httpx2.AsyncClient, issuer: LocalIssuer):
    old, wrong = (claims(issuer, exp=NOW - 3600), claims(issuer, aud="other"))
    told = [
        (await api.get("jobs", headers={"Authorization": f"Bearer {each}"})).json()["detail"]
        for each in (token(old), token(wrong), token(old, OTHER_RSA), token(old | {"aud": "other"}))
    ]

    refused = "The key or token that was sent is not accepted."
    assert told == ["The token that was sent has expired.", refused, refused, refused]


async def test_s10_keys_that_a_token_brings_along_are_not_looked_at(api: httpx2.AsyncClient, issuer: LocalIssuer):
    theirs = jwk(OTHER_RSA, "rsa-1")
    for header in ({"jku": f"{issuer.url}/evil"}, {"x5u": f"{issuer.url}/evil"}, {"jwk": theirs}, {"crit": ["x"]}):
        forged = jwt.encode(claims(issuer), OTHER_RSA, "RS256", headers={"kid": "rsa-1", **header})
        assert await status(api, forged) == 401
    assert await status(api, token(claims(issuer), OTHER_RSA)) == 401
    good = jwt.encode(claims(issuer), RSA, "RS256", headers={"kid": "rsa-1", "crit": ["x"], "x": 1})
    assert await status(api, good) == 401


async def test_a_new_key_is_fetched_when_a_token_names_it_but_not_for_every_guess(
    api: httpx2.AsyncClient, issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
):
    assert await status(api, token(claims(issuer))) == 200
    for n in range(20):
        assert await status(api, token(claims(issuer), OTHER_RSA, kid=f"guess-{n}")) == 401
    assert issuer.asked == 1

    issuer.keys = [jwk(OTHER_RSA, "rsa-2")]
    monkeypatch.setattr(oidc, "AGAIN_SECONDS", 0.0)

    assert await status(api, token(claims(issuer), OTHER_RSA, kid="rsa-2")) == 200
    assert issuer.asked == 2
    assert await status(api, token(claims(issuer))) == 401


async def test_while_the_issuer_is_away_known_keys_go_on(
    api: httpx2.AsyncClient, issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
):
    good = token(claims(issuer))
    assert await status(api, good) == 200
    monkeypatch.setattr(oidc, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(oidc, "FRESH_SECONDS", 0.0)
    issuer.redirect = "https://example.com/keys"

    assert await status(api, good) == 200
    monkeypatch.setattr(oidc, "STALE_SECONDS", 0.0)
    assert await status(api, good) == 503


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://169.254.169.254/keys"},
        {"jwks_uri": None},
    ],
)
async def test_a_description_that_points_elsewhere_is_not_followed(
    api: httpx2.AsyncClient, issuer: LocalIssuer, about: Any
):
    issuer.about |= about

    assert await status(api, token(claims(issuer))) == 503
    assert issuer.asked == 0


async def test_the_keys_are_fetched_through_the_address_guard(issuer: LocalIssuer, store: Store):
    with pytest.raises(Unavailable, match="could not be fetched"):
        await Fetcher(()).json(f"{issuer.url}/jwks")
    assert issuer.asked == 0
    allowed = Fetcher(allow_ranges("127.0.0.0/8"))
    assert len((await allowed.json(f"{issuer.url}/jwks"))["keys"]) == 3
    with pytest.raises(Unavailable, match="larger than"):
        await allowed.json(f"{issuer.url}/large")
    issuer.redirect = f"{issuer.url}/large"
    with pytest.raises(Unavailable, match="302"):
        await allowed.json(f"{issuer.url}/jwks")


async def test_the_time_is_the_stores(
    api: httpx2.AsyncClient, issuer: LocalIssuer, clock: StoreClock, monkeypatch: Any
):
    monkeypatch.setattr(oidc, "CLOCK_SECONDS", -1.0)
    good = token(claims(issuer))
    assert await status(api, good) == 200

    await clock.advance(331)

    assert await status(api, good) == 401

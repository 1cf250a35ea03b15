"""Sealing: what must not be readable in the database or a backup of it. AES-256-GCM, keys derived from one master."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from functools import lru_cache

from horae.core.errors import Conflict
from horae.core.webhooks import new_secret

_NONCE = 12


class Vault:
    """`key` seals; `old` still opens what was sealed before a change of the key."""

    def __init__(self, key: str, old: str = "") -> None:
        self._masters = [text.encode() for text in (key, old) if text]
        self._keys = {_key_id(master): _derive(master, "seal") for master in self._masters}
        self.key_id = _key_id(self._masters[0])

    @property
    def key_ids(self) -> frozenset[str]:
        return frozenset(self._keys)

    def seal(self, text: str, *place: str) -> str:
        """`place` is where it belongs, such as tenant and name: put elsewhere it does not open."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + AESGCM(self._keys[self.key_id]).encrypt(nonce, text.encode(), _aad(place))
        return f"{self.key_id}.{b64encode(sealed).decode()}"

    def open(self, sealed: str, *place: str) -> str:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, _, body = sealed.partition(".")
        if key_id not in self._keys:
            raise Conflict(f"It was sealed with another HORAE_SECRET_KEY (key {key_id}).", "wrong_secret_key")
        raw = b64decode(body)
        try:
            return AESGCM(self._keys[key_id]).decrypt(raw[:_NONCE], raw[_NONCE:], _aad(place)).decode()
        except InvalidTag:
            raise Conflict("What is stored was changed: it does not open.", "broken_seal") from None

    def derive(self, purpose: str) -> list[bytes]:
        """Keys of 32 bytes for one purpose, the same on every node: that of `key`, then that of `old`, if any."""
        return [_derive(master, purpose) for master in self._masters]


def tenant_secrets(vault: Vault, tenant: str) -> list[str]:
    """What signs messages to the plain URLs in a tenant's jobs: two while the key is being changed, the current one
    first. Webhooks have secrets of their own.
    """
    return [new_secret(key) for key in vault.derive(f"webhook {tenant}")]


def key_id_of(sealed: str) -> str:
    return sealed.partition(".")[0]


def _key_id(master: bytes) -> str:
    return hmac.new(master, b"horae key id", hashlib.sha256).hexdigest()[:8]


def _derive(master: bytes, purpose: str) -> bytes:
    """HKDF-SHA256 with one block. The master is any text, so it is stretched once."""
    key = _stretch(master)
    return hmac.new(key, f"horae {purpose}".encode() + b"\x01", hashlib.sha256).digest()


@lru_cache(maxsize=4)
def _stretch(master: bytes) -> bytes:
    return hashlib.scrypt(master, salt=b"horae secret key", n=2**14, r=8, p=1)[:32]


def _aad(place: tuple[str, ...]) -> bytes:
    return "\x00".join(place).encode()

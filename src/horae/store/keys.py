"""API keys: kept as hashes, found by them, used, rolled over and revoked."""

from __future__ import annotations

import json

from horae.core.access import DEFAULT_TENANT, KeyFacts
from horae.core.duration import format_duration, format_instant
from horae.core.errors import Conflict, NotFound
from horae.ports import MadeKey, NewKey
from horae.store.database import Row, Rows, Statement, Steps, note, reading, statement, transaction
from horae.store.meta import KEEP_FIRST
from horae.store.meta import READ as READ_META

# Only a key in force is found; why another is not is nobody's business.
FIND = Statement("""
SELECT id, tenant, name, role, scopes, prefix, requests_per_second
FROM api_keys
WHERE hash = :hash AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > horae_now())
""")

# Written now and then for all keys in use, so it may be a minute old.
TOUCH = Statement("""
UPDATE api_keys
SET last_used_us = horae_now()
WHERE id IN (SELECT id FROM {rows:used(id text)})
""")

INSERT = Statement("""
INSERT INTO api_keys (id, tenant, name, role, scopes, prefix, hash, requests_per_second, created_us, created_by,
                      expires_us)
VALUES (:id, :tenant, :name, :role, :scopes, :prefix, :hash, :requests_per_second, horae_now(), :created_by,
        :expires_us)
""")

_COLUMNS = """id, tenant, name, role, scopes, prefix, requests_per_second, created_us, created_by, expires_us,
       last_used_us, revoked_us, horae_now() AS now_us"""

LIST = Statement(f"""
SELECT {_COLUMNS}
FROM api_keys
WHERE tenant = :tenant AND (CAST(:before_id AS TEXT) IS NULL OR id < :before_id)
ORDER BY id DESC
LIMIT :most
""")

READ = Statement(f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = :tenant AND id = :id")

LOCK = Statement(f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = :tenant AND id = :id FOR UPDATE")

REVOKE = Statement("UPDATE api_keys SET revoked_us = horae_now() WHERE tenant = :tenant AND id = :id")

EXPIRE = Statement("""
UPDATE api_keys
SET expires_us = horae_now() + :overlap_us
WHERE tenant = :tenant AND id = :id AND (expires_us IS NULL OR expires_us > horae_now() + :overlap_us)
""")

FIRST = "admin_key_hash"


@reading
def find(hash_: str) -> Steps[KeyFacts | None]:
    rows = yield FIND(hash=hash_)
    if not rows:
        return None
    row = rows[0]
    scopes = tuple(json.loads(row["scopes"]))
    return KeyFacts(
        row["id"], row["tenant"], row["name"], row["role"], row["prefix"], scopes, row["requests_per_second"]
    )


@statement
def touch(key_ids: list[str]) -> Steps[None]:
    yield TOUCH(used=[(id_,) for id_ in key_ids])


@transaction
def first(key: NewKey) -> Steps[bool]:
    """Keeps the first admin key of an installation. False if there was one before."""
    yield KEEP_FIRST(key=FIRST, value=key.hash)
    if (yield READ_META(key=FIRST))[0]["value"] != key.hash:
        return False
    yield from _insert(DEFAULT_TENANT, "horae", key)
    return True


@transaction
def create(tenant: str, actor: str, key: NewKey) -> Steps[MadeKey]:
    yield from _insert(tenant, actor, key)
    yield note("key.created", key.id, None, _shown(key))
    return {"key_id": key.id, "sealed": key.sealed}


@transaction
def rotate(tenant: str, actor: str, key_id: str, key: NewKey, overlap_us: int) -> Steps[MadeKey]:
    """A new key with the same rights; the old one goes on for `overlap_us`. What `key` says of rights is not read."""
    old = yield from _lock(tenant, key_id)
    if old["revoked_us"] is not None:
        raise Conflict(f"Key {key_id} was revoked.", "key_revoked", hint="Make a new one with POST /keys.")
    new = NewKey(
        key.id,
        old["name"],
        old["role"],
        tuple(json.loads(old["scopes"])),
        key.prefix,
        key.hash,
        old["requests_per_second"],
        key.expires_us,
    )
    yield from _insert(tenant, actor, new)
    yield EXPIRE(tenant=tenant, id=key_id, overlap_us=overlap_us)
    yield note(
        "key.rotated", key_id, {"prefix": old["prefix"]}, {"overlap": format_duration(overlap_us), **_shown(new)}
    )
    return {"key_id": new.id, "sealed": key.sealed}


@transaction
def revoke(tenant: str, key_id: str) -> Steps[str]:
    """From now on nobody comes in by it; once for all."""
    old = yield from _lock(tenant, key_id)
    if old["revoked_us"] is None:
        yield REVOKE(tenant=tenant, id=key_id)
        yield note("key.revoked", key_id, {"name": old["name"], "role": old["role"], "prefix": old["prefix"]})
    return key_id


@reading
def listed(tenant: str, before_id: str | None, most: int) -> Steps[Rows]:
    return (yield LIST(tenant=tenant, before_id=before_id, most=most))


@reading
def one(tenant: str, key_id: str) -> Steps[Row]:
    rows = yield READ(tenant=tenant, id=key_id)
    if not rows:
        raise _unknown(key_id)
    return rows[0]


def _insert(tenant: str, actor: str, key: NewKey) -> Steps[None]:
    yield INSERT(
        id=key.id,
        tenant=tenant,
        name=key.name,
        role=key.role,
        scopes=json.dumps(key.scopes),
        prefix=key.prefix,
        hash=key.hash,
        requests_per_second=key.requests_per_second,
        created_by=actor,
        expires_us=key.expires_us,
    )


def _lock(tenant: str, key_id: str) -> Steps[Row]:
    rows = yield LOCK(tenant=tenant, id=key_id)
    if not rows:
        raise _unknown(key_id)
    return rows[0]


def _unknown(key_id: str) -> NotFound:
    return NotFound(f"There is no key {key_id}.")


def _shown(key: NewKey) -> dict[str, object]:
    return {
        "key_id": key.id,
        "name": key.name,
        "role": key.role,
        "scopes": list(key.scopes),
        "prefix": key.prefix,
        "requests_per_second": key.requests_per_second,
        "expires_at": None if key.expires_us is None else format_instant(key.expires_us),
    }

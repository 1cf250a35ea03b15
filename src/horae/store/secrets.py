"""Secrets as they lie in the database: sealed. Nothing here can open one."""

from __future__ import annotations

import json

from horae.core.errors import NotFound
from horae.ports import Sealed
from horae.store.database import Rows, Statement, Steps, note, reading, transaction, viewing

PUT = Statement("""
INSERT INTO secrets (tenant, name, version, sealed, created_us, updated_us)
VALUES (:tenant, :name, 1, :sealed, horae_now(), horae_now())
ON CONFLICT (tenant, name)
DO UPDATE SET sealed = excluded.sealed, version = secrets.version + 1, updated_us = excluded.updated_us
RETURNING name, version, created_us, updated_us
""")

LIST = Statement("""
SELECT name, version, created_us, updated_us
FROM secrets
WHERE tenant = :tenant
ORDER BY name
""")

DELETE = Statement("DELETE FROM secrets WHERE tenant = :tenant AND name = :name RETURNING 1")

FIND = Statement("""
SELECT s.tenant, s.name, s.sealed
FROM {rows:wanted(tenant text, name text)}
JOIN secrets s ON s.tenant = wanted.tenant AND s.name = wanted.name
""")

# All that were not sealed with this key. There are few secrets, and this is asked once, at start.
OF_OTHER_KEYS = Statement("""
SELECT tenant, name, sealed, 'secret' AS kind
FROM secrets
WHERE substr(sealed, 1, 9) <> :prefix
UNION ALL
SELECT tenant, id, sealed, 'webhook' FROM webhooks WHERE substr(sealed, 1, 9) <> :prefix
UNION ALL
SELECT tenant, id, old_sealed, 'old webhook' FROM webhooks WHERE substr(old_sealed, 1, 9) <> :prefix
ORDER BY 1, 2
LIMIT 1000
""")

# Unless somebody has set a new value meanwhile.
RESEAL = Statement("UPDATE secrets SET sealed = :new WHERE tenant = :tenant AND name = :name AND sealed = :old")
RESEAL_WEBHOOK = Statement("""
UPDATE webhooks
SET sealed = CASE sealed WHEN :old THEN :new ELSE sealed END,
    old_sealed = CASE old_sealed WHEN :old THEN :new ELSE old_sealed END
WHERE tenant = :tenant AND id = :name
""")

# Answers that were kept for a repeat with a secret in them: only those whose whole text is kept nowhere have one.
KEPT = Statement("""
SELECT tenant, key, result
FROM idempotency
WHERE answer IS NULL AND result LIKE '%"sealed": "' || :prefix || '%'
ORDER BY tenant, key
LIMIT 1000
""")
RESEAL_KEPT = Statement("""
UPDATE idempotency SET result = replace(result, :old, :new) WHERE tenant = :tenant AND key = :key
""")


@transaction
def put(tenant: str, name: str, sealed: str) -> Steps[Rows]:
    rows = yield PUT(tenant=tenant, name=name, sealed=sealed)
    yield note("secret.set", name, None, {"version": rows[0]["version"]})
    return rows


@viewing
def listed(tenant: str) -> Steps[Rows]:
    return (yield LIST(tenant=tenant))


@transaction
def delete(tenant: str, name: str) -> Steps[None]:
    if not (yield DELETE(tenant=tenant, name=name)):
        raise NotFound(f'There is no secret "{name}".')
    yield note("secret.deleted", name)


@reading
def find(wanted: list[tuple[str, str]]) -> Steps[list[Sealed]]:
    rows = yield FIND(wanted=wanted)
    return [Sealed(row["tenant"], row["name"], row["sealed"]) for row in rows]


@reading
def of_other_keys(key_id: str) -> Steps[list[Sealed]]:
    rows = yield OF_OTHER_KEYS(prefix=f"{key_id}.")
    return [Sealed(row["tenant"], row["name"], row["sealed"], row["kind"]) for row in rows]


@reading
def kept(key_id: str) -> Steps[list[Sealed]]:
    """Those in kept answers that were sealed with this key."""
    found = []
    for row in (yield KEPT(prefix=f"{key_id}.")):
        result = json.loads(row["result"])
        kind = "key" if "key_id" in result else "webhook"
        name = result["key_id" if kind == "key" else "id"]
        found.append(Sealed(row["tenant"], name, result["sealed"], kind, row["key"]))
    return found


@transaction
def reseal(secret: Sealed, new: str) -> Steps[None]:
    if secret.kept_under:
        yield RESEAL_KEPT(tenant=secret.tenant, key=secret.kept_under, old=secret.sealed, new=new)
        return
    statement = RESEAL if secret.kind == "secret" else RESEAL_WEBHOOK
    yield statement(tenant=secret.tenant, name=secret.name, old=secret.sealed, new=new)

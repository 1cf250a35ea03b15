"""The audit log: written in the transaction of each change, chained a moment later, read and checked.

A chain needs an order, and an order taken while changes are made would let one change of a tenant wait for the other.
So a change only adds its row. The sealing step, one at a time for each tenant, takes the rows that are committed and
not yet sealed, in order of id, and gives each its place and its hash. The owner of the database can tamper with a row
unnoticed for that moment only; after it, an edit or a deletion breaks the chain.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from horae.core.audit import GENESIS, link, written
from horae.ports import Asked, Page, Rehearsed
from horae.store.database import Note, Row, Rows, Statement, Steps, Transaction, reading, transaction, viewing

T = TypeVar("T")

WRITE = Statement("""
INSERT INTO audit (tenant, at_us, actor, key_id, address, request_id, action, target, before, after)
SELECT :tenant, horae_now(), :actor, :key_id, :address, :request_id, n.action, n.target, n.before, n.after
FROM {rows:n(action text, target text, before text, after text)}
""")

UNSEALED = Statement("""
SELECT id, tenant, at_us, actor, key_id, address, request_id, action, target, before, after
FROM audit
WHERE seq IS NULL
ORDER BY id
LIMIT :most
""")

OPEN_HEADS = Statement("""
INSERT INTO audit_heads (tenant, seq, hash)
SELECT t.tenant, 0, :genesis
FROM {rows:t(tenant text)}
WHERE true
ON CONFLICT (tenant) DO NOTHING
""")

# In one order, so that two sealers never wait for each other in a circle.
LOCK_HEADS = Statement("""
SELECT h.tenant, h.seq, h.hash
FROM audit_heads h
WHERE h.tenant IN (SELECT tenant FROM {rows:t(tenant text)})
ORDER BY h.tenant
FOR UPDATE
""")

SEAL = Statement("""
UPDATE audit
SET seq = s.seq, hash = s.hash
FROM {rows:s(id bigint, seq bigint, hash text)}
WHERE audit.id = s.id AND audit.seq IS NULL
""")

MOVE_HEADS = Statement("""
UPDATE audit_heads
SET seq = s.seq, hash = s.hash
FROM {rows:s(tenant text, seq bigint, hash text)}
WHERE audit_heads.tenant = s.tenant
""")

_COLUMNS = "id, tenant, at_us, actor, key_id, address, request_id, action, target, before, after, seq, hash"

_WALK = """
SELECT * FROM audit
WHERE tenant = :tenant AND (CAST(:before_id AS BIGINT) IS NULL OR id < :before_id)
ORDER BY id DESC
LIMIT :searched
"""
_LIST = f"""
SELECT {_COLUMNS}
FROM ({_WALK}) AS walked
WHERE (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
  AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
  AND (CAST(:action AS TEXT) IS NULL OR action = :action OR action LIKE :actions)
  AND (CAST(:since_us AS BIGINT) IS NULL OR at_us >= :since_us)
  AND (CAST(:until_us AS BIGINT) IS NULL OR at_us < :until_us)
ORDER BY id DESC
LIMIT :most
"""

# Filters have no index: they are looked for among so many entries and no more, as in run_lists.py.
LIST = Statement(_LIST)

# Apart from LIST, so that it is found by the index of targets.
LIST_OF_TARGET = Statement(
    _LIST.replace("WHERE tenant = :tenant", "WHERE tenant = :tenant AND target = :target").replace(
        "ORDER BY id DESC\nLIMIT :searched", "ORDER BY target DESC, id DESC\nLIMIT :searched"
    )
)

END_OF_SEARCH = Statement("""
SELECT id FROM audit
WHERE tenant = :tenant AND (CAST(:before_id AS BIGINT) IS NULL OR id < :before_id)
ORDER BY id DESC
LIMIT 1 OFFSET :searched
""")

SEARCHED, ALL = 50_000, 2**62

PAGE = Statement(f"SELECT {_COLUMNS} FROM audit WHERE tenant = :tenant AND id > :after_id ORDER BY id LIMIT :most")

SEALED = Statement(f"""
SELECT {_COLUMNS}
FROM audit
WHERE tenant = :tenant AND seq > :seq
ORDER BY seq
LIMIT :most
""")

HEAD = Statement("SELECT seq, hash FROM audit_heads WHERE tenant = :tenant")

HEADS = Statement("SELECT tenant FROM audit_heads ORDER BY tenant")

WAITING = Statement("SELECT count(*) AS n FROM audit WHERE seq IS NULL AND tenant = :tenant")


def audited(asked: Asked | None, tenant: str, inner: Transaction[T]) -> Transaction[T]:
    """The same verb, which also writes down what it did: one statement, however much it was."""
    return inner if asked is None else _audited(asked, tenant, inner)


@transaction
def rehearsed(inner: Transaction[T]) -> Steps[T]:
    """The same verb, undone at its end by an exception, which tells what it would have done."""
    result, notes = yield from _noted(inner)
    changes = [
        {
            "action": note.action,
            "target": note.target,
            "before": json.loads(written(note.before) or "null"),
            "after": json.loads(written(note.after) or "null"),
        }
        for note in notes
    ]
    raise Rehearsed(changes, result)


def _noted(inner: Transaction[T]) -> Steps[tuple[T, list[Note]]]:
    """What a verb answers, and what it noted in passing."""
    steps: Steps[T] = inner.steps()
    notes: list[Note] = []
    rows: Rows | None = None
    while True:
        try:
            query = next(steps) if rows is None else steps.send(rows)
        except StopIteration as end:
            return end.value, notes
        if isinstance(query, Note):
            notes.append(query)
            rows = []
        else:
            rows = yield query


@transaction
def _audited(asked: Asked, tenant: str, inner: Transaction[T]) -> Steps[T]:
    result, notes = yield from _noted(inner)
    if notes:
        yield WRITE(
            tenant=tenant,
            actor=asked.actor,
            key_id=asked.key_id,
            address=asked.address,
            request_id=asked.request_id,
            n=[(note.action, note.target, written(note.before), written(note.after)) for note in notes],
        )
    return result


@transaction
def seal(most: int) -> Steps[int]:
    """Rows that are not in a chain yet get their place. The answer is how many."""
    rows = yield UNSEALED(most=most)
    if not rows:
        return 0
    tenants = sorted({(row["tenant"],) for row in rows})
    yield OPEN_HEADS(t=tenants, genesis=GENESIS)
    heads = {row["tenant"]: (row["seq"], row["hash"]) for row in (yield LOCK_HEADS(t=tenants))}
    # Read again under the lock: another sealer may have been here.
    rows = [row for row in (yield UNSEALED(most=most)) if row["tenant"] in heads]
    seals = []
    for row in rows:
        seq, previous = heads[row["tenant"]]
        hash_ = link(previous, {**row, "seq": seq + 1})
        heads[row["tenant"]] = (seq + 1, hash_)
        seals.append((row["id"], seq + 1, hash_))
    if seals:
        yield SEAL(s=seals)
        yield MOVE_HEADS(s=[(tenant, *head) for tenant, head in heads.items()])
    return len(seals)


@viewing
def entries(tenant: str, filters: dict[str, Any], before_id: int | None, most: int) -> Steps[Page]:
    """Newest first. `actions` of the filters is the pattern of a whole family, such as `job.%`."""
    given = {**filters, "tenant": tenant, "before_id": before_id, "most": most + 1}
    is_filtered = any(value is not None for value in filters.values())
    if given.pop("target", None) is not None:
        rows = yield LIST_OF_TARGET(**given, target=filters["target"], searched=ALL)
    else:
        # What the walk itself finds needs no search.
        rows = yield LIST(**given, searched=SEARCHED if is_filtered else most + 1)
    if len(rows) > most:
        return Page(rows[:most], str(rows[most - 1]["id"]))
    if filters.get("target") is not None or not is_filtered:
        return Page(rows, None)
    end = yield END_OF_SEARCH(tenant=tenant, before_id=before_id, searched=SEARCHED - 1)
    return Page(rows, str(end[0]["id"]) if end else None)


@viewing
def page(tenant: str, after_id: int, most: int) -> Steps[Rows]:
    return (yield PAGE(tenant=tenant, after_id=after_id, most=most))


@viewing
def sealed(tenant: str, seq: int, most: int) -> Steps[Rows]:
    return (yield SEALED(tenant=tenant, seq=seq, most=most))


@reading
def end(tenant: str) -> Steps[tuple[Row | None, int]]:
    """The head that was kept, and how many rows are not in the chain yet."""
    heads = yield HEAD(tenant=tenant)
    waiting = (yield WAITING(tenant=tenant))[0]["n"]
    return (heads[0] if heads else None), waiting


@reading
def chains() -> Steps[list[str]]:
    return [row["tenant"] for row in (yield HEADS())]

"""Idempotency keys: a request that is repeated is not done again.

The key is taken, the work done and its result kept in one transaction, so a crash leaves all of it or nothing. The full
answer is added afterwards; until then a repeat is answered from the result.
"""

from __future__ import annotations

import json
from typing import TypeVar

from horae.core.errors import Fault, Invalid
from horae.ports import Answer, Once
from horae.store.database import Statement, Steps, Transaction, reading, statement, transaction

T = TypeVar("T")

# Whoever comes second waits here until the first has committed, then finds the row.
TAKE = Statement("""
INSERT INTO idempotency (tenant, key, request, created_us)
VALUES (:tenant, :key, :request, horae_now())
ON CONFLICT (tenant, key) DO NOTHING
RETURNING key
""")

RECALL = Statement("SELECT request, result, status, answer FROM idempotency WHERE tenant = :tenant AND key = :key")

KEEP_RESULT = Statement("UPDATE idempotency SET result = :result WHERE tenant = :tenant AND key = :key")

KEEP_ANSWER = Statement("""
UPDATE idempotency SET status = :status, answer = :answer WHERE tenant = :tenant AND key = :key
""")


def guarded(once: Once | None, inner: Transaction[T]) -> Transaction[T]:
    return inner if once is None else _guarded(once, inner)


@transaction
def _guarded(once: Once, inner: Transaction[T]) -> Steps[T]:
    taken = yield TAKE(tenant=once.tenant, key=once.key, request=once.request)
    if not taken:
        row = (yield RECALL(tenant=once.tenant, key=once.key))[0]
        _check(once, row["request"])
        kept: T = json.loads(row["result"])
        return kept
    result: T = yield from inner.steps()
    yield KEEP_RESULT(tenant=once.tenant, key=once.key, result=json.dumps(result))
    return result


@reading
def recall(once: Once) -> Steps[Answer | None]:
    """The whole answer, if this very request was answered before."""
    rows = yield RECALL(tenant=once.tenant, key=once.key)
    if not rows:
        return None
    _check(once, rows[0]["request"])
    return Answer(rows[0]["status"], rows[0]["answer"]) if rows[0]["status"] else None


@statement
def remember(once: Once, answer: Answer) -> Steps[None]:
    yield KEEP_ANSWER(tenant=once.tenant, key=once.key, status=answer.status, answer=answer.body)


def _check(once: Once, request: str) -> None:
    if request != once.request:
        detail = f'The Idempotency-Key "{once.key}" was used before with a different request. Nothing was done.'
        raise Invalid([Fault("/headers/Idempotency-Key", detail, "Use a new key for a new request.")], "key_reused")

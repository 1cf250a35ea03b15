"""The workers: one heartbeat row each, whatever they run. A row that expired is a worker whose runs go back."""

from __future__ import annotations

import json

from horae.core.errors import NotFound
from horae.ports import Beat, WorkerState
from horae.store.database import Statement, Steps, note, statement, transaction

# Adds the row or keeps it alive, and brings back what others want of this worker. A worker that was already given up
# must not come back under the same id: its runs have new owners.
BEAT = Statement("""
INSERT INTO workers (id, node, state, slots, running, queues, needs, started_us, seen_us, expires_us)
VALUES (:id, :node, :state, :slots, :running, :queues, :needs, horae_now(), horae_now(), horae_now() + :ttl_us)
ON CONFLICT (id) DO UPDATE
SET seen_us = horae_now(), expires_us = horae_now() + :ttl_us, running = :running,
    state = CASE WHEN workers.state = 'drain' THEN 'draining' ELSE :state END
WHERE workers.expires_us > horae_now()
RETURNING state
""")

# Only what runs has a worker. Said once more, it would be looked for among all that runs.
CANCELLED = Statement("""
SELECT id, cancel
FROM runs
WHERE worker = :worker AND cancel IS NOT NULL
""")

RUNNING_OF = Statement("""
SELECT id, token
FROM runs
WHERE worker = :worker AND state = 'running' AND started_us < (SELECT horae_now()) - :older_than_us
""")

# 'drain' is a wish; the worker itself turns it into 'draining' with its next heartbeat.
ASK_TO_DRAIN = Statement("""
UPDATE workers
SET state = CASE WHEN state = 'active' THEN 'drain' ELSE state END
WHERE id = :worker AND expires_us > horae_now()
RETURNING id
""")

LEAVE = Statement("DELETE FROM workers WHERE id = :worker")


@statement
def beat(worker: WorkerState, ttl_us: int) -> Steps[Beat]:
    rows = yield BEAT(
        id=worker.id,
        node=worker.node,
        state=worker.state,
        slots=worker.slots,
        running=worker.running,
        queues=json.dumps(worker.queues),
        needs=json.dumps(worker.needs),
        ttl_us=ttl_us,
    )
    return Beat(is_known=bool(rows), should_drain=bool(rows) and rows[0]["state"] == "draining")


@statement
def cancelled(worker: str) -> Steps[dict[str, str]]:
    """Runs of this worker that somebody wants stopped, with the reason."""
    rows = yield CANCELLED(worker=worker)
    return {row["id"]: row["cancel"] for row in rows}


@statement
def running_of(worker: str, older_than_us: int) -> Steps[dict[str, int]]:
    """Tokens by run id, of claims that are not brand new."""
    rows = yield RUNNING_OF(worker=worker, older_than_us=older_than_us)
    return {row["id"]: row["token"] for row in rows}


@transaction
def ask_to_drain(_: str, worker: str) -> Steps[None]:
    """No new runs for this worker; it learns of it with its next heartbeat."""
    if not (yield ASK_TO_DRAIN(worker=worker)):
        raise NotFound(f"There is no live worker {worker}.")
    yield note("worker.drained", worker)


@statement
def leave(worker: str) -> Steps[None]:
    yield LEAVE(worker=worker)

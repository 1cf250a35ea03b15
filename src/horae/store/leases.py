"""Who plans which shards: leases with epochs, on the store's clock. They make the scheduler efficient, not correct."""

from __future__ import annotations

import json

from horae.core.job import SHARDS
from horae.core.plan import GRACE_US, too_late
from horae.ports import Leases
from horae.store.database import NOW, Row, Statement, Steps, transaction
from horae.store.jobs import decode
from horae.store.results import end_waiting

# Says that this scheduler lives, and until when to believe it; and how many do.
ANNOUNCE = Statement("""
INSERT INTO schedulers (id, started_us, expires_us)
VALUES (:owner, horae_now(), horae_now() + :ttl_us)
ON CONFLICT (id) DO UPDATE SET expires_us = horae_now() + :ttl_us
RETURNING 1 + (
    SELECT count(*) FROM schedulers other WHERE other.id <> :owner AND other.expires_us > horae_now()
) AS live
""")

# Keeps what is still ours; a lease that ran out is not ours any more, even if nobody took it.
RENEW = Statement("""
UPDATE leases
SET expires_us = horae_now() + :ttl_us
WHERE owner = :owner AND expires_us > horae_now()
RETURNING shard, epoch
""")

# A new owner is a new epoch: statements of the old one match nothing from here on.
TAKE = Statement("""
WITH free AS MATERIALIZED (
    SELECT shard FROM leases WHERE expires_us <= horae_now() ORDER BY shard LIMIT :room {skip_locked}
)
UPDATE leases
SET owner = :owner, epoch = epoch + 1, expires_us = horae_now() + :ttl_us
WHERE shard IN (SELECT shard FROM free)
RETURNING shard, epoch
""")

# On record, so that anybody can check who might plan which shard when.
TOOK = Statement("""
INSERT INTO events (at_us, tenant, kind, actor, detail)
VALUES (horae_now(), '', 'lease', :owner, :detail)
""")

GIVE_BACK = Statement("""
UPDATE leases
SET expires_us = horae_now()
WHERE owner = :owner AND shard IN (SELECT shard FROM {rows:extra(shard integer)})
""")

GIVE_ALL_BACK = Statement("""
UPDATE leases
SET expires_us = horae_now()
WHERE owner = :owner AND expires_us > horae_now()
""")

ENDS = Statement("SELECT shard, expires_us FROM leases")

# Whether somebody was there all the time to take what was staged.
HAS_WORKERS = Statement("""
SELECT count(*) AS n
FROM workers
WHERE expires_us > horae_now() AND started_us < horae_now() - :grace_us
""")

# Runs that were staged before a time with nobody there, came due in it, and were taken by nobody.
OVERDUE = Statement("""
SELECT r.id, r.job_id, r.due_us, t.due_us AS cursor_us, v.spec, j.created_us
FROM runs r
JOIN jobs j ON j.id = r.job_id
JOIN timers t ON t.job_id = r.job_id
JOIN job_versions v ON v.job_id = r.job_id AND v.version = r.version
WHERE r.state = 'queued' AND r.attempt = 0 AND r.cause = 'schedule' AND r.due_us <= horae_now() - :grace_us
  AND t.shard IN (SELECT shard FROM {rows:taken(shard integer)})
ORDER BY r.id
""")

LEAVE = Statement("DELETE FROM schedulers WHERE id = :owner OR expires_us < horae_now() - 3600000000")

# The time, and the highest ever seen: a clock that stepped back is noticed, also by a process that just started.
TIME = Statement("""
UPDATE meta
SET value = CASE WHEN CAST(value AS BIGINT) < CAST(:trusted_us AS BIGINT)
                 THEN CAST(CAST(:trusted_us AS BIGINT) AS TEXT) ELSE value END
WHERE key = 'clock_high_us'
RETURNING horae_now() AS now_us, CAST(value AS BIGINT) AS high_us,
          (SELECT min(expires_us) FROM leases WHERE owner <> :owner) AS others_us
""")


@transaction
def keep(owner: str, ttl_us: int, trusted_us: int) -> Steps[Leases]:
    """Renews, takes or gives back, so that every live scheduler holds about the same number of shards.

    `trusted_us` is the last time that proved steady; a jump of the clock is not remembered before it has.
    """
    live = (yield ANNOUNCE(owner=owner, ttl_us=ttl_us))[0]["live"]
    held = {row["shard"]: row["epoch"] for row in (yield RENEW(owner=owner, ttl_us=ttl_us))}
    new: dict[int, int] = {}
    ends: dict[int, int] = {}
    share = -(-SHARDS // live)
    if len(held) < share:
        ends = {row["shard"]: row["expires_us"] for row in (yield ENDS())}
        taken = yield TAKE(owner=owner, ttl_us=ttl_us, room=share - len(held))
        new = {row["shard"]: row["epoch"] for row in taken}
        if new:
            yield TOOK(owner=owner, detail=json.dumps(new))
        held |= new
    elif len(held) > share:
        extra = sorted(held)[share:]
        yield GIVE_BACK(owner=owner, extra=[(shard,) for shard in extra])
        held = {shard: epoch for shard, epoch in held.items() if shard not in extra}
    clock = (yield TIME(trusted_us=trusted_us, owner=owner))[0]
    now_us = clock["now_us"]
    gaps = [shard for shard in new if ends[shard] and now_us - ends[shard] > GRACE_US]
    return Leases(held, now_us, clock["high_us"], clock["others_us"] or now_us + ttl_us, gaps)


@transaction
def judge_overdue(shards: list[int]) -> Steps[dict[str, int]]:
    """After a time with neither scheduler nor worker, the misfire policy also judges what had been staged for it. Says
    how many were skipped, by reason.
    """
    if (yield HAS_WORKERS(grace_us=GRACE_US))[0]["n"]:
        return {}
    now_us = (yield NOW())[0]["now_us"]
    jobs: dict[str, list[Row]] = {}
    for row in (yield OVERDUE(taken=[(shard,) for shard in shards], grace_us=GRACE_US)):
        jobs.setdefault(row["job_id"], []).append(row)
    chosen: dict[str, list[str]] = {}
    for rows in jobs.values():
        misfire = decode(rows[-1]["spec"]).misfire
        ids = {row["due_us"]: row["id"] for row in rows}
        cursor_us = rows[-1]["cursor_us"]
        late = too_late(misfire, sorted(ids), now_us, is_last=cursor_us is None or cursor_us > now_us - GRACE_US)
        for due_us, reason in late.items():
            chosen.setdefault(reason, []).append(ids[due_us])
    skipped = {}
    for reason in sorted(chosen):
        skipped[reason] = yield from end_waiting(chosen[reason], "skipped", reason)
    return skipped


@transaction
def release(owner: str) -> Steps[None]:
    """A planned goodbye: the others need not wait for the leases to run out."""
    yield GIVE_ALL_BACK(owner=owner)
    yield LEAVE(owner=owner)

"""Who plans which shards: leases with epochs, on the store's clock. They make the scheduler efficient, not correct."""

from __future__ import annotations

import json

from horae.core.job import SHARDS
from horae.ports import Leases
from horae.store.database import Statement, Steps, transaction

# Says that this scheduler lives, and until when to believe it.
ANNOUNCE = Statement("""
INSERT INTO schedulers (id, started_us, expires_us)
VALUES (:owner, horae_now(), horae_now() + :ttl_us)
ON CONFLICT (id) DO UPDATE SET expires_us = horae_now() + :ttl_us
""")

# Keeps what is still ours; a lease that ran out is not ours any more, even if nobody took it.
RENEW = Statement("""
UPDATE leases
SET expires_us = horae_now() + :ttl_us
WHERE owner = :owner AND expires_us > horae_now()
RETURNING shard, epoch
""")

LIVE = Statement("""
SELECT count(*) AS n
FROM schedulers
WHERE expires_us > horae_now()
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
SET expires_us = 0
WHERE owner = :owner AND shard IN (SELECT shard FROM {rows:extra(shard integer)})
""")

GIVE_ALL_BACK = Statement("UPDATE leases SET expires_us = 0 WHERE owner = :owner")

LEAVE = Statement("DELETE FROM schedulers WHERE id = :owner OR expires_us < horae_now() - 3600000000")

# The highest time ever seen, so that a clock that stepped back is noticed, also by a process that just started.
REMEMBER_TIME = Statement("""
UPDATE meta
SET value = CAST(horae_now() AS TEXT)
WHERE key = 'clock_high_us' AND CAST(value AS BIGINT) < horae_now()
""")

READ_TIME = Statement("""
SELECT horae_now() AS now_us,
       (SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'clock_high_us') AS high_us,
       (SELECT min(expires_us) FROM leases WHERE owner <> :owner) AS others_us
""")


@transaction
def keep(owner: str, ttl_us: int) -> Steps[Leases]:
    """Renews, takes or gives back, so that every live scheduler holds about the same number of shards."""
    yield ANNOUNCE(owner=owner, ttl_us=ttl_us)
    held = {row["shard"]: row["epoch"] for row in (yield RENEW(owner=owner, ttl_us=ttl_us))}
    live = (yield LIVE())[0]["n"]
    share = -(-SHARDS // max(live, 1))
    if len(held) < share:
        taken = yield TAKE(owner=owner, ttl_us=ttl_us, room=share - len(held))
        new = {row["shard"]: row["epoch"] for row in taken}
        if new:
            yield TOOK(owner=owner, detail=json.dumps(new))
        held |= new
    elif len(held) > share:
        extra = sorted(held)[share:]
        yield GIVE_BACK(owner=owner, extra=[(shard,) for shard in extra])
        held = {shard: epoch for shard, epoch in held.items() if shard not in extra}
    yield REMEMBER_TIME()
    clock = (yield READ_TIME(owner=owner))[0]
    return Leases(held, clock["now_us"], clock["high_us"], clock["others_us"] or clock["now_us"] + ttl_us)


@transaction
def release(owner: str) -> Steps[None]:
    """A planned goodbye: the others need not wait for the leases to run out."""
    yield GIVE_ALL_BACK(owner=owner)
    yield LEAVE(owner=owner)

"""Until when nothing will happen by itself, for a driven clock that need not pass every second of an idle fleet."""

from __future__ import annotations

from horae.store.database import Statement, Steps, reading, transaction

FIRST = Statement("""
SELECT horae_now() AS now_us,
       (SELECT count(*) FROM (SELECT 1 FROM runs WHERE state = 'running' LIMIT 1) AS one) AS running,
       (SELECT min(available_us) FROM runs WHERE state = 'queued') AS run_us,
       (SELECT min(due_us) FROM timers WHERE due_us IS NOT NULL) AS timer_us
""")

LEASES = Statement("UPDATE leases SET expires_us = expires_us + :by_us WHERE expires_us > horae_now()")
SCHEDULERS = Statement("UPDATE schedulers SET expires_us = expires_us + :by_us WHERE expires_us > horae_now()")
WORKERS = Statement("""
UPDATE workers SET expires_us = expires_us + :by_us, seen_us = seen_us + :by_us WHERE expires_us > horae_now()
""")
SIGNS = (LEASES, SCHEDULERS, WORKERS)


@reading
def quiet_us() -> Steps[float]:
    """How long it stays quiet: no run is under way, none may start, no timer is due. Infinity if nothing waits."""
    row = (yield FIRST())[0]
    if row["running"]:
        return 0
    first = [row[name] for name in ("run_us", "timer_us") if row[name] is not None]
    return max(0, min(first) - row["now_us"]) if first else float("inf")


@transaction
def keep_signs(by_us: int) -> Steps[None]:
    """The clock is about to be set forward: who is alive now is as alive then."""
    for statement in SIGNS:
        yield statement(by_us=by_us)

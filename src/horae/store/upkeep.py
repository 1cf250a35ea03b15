"""Housekeeping: finished runs and logs leave after the retention; what is still needed as proof stays.

On PostgreSQL whole days are made ahead and dropped; on SQLite rows are deleted, a bounded number at a time.
"""

from __future__ import annotations

from horae.ports import Chores
from horae.store.database import NOW, Statement, Steps, reading, transaction

DAY_US = 86_400_000_000
DAYS_AHEAD = 3
DELETE_AT_ONCE = 5000
KEYS_KEPT_US = DAY_US
PARTITIONED = {"history": "ended_us", "attempts": "ended_us", "logs": "at_us"}

PARTITIONS = Statement("""
SELECT c.relname AS name
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_class p ON p.oid = i.inhparent
WHERE p.relname = :parent AND p.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
""")

_OLD = {
    table: Statement(f"""
DELETE FROM {table}
WHERE rowid IN (SELECT rowid FROM {table} WHERE {column} < :before_us ORDER BY {column} LIMIT :most)
RETURNING 1
""")
    for table, column in PARTITIONED.items()
}

FORGET_KEYS = Statement("DELETE FROM idempotency WHERE created_us < :before_us")

FORGET_LETTERS = Statement("DELETE FROM dead_letters WHERE at_us < :before_us")

# Kept while the cursor may still come to it.
FORGET_CALLED_OFF = Statement("""
DELETE FROM called_off
WHERE due_us < :before_us
  AND NOT EXISTS (SELECT 1 FROM timers t WHERE t.job_id = called_off.job_id AND t.due_us <= called_off.due_us)
""")

FORGET_MESSAGES = Statement("DELETE FROM deliveries WHERE ended_us < :before_us")

FORGET_WORKERS = Statement("DELETE FROM workers WHERE expires_us < :before_us")

FORGET_EVENTS = Statement("DELETE FROM events WHERE at_us < :before_us AND kind IN ('late_result', 'retried', 'lease')")

# A bucket that is full again says the same as none.
FORGET_BUCKETS = Statement("DELETE FROM rate_buckets WHERE free_us < :before_us")


# Whether there is anything to take back or to decide: one cheap question a second for a quiet fleet.
CHORES = Statement("""
SELECT EXISTS (
           SELECT 1 FROM runs r LEFT JOIN workers w ON w.id = r.worker
           WHERE r.state = 'running' AND (w.id IS NULL OR w.expires_us <= (SELECT horae_now()))) AS has_lost,
       EXISTS (
           SELECT 1 FROM runs
           WHERE state = 'queued' AND bucket >= '+' AND bucket < ','
             AND available_us <= (SELECT horae_now())) AS has_gated,
       EXISTS (
           SELECT 1 FROM calendars c
           JOIN job_calendars u ON u.tenant = c.tenant AND u.name = c.name AND u.version < c.version) AS has_stale,
       EXISTS (SELECT 1 FROM audit WHERE seq IS NULL) AS has_unsealed
""")


@reading
def chores() -> Steps[Chores]:
    row = (yield CHORES())[0]
    return Chores(bool(row["has_lost"]), bool(row["has_gated"]), bool(row["has_stale"]), bool(row["has_unsealed"]))


@transaction
def sweep_sqlite(retention_us: int) -> Steps[int]:
    now_us = (yield NOW())[0]["now_us"]
    gone = 0
    for statement in _OLD.values():
        gone += len((yield statement(before_us=now_us - retention_us, most=DELETE_AT_ONCE)))
    yield from _forget(now_us, retention_us)
    return gone


@transaction
def sweep_postgres(retention_us: int) -> Steps[int]:
    now_us = (yield NOW())[0]["now_us"]
    today = now_us // DAY_US
    oldest = (now_us - retention_us) // DAY_US
    moved = 0
    for table in PARTITIONED:
        names = {row["name"] for row in (yield PARTITIONS(parent=table))}
        days = {int(name.rpartition("_d")[2]) for name in names if "_d" in name and name.rpartition("_d")[2].isdigit()}
        for day in sorted(day for day in days if day < oldest):
            yield Statement(f"DROP TABLE {table}_d{day}")()
            moved += 1
        for day in range(today, today + DAYS_AHEAD + 1):
            if day not in days and not (yield _strays(table, day)()):
                yield _partition(table, day)()
                moved += 1
    yield from _forget(now_us, retention_us)
    return moved


@transaction
def past_days(days: int) -> Steps[None]:
    """PostgreSQL keeps each day in a table of its own; those that are past have to be made."""
    today = (yield NOW())[0]["now_us"] // DAY_US
    for table in PARTITIONED:
        names = {row["name"] for row in (yield PARTITIONS(parent=table))}
        for day in range(today - days, today + 1):
            if f"{table}_d{day}" not in names and not (yield _strays(table, day)()):
                yield _partition(table, day)()


def _forget(now_us: int, retention_us: int) -> Steps[None]:
    yield FORGET_KEYS(before_us=now_us - KEYS_KEPT_US)
    yield FORGET_CALLED_OFF(before_us=now_us - DAY_US)
    yield FORGET_MESSAGES(before_us=now_us - retention_us)
    yield FORGET_LETTERS(before_us=now_us - retention_us)
    yield FORGET_EVENTS(before_us=now_us - retention_us)
    yield FORGET_BUCKETS(before_us=now_us - DAY_US // 24)
    # A worker row is looked at until its runs were taken back; an hour is many times that.
    yield FORGET_WORKERS(before_us=now_us - DAY_US // 24)


def _strays(table: str, day: int) -> Statement:
    """Rows of a day that nobody made in time: they stay in the default partition, and so does that day."""
    column, start = PARTITIONED[table], day * DAY_US
    return Statement(
        f"SELECT 1 AS n FROM {table}_default WHERE {column} >= {start} AND {column} < {start + DAY_US} LIMIT 1"
    )


def _partition(table: str, day: int) -> Statement:
    return Statement(
        f"CREATE TABLE IF NOT EXISTS {table}_d{day} PARTITION OF {table} "
        f"FOR VALUES FROM ({day * DAY_US}) TO ({(day + 1) * DAY_US})"
    )

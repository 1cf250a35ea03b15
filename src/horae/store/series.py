"""How the recent past went, stretch by stretch: what was due, what started, what ended, and how late it started.

Each is counted at its own time, so that falling behind shows. Of more than MOST_LOOKED_AT runs only the newest are
looked at, and the answer begins later.
"""

from __future__ import annotations

from typing import Any

from horae.core.run import first_id_at
from horae.ports import Series
from horae.store.database import NOW, Statement, Steps, viewing
from horae.store.run_lists import ENDED_STATUSES

MOST_LOOKED_AT = 100_000
POINTS = 60
SECOND_US = 1_000_000
DAY_US = 86_400_000_000

# The run that is one too many, if there is one. The first goes through the index alone.
ENDED_BEYOND = Statement("""
SELECT max(ended_us) AS at_us
FROM (SELECT ended_us FROM history WHERE ended_us >= :from_us ORDER BY ended_us DESC LIMIT 1 OFFSET :most) AS beyond
""")
DUE_BEYOND = Statement("""
SELECT max(due_us) AS at_us
FROM (SELECT due_us FROM history
      WHERE tenant = :tenant AND status = :status AND id >= :from_id AND id < :until_id AND ended_us >= :day_us
      ORDER BY id DESC LIMIT 1 OFFSET :most) AS beyond
""")
LIVE_BEYOND = Statement("""
SELECT max(due_us) AS at_us
FROM (SELECT due_us FROM runs WHERE id >= :from_id AND id < :until_id ORDER BY id DESC LIMIT 1 OFFSET :most) AS beyond
""")

DUE = Statement("""
SELECT (due_us - :from_us) / :step_us AS point, count(*) AS n
FROM history
WHERE tenant = :tenant AND status = :status AND id >= :from_id AND id < :until_id AND ended_us >= :day_us
  AND due_us >= :from_us AND due_us < :until_us
GROUP BY 1
""")
LIVE_DUE = Statement("""
SELECT (due_us - :from_us) / :step_us AS point, count(*) AS n
FROM runs
WHERE tenant = :tenant AND id >= :from_id AND id < :until_id AND due_us >= :from_us AND due_us < :until_us
GROUP BY 1
""")
FINISHED = Statement("""
SELECT (ended_us - :from_us) / :step_us AS point, count(*) AS n
FROM history
WHERE tenant = :tenant AND ended_us >= :from_us AND ended_us < :until_us AND started_us IS NOT NULL
GROUP BY 1
""")

# What started since has ended since, or runs.
_STARTED = """
SELECT started_us, run_at_us, attempt
FROM history
WHERE tenant = :tenant AND ended_us >= :from_us AND started_us >= :from_us AND started_us < :until_us
UNION ALL
SELECT started_us, run_at_us, attempt
FROM runs
WHERE tenant = :tenant AND state = 'running' AND started_us >= :from_us AND started_us < :until_us
"""
STARTED = Statement(f"""
SELECT (started_us - :from_us) / :step_us AS point, count(*) AS n
FROM ({_STARTED}) AS begun
GROUP BY 1
""")
# A first attempt alone can be late; a later one waits on purpose.
LATE = Statement(f"""
SELECT point, max(CASE WHEN place = (n * 50 + 99) / 100 THEN late_us END) AS p50,
       max(CASE WHEN place = (n * 95 + 99) / 100 THEN late_us END) AS p95,
       max(CASE WHEN place = (n * 99 + 99) / 100 THEN late_us END) AS p99
FROM (SELECT point, late_us, row_number() OVER (PARTITION BY point ORDER BY late_us) AS place,
             count(*) OVER (PARTITION BY point) AS n
      FROM (SELECT (started_us - :from_us) / :step_us AS point, started_us - run_at_us AS late_us
            FROM ({_STARTED}) AS begun
            WHERE attempt = 1) AS late) AS ranked
GROUP BY point
""")


@viewing
def series(tenant: str, window_us: int) -> Steps[Series]:
    """POINTS stretches until now; fewer and shorter ones when there were too many runs."""
    now_us = (yield NOW())[0]["now_us"]
    wanted_us = now_us - window_us
    from_us = yield from _reach(tenant, wanted_us, now_us)
    step_us = max(SECOND_US, -(-(now_us - from_us) // POINTS // SECOND_US) * SECOND_US)
    # Whole stretches: the first is complete, the last goes on.
    start_us = -(-from_us // step_us) * step_us
    given = _given(tenant, start_us, now_us) | {"step_us": step_us}
    due: dict[int, int] = {}
    for status in (*ENDED_STATUSES, None):
        rows = (yield LIVE_DUE(**given)) if status is None else (yield DUE(**given, status=status))
        for row in rows:
            due[row["point"]] = due.get(row["point"], 0) + row["n"]
    counts = {"due": due}
    for name, statement in (("started", STARTED), ("finished", FINISHED)):
        counts[name] = {row["point"]: row["n"] for row in (yield statement(**given))}
    late = {row["point"]: row for row in (yield LATE(**given))}
    overall = yield LATE(**(given | {"step_us": max(1, now_us - start_us)}))
    return Series(now_us, start_us, step_us, from_us == wanted_us, counts, late, overall[0] if overall else None)


def _given(tenant: str, from_us: int, now_us: int) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "from_us": from_us,
        "until_us": now_us,
        "from_id": first_id_at(from_us),
        "until_id": first_id_at(now_us + 1000),
        "day_us": from_us - DAY_US,  # a run may have been called off before it was due
    }


def _reach(tenant: str, from_us: int, now_us: int) -> Steps[int]:
    """How far back all three can be counted."""
    most = MOST_LOOKED_AT
    beyond = [(yield ENDED_BEYOND(from_us=from_us, most=most))[0]["at_us"]]
    given = _given(tenant, from_us, now_us)
    beyond += [(yield LIVE_BEYOND(**given, most=most))[0]["at_us"]]
    for status in ENDED_STATUSES:
        beyond += [(yield DUE_BEYOND(**given, status=status, most=most))[0]["at_us"]]
    return max([from_us, *(int(at_us) + 1 for at_us in beyond if at_us is not None)])

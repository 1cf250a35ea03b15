"""Dead letters by what they died of: the whole set, counted from one index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from horae.core.run import first_id_at
from horae.ports import LetterGroups
from horae.store.database import NOW, Statement, Steps, viewing
from horae.store.run_lists import LAST, bounds
from horae.store.views import find

HOUR_US = 3_600_000_000
AGES_US = {"hour": HOUR_US, "day": 24 * HOUR_US, "week": 7 * 24 * HOUR_US}

FILTERS = {
    "job_id": "d.job_id = :job_id",
    "fingerprint": "d.fingerprint = :fingerprint",
    "queue": "d.queue = :queue",
    "priority": "d.priority = :priority",
    "reason": "d.reason = :reason",
    "from_id": "d.run_id >= :from_id",
    "until_id": "d.run_id < :until_id",
}


@lru_cache(maxsize=64)
def groups_where(filters: frozenset[str]) -> Statement:
    """Put together from fixed conditions, as in job_lists.py. An id begins with its due time, and so tells the age.

    Counted first and described after: of a hundred thousand groups only the largest are asked for more. Bounds stand
    in it only when somebody gave them, since with them SQLite reads the table instead of the index by error.
    """
    open_ = "d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL"
    where = " AND ".join([open_, *(FILTERS[name] for name in sorted(filters))])
    ages = ", ".join(f"sum(CASE WHEN d.run_id >= :{age}_id THEN 1 ELSE 0 END) AS {age}" for age in AGES_US)
    return Statement(f"""
WITH found AS MATERIALIZED (
    SELECT d.job_id, d.fingerprint, count(*) AS runs, max(d.run_id) AS last_id
    FROM dead_letters d
    WHERE {where}
    GROUP BY d.job_id, d.fingerprint
), largest AS MATERIALIZED (
    SELECT job_id, fingerprint, runs, last_id
    FROM found
    ORDER BY runs DESC, last_id DESC
    LIMIT :most
), whole AS (
    SELECT count(*) AS all_groups, sum(runs) AS all_runs FROM found
), described AS (
    SELECT d.job_id, d.fingerprint, min(d.run_id) AS first_id, {ages}
    FROM largest
    JOIN dead_letters d ON d.job_id = largest.job_id AND d.fingerprint = largest.fingerprint
    WHERE {where}
    GROUP BY d.job_id, d.fingerprint
)
SELECT largest.*, described.first_id, {", ".join(f"described.{age}" for age in AGES_US)}, whole.all_groups,
       whole.all_runs, j.name AS job_name
FROM largest
JOIN described ON described.job_id = largest.job_id AND described.fingerprint = largest.fingerprint
JOIN jobs j ON j.id = largest.job_id
CROSS JOIN whole
ORDER BY largest.runs DESC, largest.last_id DESC
""")


@viewing
def letter_groups(tenant: str, job_word: str | None, filters: Mapping[str, Any], most: int) -> Steps[LetterGroups]:
    """The largest groups, and how many there are in all."""
    given = {name: value for name, value in filters.items() if value is not None}
    if job_word is not None:
        given["job_id"] = yield from find(tenant, job_word)
    now_us = (yield NOW())[0]["now_us"]
    from_id, until_id = bounds(given)
    given |= {"from_id": from_id} if from_id else {}
    given |= {"until_id": until_id} if until_id != LAST else {}
    ages = {f"{age}_id": first_id_at(now_us - length_us) for age, length_us in AGES_US.items()}
    known = frozenset(name for name in FILTERS if name in given)
    rows = yield groups_where(known)(**given, **ages, tenant=tenant, most=most)
    return LetterGroups(rows, rows[0]["all_groups"] if rows else 0, int(rows[0]["all_runs"]) if rows else 0)

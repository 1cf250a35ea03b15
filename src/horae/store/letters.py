"""Dead letters by what they died of: the whole set, counted from one index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from horae.core.run import first_id_at
from horae.ports import LetterGroups
from horae.store.database import NOW, Statement, Steps, viewing
from horae.store.run_lists import bounds
from horae.store.views import find

HOUR_US = 3_600_000_000
AGES_US = {"hour": HOUR_US, "day": 24 * HOUR_US, "week": 7 * 24 * HOUR_US}

_FILTERS = {
    "job_id": "d.job_id = :job_id",
    "fingerprint": "d.fingerprint = :fingerprint",
    "queue": "d.queue = :queue",
    "priority": "d.priority = :priority",
    "reason": "d.reason = :reason",
}


@lru_cache(maxsize=64)
def groups_where(filters: frozenset[str]) -> Statement:
    """Put together from fixed conditions, as in job_lists.py. An id begins with its due time, and so tells the age."""
    where = " AND ".join(["true", *(_FILTERS[name] for name in sorted(filters))])
    ages = ", ".join(f"sum(CASE WHEN d.run_id >= :{age}_id THEN 1 ELSE 0 END) AS {age}" for age in AGES_US)
    return Statement(f"""
WITH found AS (
    SELECT d.job_id, d.fingerprint, count(*) AS runs, min(d.run_id) AS first_id, max(d.run_id) AS last_id, {ages}
    FROM dead_letters d
    WHERE d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL AND d.run_id >= :from_id
      AND d.run_id < :until_id AND {where}
    GROUP BY d.job_id, d.fingerprint
), largest AS (
    SELECT found.*, count(*) OVER () AS all_groups, sum(runs) OVER () AS all_runs
    FROM found
    ORDER BY runs DESC, last_id DESC
    LIMIT :most
)
SELECT largest.*, j.name AS job_name
FROM largest
JOIN jobs j ON j.id = largest.job_id
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
    ages = {f"{age}_id": first_id_at(now_us - length_us) for age, length_us in AGES_US.items()}
    known = frozenset(name for name in _FILTERS if name in given)
    rows = yield groups_where(known)(**given, **ages, tenant=tenant, from_id=from_id, until_id=until_id, most=most)
    return LetterGroups(rows, rows[0]["all_groups"] if rows else 0, int(rows[0]["all_runs"]) if rows else 0)

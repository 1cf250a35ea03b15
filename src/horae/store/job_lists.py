"""Jobs in lists: six orders, every filter, paged by key. Nothing is counted, and only the jobs of a page are loaded.

A statement is put together from fixed conditions, one for each filter that is given: a condition that is not there
cannot mislead a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from horae.core.job import shard_of
from horae.core.run import first_id_at
from horae.ports import JobPage
from horae.store.database import NOW, Row, Rows, Statement, Steps, viewing
from horae.store.views import JOB_COLUMNS, with_latest

# Runs whose time is to come, the first of each job. An id begins with its due time, hence the range.
_STAGED = """
WITH staged AS MATERIALIZED (
    SELECT r.job_id, min(r.due_us) AS due_us
    FROM runs r
    WHERE r.tenant = :tenant AND r.state = 'queued' AND r.id > :now_id AND r.due_us > :now_us
    GROUP BY r.job_id
)
"""
_PAUSED = "(j.state = 'paused' AND (j.pause_until_us IS NULL OR j.pause_until_us > :now_us))"
_HAS_SCHEDULE = "j.kind NOT IN ('MANUAL', 'AFTER')"
_IS_USED_UP = """t.due_us IS NULL
        AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = j.id AND r.cause = 'schedule')"""
_LABELLED = "SELECT l.job_id FROM job_labels l WHERE l.tenant = :tenant AND l.label = :label"
# The same as STATUS in views.py, but each asks no more than it must: only two of them look at the timer.
_STATUS = {
    "CANCELLED": "j.state = 'deleted'",
    "PAUSED": _PAUSED,
    "SCHEDULED": f"j.state <> 'deleted' AND NOT {_PAUSED} AND NOT ({_HAS_SCHEDULE} AND {_IS_USED_UP})",
}
_LATE = """r.tenant = :tenant AND r.state = 'queued' AND r.attempt = 0 AND r.id < :late_id AND r.run_at_us < :late_us"""
_LATE_JOBS = f"""SELECT r.job_id FROM runs r WHERE {_LATE}
        UNION SELECT d.job_id FROM timers d WHERE d.due_us < :late_us"""
# How they fare: a dead letter waits for somebody; a due time passed and nobody has decided or begun it; no run yet.
_HEALTH = {
    "failing": """j.id IN (SELECT d.job_id FROM dead_letters d
        WHERE d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL)""",
    "late": f"""{_STATUS["SCHEDULED"]} AND j.id IN ({_LATE_JOBS})""",
    # When many are: job by job, as the page is full after a few of them.
    "very late": f"""{_STATUS["SCHEDULED"]} AND (t.due_us < :late_us
        OR CASE WHEN EXISTS (SELECT 1 FROM runs r WHERE r.job_id = j.id AND {_LATE}) THEN true ELSE false END)""",
}
LATE_US = 60_000_000
FILTERS = {f"status {name}": text for name, text in _STATUS.items()} | {
    **{f"health {name}": text for name, text in _HEALTH.items()},
    "search": "lower(j.name) LIKE :search ESCAPE '\\'",
    "label": f"CASE WHEN j.id IN ({_LABELLED}) THEN true ELSE false END",
    "rare label": f"j.id IN ({_LABELLED})",
    "type": "j.type = :type",
    "queue": "j.queue = :queue",
    "priority": "j.priority = :priority",
    "due_before_us": f"""{_STATUS["SCHEDULED"]} AND (t.due_us < :due_before_us
        OR j.id IN (SELECT s.job_id FROM staged s WHERE s.due_us < :due_before_us))""",
}

# Of these the filter is only what every candidate has. The rest must look at job after job, so it is asked of so many
# in one page and of no more: the page then is short, or empty, and says where to go on. CASE, as a join would read the
# whole history: a run on request may be anywhere in it.
NEVER_RUN, COMPLETED = "health never_run", "status COMPLETED"
FILTERS |= {NEVER_RUN: "t.fired = 0", COMPLETED: f"j.state <> 'deleted' AND {_HAS_SCHEDULE}"}
WANTED = {
    NEVER_RUN: """CASE WHEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = j.id AND r.state = 'running')
        AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job_id = j.id AND h.status <> 'skipped')
        THEN true ELSE false END""",
    COMPLETED: f"CASE WHEN NOT {_PAUSED} AND {_IS_USED_UP} THEN true ELSE false END",
}
SEARCHED = {NEVER_RUN: 5000, COMPLETED: 20_000}

# A rare label leads to its jobs; a common one is looked up in memory, job by job (CASE keeps it from becoming a join).
# How many jobs have a label, up to where it is no longer rare.
COUNT_LABELLED = Statement(f"SELECT count(*) AS n FROM ({_LABELLED} LIMIT :most) AS labelled")
RARE = 5000
# Jobs that are late, among the first so many signs of it: a thousand runs may wait for one job.
COUNT_LATE = Statement(f"""
SELECT (SELECT count(DISTINCT l.job_id) FROM (SELECT r.job_id FROM runs r WHERE {_LATE} LIMIT :most) AS l)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM timers d WHERE d.due_us < :late_us LIMIT :most) AS u) AS n
""")
SIGNS = 10_000

# What a list walks through, the columns it is sorted by and what else must hold. A job is due next when its staged run
# is, or else its timer; `never` are the others. Timers are walked by their index, so shards come before ids.
_NEXT_OF_STAGED = "CASE WHEN t.due_us < s.due_us THEN t.due_us ELSE s.due_us END"
_JOBS = "jobs j JOIN timers t ON t.job_id = j.id"
WALKS = {
    "name": (_JOBS, ("j.name", "j.id"), ()),
    "updated": (_JOBS, ("j.updated_us", "j.id"), ()),
    "staged": (
        "staged s JOIN jobs j ON j.id = s.job_id JOIN timers t ON t.job_id = j.id",
        (_NEXT_OF_STAGED, "t.shard", "t.job_id"),
        (_STATUS["SCHEDULED"],),
    ),
    "timers": (
        "timers t JOIN jobs j ON j.id = t.job_id",
        ("t.due_us", "t.shard", "t.job_id"),
        ("t.due_us IS NOT NULL", _STATUS["SCHEDULED"], "t.job_id NOT IN (SELECT s.job_id FROM staged s)"),
    ),
    "never": (
        _JOBS,
        ("j.name", "j.id"),
        (f"NOT ({_STATUS['SCHEDULED']} AND (t.due_us IS NOT NULL OR j.id IN (SELECT s.job_id FROM staged s)))",),
    ),
}
_KINDS = {"j.name": "TEXT", "j.id": "TEXT", "t.job_id": "TEXT", "t.shard": "INTEGER"}

LOAD = Statement(f"{JOB_COLUMNS} WHERE j.tenant = :tenant AND j.id IN (SELECT id FROM {{rows:wanted(id text)}})")

NAME = Statement("SELECT name FROM jobs WHERE id = :id AND tenant = :tenant")

Place = tuple[Any, ...]
After = tuple[Any, str]


class Found(NamedTuple):
    """The rows of a walk, and the last one that it looked at if it broke off there."""

    rows: Rows
    end: Row | None = None


@lru_cache(maxsize=2048)
def statement_of(walk: str, filters: frozenset[str], *, is_descending: bool, has_place: bool) -> Statement:
    source, keys, also = WALKS[walk]
    is_filtered = bool(filters)
    if "health very late" in filters and walk == "timers":
        # As a plain join SQLite began with the jobs and sorted all that it found.
        source, also = "timers t CROSS JOIN jobs j", ("j.id = t.job_id", *also)
    if "health late" in filters and walk != "staged":
        # From the few to their jobs, each by an index: a look at every job of the tenant took up to half a second.
        source = f"({_LATE_JOBS}) AS late CROSS JOIN jobs j CROSS JOIN timers t"
        also = ("j.id = late.job_id", "t.job_id = j.id", _STATUS["SCHEDULED"], *also)
        filters = filters - {"health late"}
    than, direction = ("<", "DESC") if is_descending else (">", "ASC")
    conditions = ["j.tenant = :tenant", *(also if is_filtered else map(_unguessed, also))]
    conditions += [FILTERS[name] for name in sorted(filters)]
    if "status CANCELLED" not in filters:
        conditions.append("j.state <> 'deleted'")
    if has_place:
        place = ", ".join(f"CAST(:place_{at} AS {_KINDS.get(key, 'BIGINT')})" for at, key in enumerate(keys))
        conditions.append(f"({', '.join(keys)}) {than} ({place})")
    needs_staged = any(" staged s" in f" {text}" for text in (source, *conditions))
    order = ", ".join(f"{key} {direction}" for key in keys)
    wanted = " AND ".join(["true", *(WANTED[name] for name in sorted(filters & WANTED.keys()))])
    found = (
        f"SELECT j.id, t.shard, {keys[0]} AS place, {wanted} AS is_wanted FROM {source} "
        f"WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT :most"
    )
    if filters & WANTED.keys():
        names = ("place", "shard", "id") if "t.shard" in keys else ("place", "id")
        order = ", ".join(f"c.{name} {direction}" for name in names)
        numbered = f"SELECT c.*, row_number() OVER (ORDER BY {order}) AS number FROM ({found}) AS c"
        found = f"SELECT * FROM ({numbered}) AS n WHERE n.is_wanted OR n.number = :most ORDER BY n.number"
    return Statement(f"{_STAGED if needs_staged else ''} {found}")


def _unguessed(condition: str) -> str:
    """PostgreSQL takes what it cannot estimate for one row in 200 and then reads and sorts the whole tenant. That is
    right for a filter, which may match nothing, but not for what holds for most jobs: there the page is full after
    a few steps in order. Of a CASE it guesses that it holds for every second row.
    """
    return condition if condition == "t.due_us IS NOT NULL" else f"CASE WHEN {condition} THEN true ELSE false END"


@viewing
def jobs(tenant: str, filters: Mapping[str, Any], sort: str, after: After | None, most: int) -> Steps[JobPage]:
    """A page from behind `after`, the sort value and id of the last row seen; the value None is never due."""
    search = yield from _begin(tenant, filters, is_descending=sort.startswith("-"))
    match sort.lstrip("-"):
        case "next_fire_time":
            found = yield from _by_next_fire_time(search, after, most + 1)
        case "name":
            found = yield from search.walk("name", after, most + 1)
        case _:
            found = yield from search.walk("updated", after, most + 1)
    end = found.rows[most - 1] if len(found.rows) > most else found.end
    wanted = [(row["id"],) for row in found.rows[:most]]
    by_id = {row["id"]: row for row in ((yield LOAD(tenant=tenant, wanted=wanted)) if wanted else [])}
    # A job may be deleted for good between the two questions.
    rows = yield from with_latest(tenant, [by_id[id_] for (id_,) in wanted if id_ in by_id])
    return JobPage(rows, None if end is None else (end["place"], end["id"]))


def _begin(tenant: str, filters: Mapping[str, Any], *, is_descending: bool) -> Steps[_Search]:
    now_us: int = (yield NOW())[0]["now_us"]
    given = {name: value for name, value in filters.items() if value is not None}
    names = given.keys() - {"status", "health"}
    names |= {f"{name} {given[name]}" for name in ("status", "health") if name in given}
    if "label" in given:
        labelled = (yield COUNT_LABELLED(tenant=tenant, label=given["label"], most=RARE))[0]["n"]
        names = names - {"label"} | {"rare label" if labelled < RARE else "label"}
    late_us = now_us - LATE_US
    given |= {"tenant": tenant, "now_us": now_us, "now_id": first_id_at(now_us)}
    given |= {"late_us": late_us, "late_id": first_id_at(late_us)}
    if "health late" in names and (yield COUNT_LATE(**given, most=SIGNS))[0]["n"] >= RARE:
        names = names - {"health late"} | {"health very late"}
    return _Search(given, frozenset(names), is_descending)


class _Search:
    """One request: what is asked for, and by which clock."""

    def __init__(self, given: dict[str, Any], filters: frozenset[str], is_descending: bool) -> None:  # noqa: FBT001
        self._given = given
        self._filters = filters
        self.is_descending = is_descending

    @property
    def wants_due(self) -> bool:
        return "due_before_us" in self._filters

    def walk(self, walk: str, place: Place | None, most: int) -> Steps[Found]:
        statement = statement_of(walk, self._filters, is_descending=self.is_descending, has_place=place is not None)
        places = {f"place_{at}": value for at, value in enumerate(place or ())}
        slow = self._filters & WANTED.keys()
        if not slow:
            return Found((yield statement(**self._given, **places, most=most)))
        searched = min(SEARCHED[name] for name in slow)
        rows = yield statement(**self._given, **places, most=searched)
        wanted = [row for row in rows if row["is_wanted"]][:most]
        return Found(wanted, rows[-1] if rows and rows[-1]["number"] == searched else None)

    def name_of(self, id_: str) -> Steps[Place]:
        rows = yield NAME(id=id_, tenant=self._given["tenant"])
        return (rows[0]["name"] if rows else "", id_)


def _by_next_fire_time(search: _Search, after: After | None, most: int) -> Steps[Found]:
    """Those that are due in time order, then the others by name; or all of it backwards."""
    is_among_never = after is not None and after[0] is None
    parts = [_never, _due] if search.is_descending else [_due, _never]
    if after is not None and is_among_never == (parts[0] is _due):
        parts = parts[1:]
    found = Found([])
    for part in parts:
        if len(found.rows) < most and found.end is None:
            more = yield from part(search, after if part is parts[0] else None, most - len(found.rows))
            found = Found([*found.rows, *more.rows], more.end)
    return found


def _due(search: _Search, after: After | None, most: int) -> Steps[Found]:
    place = None if after is None else (after[0], shard_of(after[1]), after[1])
    staged = yield from search.walk("staged", place, most)
    timers = yield from search.walk("timers", place, most)
    rows = sorted([*staged.rows, *timers.rows], key=_when, reverse=search.is_descending)
    ends = sorted((found.end for found in (staged, timers) if found.end), key=_when, reverse=search.is_descending)
    if ends:
        # What lies behind the nearer end is not whole yet.
        is_reversed, end = search.is_descending, _when(ends[0])
        rows = [row for row in rows if _when(row) == end or (_when(row) > end) == is_reversed]
    return Found(rows[:most], ends[0] if ends else None)


def _when(row: Row) -> Place:
    return row["place"], row["shard"], row["id"]


def _never(search: _Search, after: After | None, most: int) -> Steps[Found]:
    if search.wants_due:
        return Found([])
    place = None if after is None else (yield from search.name_of(after[1]))
    found = yield from search.walk("never", place, most)
    end = None if found.end is None else {**found.end, "place": None}
    return Found([{**row, "place": None} for row in found.rows], end)

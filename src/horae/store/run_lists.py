"""Runs and dead letters in lists, newest first: an id begins with its due time, so the order is that of the key.

A filter that has no index is looked for among so many rows and no more; the page then is short, or empty, and says
where to go on. A statement is put together from fixed conditions, as in job_lists.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from horae.core.run import ENDED, first_id_at
from horae.ports import Page
from horae.store.database import Row, Statement, Steps, reading
from horae.store.views import ENDED_RUN, LIVE_RUN, find

SEARCHED = 20_000
LAST = "~"  # behind every id

Given = Mapping[str, Any]

_LIVE_STATUS = """CASE WHEN r.state = 'running' THEN 'running'
     WHEN r.attempt > 0 THEN 'retrying'
     WHEN r.run_at_us > horae_now() THEN 'pending'
     ELSE 'queued' END"""


class Walk(NamedTuple):
    """A way through a table by an index: `narrow` is what the index can find, `filters` is what must be looked for."""

    table: str
    narrow: str
    columns: str
    filters: dict[str, str]

    @property
    def alias(self) -> str:
        return self.table.split()[-1]

    @property
    def key(self) -> str:
        return "run_id" if self.table == "dead_letters d" else "id"


_PLAIN = {name: f"{{}}.{name} = :{name}" for name in ("queue", "priority", "reason")} | {
    "due_after_us": "{}.due_us >= :due_after_us",
    "due_before_us": "{}.due_us < :due_before_us",
}
_ENDED = {name: text.format("h") for name, text in _PLAIN.items()} | {
    "worker": "h.worker = :worker",
    "status": "h.status = :status",
}
_LIVE_OF_JOB = {name: text.format("r") for name, text in _PLAIN.items()} | {
    "worker": "r.worker = :worker",
    "status": f"{_LIVE_STATUS} = :status",
}
_LIVE = _LIVE_OF_JOB | {"tenant": "r.tenant = :tenant"}
_DEAD = {name: text.format("h") for name, text in _PLAIN.items()} | {"job_id": "d.job_id = :job_id"}
_LETTERS = "d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL"

WALKS = {
    "live": Walk("runs r", "true", LIVE_RUN, _LIVE),
    "live_of_job": Walk("runs r", "r.job_id = :job_id", LIVE_RUN, _LIVE_OF_JOB),
    "running": Walk("runs r", "r.state = 'running'", LIVE_RUN, _LIVE),
    "ended": Walk("history h", "h.tenant = :tenant AND h.status = {status}", ENDED_RUN, _ENDED),
    "ended_as": Walk("history h", "h.tenant = :tenant AND h.status = :status", ENDED_RUN, _ENDED),
    "ended_of_job": Walk("history h", "h.job_id = :job_id", ENDED_RUN, _ENDED),
    "dead": Walk("dead_letters d", _LETTERS, ENDED_RUN, _DEAD),
}


def _walked(walk: str, limit: str, *, only_key: bool = False) -> str:
    """The rows that are looked at, newest first. Each status has its own stretch of the index; they are merged."""
    table, alias, key, narrow = WALKS[walk].table, WALKS[walk].alias, WALKS[walk].key, WALKS[walk].narrow
    columns = f"{alias}.{key}" if only_key else f"{alias}.*"
    between = f"{alias}.{key} < :before_id AND {alias}.{key} >= :from_id"
    texts = [
        f"SELECT {columns} FROM {table} WHERE {narrow.format(status=repr(status))} AND {between}"
        for status in (sorted(ENDED) if "{status}" in narrow else [""])
    ]
    if len(texts) == 1:
        return f"{texts[0]} ORDER BY {alias}.{key} DESC LIMIT {limit}"
    return f"SELECT * FROM ({' UNION ALL '.join(texts)}) AS each_status ORDER BY {key} DESC LIMIT {limit}"


@lru_cache(maxsize=1024)
def statement_of(walk: str, filters: frozenset[str]) -> Statement:
    table, _, columns, known = WALKS[walk]
    alias, walked = WALKS[walk].alias, _walked(walk, ":searched")
    source = f"({walked}) AS {alias}"
    if alias == "d":
        source += " JOIN history h ON h.id = d.run_id AND h.ended_us = d.at_us"
        table, alias = "history h", "h"
    where = " AND ".join(["true", *(known[name] for name in sorted(filters))])
    return Statement(
        f"{columns.replace(f'FROM {table}', f'FROM {source}')} WHERE {where} ORDER BY {alias}.id DESC LIMIT :most"
    )


@lru_cache(maxsize=32)
def end_of(walk: str) -> Statement:
    """The last row that a whole search has looked at, if it had not come to the end before."""
    return Statement(f"SELECT {WALKS[walk].key} AS id FROM ({_walked(walk, '1 OFFSET :searched', only_key=True)}) AS n")


@reading
def runs(tenant: str, job_word: str | None, filters: Given, before_id: str | None, most: int) -> Steps[Page]:
    given = {name: value for name, value in filters.items() if value is not None} | {"tenant": tenant}
    if job_word is not None:
        given["job_id"] = yield from find(tenant, job_word)
    pages: list[Page] = []
    for walk in _walks_of(given):
        page = yield from _search(walk, given, before_id, most)
        pages.append(page)
    return _merged(pages, most)


@reading
def dead_letters(tenant: str, job_word: str | None, filters: Given, before_id: str | None, most: int) -> Steps[Page]:
    given = {name: value for name, value in filters.items() if value is not None} | {"tenant": tenant}
    if job_word is not None:
        given["job_id"] = yield from find(tenant, job_word)
    return (yield from _search("dead", given, before_id, most))


def _walks_of(given: Given) -> list[str]:
    status = given.get("status")
    walks = []
    if status not in ENDED:
        is_running = status == "running" or "worker" in given
        walks.append("live_of_job" if "job_id" in given else "running" if is_running else "live")
    if status is None or status in ENDED:
        walks.append("ended_of_job" if "job_id" in given else "ended" if status is None else "ended_as")
    return walks


def _search(walk: str, given: Given, before_id: str | None, most: int) -> Steps[Page]:
    """At most `most` rows. What the walk itself finds needs no search: it looks at as many rows as it gives."""
    narrow, known = WALKS[walk].narrow, WALKS[walk].filters
    filters = frozenset(name for name in known if name in given and f":{name}" not in narrow)
    from_id, until_id = bounds(given)
    values = dict(given) | {"before_id": min(before_id or LAST, until_id), "from_id": from_id}
    values |= {"searched": SEARCHED if filters else most + 1}
    rows = yield statement_of(walk, filters)(**values, most=most + 1)
    if len(rows) > most:
        return Page(rows[:most], rows[most - 1]["id"])
    seen = (yield end_of(walk)(**(values | {"searched": SEARCHED - 1}))) if filters else []
    return Page(rows, seen[0]["id"] if seen else None)


def bounds(given: Given) -> tuple[str, str]:
    """Between which ids runs are due from `due_after_us` and before `due_before_us`, to the millisecond."""
    from_us, before_us = given.get("due_after_us"), given.get("due_before_us")
    from_id = "" if from_us is None else first_id_at(from_us)
    return from_id, LAST if before_us is None else first_id_at(before_us + 999)


def _merged(pages: list[Page], most: int) -> Page:
    """Of two searches that went back differently far, what lies behind the nearer end is not whole yet."""
    ends = [page.before_id for page in pages if page.before_id is not None]
    rows: list[Row] = sorted((row for page in pages for row in page.rows), key=lambda row: row["id"], reverse=True)
    if len(rows) > most:
        ends.append(rows[most - 1]["id"])
    end = max(ends, default=None)
    return Page([row for row in rows[:most] if end is None or row["id"] >= end], end)

"""Runs and dead letters in lists, newest first: an id begins with its due time, so the order is that of the key.

A filter that has no index is looked for among so many rows and no more; the page then is short, or empty, and says
where to go on. A statement is put together from fixed conditions, as in job_lists.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from horae.core.run import CANCELLED, ENDED, FAILED, RUNNING, SKIPPED, SUCCEEDED, UNKNOWN, first_id_at
from horae.ports import Page
from horae.store.database import Row, Statement, Steps, viewing
from horae.store.views import ENDED_RUN, LIVE_RUN, find
from horae.store.waiting import WAITS_FOR, lines_held, with_reasons

SEARCHED = 10_000
LAST = "~"  # behind every id
ENDED_STATUSES = (SUCCEEDED, FAILED, SKIPPED, CANCELLED, UNKNOWN)

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


_PLAIN = {name: f"{{}}.{name} = :{name}" for name in ("queue", "priority", "reason")} | {
    "due_after_us": "{}.due_us >= :due_after_us",
    "due_before_us": "{}.due_us < :due_before_us",
}
_ENDED = {name: text.format("h") for name, text in _PLAIN.items()} | {
    "worker": "h.worker = :worker",
    "status": "h.status = :status",
}
_LIVE_OF_JOB = {name: text.format("r") for name, text in _PLAIN.items()} | {
    "reason": WAITS_FOR,
    "worker": "r.worker = :worker",
    "status": f"{_LIVE_STATUS} = :status",
}
_LIVE = _LIVE_OF_JOB | {"tenant": "r.tenant = :tenant"}
WALKS = {
    "live": Walk("runs r", "true", LIVE_RUN, _LIVE),
    "live_of_job": Walk("runs r", "r.job_id = :job_id", LIVE_RUN, _LIVE_OF_JOB),
    "running": Walk("runs r", "r.state = 'running'", LIVE_RUN, _LIVE),
    "ended": Walk("history h", "h.tenant = :tenant AND h.status = :status", ENDED_RUN, _ENDED),
    "ended_of_job": Walk("history h", "h.job_id = :job_id", ENDED_RUN, _ENDED),
}


def _walked(walk: str, limit: str, *, only_key: bool = False) -> str:
    """The rows that are looked at, newest first."""
    table, alias, narrow = WALKS[walk].table, WALKS[walk].alias, WALKS[walk].narrow
    columns = f"{alias}.id" if only_key else f"{alias}.*"
    between = f"{alias}.id < :before_id AND {alias}.id >= :from_id"
    return f"SELECT {columns} FROM {table} WHERE {narrow} AND {between} ORDER BY {alias}.id DESC LIMIT {limit}"


@lru_cache(maxsize=1024)
def statement_of(walk: str, filters: frozenset[str]) -> Statement:
    table, _, columns, known = WALKS[walk]
    alias = WALKS[walk].alias
    text = columns.replace(f"FROM {table}", f"FROM ({_walked(walk, ':searched')}) AS {alias}")
    where = " AND ".join(["true", *(known[name] for name in sorted(filters))])
    return Statement(f"{text} WHERE {where} ORDER BY {alias}.id DESC LIMIT :most")


@lru_cache(maxsize=32)
def end_of(walk: str) -> Statement:
    """The last row that a whole search has looked at, if it had not come to the end before."""
    return Statement(_walked(walk, "1 OFFSET :searched", only_key=True))


_OPEN = """
SELECT d.run_id, d.at_us
FROM dead_letters d
WHERE d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL AND d.run_id < :before_id
  AND d.run_id >= :from_id AND (CAST(:fingerprint AS TEXT) IS NULL OR d.fingerprint = :fingerprint)
"""
OPEN_LETTERS = Statement(f"{_OPEN} ORDER BY d.run_id DESC LIMIT :most")
LETTERS_OF_JOB = Statement(f"{_OPEN} AND d.job_id = :job_id ORDER BY d.run_id DESC LIMIT :most")
LETTER_FILTERS = {name: text.format("h") for name, text in _PLAIN.items()}
LETTERS, MOST_LOOKS = 1000, 10


@lru_cache(maxsize=32)
def letters_where(filters: frozenset[str]) -> Statement:
    """A few at a time: for many, PostgreSQL would rather read the whole history."""
    where = " AND ".join(["true", *(LETTER_FILTERS[name] for name in sorted(filters))])
    return Statement(f"""
{ENDED_RUN}
JOIN {{rows:wanted(id text, ended_us bigint)}} ON h.id = wanted.id AND h.ended_us = wanted.ended_us
WHERE {where}
ORDER BY h.id DESC
""")


@viewing
def runs(tenant: str, job_word: str | None, filters: Given, before_id: str | None, most: int) -> Steps[Page]:
    given = {name: value for name, value in filters.items() if value is not None} | {"tenant": tenant}
    if job_word is not None:
        given["job_id"] = yield from find(tenant, job_word)
    if "reason" in given:
        given["held"] = yield from lines_held(tenant, given["reason"])
    found = Page([], None)
    for walk, more in _walks_of(given):
        # What lies below the end of another walk will come on a later page: no need to go there now.
        page = yield from _search(walk, {**given, **more}, before_id, most, found.before_id or "")
        found = _merged(found, page, most)
    return Page((yield from with_reasons(tenant, found.rows)), found.before_id)


@viewing
def dead_letters(tenant: str, job_word: str | None, filters: Given, before_id: str | None, most: int) -> Steps[Page]:
    given = {name: value for name, value in filters.items() if value is not None} | {"tenant": tenant}
    if job_word is not None:
        given["job_id"] = yield from find(tenant, job_word)
    walk = LETTERS_OF_JOB if "job_id" in given else OPEN_LETTERS
    given.setdefault("fingerprint", None)
    known = frozenset(name for name in LETTER_FILTERS if name in given)
    from_id, until_id = bounds(given)
    before = min(before_id or LAST, until_id)
    at_once = LETTERS if known else most + 1
    found: list[Row] = []
    for _ in range(MOST_LOOKS):
        letters = yield walk(**given, before_id=before, from_id=from_id, most=at_once)
        wanted = [(row["run_id"], row["at_us"]) for row in letters]
        found += (yield letters_where(known)(**given, wanted=wanted)) if wanted else []
        if len(found) > most:
            return Page(found[:most], found[most - 1]["id"])
        if len(letters) < at_once:
            return Page(found, None)
        before = letters[-1]["run_id"]
    return Page(found, before)


def _walks_of(given: Given) -> list[tuple[str, Given]]:
    """The walks that find all of it, those that are likely to fill the page first. Each status is a stretch of its own
    in the index, which PostgreSQL does not merge (it sorted them all).
    """
    status = given.get("status")
    walks: list[tuple[str, Given]] = []
    if "job_id" in given:
        walks += [("ended_of_job", {})] if status is None or status in ENDED else []
        walks += [("live_of_job", {})] if status not in ENDED else []
        return walks
    # A success has no reason, and most runs are one: nobody has to look through them for it.
    ended = [each for each in ENDED_STATUSES if each != SUCCEEDED or "reason" not in given]
    walks += [("ended", {"status": each}) for each in ended if status in (None, each)]
    if status not in ENDED:
        walks.append(("running" if status == RUNNING or "worker" in given else "live", {}))
    return walks


def _search(walk: str, given: Given, before_id: str | None, most: int, floor_id: str = "") -> Steps[Page]:
    """At most `most` rows. What the walk itself finds needs no search: it looks at as many rows as it gives."""
    narrow, known = WALKS[walk].narrow, WALKS[walk].filters
    filters = frozenset(name for name in known if name in given and f":{name}" not in narrow)
    from_id, until_id = bounds(given)
    values = dict(given) | {"before_id": min(before_id or LAST, until_id), "from_id": max(from_id, floor_id)}
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


def _merged(one: Page, two: Page, most: int) -> Page:
    """Of two searches that went back differently far, what lies below the nearer end is not whole yet."""
    ends = [page.before_id for page in (one, two) if page.before_id is not None]
    rows: list[Row] = sorted([*one.rows, *two.rows], key=lambda row: row["id"], reverse=True)
    if len(rows) > most:
        ends.append(rows[most - 1]["id"])
    end = max(ends, default=None)
    return Page([row for row in rows[:most] if end is None or row["id"] >= end], end)

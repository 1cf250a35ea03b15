"""The whole record, for those who want to check it: one fact a line, all facts of a job together.

Each kind of fact is read in the order of the jobs, a page at a time, and the kinds are merged: so the record is as long
as it is, and what is held of it is a few pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from horae.store.database import Row, Statement, Steps, viewing
from horae.store.results import WORKER_LOST

HEAD = Statement("SELECT horae_now() AS now_us, (SELECT max(expires_us) FROM leases) AS held_until_us")

WORKERS = Statement("SELECT id, expires_us FROM workers ORDER BY id")

# Who might plan which shard when: the events that belong to no job.
LEASES = Statement("""
SELECT seq, at_us, kind, job_id, run_id, actor, detail
FROM events
WHERE job_id IS NULL AND seq > :after AND tenant = ''
ORDER BY seq
LIMIT :most
""")

_RUN = """tenant, queue, version, cause, due_us, run_at_us, started_us, attempt, max_attempts, token, epoch, worker,
       reason, parent_id, queued_us"""
_OF_TENANT = "(CAST(:tenant AS TEXT) IS NULL OR {}tenant = :tenant)"

# Every page goes on after a job, and after a fact of that job: a number or an id, and for ended runs both.
PAGES = {
    "job": Statement(f"""
SELECT j.id, j.tenant, j.name, j.state, j.version, j.created_us, t.due_us, t.fired, horae_now() AS read_us
FROM jobs j
JOIN timers t ON t.job_id = j.id
WHERE j.id > :job AND {_OF_TENANT.format("j.")} AND CAST(:id AS TEXT) = :id AND CAST(:number AS BIGINT) = :number
ORDER BY j.id
LIMIT :most
"""),
    "version": Statement(f"""
SELECT v.job_id, v.version, v.spec, v.created_us, v.actor
FROM job_versions v
JOIN jobs j ON j.id = v.job_id
WHERE (v.job_id, v.version) > (:job, :number) AND {_OF_TENANT.format("j.")} AND CAST(:id AS TEXT) = :id
ORDER BY v.job_id, v.version
LIMIT :most
"""),
    "event": Statement(f"""
SELECT seq, at_us, kind, job_id, run_id, actor, detail
FROM events
WHERE (job_id, seq) > (:job, :number) AND {_OF_TENANT.format("")} AND CAST(:id AS TEXT) = :id
ORDER BY job_id, seq
LIMIT :most
"""),
    "live": Statement(f"""
SELECT id, job_id, {_RUN}, state AS status, available_us, CAST(NULL AS BIGINT) AS ended_us, is_once,
       CAST(NULL AS BIGINT) AS skip_until_us, 0 AS skip_count
FROM runs
WHERE (job_id, id) > (:job, :id) AND {_OF_TENANT.format("")} AND CAST(:number AS BIGINT) = :number
ORDER BY job_id, id
LIMIT :most
"""),
    "ended": Statement(f"""
SELECT id, job_id, {_RUN}, status, run_at_us AS available_us, ended_us, false AS is_once, skip_until_us, skip_count
FROM history
WHERE (job_id, id, ended_us) > (:job, :id, :number) AND {_OF_TENANT.format("")}
ORDER BY job_id, id, ended_us
LIMIT :most
"""),
}

# Of runs that were tried more than once. On PostgreSQL a look at every day for every run would take minutes.
ATTEMPTS = Statement("""
SELECT a.run_id, a.attempt AS number, a.token, a.started_us, a.ended_us, a.reason, a.worker,
       coalesce(a.error LIKE :reaped, false) AS is_reaped
FROM {rows:chosen(id text)}
JOIN attempts a ON a.run_id = chosen.id
ORDER BY a.run_id, a.attempt, a.ended_us
""")

LETTERS = Statement("""
SELECT d.run_id, d.replayed_as
FROM {rows:chosen(id text)}
JOIN dead_letters d ON d.run_id = chosen.id
""")

# The columns that a page ends with, from which the next one goes on.
_KEYS = {
    "job": ("id", None, None),
    "version": ("job_id", None, "version"),
    "event": ("job_id", None, "seq"),
    "live": ("job_id", "id", None),
    "ended": ("job_id", "id", "ended_us"),
}
KINDS = tuple(PAGES)
PAGE = 2000

Key = tuple[str, str, int]
START: Key = ("", "", -1)
Block = tuple[Key, bytes]
"""A fact with all that hangs on it, as lines; and where to go on after it. The key begins with the job."""

_encode = msgspec.json.Encoder().encode


@viewing
def head(retention_us: int) -> Steps[list[bytes]]:
    """The time, and what is about no single job: the workers, the leases."""
    clock = (yield HEAD())[0]
    lines = [_line("store", {**clock, "kept_since_us": clock["now_us"] - retention_us})]
    lines += [_line("worker", row) for row in (yield WORKERS())]
    after = -1
    while True:
        rows = yield LEASES(after=after, most=PAGE)
        lines += [_line("event", row) for row in rows]
        if len(rows) < PAGE:
            return lines
        after = rows[-1]["seq"]


@viewing
def page(kind: str, tenant: str | None, key: Key) -> Steps[list[Block]]:
    job, id_, number = key
    rows = yield PAGES[kind](job=job, id=id_, number=number, tenant=tenant, most=PAGE)
    if kind not in ("live", "ended"):
        return [(_key(kind, row), _line(kind, row)) for row in rows]
    more: dict[str, bytes] = {}
    for row in (yield LETTERS(chosen=[(row["id"],) for row in rows])) if rows else []:
        more[row["run_id"]] = _line("dead_letter", row)
    tried = [(row["id"],) for row in rows if row["attempt"] > (1 if row["started_us"] is not None else 0)]
    for row in (yield ATTEMPTS(chosen=tried, reaped=f"{WORKER_LOST}%")) if tried else []:
        more[row["run_id"]] = more.get(row["run_id"], b"") + _line("attempt", row)
    return [(_key(kind, row), _line("run", row) + more.get(row["id"], b"")) for row in rows]


def _line(type_: str, row: Row) -> bytes:
    fact: dict[str, Any] = {"type": type_, **row}
    for name in ("is_once", "is_reaped"):
        if name in fact:
            fact[name] = bool(fact[name])
    return _encode(fact) + b"\n"


def _key(kind: str, row: Row) -> Key:
    job, id_, number = _KEYS[kind]
    return (row[job], row[id_] if id_ else "", row[number] if number else -1)


Ask = Callable[[str, Key], Awaitable[list[Block]]]


class _Feed:
    """The facts of one kind, in the order of their jobs."""

    def __init__(self, kind: str, ask: Ask) -> None:
        self._kind = kind
        self._ask = ask
        self._key = START
        self._blocks: deque[Block] = deque()
        self._is_over = False

    async def fill(self) -> bool:
        """Whether a page had to be read."""
        if self._blocks or self._is_over:
            return False
        self._blocks.extend(await self._ask(self._kind, self._key))
        self._is_over = len(self._blocks) < PAGE
        return True

    def forget(self) -> None:
        """What was read ahead; it will be read again."""
        self._blocks.clear()
        self._is_over = False

    @property
    def job(self) -> str | None:
        return self._blocks[0][0][0] if self._blocks else None

    def take(self, until: str | None) -> list[bytes]:
        """Of the first job, and of those after it that come before `until`."""
        taken, first = [], self.job
        while self._blocks and (self.job == first or until is None or (self.job or "") < until):
            self._key, lines = self._blocks.popleft()
            taken.append(lines)
        return taken


async def merged(ask: Ask) -> AsyncIterator[bytes]:
    """All facts of all jobs, a few at a time: whole lines.

    Live runs are read before ended ones, so that a run which ends meanwhile is seen twice rather than never: a new page
    of live runs makes what was read ahead of ended ones worthless.
    """
    feeds = [_Feed(kind, ask) for kind in KINDS]
    live, ended = feeds[KINDS.index("live")], feeds[KINDS.index("ended")]
    while True:
        for feed in feeds:
            if await feed.fill() and feed is live:
                ended.forget()
        waiting = sorted((feed.job, number) for number, feed in enumerate(feeds) if feed.job is not None)
        if not waiting:
            return
        (_, first), *others = waiting
        until = others[0][0] if others else None
        for lines in feeds[first].take(until):
            yield lines

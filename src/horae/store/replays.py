"""Dead letters in bulk, run anew or put aside: chosen by a filter, under one lock, all or none."""

from __future__ import annotations

from typing import Any

from horae.core.errors import Conflict
from horae.core.run import run_id
from horae.ports import Letters
from horae.store.database import Row, Rows, Statement, Steps, note, transaction, viewing
from horae.store.jobs import KEEP, OPEN_RUNS
from horae.store.quotas import reserve
from horae.store.run_lists import LAST, bounds
from horae.store.views import find

# Oldest first; what is asked of the run is looked up after. What is run anew needs a job that is still there.
_LETTERS = """
SELECT d.run_id, d.at_us, d.job_id, j.priority, j.bucket
FROM dead_letters d
JOIN jobs j ON j.id = d.job_id AND (:with_deleted OR j.state <> 'deleted')
WHERE d.tenant = :tenant AND d.replayed_as IS NULL AND d.discarded_us IS NULL AND d.run_id > :after_id
  AND d.run_id >= :from_id AND d.run_id < :until_id AND (CAST(:job_id AS TEXT) IS NULL OR d.job_id = :job_id)
  AND (CAST(:fingerprint AS TEXT) IS NULL OR d.fingerprint = :fingerprint)
ORDER BY d.run_id
LIMIT :most
"""
LETTERS = Statement(_LETTERS)
LOCK_LETTERS = Statement(f"{_LETTERS} FOR UPDATE OF d")

MATCHING = Statement("""
SELECT h.id, h.payload
FROM history h
JOIN {rows:wanted(id text, ended_us bigint)} ON h.id = wanted.id AND h.ended_us = wanted.ended_us
WHERE (CAST(:queue AS TEXT) IS NULL OR h.queue = :queue)
  AND (CAST(:priority AS INTEGER) IS NULL OR h.priority = :priority)
  AND (CAST(:reason AS TEXT) IS NULL OR h.reason = :reason)
  AND (CAST(:due_after_us AS BIGINT) IS NULL OR h.due_us >= :due_after_us)
  AND (CAST(:due_before_us AS BIGINT) IS NULL OR h.due_us < :due_before_us)
""")

MARK_REPLAYED = Statement("""
UPDATE dead_letters
SET replayed_as = done.new_id
FROM {rows:done(run_id text, new_id text)}
WHERE dead_letters.run_id = done.run_id
""")

MARK_DISCARDED = Statement("""
UPDATE dead_letters
SET discarded_us = horae_now()
WHERE run_id IN (SELECT run_id FROM {rows:done(run_id text)})
""")

AT_ONCE = 1000


@viewing
def letters(tenant: str, which: Letters, most: int) -> Steps[list[str]]:
    """The ids of those that match, oldest first; `most` at most."""
    return [row["run_id"] for row in (yield from _matching(tenant, which, LETTERS, most))]


@transaction
def discard(tenant: str, which: Letters, expected: int, most: int) -> Steps[list[str]]:
    """Puts all that match aside, up to `most`. Conflict when there are not as many as expected."""
    found = [row["run_id"] for row in (yield from _expected(tenant, which, expected, most))]
    if found:
        yield MARK_DISCARDED(done=[(id_,) for id_ in found])
        yield note("dead_letters.discarded", found[0], None, {"count": len(found)})
    return found


@transaction
def replay(tenant: str, which: Letters, expected: int | None, step_us: int, most: int) -> Steps[list[str]]:
    """New runs from all that match, up to `most`, each `step_us` after the one before. Conflict when there are not as
    many as expected.
    """
    found = yield from _expected(tenant, which, expected, most)
    now_us = yield from reserve(tenant, len(found))
    rows, done = [], []
    for place, letter in enumerate(found):
        due_us = now_us + place * step_us
        new_id = run_id(letter["job_id"], f"replay:{letter['run_id']}", due_us)
        rows.append(
            (
                new_id,
                letter["job_id"],
                "replay",
                letter["priority"],
                letter["bucket"],
                due_us,
                due_us,
                letter["payload"],
                letter["run_id"],
            )
        )
        done.append((letter["run_id"], new_id))
    if rows:
        yield KEEP(job=sorted({(letter["job_id"],) for letter in found}))
        if len((yield OPEN_RUNS(n=rows))) < len(rows):
            raise Conflict("A job of these dead letters was deleted meanwhile. Nothing was done.", "count_changed")
        yield MARK_REPLAYED(done=done)
        yield note("dead_letters.replayed", done[0][0], None, {"count": len(done)})
    return [new_id for _, new_id in done]


def _expected(tenant: str, which: Letters, expected: int | None, most: int) -> Steps[list[Row]]:
    found = yield from _matching(tenant, which, LOCK_LETTERS, most)
    if expected is not None and len(found) != expected:
        detail = f"{len(found)} dead letters match, not {expected}. Nothing was done."
        raise Conflict(detail, "count_changed")
    return found


def _matching(tenant: str, which: Letters, statement: Statement, most: int) -> Steps[list[Row]]:
    job_id = None if which.job_word is None else (yield from find(tenant, which.job_word))
    from_id, until_id = bounds(which.filters)
    found: list[Row] = []
    after_id = ""
    while len(found) < most:
        given: dict[str, Any] = {"tenant": tenant, "job_id": job_id, "from_id": from_id, "until_id": until_id or LAST}
        given |= {"fingerprint": which.filters.get("fingerprint"), "with_deleted": which.with_deleted}
        batch: Rows = yield statement(**given, after_id=after_id, most=AT_ONCE)
        wanted = [(row["run_id"], row["at_us"]) for row in batch]
        payloads = {
            row["id"]: row["payload"] for row in ((yield MATCHING(**which.filters, wanted=wanted)) if wanted else [])
        }
        found += [{**row, "payload": payloads[row["run_id"]]} for row in batch if row["run_id"] in payloads]
        if len(batch) < AT_ONCE:
            break
        after_id = batch[-1]["run_id"]
    return found[:most]

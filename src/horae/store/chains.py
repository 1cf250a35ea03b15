"""What starts what: upstream jobs are found by name or id, and no job may wait for itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from horae.core.errors import Fault, Invalid
from horae.core.job import After, Definition
from horae.store.database import Statement, Steps

# One index look-up a word and a column, as NAMES_TAKEN in jobs.py. An id comes before a name.
UPSTREAM = Statement("""
SELECT wanted.word,
       COALESCE((SELECT j.id FROM jobs j WHERE j.id = wanted.word AND j.tenant = :tenant AND j.state <> 'deleted'),
                (SELECT j.id FROM jobs j WHERE j.tenant = :tenant AND j.name = wanted.word AND j.state <> 'deleted')
               ) AS id
FROM {rows:wanted(word text)}
""")

INSERT_CHAINS = Statement("""
INSERT INTO chains (upstream_id, job_id, ending)
SELECT c.upstream_id, c.job_id, c.ending
FROM {rows:c(upstream_id text, job_id text, ending text)}
""")

# One change of chains at a time: two of them together could close a circle that neither sees.
CHAIN_LOCK = Statement("SELECT pg_advisory_xact_lock(7450)", sqlite="SELECT 1")

# Everything that a job starts, directly or through others.
DOWNSTREAM = Statement("""
WITH RECURSIVE reached(job_id) AS (
    SELECT job_id FROM chains WHERE upstream_id = :id
    UNION
    SELECT c.job_id FROM chains c JOIN reached ON c.upstream_id = reached.job_id
)
SELECT job_id FROM reached
""")


def upstream_ids(tenant: str, definitions: list[Definition]) -> Steps[dict[str, str]]:
    """The ids of all jobs that these run after, by the word that was used for each."""
    words = sorted({after.job_id for definition in definitions for after in definition.after})
    if not words:
        return {}
    rows = yield UPSTREAM(tenant=tenant, wanted=[(word,) for word in words])
    return {row["word"]: row["id"] for row in rows if row["id"]}


def linked(definition: Definition, ids: Mapping[str, str]) -> Definition | Invalid:
    """With ids in place of words. A new job needs no more than that: nothing can run after what nobody knows yet, so
    it closes no circle.
    """
    if not definition.after:
        return definition
    unknown = {at: after.job_id for at, after in enumerate(definition.after) if after.job_id not in ids}
    if unknown:
        place = "/after/{}" if len(definition.after) > 1 else "/after"
        hint = "Create the upstream job first; GET /jobs shows them all."
        return Invalid(
            [Fault(place.format(at), f'There is no job "{word}" to run after.', hint) for at, word in unknown.items()]
        )
    upstream = tuple(After(ids[after.job_id], after.on) for after in definition.after)
    return msgspec.structs.replace(definition, after=upstream)


def relinked(tenant: str, job_id: str, definition: Definition) -> Steps[Definition | Invalid]:
    """The same for a job that others may run after already."""
    if not definition.after:
        return definition
    yield CHAIN_LOCK()
    found = linked(definition, (yield from upstream_ids(tenant, [definition])))
    if isinstance(found, Invalid):
        return found
    reached = {row["job_id"] for row in (yield DOWNSTREAM(id=job_id))} | {job_id}
    if any(after.job_id in reached for after in found.after):
        detail = "This job would wait for itself: the upstream job is started by it, directly or through others."
        return Invalid([Fault("/after", detail, "Remove one of the two `after` entries.")])
    return found

"""What has changed since an instant, for those who watch: jobs by their last change, runs by their start and end."""

from __future__ import annotations

from horae.ports import Happened
from horae.store.database import NOW, Statement, Steps, viewing

JOBS = Statement("""
SELECT j.id, j.tenant, j.name, j.version, j.state, j.created_us, j.updated_us AS at_us
FROM {rows:watched(tenant text)}
JOIN jobs j ON j.tenant = watched.tenant AND j.updated_us >= :since_us
ORDER BY j.updated_us, j.id
LIMIT :most
""")

_RUN = "id, job_id, tenant, due_us, attempt, worker, reason"
_WATCHED = "(tenant IN (SELECT tenant FROM {rows:watched(tenant text)})) IS TRUE"

STARTED = Statement(f"""
SELECT {_RUN}, 'running' AS status, started_us AS at_us
FROM runs
WHERE state = 'running' AND started_us >= :since_us AND {_WATCHED}
ORDER BY started_us, id
LIMIT :most
""")

ENDED = Statement(f"""
SELECT {_RUN}, status, ended_us AS at_us
FROM history
WHERE ended_us >= :since_us AND {_WATCHED}
ORDER BY ended_us, id
LIMIT :most
""")


@viewing
def happened(tenants: list[str], since_us: int, most: int) -> Steps[Happened]:
    """The oldest `most` of each kind."""
    now_us = (yield NOW())[0]["now_us"]
    given = {"watched": [(tenant,) for tenant in tenants], "since_us": since_us, "most": most}
    return Happened(now_us, (yield JOBS(**given)), (yield STARTED(**given)), (yield ENDED(**given)))

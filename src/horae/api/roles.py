"""The least role of every operation, on one page. An operation that is not named here is for admins: what is forgotten
shuts a door and opens none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from horae.api.operation import Operation
from horae.core.access import Role

LEAST: dict[Role, tuple[str, ...]] = {
    "viewer": (
        "listJobs", "getJob", "getJobStatus", "listRunsOfJob", "getJobHistory", "listVersions", "explainJob",
        "listRuns", "getRun", "getLogs", "listDeadLetters", "groupDeadLetters", "listWorkers", "listQueues",
        "previewSchedule", "listCalendars", "getCalendar", "listSecrets", "listWebhooks", "getWebhook",
        "listDeliveriesOf", "listDeliveries", "getStats", "getSeries", "watch", "getForecast", "listDueJobs", "whoAmI",
    ),
    "operator": (
        "runJob", "runJobNow", "runJobManyTimes", "pauseJob", "resumeJob", "cancelRun", "retryRun", "replayRun",
        "discardRun", "pauseQueue", "resumeQueue", "testWebhook", "resendDelivery",
        "backfillJob", "replayRuns", "discardRuns", "drainWorker",
    ),
    "worker": ("claimRuns", "heartbeat", "leaveFleet", "writeLog", "completeRun"),
    "editor": (
        "createJob", "createJobs", "putJob", "changeJob", "deleteJob", "changeQueue", "putCalendar", "deleteCalendar",
        "putSecret", "deleteSecret", "createWebhook", "changeWebhook", "deleteWebhook", "rotateWebhook",
        "getSigningSecret",
    ),
    "admin": (
        "listKeys", "createKey", "getKey", "revokeKey", "rotateKey", "listTenants", "createTenant", "getTenant",
        "changeTenant", "listAudit", "exportAudit", "checkAudit", "exportHistory",
    ),
}  # fmt: skip
ROLE_OF: dict[str, Role] = {name: role for role, names in LEAST.items() for name in names}

# For admins of the whole installation, not of a tenant.
GLOBAL = frozenset({"listTenants", "createTenant", "changeTenant"})


def with_roles(operations: Iterable[Operation]) -> list[Operation]:
    return [
        replace(operation, role=ROLE_OF.get(operation.name, "admin"), is_global=operation.name in GLOBAL)
        for operation in operations
    ]

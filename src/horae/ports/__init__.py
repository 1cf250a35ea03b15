"""Every seam: what the movers and the door ask of the store, and what a worker asks of an executor.

One verb of a store is one transaction and takes a batch; it raises Unavailable when its outcome is unknown, and can
then be repeated safely.
"""

from horae.ports.asked import Answer, Asked, Backfill, Letters, Merge, NewJob, NewKey, NewRun, NewWebhook, Once
from horae.ports.changes import (
    BackfillStore,
    CalendarStore,
    ChangeStore,
    JobEditor,
    JobStore,
    KeyStore,
    LetterStore,
    QueueStore,
    RunStore,
    SecretKeeper,
    TenantStore,
    WebhookStore,
)
from horae.ports.claims import Claimed, ClaimStore, Gated, Limit, Lines, Sealed, SecretStore, Waiting
from horae.ports.executors import Executor, Log, Mover, Outcome, Request
from horae.ports.fleet import Beat, FleetStore, WorkerState
from horae.ports.messages import Delivered, Message, MessageStore, Sender
from horae.ports.planning import Decision, DueTimer, Leases, LeaseStore, Planned, PlanStore, Scan
from horae.ports.remote import Ask, Closing, Given, Held, LogPieces, Pace, RemoteStore, RemoteWorkers, State
from horae.ports.results import Again, Ending, LogChunk, ResultStore
from horae.ports.rows import JobPage, JsonObject, Page, StoredRow
from horae.ports.upkeep import Chores, JanitorStore, LogCloser, StaleJob
from horae.ports.views import AccessStore, Happened, LetterGroups, Schedules, Series, Standing, ViewStore

__all__ = [
    "AccessStore",
    "Again",
    "Answer",
    "Ask",
    "Asked",
    "Backfill",
    "BackfillStore",
    "Beat",
    "CalendarStore",
    "ChangeStore",
    "Chores",
    "ClaimStore",
    "Claimed",
    "Closing",
    "Decision",
    "Delivered",
    "DueTimer",
    "Ending",
    "Executor",
    "FleetStore",
    "Gated",
    "Given",
    "Happened",
    "Held",
    "JanitorStore",
    "JobEditor",
    "JobPage",
    "JobStore",
    "JsonObject",
    "KeyStore",
    "LeaseStore",
    "Leases",
    "LetterGroups",
    "LetterStore",
    "Letters",
    "Limit",
    "Lines",
    "Log",
    "LogChunk",
    "LogCloser",
    "LogPieces",
    "Merge",
    "Message",
    "MessageStore",
    "Mover",
    "NewJob",
    "NewKey",
    "NewRun",
    "NewWebhook",
    "Once",
    "Outcome",
    "Pace",
    "Page",
    "PlanStore",
    "Planned",
    "QueueStore",
    "RemoteStore",
    "RemoteWorkers",
    "Request",
    "ResultStore",
    "RunStore",
    "Scan",
    "Schedules",
    "Sealed",
    "SecretKeeper",
    "SecretStore",
    "Sender",
    "Series",
    "StaleJob",
    "Standing",
    "State",
    "StoredRow",
    "TenantStore",
    "ViewStore",
    "Waiting",
    "WebhookStore",
    "WorkerState",
]

"""What a job is: its definition, as validated values, and the facts derived from it. Parsing input is document.py."""

from __future__ import annotations

from typing import Any, Literal
from zlib import crc32

import msgspec

SHARDS = 64

Priority = Literal["HIGH", "MEDIUM", "LOW"]
PRIORITY_NUMBER: dict[str, int] = {"HIGH": 1, "MEDIUM": 2, "LOW": 3}
PRIORITY_NAME: dict[int, Priority] = {1: "HIGH", 2: "MEDIUM", 3: "LOW"}

# Types that any worker can run need nothing; the others wait for a worker that offers what they need.
TYPES = ("http", "shell", "python", "custom", "noop")


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    max_retries: int = 3
    backoff: Literal["exponential", "linear", "fixed"] = "exponential"
    delay_us: int = 2_000_000
    factor: float = 2.0
    max_delay_us: int = 3_600_000_000
    jitter: float = 0.0


class Misfire(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens to due times that passed while nobody could decide."""

    policy: Literal["skip", "run_once", "catch_up"] = "run_once"
    window_us: int = 3_600_000_000
    max: int = 10


class DstPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    gap: Literal["shift", "skip"] = "shift"
    fold: Literal["first", "last", "both"] = "first"


# Only the very object that is the default is left out when written: every part of a definition has the same one.
DEFAULT_MISFIRE = Misfire()
DEFAULT_DST = DstPolicy()


class After(msgspec.Struct, frozen=True, omit_defaults=True):
    """An upstream job, by id, and which of its endings start this one."""

    job_id: str
    on: Literal["success", "failure", "always"] = "success"


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a definition says when it is due and what becomes of its due times: all that a planner needs of it."""

    schedule: tuple[str, ...] = ()
    timezone: str = "UTC"
    dst: DstPolicy = DEFAULT_DST
    calendar: dict[str, Any] | None = None
    start_us: int | None = None
    end_us: int | None = None
    max_runs: int | None = None
    misfire: Misfire = DEFAULT_MISFIRE
    jitter_us: int = 0


read_timing = msgspec.json.Decoder(Timing).decode


class Work(msgspec.Struct, frozen=True, gc=False):
    """What of a definition says how it is run: little more than half in memory, where a worker keeps many."""

    name: str
    type: Literal["http", "shell", "python", "custom", "noop"]
    target: dict[str, Any] = {}
    payload: Any = None
    timeout_us: int = 30_000_000
    retry: Retry = Retry()
    delivery: Literal["at_least_once", "at_most_once"] = "at_least_once"


class Rules(msgspec.Struct, frozen=True):
    """What of a definition says which of its runs may be beside each other."""

    overlap: Literal["allow", "skip", "queue", "replace"] = "allow"
    max_concurrency: int | None = None


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything a user says about a job. Stored as JSON, one per version; durations are microseconds.

    `schedule` holds the texts as given: `()` is a job that only runs on request or after another.
    """

    name: str
    type: Literal["http", "shell", "python", "custom", "noop"]
    target: dict[str, Any] = {}
    schedule: tuple[str, ...] = ()
    timezone: str = "UTC"
    payload: Any = None
    priority: Priority = "MEDIUM"
    queue: str = "default"
    timeout_us: int = 30_000_000
    retry: Retry = Retry()
    misfire: Misfire = DEFAULT_MISFIRE
    overlap: Literal["allow", "skip", "queue", "replace"] = "allow"
    max_concurrency: int | None = None
    concurrency_key: str | None = None
    jitter_us: int = 0
    dst: DstPolicy = DEFAULT_DST
    calendar: dict[str, Any] | None = None
    start_us: int | None = None
    end_us: int | None = None
    max_runs: int | None = None
    delivery: Literal["at_least_once", "at_most_once"] = "at_least_once"
    after: tuple[After, ...] = ()
    notify: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = {}
    description: str = ""


def shard_of(job_id: str) -> int:
    return crc32(job_id.encode()) % SHARDS


def max_attempts(definition: Definition) -> int:
    return 1 if definition.delivery == "at_most_once" else definition.retry.max_retries + 1


def need_of(definition: Definition) -> str:
    """What a worker must offer to take this job's runs: nothing, `shell`, or a handler by name."""
    match definition.type:
        case "shell":
            return "shell"
        case "python":
            return f"handler:{definition.target['handler']}"
        case "custom":
            return f"handler:{definition.target.get('handler', definition.name)}"
        case _:
            return ""


def is_gated(definition: Definition) -> bool:
    """Whether a run of this job must be checked against its siblings before it may start."""
    return definition.overlap != "allow" or definition.max_concurrency is not None


def bucket_of(definition: Definition, tenant: str, priority: Priority | None = None) -> str:
    """The waiting line of a run: gate, queue, need, priority, tenant, in the order that claims look them up."""
    return make_bucket(
        is_gated=is_gated(definition),
        queue=definition.queue,
        need=need_of(definition),
        priority=PRIORITY_NUMBER[priority or definition.priority],
        tenant=tenant,
    )


def group_of(definition: Definition, job_id: str, tenant: str) -> str | None:
    """Whose runs are counted together against `max_concurrency`: the job's own, or those that share its key."""
    if not is_gated(definition):
        return None
    return f"{tenant}|{definition.concurrency_key}" if definition.concurrency_key else job_id


GATED, FREE = "+", "-"


class Bucket(msgspec.Struct, frozen=True):
    is_gated: bool
    queue: str
    need: str
    priority: int
    tenant: str


def make_bucket(*, is_gated: bool, queue: str, need: str, priority: int, tenant: str) -> str:
    gate = GATED if is_gated else FREE
    return f"{gate}{queue}|{need.replace('|', '%7C')}|{priority}|{tenant}"


def read_bucket(text: str) -> Bucket:
    queue, need, priority, tenant = text[1:].split("|")
    return Bucket(text[0] == GATED, queue, need.replace("%7C", "|"), int(priority), tenant)

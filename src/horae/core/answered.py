"""Fields that only answers have. A document that was read and is sent back brings them along: they are passed over
where they say what is so, and refused where they ask for something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from horae.core.checks import shown
from horae.core.duration import format_instant, parse_instant
from horae.core.errors import Fault, Invalid

# They change by themselves between a read and a change.
RESTLESS = frozenset({"next_run", "next_fire_time", "last_run_status", "retry_count", "retryCount", "updated_at"})
READ_ONLY = RESTLESS | {"job_id", "id", "tenant", "status", "version", "created_at", "paused_until", "pause_reason"}

# What a new job may say of itself: what it will have, and what the seeds write in its place. They also give it an id
# and a next run of their own.
_AT_BIRTH: dict[str, tuple[Any, ...]] = {
    "job_id": ("UUID",),
    "status": ("SCHEDULED", "SCHEDULED/FAILED/COMPLETED"),
    "retry_count": (0,),
    "retryCount": (0,),
    "created_at": ("...",),
    "updated_at": ("...",),
}
_OF_SEEDS = frozenset({"id", "next_run"})
_ACTIVE = ("SCHEDULED", "COMPLETED")  # one becomes the other by itself


@dataclass(frozen=True, slots=True)
class Standing:
    """How the job stands that a document is about. The version of a new one is 0."""

    job_id: str
    tenant: str
    created_us: int
    version: int = 0
    is_paused: bool = False
    pause_until_us: int | None = None
    pause_reason: str | None = None

    @property
    def is_new(self) -> bool:
        return self.version == 0


def misplaced(document: Mapping[str, Any], standing: Standing) -> Iterator[Fault]:
    """Faults of fields that say something else than how the job stands. Null says nothing."""
    for name, value in document.items():
        if name not in READ_ONLY or value is None:
            continue
        if (_is_born_so if standing.is_new else _is_so)(name, value, standing):
            continue
        detail = f'"{name}" is not yours to set; got {shown(value)}.'
        if name == "tenant":
            detail = f'A job belongs to the tenant of the key, "{standing.tenant}"; got {shown(value)}.'
        yield Fault(f"/{name}", detail, _hint(name, value, standing))


def _is_born_so(name: str, value: Any, standing: Standing) -> bool:
    return name in _OF_SEEDS or value in (_AT_BIRTH.get(name, ()) if name != "tenant" else (standing.tenant,))


def _is_so(name: str, value: Any, standing: Standing) -> bool:
    match name:
        case "job_id" | "id":
            return bool(value == standing.job_id)
        case "tenant":
            return bool(value == standing.tenant)
        case "status":
            return value in (("PAUSED",) if standing.is_paused else _ACTIVE)
        case "version":
            # Also one that it had: somebody else may have changed the job since. `If-Match` is for who minds.
            return type(value) is int and 1 <= value <= standing.version
        case "created_at":
            return _is_instant(value, standing.created_us)
        case "paused_until":
            return standing.is_paused and _is_instant(value, standing.pause_until_us)
        case "pause_reason":
            return standing.is_paused and bool(value == standing.pause_reason)
        case _:
            return True


def _is_instant(value: Any, us: int | None) -> bool:
    if not isinstance(value, str) or us is None:
        return False
    try:
        return format_instant(parse_instant(value, "")) == format_instant(us)
    except Invalid:
        return False


def _hint(name: str, value: Any, standing: Standing) -> str:
    job = "{job}" if standing.is_new else standing.job_id
    match name, value:
        case "status", "PAUSED":
            return f"Create it, then POST /jobs/{job}/pause." if standing.is_new else f"POST /jobs/{job}/pause."
        case "status", "SCHEDULED":
            return f"POST /jobs/{job}/resume."
        case (("paused_until" | "pause_reason"), _):
            return f'POST /jobs/{job}/pause {{"until": "2030-01-01T09:00:00Z", "reason": "maintenance"}}.'
        case "tenant", _:
            return "Leave it out; an admin names another tenant with the X-Horae-Tenant header."
        case "next_fire_time", _:
            return 'Leave it out; "schedule" says when it runs.'
        case _:
            return "Leave it out."

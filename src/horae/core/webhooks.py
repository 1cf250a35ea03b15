"""What the outside is told: the events, who watches for them, how a message is signed, when a failed one is sent again.

Messages follow the Standard Webhooks specification.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from horae.core.duration import format_instant
from horae.core.run import fraction

# In the words of a job's `notify`, and in those of an event.
EVENT_OF = {
    "success": "run.succeeded",
    "failure": "run.failed",
    "cancelled": "run.cancelled",
    "unknown": "run.unknown",
    "skipped": "run.skipped",
    "missed": "run.missed",
    "recovered": "run.recovered",
    "late": "run.late",
    "dead": "dead_letter.added",
}
EVENTS = tuple(EVENT_OF.values())
ENDINGS = ("run.succeeded", "run.failed", "run.cancelled", "run.unknown", "run.skipped")
ALWAYS = "always"
TEST = "webhook.test"

DEFAULT_LATE_US = 60_000_000
SECRET_PREFIX = "whsec_"  # noqa: S105 the visible part
SECRET_BYTES = 32

# Growing gaps over about three days, then it is over.
_GAPS_S = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 43_200, 43_200, 43_200)
ATTEMPTS = len(_GAPS_S) + 1


class Watch(NamedTuple):
    """Somebody who wants to know of an event of a job, or of all jobs of a tenant (`job_id` empty): a webhook by its
    id, or a plain URL.
    """

    tenant: str
    job_id: str
    event: str
    webhook_id: str
    url: str
    late_us: int


def watches_of_job(
    tenant: str, job_id: str, notify: Iterable[Mapping[str, Any]], ids: Mapping[str, str]
) -> list[Watch]:
    """`ids` are the webhooks by their name."""
    found = {
        Watch(tenant, job_id, event, ids.get(rule.get("channel", ""), ""), rule.get("url", ""), DEFAULT_LATE_US)
        for rule in notify
        for word in rule["on"]
        for event in (ENDINGS if word == ALWAYS else (EVENT_OF[word],))
    }
    return sorted(found)


def new_secret(random: bytes) -> str:
    return SECRET_PREFIX + b64encode(random).decode()


def signature(secrets: Iterable[str], message_id: str, at_s: int, body: str) -> str:
    """One signature for each secret that is in force, newest first."""
    signed = f"{message_id}.{at_s}.{body}".encode()
    keys = [b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in secrets]
    return " ".join("v1," + b64encode(hmac.new(key, signed, sha256).digest()).decode() for key in keys)


def gap_us(message_id: str, attempt: int) -> int | None:
    """The wait after failed attempt number `attempt`, up to a tenth longer; None when that was the last."""
    if attempt >= ATTEMPTS:
        return None
    return round(_GAPS_S[attempt - 1] * 1e6 * (1 + 0.1 * fraction(message_id, str(attempt))))


def message(event: str, at_us: int, run: Mapping[str, Any] | None) -> dict[str, Any]:
    """The body: what happened, when, and the run it happened to."""
    return {"type": event, "timestamp": format_instant(at_us), "data": {} if run is None else _data(run)}


def _data(run: Mapping[str, Any]) -> dict[str, Any]:
    started_us, ended_us = run["started_us"], run["ended_us"]
    return {
        "run_id": run["id"],
        "job_id": run["job_id"],
        "job_name": run["job_name"],
        "tenant": run["tenant"],
        "status": run["status"].upper(),
        "reason": run["reason"],
        "error_message": run["error"],
        "trigger": run["cause"],
        "scheduled_for": format_instant(run["due_us"]),
        "start_time": None if started_us is None else format_instant(started_us),
        "end_time": None if ended_us is None else format_instant(ended_us),
        "attempt_number": max(1, run["attempt"]),
        "skipped_until": None if run["skip_until_us"] is None else format_instant(run["skip_until_us"]),
        "skipped_count": run["skip_count"],
    }

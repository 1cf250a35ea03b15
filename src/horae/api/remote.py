"""Routes of workers that come over HTTP: claim, heartbeat, log, complete, leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from horae.api.body import check_flag, read_fields, require
from horae.api.operation import Call, Operation, Reply, Takes, delete, post
from horae.core.checks import Check, check_token, choice, duration, each, integer, refuse, short_text, snippet
from horae.core.duration import format_instant
from horae.core.errors import Fault, Invalid
from horae.ports import Ask, Claimed, JsonObject, Outcome, RemoteWorkers, Request

MOST_SLOTS = 1000
MOST_HANDLERS = 200
MOST_QUEUES = 50
MOST_PIECES = 100_000
LONGEST_PIECE = 64 * 1024
LONGEST_ERROR = 64 * 1024
LONGEST_WAIT_US = 30_000_000
LONGEST_DELAY_US = 7 * 86_400_000_000
REASONS = ("exception", "exit_code", "timeout", "payload_rejected")

_fence = integer(1, 2**63 - 1, 42)
_many_runs = each(short_text, most=MOST_SLOTS, what="run ids", example=[])


def _queue(value: Any, pointer: str) -> str:
    if value == "*":
        hint = f"Write {snippet(pointer, 'default')}."
        raise Invalid([Fault(pointer, "A worker that comes over HTTP names its queues.", hint)])
    return check_token(value, pointer)


def _bounded(most: int) -> Check:
    """Text with any characters in it, line ends and all."""

    def check(value: Any, pointer: str) -> str:
        if not isinstance(value, str) or len(value) > most:
            raise refuse(pointer, f"text of at most {most:,} characters", value, hint="Send it in pieces.")
        return value

    return check


def _run(value: Any, pointer: str) -> tuple[str, int]:
    try:
        fields = _whole(value, {"run_id": short_text, "fence": _fence}, ("run_id", "fence"), pointer)
    except Invalid as error:
        raise Invalid([_paired(fault, value, pointer) for fault in error.faults]) from None
    return fields["run_id"], fields["fence"]


def _paired(fault: Fault, value: Any, pointer: str) -> Fault:
    """With both of them to paste, and what was right about either."""
    told = value if isinstance(value, dict) else {}
    run_id, fence = told.get("run_id"), told.get("fence")
    example = {"run_id": run_id if isinstance(run_id, str) and run_id else "RUN", "fence": 42}
    if type(fence) is int and fence > 0:
        example["fence"] = fence
    is_ours = fault.pointer in (pointer, f"{pointer}/run_id", f"{pointer}/fence")
    return replace(fault, hint=f"Write {snippet(pointer, example)}.") if is_ours else fault


CLAIM = {
    "worker": check_token,
    "node": short_text,
    "queues": each(_queue, most=MOST_QUEUES, what="queues", example=["default"]),
    "handlers": each(short_text, most=MOST_HANDLERS, what="names of handlers", example=["send-report"]),
    "slots": integer(1, MOST_SLOTS, 1),
    "holds": _many_runs,
    "wait": duration(0, LONGEST_WAIT_US, "20s"),
}
HEARTBEAT = {
    "runs": each(_run, most=MOST_SLOTS, what='runs, such as {"run_id": …, "fence": 42}'),
    "is_draining": check_flag,
}
LOG = {"fence": _fence, "seq": integer(1, MOST_PIECES, 1), "text": _bounded(LONGEST_PIECE)}
COMPLETE = {
    "fence": _fence,
    "status": choice("succeeded", "failed", "cancelled", "released", synonyms={"success": "succeeded"}),
    "result": lambda value, _: value,
    "error": _bounded(LONGEST_ERROR),
    "reason": choice(*REASONS),
    "retry_after": duration(0, LONGEST_DELAY_US, "30s"),
    "retryable": check_flag,
}


class Remote:
    def __init__(self, workers: RemoteWorkers, is_stopping: Callable[[], bool]) -> None:
        self._workers = workers
        self._is_stopping = is_stopping

    def operations(self) -> list[Operation]:
        # A claim is not kept for a repeat: it may hold secrets. `holds` makes a repeat safe.
        claim, leave = "Take runs, or wait for some", "The worker leaves; what it holds goes back"
        beat, log, end = "Still there; and what of its runs", "What its attempt printed", "How its attempt ended"
        return [
            post("/workers/claim", "claimRuns", claim, self.claim, (), Takes("Claim"), "Claimed", is_secret=True),
            post("/workers/{worker}/heartbeat", "heartbeat", beat, self.heartbeat, (), Takes("Heartbeat"), "Beaten"),
            delete("/workers/{worker}", "leaveFleet", leave, self.leave, gives="Left"),
            post("/runs/{run}/log", "writeLog", log, self.log, (), Takes("LogPiece"), "LogKept"),
            post("/runs/{run}/complete", "completeRun", end, self.complete, (), Takes("Completion"), "Completed"),
        ]

    async def claim(self, call: Call) -> Reply:
        fields = _whole(await call.document(), CLAIM, ("worker", "handlers", "holds"))
        if not fields["handlers"]:
            raise Invalid([Fault("/handlers", "There is no handler to take runs for.", _HINTS["handlers"])])
        ask = Ask(
            worker=fields["worker"],
            node=fields.get("node") or fields["worker"],
            queues=fields.get("queues") or ("default",),
            handlers=fields["handlers"],
            slots=fields.get("slots", 1),
            holds=frozenset(fields["holds"]),
            wait_seconds=fields.get("wait", 0) / 1e6,
        )

        async def is_over() -> bool:
            return self._is_stopping() or await call.request.is_disconnected() or not await call.is_welcome()

        given = await self._workers.claim(call.caller.tenant, ask, is_over)
        return Reply(
            {
                "worker_id": given.worker_id,
                "runs": [_claimed(run, request) for run, request in given.runs],
                "is_draining": given.is_draining,
                "heartbeat_seconds": self._workers.pace.heartbeat_seconds,
                "visibility_seconds": self._workers.pace.visibility_seconds,
            }
        )

    async def heartbeat(self, call: Call) -> Reply:
        fields = _whole(await call.document(), HEARTBEAT, ("runs",))
        states, is_draining = await self._workers.heartbeat(
            call.caller.tenant,
            _worker(call),
            dict(fields["runs"]),
            is_draining=fields.get("is_draining") or False,
        )
        told = [{"run_id": each.run_id, "state": each.state, "reason": each.reason} for each in states]
        return Reply({"runs": told, "is_draining": is_draining})

    async def log(self, call: Call) -> Reply:
        fields = _whole(await call.document(), LOG, ("fence", "seq", "text"))
        run_id = call.word("run")
        is_kept = await self._workers.log(call.caller.tenant, run_id, fields["fence"], fields["seq"], fields["text"])
        return Reply({"run_id": run_id, "kept": is_kept})

    async def complete(self, call: Call) -> Reply:
        fields = _whole(await call.document(), COMPLETE, ("fence", "status"))
        tenant, run_id, fence, status = call.caller.tenant, call.word("run"), fields["fence"], fields["status"]
        if status in ("cancelled", "released"):
            is_new = await self._workers.stopped(tenant, run_id, fence, is_cancel=status == "cancelled")
        else:
            is_new = await self._workers.complete(tenant, run_id, fence, _outcome(fields))
        return Reply({"run_id": run_id, "repeated": not is_new})

    async def leave(self, call: Call) -> Reply:
        await self._workers.leave(call.caller.tenant, _worker(call))
        return Reply({"worker": call.word("worker"), "left": True})


def _worker(call: Call) -> str:
    """The name that it gave itself, or the id that it was told."""
    return check_token(call.word("worker").rpartition(":")[2], "/path/worker")


def _claimed(run: Claimed, request: Request) -> JsonObject:
    return {
        # Both before anything that a user wrote: a shell takes the first number called fence.
        "run_id": run.run_id,
        "fence": run.token,
        "job_id": run.job_id,
        "job": request.job_name,
        "tenant": run.tenant,
        "handler": request.target["handler"],
        "args": request.target.get("args") or {},
        "secrets": request.target.get("secrets") or {},
        "payload": request.payload,
        "upstream": request.upstream,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "scheduled_for": format_instant(run.due_us),
        "timeout_seconds": request.timeout_seconds,
        "idempotency_key": run.run_id,
    }


def _outcome(fields: JsonObject) -> Outcome:
    if fields["status"] == "succeeded":
        return Outcome(succeeded=True, result=fields.get("result"))
    reason = fields.get("reason", "exception")
    after_us = fields.get("retry_after")
    return Outcome(
        succeeded=False,
        reason=reason,
        error=fields.get("error", "The worker gave no error."),
        result=fields.get("result"),
        is_retryable=fields.get("retryable", reason != "payload_rejected"),
        retry_after_seconds=None if after_us is None else after_us / 1e6,
    )


def _whole(document: object, checks: Any, wanted: tuple[str, ...], pointer: str = "") -> JsonObject:
    fields = read_fields(document, checks, pointer)
    require(fields, {name: _HINTS[name] for name in wanted}, pointer)
    return fields


_HINTS = {
    "worker": 'Write "worker": "mail-1": a name of its own for each start, such as a new UUID.',
    "handlers": 'Write "handlers": ["send-report"]: the names that it runs.',
    "holds": 'Write "holds": []: the ids of the runs that it has not reported on.',
    "runs": 'Write "runs": [] when it has none, or "runs": [{"run_id": "RUN", "fence": 42}].',
    "run_id": "The id that came with the run.",
    "fence": 'Write "fence": 42: the one that came with the run.',
    "seq": 'Write "seq": 1 with the first piece, 2 with the next.',
    "text": 'Write "text": "what it printed".',
    "status": 'Write "status": "succeeded", "failed", "cancelled" or "released".',
}

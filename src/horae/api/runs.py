"""Routes of runs and their logs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from horae.api.body import MOST_BATCH_BYTES, check_instant, check_items, read_fields, require
from horae.api.hints import at
from horae.api.operation import NOTHING, Call, Operation, Reply, Takes, get, post
from horae.api.query import (
    ATTEMPT,
    CURSOR,
    DEFAULT_LIMIT,
    FOLLOW,
    JOB,
    LIMIT,
    RUN_FILTERS,
    Cursor,
    before_of,
    read_cursor,
    run_filters,
)
from horae.api.shapes import attempts_answer, is_over, run_answer, run_status, state_answer
from horae.api.stream import SIGN_OF_LIFE, Quiet, frame
from horae.commands import Commands, RunRequest
from horae.core.checks import FIELDS, Collector, check_size, short_text
from horae.core.compiled import LATE_US
from horae.core.duration import format_instant
from horae.core.errors import Fault, Invalid, Unavailable
from horae.core.run import due_of
from horae.core.sound import unsound
from horae.ports import JsonObject, Page, ViewStore

BATCH = Takes("RunBatch", most_bytes=MOST_BATCH_BYTES)
RUN_FIELDS = {"payload": check_size, "priority": FIELDS["priority"][1], "run_at": check_instant}

LOG_PAGE = 200
POLL_SECONDS = 0.5


class Runs:
    """`is_stopping` ends the streams of a process that wants to leave."""

    def __init__(self, commands: Commands, views: ViewStore, is_stopping: Callable[[], bool]) -> None:
        self._commands = commands
        self._views = views
        self._is_stopping = is_stopping

    def operations(self) -> list[Operation]:
        page = (LIMIT, CURSOR)
        return [
            get("/runs", "listRuns", "Runs, newest first", self.list, (JOB, *RUN_FILTERS, *page), gives="RunList"),
            post("/runs:batch", "runJobManyTimes", "Many runs of one job", self.create_many, (), BATCH, "RunIds", 202),
            get("/runs/{run}", "getRun", "One run with its attempts", self.get, gives="RunWithAttempts"),
            get("/runs/{run}/logs", "getLogs", "What it printed", self.logs, (FOLLOW, ATTEMPT), gives="Text"),
            post("/runs/{run}/cancel", "cancelRun", "End it, or stop it", self.cancel, (), NOTHING, "Run", 202),
            post("/runs/{run}/retry", "retryRun", "One more attempt", self.retry, (), NOTHING, "Run", 202),
        ]

    async def list(self, call: Call) -> Reply:
        with at("/query/job"):
            runs, cursor = await list_runs(self._views, call, call.query.get("job"))
        # A search may come back empty and not be over: this is how far it got.
        back_to = None if cursor is None else format_instant(due_of(read_cursor(cursor, "").id))
        return Reply({"runs": runs, "next_cursor": cursor, "searched_back_to": back_to})

    async def create_many(self, call: Call) -> Reply:
        document = await call.document()
        fields = read_fields(document, {"job": _check_word, "runs": check_items}, deep=False)
        require(fields, {"job": 'Write "job": "daily-report".', "runs": 'Write "runs": [{}].'})
        found, now_us = Collector(), await self._views.now()
        requests = [
            found.attempt(RunRequest(), _request, item, now_us, f"/runs/{index}")
            for index, item in enumerate(fields["runs"])
        ]
        found.finish()
        with at("/job"):
            run_ids = await self._commands.runs.trigger(
                call.caller, fields["job"], requests, call.once, place="/runs/{}"
            )
        return Reply({"created": len(run_ids), "run_ids": run_ids}, 202)

    async def get(self, call: Call) -> Reply:
        row, earlier = await self._views.run(call.caller.tenant, call.word("run"))
        return Reply(run_answer(row, earlier) | {"attempts": attempts_answer(row, earlier)})

    async def cancel(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        await self._commands.runs.cancel(call.caller, call.word("run"), call.once)
        return await self._run(call)

    async def retry(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        await self._commands.runs.retry(call.caller, call.word("run"), call.once)
        return await self._run(call)

    async def _run(self, call: Call) -> Reply:
        row, _ = await self._views.run(call.caller.tenant, call.word("run"))
        return Reply(run_answer(row), 202)

    async def logs(self, call: Call) -> Response:
        row, _ = await self._views.run(call.caller.tenant, call.word("run"))
        if call.query.get("follow"):
            return StreamingResponse(self._follow(call), media_type="text/event-stream")
        return StreamingResponse(
            self._texts(row["tenant"], row["id"], call.query.get("attempt")), media_type="text/plain"
        )

    async def _texts(self, tenant: str, run_id: str, only: int | None) -> AsyncIterator[str]:
        attempt, seq = only or 0, -1
        while True:
            chunks = await self._views.logs(tenant, run_id, attempt, seq, LOG_PAGE)
            for chunk in chunks:
                attempt, seq = chunk["attempt"], chunk["seq"]
                if only is not None and attempt != only:
                    return
                yield chunk["text"]
            if len(chunks) < LOG_PAGE:
                return

    async def _follow(self, call: Call) -> AsyncIterator[bytes]:
        """Its state when that changes, chunks as they come, then one `end`.

        An event's id is the place to go on from after a break.
        """
        tenant, run_id = call.caller.tenant, call.word("run")
        only = call.query.get("attempt")
        attempt, seq = _last_event(call, only)
        quiet, told = Quiet(), None
        yield SIGN_OF_LIFE
        while not self._is_stopping() and await call.is_welcome():
            try:
                # The run first: its output is complete by the time it is seen to be over.
                row, _ = await self._views.run(tenant, run_id)
                chunks = await self._views.logs(tenant, run_id, attempt, seq, LOG_PAGE)
            except Unavailable:
                return
            if not is_over(row) and (state := state_answer(row)) != told:
                yield frame("state", state, f"{attempt}-{seq}")
                told = state
            for chunk in chunks:
                attempt, seq = chunk["attempt"], chunk["seq"]
                if only in (None, attempt):
                    event = {"attempt_number": attempt, "text": chunk["text"]}
                    yield frame("log", event, f"{attempt}-{seq}")
            if len(chunks) == LOG_PAGE:
                continue
            if is_over(row):
                yield frame("end", {"run_id": run_id, "status": run_status(row)}, f"{attempt}-{seq}")
                return
            if quiet.is_too_long(POLL_SECONDS, has_spoken=bool(chunks)):
                yield SIGN_OF_LIFE
            await asyncio.sleep(POLL_SECONDS)


async def list_runs(views: ViewStore, call: Call, job: str | None) -> tuple[list[JsonObject], str | None]:
    """One page and the cursor of the next."""
    limit, before = call.query.get("limit", DEFAULT_LIMIT), before_of(call.query, "runs")
    page = await views.runs(call.caller.tenant, job, run_filters(call.query), before, limit)
    return page_answer(page, "runs")


def _check_word(value: Any, pointer: str) -> str:
    if flaws := unsound(value):
        raise Invalid([Fault(pointer, flaw.detail, flaw.hint) for flaw in flaws])
    return str(short_text(value, pointer))


async def read_run(views: ViewStore, document: object) -> RunRequest:
    has_time = isinstance(document, dict) and document.get("run_at") is not None
    return _request(document, await views.now() if has_time else 0, "")


def refuse_past(at_us: int, now_us: int, pointer: str, late_us: int = 0) -> None:
    if at_us < now_us - late_us:
        detail = f"{format_instant(at_us)} is past; it is {format_instant(now_us)} now."
        raise Invalid([Fault(pointer, detail, "Give a time to come, or leave it out.")])


def _request(document: object, now_us: int, pointer: str) -> RunRequest:
    fields = read_fields(document, RUN_FIELDS, pointer)
    run_at_us = fields.get("run_at")
    if run_at_us is not None:
        refuse_past(run_at_us, now_us, f"{pointer}/run_at", LATE_US)
    payload = msgspec.json.encode(fields["payload"]).decode() if "payload" in fields else None
    return RunRequest(payload, fields.get("priority"), run_at_us)


def page_answer(page: Page, list_: str) -> tuple[list[JsonObject], str | None]:
    cursor = None if page.before_id is None else Cursor(list_, None, page.before_id).text()
    return [run_answer(row) for row in page.rows], cursor


def _last_event(call: Call, only: int | None) -> tuple[int, int]:
    match = re.fullmatch("([0-9]{1,9})-([0-9]{1,9})", call.request.headers.get("last-event-id", ""))
    return (int(match[1]), int(match[2])) if match else (only or 0, -1)

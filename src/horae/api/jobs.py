"""Routes of jobs: make, look at, change, pause, run, and look back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, cast

from horae.api.body import MOST_BATCH_BYTES, check_flag, check_instant, read_fields, read_items, require, stream_lines
from horae.api.conditions import ANY_VERSION, already_there, is_only_new, version_seen
from horae.api.operation import NOTHING, Call, Operation, Reply, Takes, delete, get, patch, post, put
from horae.api.problems import problem_of
from horae.api.query import (
    AT,
    ATOMIC,
    CURSOR,
    DEFAULT_LIMIT,
    JOB_FILTERS,
    LIMIT,
    RUN_FILTERS,
    SORT,
    Cursor,
    after_of,
    job_filters,
    next_link,
)
from horae.api.runs import list_runs, read_run, refuse_past
from horae.api.shapes import job_answer, status_answer, versions_answer
from horae.commands import TAKEN, BackfillRequest, Commands, undone
from horae.core.checks import FIELDS, integer, text
from horae.core.duration import format_instant
from horae.core.errors import Conflict, Fault, HoraeError, Invalid, Unavailable
from horae.ports import JsonObject, NewJob, Once, ViewStore

Explain = Callable[[str, str, int | None], Awaitable[JsonObject]]

# One transaction of a batch: large enough to be fast, small enough that others get their turn in between.
PART = 500

JOB = Takes("Job")
BATCH = Takes(
    "JobBatch",
    most_bytes=MOST_BATCH_BYTES,
    media_types=("application/json", "application/x-ndjson"),
    is_streamed=True,
)
RUN = Takes("RunRequest", is_optional=True)
PAUSE = Takes("Pause", is_optional=True)
BACKFILL = Takes("Backfill")
BACKFILL_FIELDS = {
    "from": check_instant,
    "to": check_instant,
    "max": integer(1, 10_000, 1000),
    "dry_run": check_flag,
    "priority": FIELDS["priority"][1],
}
PAUSE_FIELDS = {"until": check_instant, "reason": text(most=200, example="maintenance")}


class Jobs:
    def __init__(self, commands: Commands, views: ViewStore, explain: Explain) -> None:
        self._commands = commands
        self._views = views
        self._explain = explain

    def operations(self) -> list[Operation]:
        page = (LIMIT, CURSOR)
        runs = (*RUN_FILTERS, *page)
        now_or_later = "Run it now, or at a given time"
        change_or_create = "Change the given fields, or create it by this name"
        return [
            post("/jobs", "createJob", "Create a job", self.create, (), JOB, "JobAnswer", 201),
            get("/jobs", "listJobs", "List jobs", self.list, (*JOB_FILTERS, SORT, *page), gives="JobList"),
            post("/jobs:batch", "createJobs", "Create many jobs", self.create_many, (ATOMIC,), BATCH, "BatchAnswer"),
            get("/jobs/{job}", "getJob", "One job, by id or name", self.get, gives="JobAnswer"),
            put("/jobs/{job}", "putJob", change_or_create, self.put, (), JOB, "JobAnswer", also={201: "JobAnswer"}),
            patch("/jobs/{job}", "changeJob", "Change the given fields", self.change, (), JOB, "JobAnswer"),
            delete("/jobs/{job}", "deleteJob", "No later run; the history stays", self.delete, gives="Deleted"),
            post("/jobs/{job}/run", "runJob", now_or_later, self.run, (), RUN, "RunId", 202),
            post("/jobs/{job}/runNow", "runJobNow", "The same as run", self.run, (), RUN, "RunId", 202),
            post("/jobs/{job}/pause", "pauseJob", "Make no runs until resumed", self.pause, (), PAUSE, "JobAnswer"),
            post("/jobs/{job}/resume", "resumeJob", "Make runs again", self.resume, (), NOTHING, "JobAnswer"),
            get("/jobs/{job}/status", "getJobStatus", "How its latest run stands", self.status, gives="JobStatus"),
            get("/jobs/{job}/runs", "listRunsOfJob", "Its runs, newest first", self.runs, runs, gives="Runs"),
            get("/jobs/{job}/history", "getJobHistory", "The same as runs", self.runs, runs, gives="Runs"),
            post(
                "/jobs/{job}/backfill",
                "backfillJob",
                "Runs for past due times that have none",
                self.backfill,
                (),
                BACKFILL,
                "Backfilled",
                202,
                {200: "BackfillPlan"},
            ),
            get("/jobs/{job}/versions", "listVersions", "Every edit", self.versions, gives="VersionList"),
            get("/jobs/{job}/explain", "explainJob", "Why it runs or not", self.explain, (AT,), gives="Explanation"),
        ]

    async def create(self, call: Call) -> Reply:
        job_id = await self._commands.jobs.create(call.caller, await call.document(), call.once)
        return await self._job(call, job_id, 201)

    async def create_many(self, call: Call) -> Reply:
        if call.is_streamed:
            return _batch_answer(await self._create_slices(call, stream_lines(call.request, PART)), call.request_id)
        items = await read_items(call.request, call.body, "jobs")
        if call.query.get("atomic"):
            return _batch_answer(await self._create_all(call, items), call.request_id)
        return _batch_answer(await self._create_slices(call, _sliced(items)), call.request_id)

    async def _create_slices(
        self, call: Call, slices: AsyncIterator[list[Any | HoraeError]]
    ) -> Sequence[str | HoraeError]:
        """One slice is read and checked while the one before it is saved. A slice that is being saved when the caller
        goes away is saved to its end.
        """
        answers: list[str | HoraeError] = []
        saving: asyncio.Task[Sequence[str | HoraeError]] | None = None
        start = 0
        try:
            async for items in slices:
                parsed = await self._parse_slice(call, items, is_first=not start)
                answers += await saving if saving is not None else []
                part = call.once and call.once.part(start)
                saving = asyncio.create_task(self._save_slice(call, items, parsed, part))
                start += len(items)
        finally:
            answers += await saving if saving is not None else []
        if answers and all(isinstance(answer, Unavailable) for answer in answers):
            raise cast("Unavailable", answers[0])
        return answers

    async def _parse_slice(
        self, call: Call, items: list[Any | HoraeError], *, is_first: bool
    ) -> list[NewJob | Invalid] | Unavailable:
        """With a key, a repeat goes on where this ended. Without one, what was done before must be told."""
        documents = [item for item in items if not isinstance(item, HoraeError)]
        try:
            return await self._commands.jobs.parse(call.caller, documents) if documents else []
        except Unavailable as error:
            if is_first or call.once is not None:
                raise
            return error

    async def _save_slice(
        self,
        call: Call,
        items: list[Any | HoraeError],
        parsed: list[NewJob | Invalid] | Unavailable,
        once: Once | None,
    ) -> Sequence[str | HoraeError]:
        try:
            if isinstance(parsed, Unavailable):
                raise parsed
            if not parsed:
                return _merged(items, [])
            told = [item for item in items if not isinstance(item, HoraeError)]
            saved = await self._commands.jobs.save(call.caller, parsed, once, atomic=False, documents=told)
            return _merged(items, saved)
        except (Unavailable, Conflict) as error:
            if once is not None:
                raise
            return _merged(items, repeat(error))

    async def _create_all(self, call: Call, items: list[Any | HoraeError]) -> Sequence[str | HoraeError]:
        if any(isinstance(item, HoraeError) for item in items):
            return _merged(items, repeat(undone()))
        return await self._commands.jobs.create_many(call.caller, items, call.once, atomic=True) if items else []

    async def list(self, call: Call) -> Reply:
        sort, limit = call.query.get("sort", "name"), call.query.get("limit", DEFAULT_LIMIT)
        filters, after = job_filters(call.query), after_of(call.query, sort)
        page = await self._views.jobs(call.caller.tenant, filters, sort, after, limit)
        cursor = None if page.after is None else Cursor(sort, *page.after).text()
        return Reply({"jobs": [job_answer(row) for row in page.rows], "next_cursor": cursor})

    async def get(self, call: Call) -> Reply:
        return await self._job(call, call.word("job"))

    async def put(self, call: Call) -> Reply:
        base, document = await version_seen(call, self._views), await call.document()
        if base == ANY_VERSION:
            return await self.change(call)
        if await is_only_new(call, self._views):
            try:
                job_id = await self._commands.jobs.put_new(call.caller, call.word("job"), document)
            except Conflict as error:
                raise already_there(call.word("job")) if error.code in TAKEN else error from None
            return await self._job(call, job_id, 201)
        job_id, is_new = await self._commands.jobs.put(call.caller, call.word("job"), document, None, base)
        return await self._job(call, job_id, 201 if is_new else 200)

    async def change(self, call: Call) -> Reply:
        document, base = await call.document(), await self._seen(call)
        return await self._job(
            call, await self._commands.jobs.change(call.caller, call.word("job"), document, None, base)
        )

    async def delete(self, call: Call) -> Reply:
        job_id = await self._commands.jobs.delete(call.caller, call.word("job"), await self._seen(call))
        return Reply({"deleted": True, "job_id": job_id})

    async def run(self, call: Call) -> Reply:
        request = await read_run(self._views, await call.fields())
        (run_id,) = await self._commands.runs.trigger(
            call.caller, call.word("job"), [request], call.once, await self._seen(call)
        )
        return Reply({"run_id": run_id}, 202)

    async def pause(self, call: Call) -> Reply:
        fields = read_fields(await call.fields(), PAUSE_FIELDS)
        until_us, reason = fields.get("until"), fields.get("reason")
        if until_us is not None:
            refuse_past(until_us, await self._views.now(), "/until")
        base = await self._seen(call)
        job_id = await self._commands.jobs.pause(call.caller, call.word("job"), until_us, reason, call.once, base)
        return await self._job(call, job_id)

    async def resume(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        base = await self._seen(call)
        return await self._job(call, await self._commands.jobs.resume(call.caller, call.word("job"), call.once, base))

    async def status(self, call: Call) -> Reply:
        return Reply(status_answer(await self._views.job(call.caller.tenant, call.word("job"))))

    async def runs(self, call: Call) -> Reply:
        runs, cursor = await list_runs(self._views, call, call.word("job"))
        return Reply(runs, headers=next_link(call.request, cursor))

    async def backfill(self, call: Call) -> Reply:
        fields = read_fields(await call.document(), BACKFILL_FIELDS)
        require(fields, dict.fromkeys(("from", "to"), 'Write "from": "2030-01-01T00:00:00Z".'))
        if fields["from"] > fields["to"]:
            raise Invalid([Fault("/to", "The range ends before it begins.", "Swap from and to.")])
        is_dry, most = fields.get("dry_run", False), fields.get("max", 1000)
        wish = BackfillRequest(
            fields["from"], fields["to"], most, is_dry, fields.get("priority"), await self._seen(call)
        )
        done = await self._commands.runs.backfill(call.caller, call.word("job"), wish, call.once)
        answer = {"runs": len(done.dues), "next_from": None if done.next_us is None else format_instant(done.next_us)}
        if is_dry:
            return Reply(answer | {"times": [format_instant(us) for us in done.dues], "dry_run": True})
        return Reply(answer, 202)

    async def versions(self, call: Call) -> Reply:
        rows = await self._views.versions(call.caller.tenant, call.word("job"))
        return Reply({"versions": versions_answer(rows)})

    async def explain(self, call: Call) -> Reply:
        return Reply(await self._explain(call.caller.tenant, call.word("job"), call.query.get("at")))

    async def _seen(self, call: Call) -> int | None:
        return await version_seen(call, self._views) or None

    async def _job(self, call: Call, word: str, status: int = 200) -> Reply:
        return Reply(job_answer(await self._views.job(call.caller.tenant, word)), status)


def _merged(items: list[Any | HoraeError], answers: Iterable[str | HoraeError]) -> list[str | HoraeError]:
    """Lines that could not be read are their own answers; the others have one each, in order."""
    told = iter(answers)
    return [item if isinstance(item, HoraeError) else next(told) for item in items]


async def _sliced(items: list[Any | HoraeError]) -> AsyncIterator[list[Any | HoraeError]]:
    for start in range(0, len(items), PART):
        yield items[start : start + PART]


def _batch_answer(answers: Sequence[str | HoraeError], request_id: str) -> Reply:
    results = [_result(index, answer, request_id) for index, answer in enumerate(answers)]
    created = sum(isinstance(answer, str) for answer in answers)
    return Reply({"created": created, "failed": len(answers) - created, "results": results})


def _result(index: int, answer: str | HoraeError, request_id: str) -> JsonObject:
    if isinstance(answer, HoraeError):
        return {"index": index, "error": problem_of(answer, request_id)}
    return {"index": index, "job_id": answer}

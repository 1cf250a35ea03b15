"""Routes of jobs: make, look at, change, pause, run, and look back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from horae.api.body import MOST_BATCH_BYTES, MOST_ITEMS, check_instant, read_fields, read_items
from horae.api.operation import Call, Operation, Reply
from horae.api.problems import problem_of
from horae.api.query import (
    AT,
    ATOMIC,
    CURSOR,
    DEFAULT_LIMIT,
    JOB_FILTERS,
    LIMIT,
    NEVER_US,
    RUN_FILTERS,
    SORT,
    SORT_COLUMNS,
    Cursor,
    after_of,
    before_of,
    job_filters,
    next_link,
    run_filters,
)
from horae.api.shapes import job_answer, run_answer, status_answer, versions_answer
from horae.commands import Commands, RunRequest
from horae.core.checks import FIELDS, check_size, text
from horae.core.document import LATE_US
from horae.core.errors import Conflict, Fault, HoraeError, Invalid, Unavailable
from horae.ports import JsonObject, Once, StoredRow, ViewStore

Explain = Callable[[str, str, int | None], Awaitable[JsonObject]]

# One transaction of a batch: large enough to be fast, small enough that others get their turn in between.
PART = 500

RUN_FIELDS = {
    "payload": check_size,
    "priority": FIELDS["priority"][1],
    "run_at": check_instant,
}
PAUSE_FIELDS = {"until": check_instant, "reason": text(most=200, example="maintenance")}


class Jobs:
    def __init__(self, commands: Commands, views: ViewStore, explain: Explain) -> None:
        self._commands = commands
        self._views = views
        self._explain = explain

    def operations(self) -> list[Operation]:
        batch = ("application/json", "application/x-ndjson")
        page = (LIMIT, CURSOR)
        return [
            Operation("POST", "/jobs", "createJob", "Create a job", self.create, takes="Job", gives="JobAnswer", status=201),
            Operation("GET", "/jobs", "listJobs", "List jobs", self.list, (*JOB_FILTERS, SORT, *page), gives="JobList"),
            Operation(
                "POST", "/jobs:batch", "createJobs", "Create many jobs", self.create_many, (ATOMIC,),
                takes="JobBatch", gives="BatchAnswer", most_bytes=MOST_BATCH_BYTES, media_types=batch,
            ),
            Operation("GET", "/jobs/{job}", "getJob", "One job, by id or name", self.get, gives="JobAnswer"),
            Operation("PUT", "/jobs/{job}", "putJob", "Change the given fields, or create it under this name", self.put, takes="Job", gives="JobAnswer"),
            Operation("PATCH", "/jobs/{job}", "changeJob", "Change the given fields", self.change, takes="Job", gives="JobAnswer"),
            Operation("DELETE", "/jobs/{job}", "deleteJob", "No later run; the history stays", self.delete, gives="Deleted"),
            *(
                Operation(
                    "POST", f"/jobs/{{job}}/{word}", name, "Run it now, or at a given time", self.run,
                    takes="RunRequest", gives="RunId", status=202, is_body_optional=True,
                )
                for word, name in (("run", "runJob"), ("runNow", "runJobNow"))
            ),
            Operation(
                "POST", "/jobs/{job}/pause", "pauseJob", "No due time makes a run until it is resumed", self.pause,
                takes="Pause", gives="JobAnswer", is_body_optional=True,
            ),
            Operation(
                "POST", "/jobs/{job}/resume", "resumeJob", "Due times from now on make runs again", self.resume,
                takes="Nothing", gives="JobAnswer", is_body_optional=True,
            ),
            Operation("GET", "/jobs/{job}/status", "getJobStatus", "How its latest run stands", self.status, gives="JobStatus"),
            *(
                Operation("GET", f"/jobs/{{job}}/{word}", name, "Its runs, newest first", self.runs, (*RUN_FILTERS, *page), gives="Runs")
                for word, name in (("runs", "listRunsOfJob"), ("history", "getJobHistory"))
            ),
            Operation("GET", "/jobs/{job}/versions", "listVersions", "Every edit, newest first", self.versions, gives="VersionList"),
            Operation("GET", "/jobs/{job}/explain", "explainJob", "Why it did, did not, will or will not run", self.explain, (AT,), gives="Explanation"),
        ]  # fmt: skip

    async def create(self, call: Call) -> Reply:
        job_id = await self._commands.create_job(call.caller, await call.document(), call.once)
        return await self._job(call, job_id, 201)

    async def create_many(self, call: Call) -> Reply:
        items = await read_items(call.request, call.body, "jobs")
        if call.query.get("atomic"):
            answers = await self._create_all(call, items)
        else:
            answers = await self._create_parts(call, items)
        results = [_result(index, answer, call.request_id) for index, answer in enumerate(answers)]
        created = sum(isinstance(answer, str) for answer in answers)
        return Reply({"created": created, "failed": len(answers) - created, "results": results})

    async def _create_all(self, call: Call, items: list[Any | HoraeError]) -> Sequence[str | HoraeError]:
        if any(isinstance(item, HoraeError) for item in items):
            undone = Conflict("Not saved, because another job of the same atomic batch was refused.", "batch_refused")
            return [item if isinstance(item, HoraeError) else undone for item in items]
        return await self._commands.create_jobs(call.caller, items, call.once, atomic=True) if items else []

    async def _create_parts(self, call: Call, items: list[Any | HoraeError]) -> Sequence[str | HoraeError]:
        answers: list[str | HoraeError] = []
        for start in range(0, len(items), PART):
            part = items[start : start + PART]
            try:
                answers += await self._create_part(call, part, _part_key(call.once, start))
            except Unavailable as error:
                # With a key a repeat goes on where this ended. Without one, what was done must be told.
                if call.once or not answers:
                    raise
                answers += [error] * len(part)
        return answers

    async def _create_part(
        self, call: Call, items: list[Any | HoraeError], once: Once | None
    ) -> Sequence[str | HoraeError]:
        documents = [item for item in items if not isinstance(item, HoraeError)]
        saved = iter(await self._commands.create_jobs(call.caller, documents, once, atomic=False) if documents else [])
        return [item if isinstance(item, HoraeError) else next(saved) for item in items]

    async def list(self, call: Call) -> Reply:
        sort, limit = call.query.get("sort", "name"), call.query.get("limit", DEFAULT_LIMIT)
        rows = await self._views.jobs(
            call.caller.tenant, job_filters(call.query), sort, after_of(call.query, sort), limit + 1
        )
        cursor = None
        if len(rows) > limit:
            last = rows[limit - 1]
            key = last[SORT_COLUMNS[sort.lstrip("-")]]
            cursor = Cursor(sort, NEVER_US if key is None else key, last["id"]).text()
        return Reply({"jobs": [job_answer(row) for row in rows[:limit]], "next_cursor": cursor})

    async def get(self, call: Call) -> Reply:
        return await self._job(call, call.word("job"))

    async def put(self, call: Call) -> Reply:
        document, base = await call.document(), _if_match(call)
        if base is ANY_VERSION:
            return await self.change(call)
        job_id, is_new = await self._commands.put_job(call.caller, call.word("job"), document, None, base)
        return await self._job(call, job_id, 201 if is_new else 200)

    async def change(self, call: Call) -> Reply:
        document, base = await call.document(), _if_match(call) or None
        job_id = await self._commands.change_job(call.caller, call.word("job"), document, None, base)
        return await self._job(call, job_id)

    async def delete(self, call: Call) -> Reply:
        job_id = await self._commands.delete_job(call.caller, call.word("job"))
        return Reply({"deleted": True, "job_id": job_id})

    async def run(self, call: Call) -> Reply:
        request = await self.read_run(await call.fields())
        (run_id,) = await self._commands.trigger(call.caller, call.word("job"), [request], call.once)
        return Reply({"run_id": run_id}, 202)

"""The route that looks ahead: how many runs are due when. Counted between other requests, and kept for some seconds."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from horae.api.operation import Call, Operation, Reply, get
from horae.api.query import BUCKET, DEFAULT_LIMIT, FROM, LIMIT, TO
from horae.core.compiled import schedule_of
from horae.core.duration import format_duration, format_instant
from horae.core.errors import Fault, Invalid
from horae.core.forecast import Forecast, Span, left_at
from horae.core.job import PRIORITY_NAME, read_timing
from horae.core.schedule import next_after
from horae.ports import JsonObject, StoredRow, ViewStore

DAY_US = 86_400_000_000
MINUTE_US = 60_000_000
MOST_BUCKETS = 3000
# One slice of counting; everybody else gets a turn in between.
SLICE_SECONDS = 0.005
MOST_SECONDS = 20.0
KEPT_SECONDS = 10.0
KEPT = 50
STAGED_AT_ONCE = 2000
LONGEST_STRETCH_US = 3_600_000_000
MOST_TIMES = 3600  # of one job in one stretch: each second of an hour

_Key = tuple[str, int, int, int, int]


class Forecasts:
    def __init__(self, views: ViewStore) -> None:
        self._views = views
        self._kept: OrderedDict[_Key, tuple[float, JsonObject]] = OrderedDict()
        self._counting: dict[_Key, asyncio.Task[JsonObject]] = {}

    def operations(self) -> list[Operation]:
        about = "Runs due in each stretch of time to come"
        jobs = "Jobs due in a stretch of time to come"
        return [
            get("/forecast", "getForecast", about, self.forecast, (FROM, TO, BUCKET), gives="Forecast"),
            get("/forecast/jobs", "listDueJobs", jobs, self.due_jobs, (FROM, TO, LIMIT), gives="DueJobs"),
        ]

    async def forecast(self, call: Call) -> Reply:
        tenant = call.caller.tenant
        version, now_us = await self._views.schedules_version(tenant)
        span = _span(call, now_us)
        key = (tenant, version, span.start_us, span.bucket_us, span.buckets)
        kept = self._kept.get(key)
        if kept is not None and kept[0] > time.monotonic():
            return Reply(kept[1])
        task = self._counting.get(key)
        if task is None:
            # Whoever asks the same meanwhile waits for the same answer, also when the first one goes away.
            task = self._counting[key] = asyncio.create_task(self._count_and_keep(key, span))
            task.add_done_callback(lambda _: self._counting.pop(key, None))
        return Reply(await asyncio.shield(task))

    async def due_jobs(self, call: Call) -> Reply:
        """Of all jobs, up to the limit; not only of those whose next run it is."""
        tenant, limit = call.caller.tenant, call.query.get("limit", DEFAULT_LIMIT)
        from_us, until_us = _stretch(call, (await self._views.schedules_version(tenant))[1])
        found: dict[str, JsonObject] = {}
        deadline, after, is_complete = time.monotonic() + MOST_SECONDS, None, True
        for row in await self._views.staged(tenant, from_us, until_us, ""):
            _add_due(found, row, row["job_id"], [row["due_us"]])
        while is_complete and len(found) <= limit:
            page = await self._views.schedules(tenant, until_us, after)
            is_complete = await _in_slices(_due_in(found, page.rows, from_us, until_us), deadline)
            after = page.after
            if after is None:
                break
        jobs = sorted(found.values(), key=lambda job: (job["due"], job["job_name"]))
        is_complete = is_complete and after is None and len(jobs) <= limit
        span = {"from": format_instant(from_us), "to": format_instant(until_us)}
        return Reply(span | {"is_complete": is_complete, "jobs": jobs[:limit]})

    async def _count_and_keep(self, key: _Key, span: Span) -> JsonObject:
        """Kept before it is no longer being counted: whoever comes in between would count anew."""
        answer = await self._count(key[0], span)
        self._kept[key] = (time.monotonic() + KEPT_SECONDS, answer)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return answer

    async def _count(self, tenant: str, span: Span) -> JsonObject:
        forecast, jobs, is_complete = Forecast(span), 0, True
        deadline = time.monotonic() + MOST_SECONDS
        await self._add_staged(tenant, forecast)
        async with aclosing(self._schedules(tenant, span.until_us)) as pages:
            async for rows in pages:
                is_complete = await _in_slices(_add_jobs(forecast, rows), deadline)
                jobs += len(rows)
                if not is_complete:
                    break
        is_complete = await _in_slices(forecast.count(), deadline) and is_complete
        return await asyncio.to_thread(_answer, forecast, jobs, is_complete=is_complete)

    async def _schedules(self, tenant: str, until_us: int) -> AsyncGenerator[list[StoredRow], None]:
        """The next part is read while the one before it is counted."""
        reading = asyncio.ensure_future(self._views.schedules(tenant, until_us, None))
        try:
            while True:
                page = await reading
                if page.after is not None:
                    reading = asyncio.ensure_future(self._views.schedules(tenant, until_us, page.after))
                yield page.rows
                if page.after is None:
                    return
        finally:
            reading.cancel()

    async def _add_staged(self, tenant: str, forecast: Forecast) -> None:
        span, after_id = forecast.span, ""
        while True:
            rows = await self._views.staged(tenant, span.from_us, span.until_us, after_id)
            for row in rows:
                forecast.add_run(row["due_us"], (row["priority"], row["queue"]))
            if len(rows) < STAGED_AT_ONCE:
                return
            after_id = rows[-1]["id"]


def _due_in(found: dict[str, JsonObject], rows: list[StoredRow], from_us: int, until_us: int) -> Iterator[None]:
    for row in rows:
        timing = read_timing(row["spec"])
        schedule = schedule_of(timing, row["id"], row["created_us"])
        due_us = next_after(schedule, max(row["due_us"], from_us) - 1)
        most = None if timing.max_runs is None else timing.max_runs - row["fired"]
        left = MOST_TIMES if most is None else left_at(schedule, row["due_us"], from_us, most)
        times: list[int] = []
        while due_us is not None and due_us < until_us and len(times) < left:
            times.append(due_us)
            due_us = next_after(schedule, due_us)
        if times:
            _add_due(found, row, row["id"], times)
        yield


def _add_due(found: dict[str, JsonObject], row: StoredRow, job_id: str, times: list[int]) -> None:
    job = found.setdefault(
        job_id,
        {
            "job_id": job_id,
            "job_name": row["name"],
            "due": format_instant(times[0]),
            "runs": 0,
            "queue": row["queue"],
            "priority": PRIORITY_NAME[row["priority"]],
        },
    )
    job["runs"] += len(times)
    job["due"] = min(job["due"], format_instant(times[0]))


def _add_jobs(forecast: Forecast, rows: list[StoredRow]) -> Iterator[None]:
    for number, row in enumerate(rows):
        timing = read_timing(row["spec"])
        most = None if timing.max_runs is None else timing.max_runs - row["fired"]
        schedule = schedule_of(timing, row["id"], row["created_us"])
        forecast.add_job(schedule, row["due_us"], most, (row["priority"], row["queue"]))
        if number % 20 == 0:
            yield


async def _in_slices(steps: Iterator[None], deadline: float) -> bool:
    """Whether it came to its end in time."""
    slice_ends = time.monotonic() + SLICE_SECONDS
    for _ in steps:
        now = time.monotonic()
        if now > deadline:
            return False
        if now > slice_ends:
            await asyncio.sleep(0)
            slice_ends = time.monotonic() + SLICE_SECONDS
    return True


def _stretch(call: Call, now_us: int) -> tuple[int, int]:
    from_us = max(now_us, call.query.get("from", now_us))
    until_us = call.query.get("to", from_us + MINUTE_US)
    if not from_us < until_us <= from_us + LONGEST_STRETCH_US:
        detail = f"The stretch is from {format_instant(from_us)} to {format_instant(until_us)}; an hour is the most."
        raise Invalid([Fault("/query/to", detail, f"Write to={format_instant(from_us + MINUTE_US)}.")])
    return from_us, until_us


def _span(call: Call, now_us: int) -> Span:
    bucket_us = call.query.get("bucket", MINUTE_US)
    from_us = max(now_us, call.query.get("from", now_us))
    to_us = call.query.get("to", from_us + min(DAY_US, bucket_us * MOST_BUCKETS // 2))
    if to_us <= from_us:
        detail = f"The forecast would end at {format_instant(to_us)}, before it begins at {format_instant(from_us)}."
        raise Invalid([Fault("/query/to", detail, "Give a later time, or leave it out.")])
    start_us = from_us // bucket_us * bucket_us
    buckets = -(-(to_us - start_us) // bucket_us)
    if buckets > MOST_BUCKETS:
        wide = format_duration(-(-(to_us - start_us) // MOST_BUCKETS // MINUTE_US + 1) * MINUTE_US)
        detail = f"The range has {buckets:,} buckets; {MOST_BUCKETS:,} are the limit."
        raise Invalid([Fault("/query/bucket", detail, f"Write bucket={wide}, or ask for less time.")])
    return Span(start_us, from_us, bucket_us, buckets)


def _answer(forecast: Forecast, jobs: int, *, is_complete: bool) -> JsonObject:
    span = forecast.span
    by_bucket: dict[int, list[JsonObject]] = {}
    for (priority, queue), counts in sorted(forecast.counts.items()):
        for bucket, runs in counts.items():
            part = {"priority": PRIORITY_NAME[priority], "queue": queue, "runs": runs}
            by_bucket.setdefault(bucket, []).append(part)
    buckets = [
        {
            "at": format_instant(span.start_us + bucket * span.bucket_us),
            "runs": sum(part["runs"] for part in parts),
            "by": parts,
        }
        for bucket, parts in sorted(by_bucket.items())
    ]
    return {
        "from": format_instant(span.from_us),
        "to": format_instant(span.until_us),
        "bucket": format_duration(span.bucket_us),
        "runs": sum(bucket["runs"] for bucket in buckets),
        "jobs": jobs,
        "is_complete": is_complete,
        "buckets": buckets,
    }

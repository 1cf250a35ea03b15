"""Routes that are about no job and no run: previews, health, metrics and the description of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from horae.api.body import check_instant, read_fields
from horae.api.operation import Call, Operation, Reply, Takes, post
from horae.api.problems import Refused, problem_answer
from horae.core.checks import FIELDS, Check, integer
from horae.core.duration import format_instant
from horae.core.errors import Fault, HoraeError, Invalid, Unavailable
from horae.core.schedule import Dst, parse_schedule, upcoming, warnings
from horae.core.words import describe
from horae.core.zone import check_zone, local
from horae.ports import ViewStore
from horae.telemetry import exposition

Ready = Callable[[], Awaitable[list[str]]]

READY_SECONDS = 3.0
DEFAULT_COUNT = 5


def _any(value: Any, _: str) -> Any:
    return value


def _dst(value: Any, pointer: str) -> Dst:
    fields = {name: FIELDS[f"dst.{name}"][1] for name in ("gap", "fold")}
    return Dst(**read_fields(value, fields, pointer))


PREVIEW_FIELDS: dict[str, Check] = {
    "schedule": _any,
    "timezone": check_zone,
    "dst": _dst,
    "count": integer(1, 100, 5),
    "from": check_instant,
}


class Previews:
    def __init__(self, views: ViewStore) -> None:
        self._views = views

    def operations(self) -> list[Operation]:
        about = "What a schedule means, and when it is due next"
        return [
            post("/schedules/preview", "previewSchedule", about, self.preview, (), Takes("Preview"), "PreviewAnswer")
        ]

    async def preview(self, call: Call) -> Reply:
        fields = read_fields(await call.document(), PREVIEW_FIELDS)
        if "schedule" not in fields:
            raise Invalid([Fault("/schedule", '"schedule" is missing.', 'Write "schedule": "0 9 * * 1-5".')])
        zone = fields.get("timezone", "UTC")
        from_us = fields["from"] if "from" in fields else await self._views.now()
        dst = fields.get("dst", Dst())
        schedule = parse_schedule(fields["schedule"], zone=zone, anchor_us=from_us, seed="preview", dst=dst)
        due = upcoming(schedule, from_us - 1, fields.get("count", DEFAULT_COUNT))
        return Reply(
            {
                "description": describe(schedule),
                "next": [{"at": format_instant(us), "local": local(us, zone)} for us in due],
                "warnings": warnings(schedule, from_us),
            }
        )


class Health:
    """Open to everybody, so it says little."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready

    async def healthz(self, request: Request) -> Response:
        return _plain(Reply({"status": "ok"}))

    async def readyz(self, request: Request) -> Response:
        reasons = await self._reasons()
        if not reasons:
            return _plain(Reply({"ready": True, "reasons": []}))
        error = Refused(503, "not_ready", "; ".join(reasons), headers={"Retry-After": "1"})
        return problem_answer(error, request.scope["horae.request_id"], ready=False, reasons=reasons)

    async def metrics(self, request: Request) -> Response:
        # In a thread: 2,000 series take 30 ms.
        text, media_type = await asyncio.to_thread(exposition)
        return Response(text, media_type=media_type)

    async def _reasons(self) -> list[str]:
        try:
            async with asyncio.timeout(READY_SECONDS):
                return await self._ready()
        except TimeoutError:
            return [f"The store did not answer within {READY_SECONDS:g} s."]
        except HoraeError as error:
            return [in_brief(error)]


def in_brief(error: HoraeError) -> str:
    """Addresses and the words of drivers are for the log: whoever asks may be anybody."""
    return f"{error.detail.partition(':')[0]}." if isinstance(error, Unavailable) else error.detail


def _plain(reply: Reply) -> Response:
    return Response(reply.body, reply.status, media_type="application/json")

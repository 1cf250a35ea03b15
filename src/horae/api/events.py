"""The event stream: what changes, as it changes, for everybody who watches.

All listeners of a process share one look at the store a second, and one buffer. A listener that is too slow for the
buffer is told that it missed something; nobody else waits for it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse

from horae.api.operation import Call, Operation, Welcome, get
from horae.api.shapes import changed_job, changed_run
from horae.api.stream import SIGN_OF_LIFE, Quiet, frame
from horae.core.duration import format_instant
from horae.core.errors import Fault, Invalid, Unavailable
from horae.ports import Happened, JsonObject, ViewStore

POLL_SECONDS = 1.0
STALE_SECONDS = 60.0
KEPT = 10_000
AT_ONCE = 1000
# A change is seen when it is committed, which is a little after the time that it bears.
OVERLAP_US = 3_000_000
# Whoever was away for longer reads the lists anew.
LONGEST_BREAK_US = 3_600_000_000
MOST_CAUGHT_UP = 5000


@dataclass(frozen=True, slots=True)
class Event:
    tenant: str
    kind: str
    at_us: int
    key: str
    document: JsonObject

    def frame(self) -> bytes:
        return frame(self.kind, self.document, str(self.at_us))


class Feed:
    """What happened lately, in the order in which it was seen; `number` counts all that ever went through."""

    def __init__(self, views: ViewStore) -> None:
        self._views = views
        self._lock = asyncio.Lock()
        self._looked_at = float("-inf")
        self._rest_seconds = POLL_SECONDS
        self._since_us: int | None = None
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self.watched: Counter[str] = Counter()
        self.number = 0

    async def look(self) -> None:
        """At most once in POLL_SECONDS, whoever asks."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            if loop.time() < self._looked_at + self._rest_seconds:
                return
            since_us = self._since_us
            if since_us is None or loop.time() > self._looked_at + STALE_SECONDS:
                since_us = await self._views.now()  # nobody has watched for a while
            tenants = sorted(tenant for tenant, count in self.watched.items() if count)
            happened = await self._views.happened(tenants, since_us, AT_ONCE)
            self._looked_at = loop.time()
            self._take(happened, since_us)

    def _take(self, happened: Happened, since_us: int) -> None:
        events = list(events_of(happened))
        for event in events:
            if event.key not in self._seen:
                self._kept.append(event)
                self.number += 1
            self._seen[event.key] = event.at_us
        # A full page ends before now: the next look goes on from there, and at once.
        full = [rows[-1]["at_us"] for rows in (happened.jobs, happened.started, happened.ended) if len(rows) == AT_ONCE]
        is_behind = bool(full) and min(full) > since_us
        self._since_us = min(full) if is_behind else max(since_us, happened.now_us - OVERLAP_US)
        self._rest_seconds = 0.0 if is_behind else POLL_SECONDS
        while self._seen and next(iter(self._seen.values())) < self._since_us:
            self._seen.popitem(last=False)

    def after(self, number: int) -> tuple[list[Event], bool]:
        """Everything behind that number, and whether something in between is gone."""
        missing = self.number - number
        return (list(self._kept)[-missing:] if missing else []), missing > len(self._kept)


def events_of(happened: Happened) -> Iterator[Event]:
    found = [Event(r["tenant"], "job", r["at_us"], f"{r['id']} {r['at_us']}", changed_job(r)) for r in happened.jobs]
    found += [
        Event(r["tenant"], "run", r["at_us"], f"{r['id']} {r['status']} {r['attempt']}", changed_run(r))
        for r in (*happened.started, *happened.ended)
    ]
    # Of one instant the job comes first: its runs cannot have been before it.
    yield from sorted(found, key=lambda event: (event.at_us, event.kind, event.key))


class Events:
    """`is_stopping` ends the streams of a process that wants to leave."""

    def __init__(self, views: ViewStore, is_stopping: Callable[[], bool]) -> None:
        self._views = views
        self._is_stopping = is_stopping
        self._feed = Feed(views)

    def operations(self) -> list[Operation]:
        return [get("/events", "watch", "What changes, as server-sent events", self.events, gives="Stream")]

    async def events(self, call: Call) -> Response:
        since_us = _last_event(call)
        return StreamingResponse(
            self._stream(call.caller.tenant, since_us, call.is_welcome), media_type="text/event-stream"
        )

    async def _stream(self, tenant: str, since_us: int | None, is_welcome: Welcome) -> AsyncIterator[bytes]:
        self._feed.watched[tenant] += 1
        try:
            async for frame in self._frames(tenant, since_us, is_welcome):
                yield frame
        except Unavailable:
            return  # the listener comes back with the last id it saw
        finally:
            self._feed.watched[tenant] -= 1
            if not self._feed.watched[tenant]:
                del self._feed.watched[tenant]

    async def _frames(self, tenant: str, since_us: int | None, is_welcome: Welcome) -> AsyncIterator[bytes]:
        await self._feed.look()
        number = self._feed.number
        yield SIGN_OF_LIFE  # whoever has seen it misses nothing from here on
        if since_us is not None:
            async for frame in self._caught_up(tenant, since_us):
                yield frame
        quiet = Quiet()
        while not self._is_stopping() and await is_welcome():
            await self._feed.look()
            events, has_gap = self._feed.after(number)
            number = self._feed.number
            if has_gap:
                yield _gap(events[0].at_us)
            ours = [event for event in events if event.tenant == tenant]
            for event in ours:
                yield event.frame()
            if quiet.is_too_long(POLL_SECONDS, has_spoken=bool(ours)):
                yield SIGN_OF_LIFE
            await asyncio.sleep(POLL_SECONDS)

    async def _caught_up(self, tenant: str, since_us: int) -> AsyncIterator[bytes]:
        """What happened since the last event that the listener saw, and a little before it."""
        now_us = await self._views.now()
        from_us = max(since_us - OVERLAP_US, now_us - LONGEST_BREAK_US)
        if from_us > since_us:
            yield _gap(from_us)
        happened = await self._views.happened([tenant], from_us, MOST_CAUGHT_UP)
        for event in events_of(happened):
            yield event.frame()
        if any(len(rows) == MOST_CAUGHT_UP for rows in (happened.jobs, happened.started, happened.ended)):
            yield _gap(now_us)


def _gap(at_us: int) -> bytes:
    """Something before this instant was not sent: read the lists anew."""
    return frame("gap", {"until": format_instant(at_us)}, str(at_us))


def _last_event(call: Call) -> int | None:
    told = call.request.headers.get("last-event-id", "")
    if not told:
        return None
    if not re.fullmatch("[0-9]{1,16}", told):
        detail = "Last-Event-ID must be the id of an event of this stream."
        raise Invalid([Fault("/headers/Last-Event-ID", detail, "Leave it out to start now.")])
    return int(told)

"""Routes of named calendars: days that jobs leave out, or keep to, under one name for all of them."""

from __future__ import annotations

import json

from horae.api.hints import or_near
from horae.api.operation import Call, Operation, Reply, Takes, delete, get, put
from horae.commands import Commands
from horae.core.duration import format_instant
from horae.core.errors import NotFound
from horae.ports import JsonObject, StoredRow, ViewStore


class Calendars:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views

    def operations(self) -> list[Operation]:
        path, days = "/calendars/{calendar}", Takes("Calendar")
        define = "Define a calendar, or change it for every job that names it"
        return [
            get("/calendars", "listCalendars", "The named calendars", self.list, gives="CalendarList"),
            get(path, "getCalendar", "One calendar", self.get, gives="CalendarAnswer"),
            put(path, "putCalendar", define, self.put, (), days, "CalendarAnswer", also={201: "CalendarAnswer"}),
            delete(path, "deleteCalendar", "Forget a calendar that no job names", self.delete, gives="DeletedCalendar"),
        ]

    async def list(self, call: Call) -> Reply:
        return Reply({"calendars": [_answer(row) for row in await self._views.calendars(call.caller.tenant)]})

    async def get(self, call: Call) -> Reply:
        name = call.word("calendar")
        rows = await self._views.calendars(call.caller.tenant)
        for row in rows:
            if row["name"] == name:
                return Reply(_answer(row))
        raise NotFound(f'There is no calendar "{name}".', hint=or_near(name, [row["name"] for row in rows], "calendar"))

    async def put(self, call: Call) -> Reply:
        row = await self._commands.calendars.put(call.caller, call.word("calendar"), await call.document())
        return Reply(_answer(row), 201 if row["is_new"] else 200)

    async def delete(self, call: Call) -> Reply:
        name = call.word("calendar")
        await self._commands.calendars.delete(call.caller, name)
        return Reply({"deleted": True, "name": name})


def _answer(row: StoredRow) -> JsonObject:
    days = json.loads(row["spec"])
    return {"name": row["name"], "version": row["version"], "updated_at": format_instant(row["updated_us"]), **days}

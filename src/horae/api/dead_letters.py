"""Routes of the dead letters: runs that failed for good, one by one and in bulk."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from horae.api.body import check_flag, check_instant, read_fields
from horae.api.hints import at
from horae.api.operation import NOTHING, Call, Operation, Reply, Takes, delete, get, post
from horae.api.query import (
    CURSOR,
    DEAD_FILTERS,
    DEFAULT_LIMIT,
    ERROR,
    JOB,
    LIMIT,
    before_of,
    check_reason,
    letter_filters,
)
from horae.api.runs import page_answer
from horae.api.standing import letter_group
from horae.commands import MOST_REPLAYS, Commands
from horae.core.checks import FIELDS, Check, integer, number, short_text, text
from horae.core.errors import Fault, Invalid
from horae.core.fingerprint import LONGEST
from horae.core.job import PRIORITY_NUMBER
from horae.ports import Letters, ViewStore

# Any that the groups tell: of a run that told nothing it is empty, and older ones have what a command told a terminal.
_ERROR = text(most=LONGEST, least=0, forbidden=re.compile("\0"), example="exit code 1")
FILTER_FIELDS: dict[str, Check] = {
    "job": short_text,
    "queue": short_text,
    "priority": FIELDS["priority"][1],
    "reason": check_reason,
    "error": _ERROR,
    "due_after": check_instant,
    "due_before": check_instant,
}
SLOWEST_RATE = 0.001  # one in 17 minutes; ten thousand of them take four months


def _check_filter(value: Any, pointer: str) -> dict[str, Any]:
    return read_fields(value, FILTER_FIELDS, pointer)


REPLAY_FIELDS: dict[str, Check] = {
    "filter": _check_filter,
    "dry_run": check_flag,
    "expected_count": integer(0, MOST_REPLAYS, 10),
    "rate": number(SLOWEST_RATE, 10_000, 5),
}


DISCARD_FIELDS = {name: REPLAY_FIELDS[name] for name in ("filter", "dry_run", "expected_count")}


class DeadLetters:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views

    def operations(self) -> list[Operation]:
        filters = (JOB, *DEAD_FILTERS, ERROR)
        listed, groups = (*filters, LIMIT, CURSOR), "Failed for good, by job and error"
        return [
            get("/dead-letters", "listDeadLetters", "Failed for good", self.list, listed, gives="DeadList"),
            get("/dead-letters:groups", "groupDeadLetters", groups, self.groups, (*filters, LIMIT), gives="DeadGroups"),
            post(
                "/dead-letters:replay",
                "replayRuns",
                "Run all that match anew",
                self.replay_many,
                (),
                Takes("Replay", is_optional=True),
                "Replayed",
                202,
                {200: "ReplayPlan"},
            ),
            post("/dead-letters/{run}/replay", "replayRun", "Run it anew", self.replay, (), NOTHING, "RunId", 202),
            post(
                "/dead-letters:discard",
                "discardRuns",
                "All that match out of the dead letters",
                self.discard_many,
                (),
                Takes("Discard", is_optional=True),
                "DiscardedRuns",
            ),
            delete("/dead-letters/{run}", "discardRun", "Out of the dead letters", self.discard, gives="Discarded"),
        ]

    async def list(self, call: Call) -> Reply:
        limit, before = call.query.get("limit", DEFAULT_LIMIT), before_of(call.query, "dead")
        filters, job = letter_filters(call.query), call.query.get("job")
        with at("/query/job"):
            page = await self._views.dead_letters(call.caller.tenant, job, filters, before, limit)
        runs, cursor = page_answer(page, "dead")
        return Reply({"dead_letters": runs, "next_cursor": cursor})

    async def groups(self, call: Call) -> Reply:
        filters, job = letter_filters(call.query), call.query.get("job")
        limit = call.query.get("limit", DEFAULT_LIMIT)
        with at("/query/job"):
            found = await self._views.letter_groups(call.caller.tenant, job, filters, limit)
        groups = [letter_group(row) for row in found.rows]
        return Reply({"groups": groups, "group_count": found.all_groups, "run_count": found.all_runs})

    async def replay(self, call: Call) -> Reply:
        read_fields(await call.fields(), {})
        return Reply({"run_id": await self._commands.letters.replay(call.caller, call.word("run"), call.once)}, 202)

    async def replay_many(self, call: Call) -> Reply:
        with at("/filter/job"):
            return await self._replay_many(call)

    async def _replay_many(self, call: Call) -> Reply:
        fields = read_fields(await call.fields(), REPLAY_FIELDS)
        which = _which(fields)
        if fields.get("dry_run"):
            matching = await self._commands.letters.count(call.caller, which)
            return Reply({"count": len(matching), "replay_of": matching, "dry_run": True})
        expected, rate = fields.get("expected_count"), fields.get("rate")
        run_ids = await self._commands.letters.replay_many(call.caller, which, expected, rate, call.once)
        return Reply({"count": len(run_ids), "run_ids": run_ids}, 202)

    async def discard_many(self, call: Call) -> Reply:
        """What cannot be taken back is not done to a number that nobody has seen."""
        with at("/filter/job"):
            return await self._discard_many(call)

    async def _discard_many(self, call: Call) -> Reply:
        fields = read_fields(await call.fields(), DISCARD_FIELDS)
        which = replace(_which(fields), with_deleted=True)
        if fields.get("dry_run"):
            matching = await self._commands.letters.count(call.caller, which)
            return Reply({"count": len(matching), "run_ids": matching, "dry_run": True})
        if "expected_count" not in fields:
            hint = 'Ask with "dry_run": true first, then send its count as expected_count.'
            raise Invalid([Fault("/expected_count", "How many there are to discard must be said.", hint)])
        run_ids = await self._commands.letters.discard_many(call.caller, which, fields["expected_count"], call.once)
        return Reply({"count": len(run_ids), "run_ids": run_ids, "dry_run": False})

    async def discard(self, call: Call) -> Reply:
        await self._commands.letters.discard(call.caller, call.word("run"))
        return Reply({"deleted": True, "run_id": call.word("run")})


def _which(fields: dict[str, Any]) -> Letters:
    chosen = fields.get("filter", {})
    if "priority" in chosen:
        chosen["priority"] = PRIORITY_NUMBER[chosen["priority"]]
    return Letters(chosen.get("job"), letter_filters(chosen))

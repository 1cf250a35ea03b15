"""`-f 'status:dead queue:billing some words'`: the filter language of the dashboard, in the parameters of the API."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from horae.cli.failure import USAGE, Failure
from horae.cli.times import read_time

JOBS = ("status", "health", "label", "type", "queue", "priority", "due")
RUNS = ("status", "job", "queue", "priority", "reason", "worker", "due")
DEAD = ("job", "queue", "priority", "reason", "due")

_PART = re.compile(r'(?:[^\s"]+:"[^"]*"|"[^"]*"|\S)+')
_STATUS = {"dead": "failed", "active": "scheduled", "deleted": "cancelled"}
# Of jobs: what stands in the health of a job, though people ask for it as a status.
_HEALTH = {"dead": "failing", "failed": "failing", "failing": "failing", "late": "late", "never_run": "never_run"}
_LENGTH = re.compile(r"\d+[smhd]")


def filter_option(example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    text = f"As in the box of the dashboard: '{example}'."
    return click.option("-f", "--filter", "filtered", metavar="TEXT", help=text)


def read_filter(text: str | None, known: tuple[str, ...]) -> dict[str, str]:
    """In the words of the API. Words without a name look for jobs by a part of their name, where that can be asked."""
    query: dict[str, str] = {}
    words = []
    for part in _PART.findall(text or ""):
        name, colon, value = part.replace('"', "").partition(":")
        if not colon:
            words.append(name)
        elif known == DEAD and (name.lower(), value.lower()) in (("status", "dead"), ("status", "failed")):
            continue  # they all are
        elif name.lower() not in known:
            there_are = " ".join(f"{each}:" for each in known)
            raise Failure(USAGE, f'-f: "{name}:" is not a filter here.', code="usage", hint=f"There are {there_are}")
        else:
            query |= _asked(name.lower(), value, is_ahead="job" not in known)
    if words:
        query["job" if "job" in known else "q"] = " ".join(words)
    return query


def _asked(name: str, value: str, *, is_ahead: bool) -> dict[str, str]:
    if name == "status" and is_ahead and value.lower() in _HEALTH:
        return {"health": _HEALTH[value.lower()]}
    if name == "status":
        return {name: _STATUS.get(value.lower(), value)}
    if name != "due":
        return {name: value}
    if _LENGTH.fullmatch(value):
        value = ("+" if is_ahead else "-") + value
    return {"due_before" if is_ahead else "due_after": read_time(value, "-f due:", is_future=is_ahead)}

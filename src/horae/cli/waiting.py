"""Waiting for a run, with or without its log: by the event stream, which says at once when it ends."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from horae.cli.client import TIMEOUT_SECONDS
from horae.cli.escapes import escapes_of
from horae.cli.failure import ENDED_BADLY, GAVE_UP, Failure, path
from horae.cli.output import SIGNS, is_terminal, shown_length, visible
from horae.cli.session import Session
from horae.cli.times import distance, read_length

STREAM_SECONDS = 60.0
LAST_LOOK_SECONDS = 5.0
MOST_FAILURES = 5
# A stream shows signs of life all the time: a silent one is worse than one that broke.
SILENCE_COUNTS = 3


class Shown:
    """What is shown of a log that is followed: whole lines that fit the pattern, after the first `skip` characters."""

    def __init__(self, pattern: re.Pattern[str] | None = None, skip: int = 0) -> None:
        self._pattern = pattern
        self._skip = skip
        self._rest = ""

    def take(self, text: str) -> str:
        skipped = min(self._skip, len(text))
        self._skip -= skipped
        text = text[skipped:]
        if self._pattern is None:
            return text
        *lines, self._rest = (self._rest + text).split("\n")
        return "".join(f"{line}\n" for line in lines if self._pattern.search(line))

    def end(self) -> str:
        rest, self._rest = self._rest, ""
        return f"{rest}\n" if rest and self._pattern is not None and self._pattern.search(rest) else ""


class Progress:
    """What a run that is waited for does meanwhile, for somebody who looks at a terminal."""

    def __init__(self, session: Session, prefix: str = "") -> None:
        self._session = session
        self._prefix = prefix
        self._last: tuple[Any, ...] = ()

    def tell(self, state: dict[str, Any]) -> None:
        """After a break the stream begins with what was told already."""
        stands = tuple(state[field] for field in ("status", "reason", "attempt_number", "executor_id"))
        if stands != self._last and is_terminal(sys.stderr):
            self._session.out.say(click.style(f"{self._prefix}{told_state(state)}", dim=True))
        self._last = stands


def told_state(state: dict[str, Any]) -> str:
    """One line about a run that has not ended."""
    status, why = state["status"], f": {state['reason']}" if state["reason"] else ""
    attempt = f", attempt {state['attempt_number']} of {state['max_attempts']}" if state["max_attempts"] > 1 else ""
    when = distance(state["available_at"])
    when = "soon" if when.endswith("ago") else when
    if status == "RUNNING":
        return f"{SIGNS[status]} started on {visible(state['executor_id'] or 'a worker')}{attempt}"
    if status == "RETRYING":
        failed = f"{SIGNS[status]} attempt {state['attempt_number']} of {state['max_attempts']} failed{why}"
        return f"{failed}; again {when}"
    if status == "PENDING":
        return f"{SIGNS[status]} due {when}"
    return f"{SIGNS.get(status, '?')} {status.lower()}{why}"


def limit_request(session: Session, timeout: str | None) -> None:
    """Before what is to be waited for is asked for: that takes no longer than the waiting may, or a little more."""
    if timeout is not None:
        seconds = max(read_length(timeout, "--timeout"), LAST_LOOK_SECONDS)
        session.client.limit_wait(min(seconds, TIMEOUT_SECONDS))


def wait_for_run(session: Session, run_id: str, *, log: Shown | None, timeout: str | None) -> None:
    """Returns when it succeeded; otherwise ends the command with exit code 3, or 8 when the time is up."""
    wait_for_runs(session, [run_id], log=log, timeout=timeout)


def wait_for_runs(session: Session, run_ids: Sequence[str], *, log: Shown | None, timeout: str | None) -> None:
    """The time is for all of them together; one that ended badly does not keep from waiting for the others."""
    deadline = None if timeout is None else time.monotonic() + read_length(timeout, "--timeout")
    is_good = True
    for run_id in run_ids:
        try:
            told = Progress(session, f"{run_id} " if len(run_ids) > 1 else "")
            follow_log(session, run_id, log=log, deadline=deadline, told=told)
        except KeyboardInterrupt:
            session.out.say(f"\nRun {run_id} goes on. horae run cancel {run_id} ends it.")
            raise
        session.client.limit_wait(LAST_LOOK_SECONDS if deadline is not None else STREAM_SECONDS)
        run = session.client.get(path("runs", run_id))
        if not session.out.is_for_people:
            session.out.one(run, "run_id")
        # The output that an error often ends with has just been shown.
        end = told_end(run, is_brief=log is not None)
        session.out.say(end if len(run_ids) == 1 else f"{run_id} {end}")
        is_good = is_good and run["status"] == "SUCCEEDED"
    if not is_good:
        sys.exit(ENDED_BADLY)


def told_end(run: dict[str, Any], *, is_brief: bool = False) -> str:
    took = "" if run["duration_ms"] is None else f" in {shown_length(run['duration_ms'] / 1000)}"
    attempts = f", attempt {run['attempt_number']} of {run['max_attempts']}" if run["max_attempts"] > 1 else ""
    sign = "✓" if run["status"] == "SUCCEEDED" else "✗"
    why = f": {run['reason']}" if run["reason"] else ""
    error = run["error_message"] or ""
    error = visible(f"\n{error.partition(chr(10))[0] if is_brief else error}") if error else ""
    return f"{sign} {run['status'].lower()}{took}{attempts}{why}{error}"


def follow_log(
    session: Session,
    run_id: str,
    *,
    log: Shown | None,
    deadline: float | None = None,
    told: Progress | None = None,
) -> None:
    """Until the run has ended; a connection that breaks is made anew where it stopped."""
    last_id, failures = None, 0
    told = told or Progress(session)
    is_aside = not session.out.is_for_people
    escapes = escapes_of(err=is_aside)
    while True:
        try:
            for event_id, name, data in _events(session, run_id, last_id, deadline):
                last_id, failures = event_id or last_id, 0
                if name == "state":
                    told.tell(data)
                elif name == "log" and log is not None:
                    click.echo(escapes.take(log.take(data["text"])), nl=False, err=is_aside)
                elif name == "end":
                    if log is not None:
                        click.echo(escapes.take(log.end()) + escapes.end(), nl=False, err=is_aside)
                    return
        except OSError as error:
            _check_time(run_id, deadline)
            failures += SILENCE_COUNTS if isinstance(error, TimeoutError) else 1
            if failures > MOST_FAILURES:
                raise session.client.unreachable(error) from error
        _check_time(run_id, deadline)
        time.sleep(min(failures, 3) * 0.5)


def _events(session: Session, run_id: str, last_id: str | None, deadline: float | None) -> Any:
    def limit() -> None:
        left = STREAM_SECONDS if deadline is None else min(STREAM_SECONDS, max(deadline - time.monotonic(), 0.05))
        session.client.limit_wait(left)

    limit()
    for event in session.client.events(path("runs", run_id, "logs"), last_id, follow="true"):
        yield event
        _check_time(run_id, deadline)
        limit()


def _check_time(run_id: str, deadline: float | None) -> None:
    if deadline is not None and time.monotonic() >= deadline:
        detail = f"Run {run_id} has not ended in time; it goes on."
        hint = f"horae why {run_id} tells what it waits for; horae run wait {run_id}, or horae run cancel {run_id}."
        raise Failure(GAVE_UP, detail, code="timeout", hint=hint)

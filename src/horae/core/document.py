"""A job as users write it and as we answer it: documents become definitions, with every fault named, and back.

Other names for a field are folded in by aliases.py; checks of single values are in checks.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from horae.core.aliases import (
    NOW,
    TELLTALES,
    Given,
    Target,
    at_origin,
    gather,
    gather_target,
    inside_payload,
    kind_of,
    texts_of,
)
from horae.core.answered import Standing, misplaced
from horae.core.checks import FIELDS, Collector, check_size, refuse
from horae.core.compiled import LATE_US, cron_expression, schedule_of, timing_key
from horae.core.duration import format_duration, format_instant, parse_instant
from horae.core.egress import Allow, check_url
from horae.core.errors import Fault, Invalid
from horae.core.job import Definition
from horae.core.schedule import At, Dst, Schedule, parse_schedule
from horae.core.sound import unsound
from horae.core.targets import check_target, normalize_target
from horae.core.zone import HORIZON_S, SECOND_US


def parse_job(document: object, *, job_id: str, now_us: int, tenant: str, allow: Allow = ()) -> Definition:
    """A new job. Raises Invalid with every fault, each at the pointer where the user wrote it.

    `allow` is HORAE_EGRESS_ALLOW, the addresses besides public ones that an http job may name.
    """
    return _read(_Reading(_object(document), _blank(job_id), {}, Standing(job_id, tenant, now_us), now_us, allow))


def change_job(
    current: Definition, document: object, *, standing: Standing, now_us: int, allow: Allow = ()
) -> Definition:
    """The job with the given fields changed: retry, misfire and dst key by key, null back to the default."""
    return _read(_Reading(_object(document), current, _answer(current), standing, now_us, allow))


def render_definition(definition: Definition) -> dict[str, Any]:
    """The definition in the shape of an answer; `parse_job` reads it back."""
    retry, misfire = definition.retry, definition.misfire
    return {
        "name": definition.name,
        "schedule": _one_or_many(definition.schedule or [None if definition.after else "@manual"]),
        "timezone": definition.timezone,
        "type": definition.type,
        "target": dict(definition.target),
        "payload": definition.payload,
        "priority": definition.priority,
        "queue": definition.queue,
        "timeout": format_duration(definition.timeout_us),
        "retry": {
            "max_retries": retry.max_retries,
            "backoff": retry.backoff,
            "delay": format_duration(retry.delay_us),
            "factor": int(retry.factor) if retry.factor.is_integer() else retry.factor,
            "max_delay": format_duration(retry.max_delay_us),
            "jitter": retry.jitter,
        },
        "misfire": {"policy": misfire.policy, "window": format_duration(misfire.window_us), "max": misfire.max},
        "overlap": definition.overlap,
        "max_concurrency": definition.max_concurrency,
        "concurrency_key": definition.concurrency_key,
        "jitter": format_duration(definition.jitter_us),
        "dst": {"gap": definition.dst.gap, "fold": definition.dst.fold},
        "calendar": definition.calendar,
        "start_at": None if definition.start_us is None else format_instant(definition.start_us),
        "end_at": None if definition.end_us is None else format_instant(definition.end_us),
        "max_runs": definition.max_runs,
        "delivery": definition.delivery,
        "after": _one_or_many([{"job": after.job_id, "on": after.on} for after in definition.after] or [None]),
        "notify": [dict(rule) for rule in definition.notify],
        "labels": dict(definition.labels),
        "description": definition.description,
    }


@dataclass(frozen=True, slots=True)
class _Reading:
    """One document on its way to a definition, and all that bears on it."""

    document: dict[str, Any]
    base: Definition
    answer: Mapping[str, Any]
    standing: Standing
    now_us: int
    allow: Allow

    @property
    def is_new(self) -> bool:
        return self.standing.is_new

    @property
    def job_id(self) -> str:
        return self.standing.job_id


def _read(reading: _Reading) -> Definition:
    found = Collector()
    given = gather(reading.document, reading.answer, found)
    draft = _with_values(reading, given, found)
    draft = _with_times(draft, given, found)
    draft = _with_target(draft, reading, given, found)
    draft = _with_schedule(draft, reading, given, found)
    found.faults += _contradictions(draft, reading, given)
    found.faults += misplaced(reading.document, reading.standing)
    found.finish()
    return draft


def _object(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise refuse("", "a JSON object", document, {"name": "daily-report", "schedule": "0 9 * * *"})
    if flaws := unsound(document):
        raise Invalid(flaws)
    return document


def _blank(job_id: str) -> Definition:
    # The whole id: the first letters of ids made at one time may be the same, and names must differ.
    return Definition(name=f"job-{job_id}", type="custom")


def _answer(current: Definition) -> dict[str, Any]:
    return render_definition(current) | {
        "schedule_types": {kind_of(text) for text in current.schedule} or {"AFTER" if current.after else "MANUAL"},
        "cron_expression": cron_expression(current),
        "max_retries": current.retry.max_retries,
    }


def _with_values(reading: _Reading, given: Mapping[str, Given], found: Collector) -> Definition:
    """The fields that stand for themselves."""
    base, blank = reading.base, _blank(reading.job_id)
    changes: dict[str, dict[str, Any]] = {"": {}}
    for name, (pointer, value) in given.items():
        if name not in FIELDS:
            continue
        path, check = FIELDS[name]
        group, _, attribute = path.rpartition(".")
        default = getattr(getattr(blank, group) if group else blank, attribute)
        taken = default if value is None else found.attempt(default, check, value, pointer)
        changes.setdefault(group, {})[attribute] = taken
    plain = changes.pop("")
    for group, values in changes.items():
        plain[group] = msgspec.structs.replace(getattr(base, group), **values)
    return msgspec.structs.replace(base, **plain)


def _with_times(draft: Definition, given: Mapping[str, Given], found: Collector) -> Definition:
    times = {}
    for name, attribute in (("start_at", "start_us"), ("end_at", "end_us")):
        if name in given:
            pointer, value = given[name]
            times[attribute] = None if value is None else found.attempt(None, _instant, value, pointer, draft.timezone)
    return msgspec.structs.replace(draft, **times)


def _instant(value: Any, pointer: str, zone: str) -> int | None:
    if not isinstance(value, str):
        raise refuse(pointer, "a time", value, "2030-01-01T09:00:00Z")
    us = parse_instant(value, pointer, zone)
    if not 0 <= us < HORIZON_S * SECOND_US:
        raise refuse(pointer, "a time from 1970 to 2200", value, "2030-01-01T09:00:00Z")
    return us


def _with_target(draft: Definition, reading: _Reading, given: Mapping[str, Given], found: Collector) -> Definition:
    base = reading.base
    if "type" in given and any(fault.pointer == given["type"].pointer for fault in found.faults):
        return draft
    try:
        told = gather_target(reading.document, reading.answer)
        type_ = _type_of(draft, reading, given, told)
    except Invalid as error:
        found.faults += error.faults
        return draft
    target = _target_of(type_, draft, reading, given, told)
    if not reading.is_new and type_ == base.type and target.value == base.target:
        return msgspec.structs.replace(draft, type=base.type)
    faults = check_target(type_, target.value, "/target", reading.allow)
    found.faults += (at_origin(fault, target.origins) for fault in faults)
    found.attempt(None, check_size, target.value, "/target")
    return draft if faults else msgspec.structs.replace(draft, type=type_, target=normalize_target(type_, target.value))


def _type_of(draft: Definition, reading: _Reading, given: Mapping[str, Given], told: Target | None) -> str:
    if "type" in given and given["type"].value is not None:
        return draft.type
    if told is not None and told.is_url:
        return "http"
    if "type" not in given and not reading.is_new:
        return reading.base.type
    keys = (reading.base.target if told is None else told.value) or {}
    type_ = next((type_ for key, type_ in TELLTALES.items() if key in keys), None)
    if keys and type_ is None:
        hint = 'Write "type": "http", "shell", "python", "custom" or "noop".'
        raise Invalid([Fault("/type", f"A target with {', '.join(keys)[:80]} needs a type.", hint)])
    return type_ or "custom"


def _target_of(
    type_: str, draft: Definition, reading: _Reading, given: Mapping[str, Given], told: Target | None
) -> Target:
    base = reading.base
    if told is not None and told.is_url and type_ != "http":
        return Target(told.value["url"], {"": told.origins["url"]})
    if told is not None and told.value is not None:
        return told._replace(value=base.target | told.value) if told.is_partial and type_ == base.type else told
    inside = inside_payload(type_, draft.payload)
    is_kept = told is None and not reading.is_new and type_ == base.type
    if is_kept and not (inside and "payload" in given and _is_led_by_payload(base)):
        return Target(base.target, {})
    pointer = given["payload"].pointer if "payload" in given else "/payload"
    # There is no pointer into a text.
    is_text = isinstance(reading.document.get(pointer[1:]), str)
    origins = {key: pointer if is_text else f"{pointer}/{source}" for key, source in inside.items()}
    return Target({key: draft.payload[source] for key, source in inside.items()}, origins)


def _is_led_by_payload(base: Definition) -> bool:
    inside = inside_payload(base.type, base.payload)
    return any(base.payload[inside[key]] == base.target.get(key) for key in ("url", "command") if key in inside)


def _with_schedule(draft: Definition, reading: _Reading, given: Mapping[str, Given], found: Collector) -> Definition:
    base = reading.base
    told = given.get("schedule", Given("/schedule", list(base.schedule)))
    if "schedule" in given:
        draft = msgspec.structs.replace(draft, schedule=_texts(told.value, reading))
    if not reading.is_new and timing_key(draft) == timing_key(base):
        return draft
    try:
        schedule = schedule_of(draft, reading.job_id, reading.standing.created_us)
    except Invalid:
        # Once more, for faults that point to where the user wrote them.
        found.attempt(None, _compile_at, draft, told)
        return draft
    if reading.is_new:
        found.faults += _past(schedule, told, reading.now_us)
    return draft


def _texts(value: Any, reading: _Reading) -> tuple[str, ...]:
    texts = texts_of(value)
    if reading.is_new or NOW in reading.base.schedule:
        return texts
    # `@now` stands for creation, which is past: a change to it means the next millisecond.
    at_once = format_instant((reading.now_us // 1000 + 1) * 1000)
    return tuple(at_once if text == NOW else text for text in texts)


def _compile_at(draft: Definition, told: Given) -> None:
    parse_schedule(
        told.value or "@manual",
        zone=draft.timezone,
        anchor_us=0,
        dst=Dst(draft.dst.gap, draft.dst.fold),
        start_us=draft.start_us,
        end_us=draft.end_us,
        pointer=told.pointer,
    )


def _past(schedule: Schedule, told: Given, now_us: int) -> Iterator[Fault]:
    is_once = all(isinstance(line, At) for line in schedule.lines)
    latest = {line.text: line.at_us for line in schedule.lines if isinstance(line, At)}
    for text, at_us in latest.items():
        if at_us < now_us - (LATE_US if is_once else 0):
            pointer = f"{told.pointer}/{told.value.index(text)}" if isinstance(told.value, list) else told.pointer
            detail = f'"{text}" was {_roughly(now_us - at_us)} ago. A one-time job needs a future time.'
            yield Fault(pointer, detail, 'To start it now write "schedule": "@now".')


def _roughly(us: int) -> str:
    """`9 h 20 m`: the two largest units."""
    return " ".join(" ".join(part) for part in re.findall(r"(\d+)([a-z]+)", format_duration(us))[:2])


def _contradictions(draft: Definition, reading: _Reading, given: Mapping[str, Given]) -> Iterator[Fault]:
    if "after" in given and any(after.job_id in (draft.name, reading.job_id) for after in draft.after):
        yield Fault(given["after"].pointer, "A job cannot run after itself.", 'Name another job in "after".')
    if "notify" in given:
        for at, rule in enumerate(draft.notify):
            if "url" in rule:
                yield from check_url(rule["url"], f"{given['notify'].pointer}/{at}/url", reading.allow)


def _one_or_many(items: Sequence[Any]) -> Any:
    return items[0] if len(items) == 1 else list(items)

"""Named calendars of a tenant. A job keeps the days it was planned by; a change of the calendar is an edit of each job
that names it, made by the janitor, so that every due time can be checked against the version in force.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from horae.core.errors import Conflict, Fault, Invalid, NotFound
from horae.core.job import Definition
from horae.ports import StaleJob
from horae.store.database import Row, Rows, Statement, Steps, note, reading, transaction, viewing

_COLUMNS = "c.tenant, c.name, c.version, c.spec, c.updated_us"

# Locked against a change: whoever changes it afterwards finds the job that was just saved.
NAMED = Statement(f"""
SELECT {_COLUMNS}
FROM calendars c
WHERE c.tenant = :tenant AND c.name IN (SELECT name FROM {{rows:wanted(name text)}})
FOR SHARE
""")

ALL = Statement(f"SELECT {_COLUMNS} FROM calendars c WHERE c.tenant = :tenant ORDER BY c.name")

LOCK = Statement(f"SELECT {_COLUMNS} FROM calendars c WHERE c.tenant = :tenant AND c.name = :name FOR UPDATE")

PUT = Statement("""
INSERT INTO calendars (tenant, name, version, spec, updated_us)
VALUES (:tenant, :name, 1, :spec, horae_now())
ON CONFLICT (tenant, name)
DO UPDATE SET spec = excluded.spec, version = calendars.version + 1, updated_us = excluded.updated_us
WHERE calendars.spec <> excluded.spec
""")

DELETE = Statement("DELETE FROM calendars WHERE tenant = :tenant AND name = :name")

USERS = Statement("""
SELECT j.name
FROM job_calendars u
JOIN jobs j ON j.id = u.job_id
WHERE u.tenant = :tenant AND u.name = :name
LIMIT 3
""")

STALE = Statement("""
SELECT u.tenant, u.name, u.job_id
FROM calendars c
JOIN job_calendars u ON u.tenant = c.tenant AND u.name = c.name AND u.version < c.version
LIMIT :most
""")

USE = Statement("""
INSERT INTO job_calendars (tenant, name, version, job_id)
SELECT u.tenant, u.name, u.version, u.job_id
FROM {rows:u(tenant text, name text, version integer, job_id text)}
""")

DISUSE = Statement("DELETE FROM job_calendars WHERE job_id = :id")


def with_calendars(tenant: str, definitions: list[Definition]) -> Steps[list[Definition | Invalid]]:
    """Each with the days of the calendar that it names, as they are now."""
    names = {name for definition in definitions if (name := name_of(definition))}
    if not names:
        return [*definitions]
    rows = yield NAMED(tenant=tenant, wanted=[(name,) for name in sorted(names)])
    known = {row["name"]: row for row in rows}
    return [_filled(definition, known) for definition in definitions]


def name_of(definition: Definition) -> str | None:
    return (definition.calendar or {}).get("name")


def use_of(tenant: str, definition: Definition, job_id: str) -> list[tuple[Any, ...]]:
    calendar = definition.calendar or {}
    return [(tenant, calendar["name"], calendar["version"], job_id)] if "name" in calendar else []


def _filled(definition: Definition, known: dict[str, Row]) -> Definition | Invalid:
    name = name_of(definition)
    if name is None:
        return definition
    if name not in known:
        hint = f'Define it: PUT /calendars/{name} {{"exclude": ["2026-12-25"]}}.'
        return Invalid([Fault("/calendar", f'There is no calendar "{name}".', hint)])
    row = known[name]
    calendar = {"name": name, "version": row["version"], **json.loads(row["spec"])}
    return msgspec.structs.replace(definition, calendar=calendar)


@viewing
def find(tenant: str, names: list[str]) -> Steps[dict[str, Any]]:
    """The days of those that exist."""
    rows = yield NAMED(tenant=tenant, wanted=[(name,) for name in names])
    return {row["name"]: json.loads(row["spec"]) for row in rows}


@viewing
def listed(tenant: str) -> Steps[Rows]:
    return (yield ALL(tenant=tenant))


@transaction
def put(tenant: str, name: str, spec: dict[str, Any]) -> Steps[Row]:
    before = yield LOCK(tenant=tenant, name=name)
    yield PUT(tenant=tenant, name=name, spec=json.dumps(spec, sort_keys=True))
    yield note("calendar.set", name, json.loads(before[0]["spec"]) if before else None, spec)
    row = (yield LOCK(tenant=tenant, name=name))[0]
    return {**row, "is_new": not before}


@transaction
def delete(tenant: str, name: str) -> Steps[None]:
    if not (yield LOCK(tenant=tenant, name=name)):
        raise NotFound(f'There is no calendar "{name}".')
    users = [row["name"] for row in (yield USERS(tenant=tenant, name=name))]
    if users:
        hint = f'Change these jobs first: PATCH /jobs/{users[0]} {{"calendar": null}}.'
        raise Conflict(f'Calendar "{name}" is used by {", ".join(users)}.', "calendar_used", hint=hint)
    yield DELETE(tenant=tenant, name=name)
    yield note("calendar.deleted", name)


@reading
def stale(most: int) -> Steps[list[StaleJob]]:
    rows = yield STALE(most=most)
    return [StaleJob(row["tenant"], row["job_id"], row["name"]) for row in rows]

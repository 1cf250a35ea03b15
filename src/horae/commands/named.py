"""What jobs call by a name: calendars and secrets, kept by the tenant and looked up when a job is saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horae.commands.caller import Caller
from horae.core.calendars import check_days
from horae.core.checks import check_token, unsound
from horae.core.errors import Fault, Invalid
from horae.core.secrets import NAME, names_in
from horae.ports import CalendarStore, JobStore, NewJob, SecretKeeper, StoredRow
from horae.vault import Vault


class CalendarCommands:
    def __init__(self, store: CalendarStore, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake

    async def put(self, caller: Caller, name: str, document: object) -> StoredRow:
        """Jobs that name it follow within a second or two, each by a version of its own."""
        check_token(name, "/calendar")
        days = check_days(document)
        row = await self._store.put_calendar(caller.asked(None), caller.tenant, name, days)
        self._wake()
        return row

    async def delete(self, caller: Caller, name: str) -> None:
        await self._store.delete_calendar(caller.asked(None), caller.tenant, name)


class SecretCommands:
    def __init__(self, store: SecretKeeper, vault: Vault) -> None:
        self._store = store
        self._vault = vault

    async def put(self, caller: Caller, name: str, value: str) -> StoredRow:
        if not NAME.fullmatch(name):
            detail = "A secret's name has 1 to 64 letters, digits, dots, dashes or underscores, a letter first."
            raise Invalid([Fault("/secret", detail, "Write it like API_TOKEN.")])
        (row,) = await self._store.put_secret(
            caller.asked(None), caller.tenant, name, self._vault.seal(value, caller.tenant, name)
        )
        return row

    async def delete(self, caller: Caller, name: str) -> None:
        await self._store.delete_secret(caller.asked(None), caller.tenant, name)


async def with_calendars(store: JobStore, caller: Caller, documents: list[object]) -> list[object]:
    """A calendar that the tenant has defined, in place of its name; a name that is not known may be a country's."""
    named = {index: doc for index, doc in enumerate(documents) if isinstance(doc, dict) and _names_calendar(doc)}
    if not named:
        return documents
    names = sorted({doc["calendar"] for doc in named.values()})
    known = await store.find_calendars(caller.tenant, names)
    filled = [*documents]
    for index, doc in named.items():
        if doc["calendar"] in known:
            filled[index] = {**doc, "calendar": {"name": doc["calendar"], **known[doc["calendar"]]}}
    return filled


async def with_known_secrets(store: JobStore, caller: Caller, jobs: list[NewJob | Invalid]) -> list[NewJob | Invalid]:
    named = {job.id: names_in(job.definition.target) for job in jobs if isinstance(job, NewJob)}
    missing = await _missing_secrets(store, caller, named)
    return [missing.get(job.id, job) if isinstance(job, NewJob) else job for job in jobs]


async def check_secrets(store: JobStore, caller: Caller, document: object) -> None:
    """Those that a change of a job names."""
    if isinstance(document, dict) and not unsound(document):
        named = names_in([document.get("target"), document.get("callback_url")])
        for missing in (await _missing_secrets(store, caller, {"target": named})).values():
            raise missing


async def _missing_secrets(store: JobStore, caller: Caller, named: dict[str, frozenset[str]]) -> dict[str, Invalid]:
    """By key: the secrets that do not exist. Found now, not by the first run at night."""
    wanted = sorted({name for names in named.values() for name in names if NAME.fullmatch(name)})
    if not wanted:
        return {}
    found = await store.find_secrets([(caller.tenant, name) for name in wanted])
    unknown = set(wanted) - {secret.name for secret in found}
    return {
        key: Invalid([_no_secret(name) for name in sorted(names & unknown)])
        for key, names in named.items()
        if names & unknown
    }


def _no_secret(name: str) -> Fault:
    return Fault("/target", f'There is no secret "{name}".', f'Set it first: PUT /secrets/{name} {{"value": "…"}}.')


def _names_calendar(document: dict[str, Any]) -> bool:
    name = document.get("calendar")
    return isinstance(name, str) and not unsound(name)

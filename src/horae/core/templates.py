"""Crowds of jobs are often one job with many names: what all of them say is read once, the rest for each.

The answer is always that of `parse_job`; a document that is unusual in any way goes straight there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from horae.core.aliases import kind_of
from horae.core.checks import FIELDS, check_size
from horae.core.document import parse_job
from horae.core.egress import Allow, check_url
from horae.core.errors import Invalid
from horae.core.job import Definition
from horae.core.sound import unsound

KEPT = 2048
# Fields that stand for themselves: they change nothing about how the others are read.
FREE = ("name", "payload", "labels", "description")
# No other spelling among them, and no instants, which may be past for one and not for the next.
PLAIN = frozenset(
    {
        *FREE,
        *("schedule", "timezone", "type", "target", "priority", "queue", "timeout", "retry", "misfire", "overlap"),
        *("max_concurrency", "concurrency_key", "jitter", "dst", "delivery", "max_runs"),
    }
)
STEADY = frozenset({"CRON", "INTERVAL", "MANUAL"})

_encode = msgspec.json.Encoder().encode


class Templates:
    """`allow` is HORAE_EGRESS_ALLOW, as for `parse_job`."""

    def __init__(self, allow: Allow = ()) -> None:
        self._allow = allow
        self._known: OrderedDict[bytes, Definition] = OrderedDict()

    def parse(self, document: object, *, job_id: str, now_us: int, tenant: str) -> Definition:
        key = _key(document)
        known = None if key is None else self._known.get(key)
        if known is not None and isinstance(document, dict):
            try:
                return _fill(known, document, self._allow)
            except Invalid:
                pass  # parse_job names every fault
        definition = parse_job(document, job_id=job_id, now_us=now_us, tenant=tenant, allow=self._allow)
        if key is not None and isinstance(document, dict) and _is_template(definition, document):
            self._known[key] = definition
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return definition


def _key(document: object) -> bytes | None:
    """The same for documents that differ only in what is free; None for one that is not plain."""
    if type(document) is not dict or not document.keys() <= PLAIN:
        return None
    target = document.get("target")
    if type(target) is not dict or not all(type(document.get(name)) is str for name in ("name", "type")):
        return None
    common = {name: value for name, value in document.items() if name not in FREE}
    if type(target.get("url")) is str:
        common["target"] = {name: value for name, value in target.items() if name != "url"}
        common["url"] = True
    common["free"] = [name in document for name in FREE]
    try:
        return _encode(common)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _is_template(definition: Definition, document: dict[str, Any]) -> bool:
    """Whether what is free was taken as it is, and the schedule means the same at any time."""
    is_as_told = all(getattr(definition, name) == document[name] for name in FREE if name in document)
    is_steady = all(kind_of(text) in STEADY for text in definition.schedule)
    return is_as_told and is_steady and definition.target.get("url") == document["target"].get("url")


def _fill(known: Definition, document: dict[str, Any], allow: Allow) -> Definition:
    if flaws := unsound(document):
        raise Invalid(flaws)
    values: dict[str, Any] = {}
    for name in FREE:
        if name in document:
            value = values[name] = FIELDS[name][1](document[name], f"/{name}")
            if value != document[name] or (isinstance(value, str) and name == "payload"):
                raise Invalid([])  # a text may hold JSON, null is the default
    target = document["target"]
    if "url" in target:
        if faults := check_url(target["url"], "/target/url", allow):
            raise Invalid(faults)
        check_size(target, "/target")
        values["target"] = known.target | {"url": target["url"]}
    return msgspec.structs.replace(known, **values)

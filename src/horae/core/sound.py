"""What can be neither stored nor sent on, anywhere in a document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from horae.core.checks import MOST_FAULTS, escape, label
from horae.core.errors import Fault

DEEPEST = 64
LARGEST_INTEGER = 2**64


def unsound(document: object) -> list[Fault]:
    """What can be neither stored nor sent on: NUL, half characters, infinite numbers, bottomless nesting."""
    return [] if _is_sound(document, DEEPEST) else list(islice(_flaws(document, "", DEEPEST), MOST_FAULTS))


def _is_sound(value: Any, room: int) -> bool:
    """Plain loops, and the common types first: every document comes through here."""
    kind = type(value)
    if kind is str:
        return _is_storable(value)
    if kind is int:
        return bool(-LARGEST_INTEGER < value < LARGEST_INTEGER)
    if kind is dict:
        for key in value:
            if type(key) is not str or not _is_storable(key):
                return False
        return room > 0 and _are_sound(value.values(), room - 1)
    if kind is list:
        return room > 0 and _are_sound(value, room - 1)
    return _flaw(value) is None


def _are_sound(values: Iterable[Any], room: int) -> bool:
    for value in values:  # noqa: SIM110 a generator costs twice as much
        if not _is_sound(value, room):
            return False
    return True


def _is_storable(value: str) -> bool:
    if value.isascii():
        return "\0" not in value
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _flaws(value: object, pointer: str, room: int) -> Iterator[Fault]:
    match value:
        case dict() | list() if not room:
            yield Fault(pointer, f"{label(pointer)} is nested more than {DEEPEST} levels deep.", "Flatten it.")
        case dict():
            for key, item in value.items():
                if flaw := _flaw(key) if isinstance(key, str) else "is not text":
                    yield Fault(pointer, f"{label(pointer)} has a key that {flaw}.", "Rename it.")
                else:
                    yield from _flaws(item, f"{pointer}/{escape(key)}", room - 1)
        case list():
            for at, item in enumerate(value):
                yield from _flaws(item, f"{pointer}/{at}", room - 1)
        case _ if flaw := _flaw(value):
            yield Fault(pointer, f"{label(pointer)} {flaw}.", "Leave it out.")


def _flaw(value: object) -> str | None:
    match value:
        case str() if "\0" in value:
            return "contains a NUL character, which cannot be stored"
        case str() if not _is_storable(value):
            return "contains half a character (a lone surrogate), which is not valid text"
        case float() if not math.isfinite(value):
            return "is not a finite number"
        case int() if abs(value) >= LARGEST_INTEGER:
            return "is a whole number of more than 64 bits; send it as text"
        case str() | int() | float() | None:
            return None
        case _:
            return f"is a Python {type(value).__name__}, not JSON"

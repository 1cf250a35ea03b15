"""Secrets in targets: where they are named, how they are filled in, and how they are kept out of what a run leaves."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from horae.core.errors import Fault, Invalid

LONGEST = 64 * 1024
MASK = "***"
# Shorter ones would mask half of every text.
SHORTEST = 4

_REFERENCE = re.compile(r"\{\{\s*secret\.([^\s{}]*)\s*\}\}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
# Keys in PEM have lines; all other control characters are a slip of whoever pasted them.
_NOT_IN_VALUES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_value(value: object, pointer: str) -> str:
    """The value of a secret. A fault says what is wrong with it and shows nothing of it."""
    wanted = f"text of 1 to {LONGEST:,} characters"
    if not isinstance(value, str):
        raise _bad_value(pointer, f"must be {wanted}, in quotes; this is none")
    if not 1 <= len(value) <= LONGEST:
        raise _bad_value(pointer, f"must be {wanted}; this has {len(value):,}")
    if bad := _NOT_IN_VALUES.search(value):
        what = f"U+{ord(bad[0]):04X} as character {bad.start() + 1:,}"
        raise _bad_value(pointer, f"may have tabs and line ends but no other control characters; this has {what}")
    return value


def _bad_value(pointer: str, detail: str) -> Invalid:
    return Invalid([Fault(pointer, f"The value of a secret {detail}.", 'Write {"value": "the secret"}.')])


def names_in(value: Any) -> frozenset[str]:
    """The names of `{{ secret.NAME }}` anywhere in a target."""
    return frozenset(name for text in _texts(value) if "{{" in text for name in _REFERENCE.findall(text))


def fill(value: Any, secrets: Mapping[str, str]) -> Any:
    """The same value with each reference replaced. All names must be known."""
    return _changed(value, lambda text: _REFERENCE.sub(lambda match: secrets[match[1]], text) if "{{" in text else text)


def stand_in(value: Any) -> Any:
    """The same value with a harmless word for each reference, for checks that want to see a real URL."""
    return _changed(value, lambda text: _REFERENCE.sub("secret", text) if "{{" in text else text)


class Redactor:
    """Masks the given secrets in text, also as base64, in a URL and inside JSON. Best effort: what a program does to a
    secret before it prints it cannot be foreseen.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        forms = {form for secret in secrets.values() if len(secret) >= SHORTEST for form in _forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None
        self._tail = ""

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def value(self, value: Any) -> Any:
        return _changed(value, self.text)

    def stream(self, text: str) -> str:
        """Output in pieces: as much as cannot be the beginning of a secret; `end` gives the rest."""
        shown, self._tail = self.part(self._tail + text)
        return shown

    def end(self) -> str:
        text, self._tail = self._tail, ""
        return self.text(text)

    def part(self, text: str) -> tuple[str, str]:
        """The text, masked, up to where a secret may begin whose rest is still to come; and from there on, as it is."""
        if self._pattern is None:
            return text, ""
        cut = len(text) - _overlap(self._forms, text)
        for match in self._pattern.finditer(text):
            if match.start() < cut < match.end():
                cut = len(text) - _overlap(self._forms, text[match.end() :])
        return self.text(text[:cut]), text[cut:]

    def without_ending(self, text: str) -> str:
        """A text whose beginning may be the ending of a secret, of which nobody knows what came before."""
        size = _overlap([form[::-1] for form in self._forms], text[::-1])
        return text if size < SHORTEST else MASK + text[size:]


def _overlap(forms: list[str], text: str) -> int:
    """How many characters at the end of the text are the beginning of a form that goes on after it."""
    most = 0
    for form in forms:
        at = text.find(form[0], max(0, len(text) - len(form) + 1))
        while 0 <= at < len(text) - most:
            if form.startswith(text[at:]):
                most = len(text) - at
            at = text.find(form[0], at + 1)
    return most


def _forms(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield b64encode(raw).decode().rstrip("=")
    yield urlsafe_b64encode(raw).decode().rstrip("=")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_changed(key, change): _changed(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    return value

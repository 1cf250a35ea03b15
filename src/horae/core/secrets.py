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
# Shorter ones would mask half of every text, so there are none.
SHORTEST = 4
# Texts of a result that are at least so long may have been shortened.
SHORTENED = 4000

_REFERENCE = re.compile(r"\{\{\s*secret\.([^\s{}]*)\s*\}\}")
# Up to where the path or the query begins.
_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*(?=[/?])")
# Control characters are left as they are: a URL that has them is refused. So are escapes that are there already.
_BREAKS_URL = re.compile(r"%(?![0-9A-Fa-f]{2})|[ !-$&-,:-@\[-^`{-}]")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
# Keys in PEM have lines; all other control characters are a slip of whoever pasted them.
_NOT_IN_VALUES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_value(value: object, pointer: str) -> str:
    """The value of a secret. A fault says what is wrong with it and shows nothing of it."""
    wanted = f"text of {SHORTEST} to {LONGEST:,} characters"
    if not isinstance(value, str):
        raise _bad_value(pointer, f"must be {wanted}, in quotes; this is none")
    if not SHORTEST <= len(value) <= LONGEST:
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


def fill_url(text: str, secrets: Mapping[str, str]) -> str:
    """A URL with each reference replaced. One in its path or query is a part of it and cannot end it: `#`, `&` and the
    like are escaped. What comes before those is taken as it is: a secret may be a host, or a whole URL.
    """
    begins = _PATH.match(text)
    after = begins.end() if begins else len(text)

    def put(match: re.Match[str]) -> str:
        value = secrets[match[1]]
        return value if match.start() < after else _BREAKS_URL.sub(lambda found: quote(found[0], safe=""), value)

    return _REFERENCE.sub(put, text)


def stand_in(value: Any) -> Any:
    """The same value with a harmless word for each reference, for checks that want to see a real URL."""
    return _changed(value, lambda text: _REFERENCE.sub("secret", text) if "{{" in text else text)


# What executors write where they cut output off.
TRUNCATED = "\n[output truncated]\n"


class Redactor:
    """Masks the given secrets in text, also as base64, as hex, in a URL and inside JSON. Best effort: what a program
    does to a secret before it prints it cannot be foreseen.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._forms = {form for secret in secrets.values() if len(secret) >= SHORTEST for form in _forms(secret)}
        self._backwards: set[str] = set()
        self._tail = ""

    def text(self, text: str) -> str:
        return _masked(text, self._spans(text))

    def value(self, value: Any) -> Any:
        return _changed(value, lambda text: self.text(text) if len(text) < SHORTENED else self.torn(text))

    def stream(self, text: str) -> str:
        """Output in pieces: as much as cannot be the beginning of a secret; `end` gives the rest."""
        shown, self._tail = self.part(self._tail + text)
        return shown

    def end(self) -> str:
        text, self._tail = self._tail, ""
        return self.text(text)

    def part(self, text: str) -> tuple[str, str]:
        """The text, masked, up to where a secret may begin whose rest is still to come; and from there on, as it is. Of
        one that output was cut off in nothing is to come.
        """
        if TRUNCATED in text:
            before, _, after = text.partition(TRUNCATED)
            # Half of a letter is no part of any secret.
            shown, begun = self.part(before.rstrip("\ufffd"))
            more, rest = self.part(after)
            return f"{shown}{MASK if len(begun) >= SHORTEST else begun}{TRUNCATED}{more}", rest
        spans = self._spans(text)
        cut = len(text) - _overlap(self._forms, text)
        for start, end in spans:
            if start < cut < end:
                cut = len(text) - _overlap(self._forms, text[end:])
        return _masked(text[:cut], [span for span in spans if span[1] <= cut]), text[cut:]

    def torn(self, text: str) -> str:
        """A text that was shortened before: what is left of a secret at the beginning or the end of a line is masked
        as well.
        """
        return "\n".join(map(self._torn_line, self.text(text).split("\n")))

    def _torn_line(self, line: str) -> str:
        mark = "…" if line.startswith("…") else ""
        line = self.without_ending(line[len(mark) :])
        size = _overlap(self._forms, line)
        return mark + (line if size < SHORTEST else line[:-size] + MASK)

    def without_ending(self, text: str) -> str:
        """A text whose beginning may be the ending of a secret, of which nobody knows what came before."""
        self._backwards = self._backwards or {form[::-1] for form in self._forms}
        size = _overlap(self._backwards, text[::-1])
        return text if size < SHORTEST else MASK + text[size:]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets are, from left to right; those that overlap are one.

        One search for each form: a pattern of all of them takes up to a second to compile where a secret is long.
        """
        found = []
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = text.find(form, at + len(form))
        spans: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if spans and start < spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        return spans


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    if not spans:
        return text
    ends = [0, *(end for _, end in spans)]
    shown = [text[end:start] for end, (start, _) in zip(ends, spans, strict=False)]
    return MASK.join([*shown, text[ends[-1] :]])


def _overlap(forms: set[str], text: str) -> int:
    """How many characters at the end of the text are the beginning of a form that goes on after it."""
    most = 0
    for form in forms:
        at = text.find(form[0], max(0, len(text) - len(form) + 1))
        while 0 <= at < len(text) - most:
            # A short look first, which copies nothing.
            if text.startswith(form[: min(8, len(text) - at)], at) and form.startswith(text[at:]):
                most = len(text) - at
            at = text.find(form[0], at + 1)
    return most


# What those who write URLs leave as it is: Python's quote, strict or not, and JavaScript's two.
_SAFE = ("", "/", "!'()*", ";,/?:@&=+$!'()*#")
_ESCAPE = re.compile("%[0-9A-F]{2}")
# A line of a secret that has several, printed without the others. Shorter ones are brackets and the like.
SHORTEST_LINE = 8


def _forms(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield raw.hex()
    yield raw.hex().upper()
    for told in {quote_plus(secret), quote_plus(secret, safe="/"), *(quote(secret, safe=safe) for safe in _SAFE)}:
        yield told
        yield _ESCAPE.sub(lambda match: match[0].lower(), told)
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            yield from _in_base64(raw, before, encode)
    lines = secret.splitlines()
    yield from (line for line in lines if len(line) >= SHORTEST_LINE and len(lines) > 1)


def _in_base64(raw: bytes, before: int, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """The characters that stand for these bytes alone, wherever in an encoded text they are: with so many bytes before
    them in their group of three, and at its end or with more after them.
    """
    text = encode(b"\0" * before + raw).decode().rstrip("=")
    first, last = -(-8 * before // 6), 8 * (before + len(raw)) // 6
    yield text[first:]
    yield text[first:last]


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

"""Is an endpoint safe to be called more than once? Sends duplicates, late, reordered and concurrent calls, and judges.

What an endpoint does can be seen from outside only by its answers. With `effects`, an address that tells how often a
key has had its effect, the verdict rests on that too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

AT_ONCE = 10
PASSED, FAILED, UNSEEN = "ok", "FAILED", "cannot be seen"
# A call that is refused for now, or because it is old news.
_HELD_BACK = frozenset({409, 412, 425, 429, 503})


class Unreachable(Exception):
    """There is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`effects` holds `{key}`, which is replaced by the key that is asked about."""

    url: str
    method: str = "POST"
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    effects: str | None = None
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_held_back(self) -> bool:
        return self.status in _HELD_BACK


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: str
    detail: str


class Trial:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._job = f"conform-{secrets.token_hex(4)}"
        self._fence = 1_000_000_000
        self._open = build_opener(ProxyHandler({}), _NoRedirects).open

    def run(self) -> list[Finding]:
        checks: list[tuple[str, Callable[[], str | None]]] = [
            ("first call", self._first),
            ("duplicate", self._duplicate),
            ("retry", self._retry),
            ("late call", self._late),
            ("reordered calls", self._reordered),
            ("concurrent calls", self._concurrent),
            ("other keys", self._others),
        ]
        findings = []
        for name, check in checks:
            fault = check()
            good = (_GOOD if self._endpoint.effects else _ANSWERED)[name]
            findings.append(Finding(name, FAILED if fault else PASSED, fault or good))
            if name == "first call" and fault:
                break
        if self._endpoint.effects is None:
            detail = "Whether the effect happened twice is not in the answers; give an address with --effects."
            findings.append(Finding("effects", UNSEEN, detail))
        return findings

    # Each check makes its own key; what it returns is what is wrong.

    def _first(self) -> str | None:
        key = _key()
        answer = self._call(key, self._next_fence())
        if not answer.is_success:
            return f"The endpoint answered {answer.status} to a plain call, so nothing can be judged."
        return self._count_fault(key, 1)

    def _duplicate(self) -> str | None:
        key, fence = _key(), self._next_fence()
        first = self._call(key, fence)
        again = [self._call(key, fence) for _ in range(3)]
        return self._same_fault(first, again) or self._count_fault(key, 1)

    def _retry(self) -> str | None:
        """The answer to the first attempt was lost; the next one has a newer fence."""
        key = _key()
        first = self._call(key, self._next_fence())
        again = self._call(key, self._next_fence(), attempt=2)
        if not again.is_success:
            return f"A retry of a call that had succeeded was answered {again.status}: the run would fail for nothing."
        return self._same_fault(first, [again]) or self._count_fault(key, 1)

    def _late(self) -> str | None:
        """A call of an attempt that was given up arrives after the one that replaced it."""
        key, old = _key(), self._next_fence()
        first = self._call(key, self._next_fence(), attempt=2)
        late = self._call(key, old)
        return self._same_fault(first, [late]) or self._count_fault(key, 1)

    def _reordered(self) -> str | None:
        key = _key()
        fences = [self._next_fence() for _ in range(4)]
        answers = [self._call(key, fences[index], attempt=index + 1) for index in (2, 0, 3, 1)]
        return self._same_fault(answers[0], answers[1:]) or self._count_fault(key, 1)

    def _concurrent(self) -> str | None:
        key, fence = _key(), self._next_fence()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: self._call(key, fence), range(AT_ONCE)))
        wrong = sorted({answer.status for answer in answers if not (answer.is_success or answer.is_held_back)})
        if wrong:
            return f"Of {AT_ONCE} calls at once some were answered {', '.join(map(str, wrong))}."
        done = [answer for answer in answers if answer.is_success]
        if not done:
            return f"Of {AT_ONCE} calls at once none was done."
        return self._same_fault(done[0], done[1:]) or self._count_fault(key, 1)

    def _others(self) -> str | None:
        """An endpoint that takes every call for a repeat is safe and useless."""
        keys = [_key() for _ in range(3)]
        for key in keys:
            answer = self._call(key, self._next_fence())
            if not answer.is_success:
                return f"A call with a key of its own was answered {answer.status}."
        return next((fault for key in keys if (fault := self._count_fault(key, 1))), None)

    def _same_fault(self, first: Answer, others: list[Answer]) -> str | None:
        for answer in others:
            if answer.is_held_back:
                continue
            if not answer.is_success:
                return f"A repeat was answered {answer.status}; the first call {first.status}."
            if (answer.status, answer.body) != (first.status, first.body):
                return (
                    f"A repeat was answered otherwise than the first call: {_short(first)} and then {_short(answer)}."
                )
        return None

    def _count_fault(self, key: str, wanted: int) -> str | None:
        if self._endpoint.effects is None:
            return None
        count = self._count(self._endpoint.effects.replace("{key}", quote(key, safe="")))
        if count != wanted:
            return f"The effect of one key happened {count} times."
        return None

    def _count(self, url: str) -> int:
        answer = self._send(Request(url, headers={"Accept": "application/json"}))  # noqa: S310 checked by the caller
        try:
            document: Any = json.loads(answer.body)
        except ValueError:
            raise Unreachable(f"{url} answered {answer.status} and no JSON.") from None
        if isinstance(document, dict):
            document = document.get("count")
        if isinstance(document, list):
            return len(document)
        if not isinstance(document, int):
            raise Unreachable(f'{url} must answer a number, a list, or {{"count": number}}.')
        return document

    def _call(self, key: str, fence: int, attempt: int = 1) -> Answer:
        headers = {
            "Content-Type": "application/json",
            **self._endpoint.headers,
            "Idempotency-Key": key,
            "X-Horae-Run": key,
            "X-Horae-Job": self._job,
            "X-Horae-Fence": str(fence),
            "X-Horae-Attempt": str(attempt),
        }
        body = None if self._endpoint.method in ("GET", "HEAD") else self._endpoint.body
        return self._send(Request(self._endpoint.url, body, headers, method=self._endpoint.method))  # noqa: S310

    def _send(self, request: Request) -> Answer:
        try:
            with self._open(request, timeout=self._endpoint.timeout_seconds) as answer:
                return Answer(answer.status, answer.read())
        except HTTPError as error:
            with error:
                return Answer(error.code, error.read())
        except (OSError, HTTPException) as error:
            raise Unreachable(f"{request.full_url} could not be reached: {error}") from error

    def _next_fence(self) -> int:
        self._fence += 1
        return self._fence


class _NoRedirects(HTTPRedirectHandler):
    """As horae's own calls: a redirect is an answer, not a place to go on to."""

    def redirect_request(self, *_: Any) -> None:
        return None


_GOOD = {
    "first call": "is done",
    "duplicate": "is answered alike and not done again",
    "retry": "with a newer fence is answered as done",
    "late call": "of an attempt that was given up changes nothing",
    "reordered calls": "of several attempts come down to one",
    "concurrent calls": f"with one key, {AT_ONCE} at once, come down to one",
    "other keys": "are calls of their own",
}


# What can be said when only the answers are seen.
_ANSWERED = _GOOD | {
    "duplicate": "is answered alike",
    "late call": "of an attempt that was given up is answered alike",
    "reordered calls": "of several attempts are answered alike",
    "concurrent calls": f"with one key, {AT_ONCE} at once, are answered alike",
    "other keys": "are answered",
}


def try_out(endpoint: Endpoint) -> list[Finding]:
    return Trial(endpoint).run()


def is_safe(findings: list[Finding]) -> bool | None:
    """None: nothing is wrong with the answers, and what is behind them was not seen."""
    verdicts = {finding.verdict for finding in findings}
    if FAILED in verdicts:
        return False
    return None if UNSEEN in verdicts else True


def _key() -> str:
    return f"conform-{secrets.token_hex(12)}"


def _short(answer: Answer) -> str:
    text = answer.body.decode(errors="replace")
    return f"{answer.status} {text[:60] + '…' if len(text) > 60 else text}"

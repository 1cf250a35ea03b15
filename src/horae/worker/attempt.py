"""One attempt of one run: what the executor is told, how its outcome is judged, where its output goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from horae.core.job import Work
from horae.core.run import Attempt, judge
from horae.core.secrets import Redactor, fill, fill_url, names_in
from horae.ports import Again, Claimed, Ending, Held, LogChunk, Outcome, Request
from horae.worker.results import Results

RESULT_CAP = 64 * 1024
ERROR_CAP = 8 * 1024
LOG_CAP = 1024 * 1024
# A destination that is left alone costs no attempt for so long; one that stays dead must not keep runs for ever.
PATIENCE_US = 3_600_000_000
STOPPED = "The worker was told to stop before the run had ended."

_decode = msgspec.json.Decoder(Work).decode
_encode = msgspec.json.Encoder().encode


class Spec(NamedTuple):
    """How a version of a job is run, the names of the secrets in its target, and how long it is as text."""

    work: Work
    secrets: frozenset[str]
    characters: int


def read_spec(text: str) -> Spec:
    work = _decode(text)
    return Spec(work, names_in(work.target) if "{{" in text else frozenset(), len(text))


def request_of(claimed: Claimed, work: Work, upstream: dict[str, Any] | None, secrets: Mapping[str, str]) -> Request:
    payload = work.payload if claimed.payload is None else json.loads(claimed.payload)
    if payload is None and upstream is not None:
        payload = {}
    target = work.target
    if work.type == "custom" and "handler" not in target:
        target = {**target, "handler": work.name}
    if secrets:
        url = target.get("url") if work.type == "http" else None
        target = fill(target, secrets) | ({"url": fill_url(url, secrets)} if url else {})
    return Request(
        run_id=claimed.run_id,
        job_id=claimed.job_id,
        job_name=work.name,
        tenant=claimed.tenant,
        attempt=claimed.attempt,
        fence=claimed.token,
        scheduled_for_us=claimed.due_us,
        timeout_seconds=work.timeout_us / 1e6,
        target=target,
        payload=payload,
        upstream=upstream,
    )


def late_us(claimed: Claimed) -> int | None:
    """How long after its time a run started; of its first attempt, for later ones are late by intent."""
    return max(0, claimed.started_us - claimed.run_at_us) if claimed.attempt == 1 else None


class Reports(Protocol):
    """Where an outcome is handed on to."""

    def end(self, ending: Ending) -> None: ...

    def again(self, again: Again) -> None: ...


def report(
    results: Reports,
    claimed: Claimed | Held,
    work: Work,
    outcome: Outcome,
    redactor: Redactor | None = None,
) -> None:
    """Hands the outcome on: to the end of the run, or to another attempt."""
    if redactor is not None:
        error = None if outcome.error is None else redactor.torn(outcome.error)
        outcome = replace(outcome, error=error, result=redactor.value(outcome.result))
    after = outcome.retry_after_seconds
    if outcome.is_unsent and isinstance(claimed, Claimed) and claimed.waited_us < PATIENCE_US:
        delay_us = round((after or 1) * 1e6)
        results.again(Again(claimed.run_id, claimed.token, delay_us, outcome.reason, outcome.error, counts=False))
        return
    verdict = judge(
        work.retry,
        Attempt(claimed.run_id, claimed.attempt, claimed.max_attempts),
        succeeded=outcome.succeeded,
        is_retryable=outcome.is_retryable,
        retry_after_us=None if after is None else round(after * 1e6),
    )
    error = None if outcome.error is None else clean(outcome.error, ERROR_CAP)
    if verdict.status is None:
        results.again(Again(claimed.run_id, claimed.token, verdict.delay_us, outcome.reason, error))
    else:
        result = None if outcome.result is None else _result(outcome.result)
        results.end(
            Ending(claimed.run_id, claimed.token, verdict.status, outcome.reason, error, result, claimed.job_id)
        )


def give_back(results: Reports, run: Claimed | Held, work: Work) -> None:
    """A run that was stopped because its worker leaves: to another worker, or to an honest end."""
    if work.delivery == "at_most_once":
        results.end(Ending(run.run_id, run.token, "unknown", "worker_lost", STOPPED, None, run.job_id))
    else:
        results.again(Again(run.run_id, run.token, 0, "worker_lost", STOPPED, grace=1))


def no_secret(missing: frozenset[str]) -> Outcome:
    error = f"There is no secret {', '.join(sorted(missing))} that can be read; set it, then replay this run."
    return Outcome(succeeded=False, reason="payload_rejected", error=error, is_retryable=False)


def _result(value: Any) -> str:
    try:
        text = _encode(value).decode()
        is_plain = "\\u0000" not in text
    except (TypeError, ValueError, RecursionError):
        is_plain = False  # half of a surrogate pair, or what only Python takes for JSON
    if not is_plain:
        text = json.dumps(_without_nul(value), ensure_ascii=True)
    return text if len(text) <= RESULT_CAP else json.dumps({"truncated": True, "size": len(text)})


def _without_nul(value: Any) -> Any:
    """NUL cannot be stored; it is taken out of the values, not of their JSON, where it may be part of an escape."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(item) for item in value]
    return value


def clean(text: str, cap: int) -> str:
    """What both databases can keep: no NUL, no lone surrogates, no more than `cap` characters."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:cap]


class Output:
    """Takes an attempt's output while it runs, up to a cap."""

    __slots__ = ("_claimed", "_redactor", "_results", "_seq", "_size")

    def __init__(self, results: Results, claimed: Claimed, redactor: Redactor | None = None) -> None:
        self._results = results
        self._claimed = claimed
        self._redactor = redactor
        self._seq = 0
        self._size = 0

    async def write(self, text: str) -> None:
        self._keep(text if self._redactor is None else self._redactor.stream(text))

    def close(self) -> None:
        if self._redactor is not None:
            self._keep(self._redactor.end())

    def _keep(self, text: str) -> None:
        if self._size >= LOG_CAP or not text:
            return
        self._size += len(text)
        if self._size >= LOG_CAP:
            text += f"\n[horae: output above {LOG_CAP} characters is not kept]\n"
        self._seq += 1
        claimed, text = self._claimed, clean(text, LOG_CAP + 100)
        self._results.log(LogChunk(claimed.run_id, claimed.attempt, self._seq, text, claimed.tenant))

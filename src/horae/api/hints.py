"""What to do about a refusal that does not say it itself: where it is wrong, and a way out to paste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from horae.core.checks import nearest
from horae.core.errors import Fault, HoraeError, NotFound, Unavailable

AUTHORIZATION = "/headers/Authorization"
_LISTS = {
    "job": "GET /jobs",
    "run": "GET /runs",
    "worker": "GET /workers",
    "calendar": "GET /calendars",
    "secret": "GET /secrets",
    "webhook": "GET /webhooks",
    "delivery": "GET /deliveries",
    "key": "GET /keys",
    "tenant": "GET /tenants",
    "queue": "GET /queues",
}

# By code: a way out, for errors that have none of their own.
_WAYS = {
    "unauthorized": "Send Authorization: Bearer KEY, or X-API-Key: KEY; an admin makes a key with POST /keys.",
    "bad_keys": "Check the key, wait as long as Retry-After says, then send Authorization: Bearer KEY.",
    "rate_limited": "Wait as long as Retry-After says, then send it again.",
    "name_taken": "Choose another name, or change what has this one.",
    "duplicate": "Send it again.",
    "batch_refused": "Mend the one that was refused, or leave atomic out.",
    "job_deleted": "Make a new one with POST /jobs.",
    "run_is_live": "Wait for its end, or stop it with POST /runs/RUN/cancel.",
    "count_changed": "Look again with GET /dead-letters, then send the count that you see as expected_count.",
    "stale": "Read it again, then send the ETag of that answer as If-Match.",
    "stale_fence": "Stop the attempt and report nothing: another one is or was under way.",
    "worker_lost": 'Stop what runs, then claim under a new id: "worker": "mail-2".',
    "not_cancelled": "Report the outcome as it is: succeeded or failed.",
    "wrong_secret_key": "Set HORAE_OLD_SECRET_KEY to the key that sealed it, or set it anew: PUT /secrets/NAME.",
    "broken_seal": "Set it anew: PUT /secrets/NAME.",
    "conflict": "Read it again, then repeat what still applies.",
    "denied": "Ask an admin for a key with the role that this needs.",
}
_PLACES = {
    "unauthorized": AUTHORIZATION,
    "bad_keys": AUTHORIZATION,
    "rate_limited": AUTHORIZATION,
    "denied": AUTHORIZATION,
    "name_taken": "/name",
    "count_changed": "/expected_count",
    "stale": "/headers/If-Match",
    "stale_fence": "/fence",
    "quota_jobs": "",
    "quota_queued": "",
    "batch_refused": "",
}


def faults_of(error: HoraeError, detail: str, words: Mapping[str, str]) -> list[Fault]:
    """`detail` is as much of it as may be told. `words` are the parts of the path that were filled in, by name: what
    does not say where it is wrong is about the last of them.
    """
    listed: list[Fault] = getattr(error, "faults", [])
    if listed or isinstance(error, Unavailable):
        return listed
    name = next(reversed([*words]), "")
    hint = error.hint or _WAYS.get(error.code, "") or _lister(error.pointer or f"/path/{name}")
    if not hint:
        return []
    pointer = error.pointer
    if pointer is None:
        pointer = _PLACES.get(error.code, f"/path/{name}" if name else "")
    return [Fault(pointer, detail, hint.replace("/RUN/", f"/{words.get('run', 'RUN')}/"))]


@contextmanager
def at(pointer: str) -> Iterator[None]:
    """What is not found in here was named there."""
    try:
        yield
    except NotFound as error:
        error.pointer = pointer
        raise


def unknown_path(path: str, known: Iterable[str]) -> str:
    """The path of the API that may have been meant."""
    near = nearest(path, known)
    return f"Did you mean {near}? /openapi.json shows them all." if near else "/openapi.json shows them all."


def or_near(word: str, names: Iterable[str], kind: str) -> str:
    """For something that is not there: the one that may have been meant."""
    near = nearest(word, names)
    return f"Did you mean {near}? {_LISTS[kind]} shows them all." if near else ""


def _lister(pointer: str) -> str:
    kind = pointer.rpartition("/")[2]
    return f"{_LISTS[kind]} shows them all." if kind in _LISTS else ""

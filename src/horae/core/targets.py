"""What a job's target may say, for each type. Checked once when the job is saved; the executors rely on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

from horae.core.checks import escape, nearest, refuse, snippet
from horae.core.duration import parse_duration
from horae.core.egress import Allow, check_url
from horae.core.errors import Fault, Invalid
from horae.core.secrets import NAME, names_in, stand_in

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
BODILESS = frozenset({"GET", "HEAD"})
DEFAULT_EXPECT = "2xx"

FIELDS = {
    "http": ("url", "method", "headers", "body", "expect"),
    "shell": ("command", "cwd", "env"),
    "python": ("handler", "args", "secrets"),
    "custom": ("handler", "args", "secrets"),
    "noop": ("sleep", "fail"),
}

MOST_HEADERS = 64
LONGEST_HEADER = 8192
LONGEST_COMMAND = 100_000  # Linux takes 131,072 bytes in one argument
MOST_FAILURES = 1_000_000

# Set by horae or by the connection: a job that could set them could forge a run or smuggle a request.
_FORBIDDEN_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "idempotency-key",
        "traceparent",
    }
)
_FORBIDDEN_PREFIXES = ("x-horae-", "webhook-")

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STATUS = re.compile(r"([1-5])xx|([1-5]\d\d)(?:-([1-5]\d\d))?", re.IGNORECASE | re.ASCII)
# Tab is the one control character a header value may hold. Half a surrogate pair, which JSON can spell, is no text.
NOT_IN_HEADERS = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
BROKEN_HEADER = "holds a line break or another control character"
_NO_NAME = "has a name that none can have"
_OURS = "is set by horae and cannot be given"
_NOT_IN_ARGUMENTS = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Expect:
    """Which answers of an http target are a success."""

    statuses: tuple[tuple[int, int], ...]
    body_contains: str | None = None

    def takes_status(self, status: int) -> bool:
        return any(first <= status <= last for first, last in self.statuses)


def check_target(type: str, target: object, pointer: str, allow: Allow = ()) -> list[Fault]:
    """Every fault of a target. `allow` is HORAE_EGRESS_ALLOW: without it an http job must lead to a public host."""
    fields = _fields_of(type, stand_in(target))
    if fields is None:
        return refuse(pointer, f"an object with {', '.join(FIELDS[type])}", target).faults
    faults = [_unknown(type, str(name), pointer) for name in fields if name not in FIELDS[type]]
    faults += _check_secrets(type, target, pointer)
    match type:
        case "http":
            return faults + check_http_target(fields, pointer, allow)
        case "shell":
            return faults + _check_shell(fields, pointer)
        case "noop":
            return faults + _check_noop(fields, pointer)
        case _:
            return faults + _check_handler(type, fields, pointer)


def _check_secrets(type: str, target: object, pointer: str) -> list[Fault]:
    hint = 'Write "{{ secret.API_TOKEN }}".'
    wrong = sorted(name for name in names_in(target) if not NAME.fullmatch(name))
    faults = [Fault(pointer, f"{name[:80]!r} is not the name of a secret.", hint) for name in wrong]
    if type == "shell" and isinstance(target, Mapping) and names_in(target.get("command")):
        # Every user of the machine can read the command of a process.
        hint = 'Write "env": {"TOKEN": "{{ secret.API_TOKEN }}"} and use $TOKEN in the command.'
        faults.append(Fault(f"{pointer}/command", "A command shows its secrets to the whole machine.", hint))
    return faults


def normalize_target(type: str, target: object) -> dict[str, Any]:
    """A target that passed `check_target`, with its defaults filled in."""
    fields = {name: value for name, value in (_fields_of(type, target) or {}).items() if value is not None}
    match type:
        case "http":
            defaults: dict[str, Any] = {"method": "POST", "headers": {}, "expect": DEFAULT_EXPECT}
            filled = defaults | fields
            filled["method"] = filled["method"].upper()
            filled["headers"] = {name: str(value) for name, value in filled["headers"].items()}
            return filled
        case "noop":
            return {"sleep": "0s", "fail": 0} | fields
        case _:
            return fields


def check_http_target(target: Mapping[str, Any], pointer: str, allow: Allow = ()) -> list[Fault]:
    """The faults of the known fields of an http target."""
    url = target.get("url")
    faults = (
        check_url(url, f"{pointer}/url", allow)
        if isinstance(url, str)
        else refuse(f"{pointer}/url", "a URL", url, "https://example.com/path").faults
    )
    faults += _check_method(target, pointer)
    faults += _check_headers(target.get("headers"), f"{pointer}/headers")
    try:
        read_expect(target.get("expect"))
    except ValueError as error:
        wanted = f"a status, a class, a range or a list of these ({error})"
        faults += refuse(f"{pointer}/expect", wanted, target["expect"], "2xx,404").faults
    return faults


def read_expect(value: object) -> Expect:
    """`"2xx"`, `"200,404"`, `200`, a list of these, or `{"status": any of these, "body_contains": text}`.

    Anything else raises ValueError.
    """
    if value is None or isinstance(value, str):
        return _read_statuses(DEFAULT_EXPECT if value is None else value)
    if not isinstance(value, Mapping):
        return _read_statuses(_status_text(value))
    for name in value:
        if name not in {"status", "body_contains"}:
            raise ValueError(f"an object has status and body_contains, not {name}")
    status, contains = value.get("status"), value.get("body_contains")
    if isinstance(status, Mapping):
        raise ValueError("status is no object")  # noqa: TRY004
    if contains is not None and not (isinstance(contains, str) and contains):
        raise ValueError("body_contains is a text")
    return Expect(read_expect(status).statuses, contains)


@lru_cache(maxsize=256)
def _read_statuses(text: str) -> Expect:
    return Expect(tuple(_read_status(word.strip()) for word in text.split(",")))


def _read_status(word: str) -> tuple[int, int]:
    match = _STATUS.fullmatch(word)
    if match is None:
        raise ValueError(f"{word[:40]!r} is none of them")
    kind, first, last = match.groups()
    if kind:
        return int(kind) * 100, int(kind) * 100 + 99
    if last and last < first:
        raise ValueError(f"the range {word} is empty")
    return int(first), int(last or first)


def _status_text(value: object) -> str:
    words = value if isinstance(value, list) else [value]
    if not words or any(isinstance(word, bool) or not isinstance(word, str | int) for word in words):
        raise ValueError("texts and whole numbers only")
    return ",".join(map(str, words))


def _check_method(target: Mapping[str, Any], pointer: str) -> list[Fault]:
    method = target.get("method")
    if method is None:
        return []
    if not isinstance(method, str) or method.upper() not in METHODS:
        return refuse(f"{pointer}/method", f"one of {', '.join(METHODS)}", method, "POST").faults
    if method.upper() in BODILESS and target.get("body"):
        hint = 'Leave "body" out, or write "method": "POST".'
        return refuse(f"{pointer}/body", f"absent with {method.upper()}", target["body"], hint=hint).faults
    return []


def _check_headers(headers: object, pointer: str) -> list[Fault]:
    if headers is None:
        return []
    if not isinstance(headers, Mapping) or len(headers) > MOST_HEADERS:
        return refuse(pointer, f"an object of at most {MOST_HEADERS} texts", headers, {"X-Team": "billing"}).faults
    faults = []
    seen: set[str] = set()
    for name, value in headers.items():
        detail = _header_fault(str(name), value)
        hint = _entry_hint(pointer, str(name), value, ("X-Team", "billing"), detail)
        if str(name).lower() in seen:
            detail, hint = "is given twice", "Give it once, in upper or lower case."
        if detail:
            faults.append(Fault(f"{pointer}/{escape(str(name))}", f"The header {str(name)[:80]!r} {detail}.", hint))
        seen.add(str(name).lower())
    return faults


def _entry_hint(pointer: str, name: str, value: object, example: tuple[str, str], detail: str | None) -> str:
    """A header or variable to paste: with its own name and as much of its value as can stay, where they can."""
    if detail == _OURS:
        return "Leave it out."
    if detail == _NO_NAME:
        return f"Write {snippet(pointer, dict([example]))}."
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    text = " ".join(NOT_IN_HEADERS.sub(" ", str(value)[:60]).split()) if is_plain else ""
    return f"Write {snippet(pointer, {name: text or example[1]})}."


def _header_fault(name: str, value: object) -> str | None:
    if not _HEADER_NAME.fullmatch(name) or len(name) > 256:
        return _NO_NAME
    if name.lower() in _FORBIDDEN_HEADERS or name.lower().startswith(_FORBIDDEN_PREFIXES):
        return _OURS
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "must be a text"
    if NOT_IN_HEADERS.search(str(value)):
        return BROKEN_HEADER
    if len(str(value)) > LONGEST_HEADER:
        return f"is longer than {LONGEST_HEADER} characters"
    return None


def _check_shell(target: Mapping[str, Any], pointer: str) -> list[Fault]:
    faults = _check_command(target.get("command"), f"{pointer}/command")
    cwd = target.get("cwd")
    if cwd is not None and not (_is_argument(cwd) and cwd.startswith("/")):
        faults += refuse(f"{pointer}/cwd", "an absolute path", cwd, "/srv/reports").faults
    env = target.get("env")
    if env is not None and not isinstance(env, Mapping):
        return faults + refuse(f"{pointer}/env", "an object of texts", env, {"REGION": "eu"}).faults
    for name, value in (env or {}).items():
        detail = _env_fault(str(name), value)
        if detail:
            hint = _entry_hint(f"{pointer}/env", str(name), value, ("REGION", "eu"), detail)
            faults.append(
                Fault(f"{pointer}/env/{escape(str(name))}", f"The variable {str(name)[:80]!r} {detail}.", hint)
            )
    return faults


def _check_command(command: object, pointer: str) -> list[Fault]:
    words: list[Any] = command if isinstance(command, list) else [command]
    if not words or not all(_is_argument(word) for word in words) or not words[0].strip():
        return refuse(pointer, "a text for the shell, or a list of texts", command, "./report.sh").faults
    if sum(map(len, words)) > LONGEST_COMMAND:
        return refuse(pointer, f"at most {LONGEST_COMMAND} characters", command).faults
    return []


def _env_fault(name: str, value: object) -> str | None:
    if not _ENV_NAME.fullmatch(name):
        return _NO_NAME
    if name.startswith("HORAE_"):
        return _OURS
    if not _is_argument(value) or len(str(value)) > LONGEST_COMMAND:
        return f"must be a text of at most {LONGEST_COMMAND} characters without NUL"
    return None


def _check_handler(type: str, target: Mapping[str, Any], pointer: str) -> list[Fault]:
    faults = []
    handler, args = target.get("handler"), target.get("args")
    is_absent = handler is None and type == "custom"
    if not is_absent and not (isinstance(handler, str) and handler.strip()):
        faults += refuse(f"{pointer}/handler", "a name that a worker registered", handler, "send_report").faults
    if args is not None and not isinstance(args, Mapping):
        faults += refuse(f"{pointer}/args", "an object", args, {"region": "eu"}).faults
    secrets = target.get("secrets")
    is_named = isinstance(secrets, Mapping) and all(isinstance(value, str) for value in secrets.values())
    if secrets is not None and not is_named:
        example = {"TOKEN": "{{ secret.TOKEN }}"}
        faults += refuse(f"{pointer}/secrets", "an object of texts", secrets, example).faults
    return faults


def _check_noop(target: Mapping[str, Any], pointer: str) -> list[Fault]:
    faults = []
    if target.get("sleep") is not None:
        try:
            parse_duration(target["sleep"], f"{pointer}/sleep")
        except Invalid as error:
            faults += error.faults
    fail = target.get("fail")
    if fail is not None and (type(fail) is not int or not 0 <= fail <= MOST_FAILURES):
        faults += refuse(f"{pointer}/fail", f"a number of attempts from 0 to {MOST_FAILURES}", fail, 2).faults
    return faults


def _fields_of(type: str, target: object) -> Mapping[str, Any] | None:
    if type == "http" and isinstance(target, str):
        return {"url": target}
    if target is None and type in {"custom", "noop"}:
        return {}
    return target if isinstance(target, Mapping) else None


def _unknown(type: str, name: str, pointer: str) -> Fault:
    near = nearest(name, FIELDS[type])
    hint = f'Did you mean "{near}"?' if near else f"A target of type {type} has {', '.join(FIELDS[type])}."
    return Fault(f"{pointer}/{escape(name)}", f"There is no field {name[:80]!r} here.", hint)


def _is_argument(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and not _NOT_IN_ARGUMENTS.search(value)

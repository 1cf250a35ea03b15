"""Jobs in YAML files: read with the line of everything, checked without a server, compared with what the server has.

A file says what is wanted of a job (its spec) and nothing of how it stands: paused or not, its id, its next due time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from horae.cli.failure import REJECTED, USAGE, Failure, unreadable
from horae.core.answered import READ_ONLY
from horae.core.checks import Collector
from horae.core.document import parse_job, render_definition
from horae.core.egress import allow_ranges
from horae.core.errors import Fault, Invalid
from horae.core.job import Definition

if TYPE_CHECKING:
    from horae.cli.client import Client

MOST_BYTES = 20_000_000
# How a job stands, which a file does not say, and what to do instead.
STANDING = dict.fromkeys(READ_ONLY, "Leave it out.") | {
    "status": "Leave it out; `horae pause NAME` and `horae resume NAME` change it.",
    "paused_until": "Leave it out; `horae pause NAME --until TIME` sets it.",
    "pause_reason": "Leave it out; `horae pause NAME --reason WHY` sets it.",
    "job_id": "Leave it out: a file knows a job by its name, and `horae job rename` changes that.",
    "id": "Leave it out: a file knows a job by its name, and `horae job rename` changes that.",
    "tenant": "Leave it out: the key says which tenant, or --tenant.",
}
# Which addresses may be reached is the server's to say.
EVERYWHERE = allow_ranges("0.0.0.0/0,::/0")
NOBODY = "00000000-0000-0000-0000-000000000000"


class Wanted(NamedTuple):
    """A job of a file, in full with every default, and where it stands: `lines` are those of all places of the file."""

    file: Path
    lines: dict[str, int]
    root: str
    spec: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    def place_of(self, pointer: str = "") -> str:
        return _place(self.file, self.lines, self.root, pointer)


def read_files(paths: Iterable[str]) -> list[Wanted]:
    """Every job of these files and folders. Raises with everything that is wrong, each with its file and line."""
    faults: list[dict[str, str]] = []
    found: list[Wanted] = []
    places: dict[str, str] = {}
    for file in _files(paths):
        _read_file(file, found, faults)
    for each in found:
        if each.name in places:
            detail = f'"{each.name}" is defined twice, also at {places[each.name]}.'
            faults.append({"pointer": each.place_of(), "detail": detail, "hint": "Keep one of them."})
        places[each.name] = each.place_of()
    faults += _circles({each.name: each for each in found})
    if faults:
        raise Failure(REJECTED, f"{len(faults)} things are wrong.", code="invalid", faults=faults)
    return found


def checked(document: Any) -> dict[str, Any]:
    """The job in full, as the server would answer it. Raises Invalid."""
    if isinstance(document, dict):
        # Whether it is the caller's is known to the server.
        document = {key: value for key, value in document.items() if key != "tenant"}
        calendar = document.get("calendar")
        if isinstance(calendar, str):
            document["calendar"] = _calendar(calendar)
        if not isinstance(document.get("name"), str):
            raise Invalid([Fault("/name", "A job in a file needs a name.", "Write name: daily-report")])
    # At the beginning of time no instant is past: whether it is too late is known to the server.
    return render_definition(parse_job(document, job_id=NOBODY, now_us=0, tenant="", allow=EVERYWHERE))


def checked_file(document: Any) -> dict[str, Any]:
    """The same for what somebody wrote into a file: how the job stands would be ignored, so it is refused."""
    standing = [key for key in document if key in STANDING] if isinstance(document, dict) else []
    told = "says how a job stands; a file says what is wanted of it (`horae job export` writes such files)."
    found = Collector([Fault(f"/{key}", f'"{key}" {told}', STANDING[key]) for key in standing])
    rest = {key: value for key, value in document.items() if key not in STANDING} if standing else document
    nothing: dict[str, Any] = {}
    spec = found.attempt(nothing, checked, rest)
    found.finish()
    return spec


def differences(spec: Mapping[str, Any], current: Mapping[str, Any], ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Fields that an apply would change. `ids` leads from names of jobs to their ids."""
    found = []
    for field, wanted in spec.items():
        before, after = _comparable(field, current[field], ids), _comparable(field, wanted, ids)
        if before != after:
            found.append({"field": field, "before": before, "after": after})
    return found


def upstream_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs that it runs after, each with `on`."""
    after = spec.get("after") or []
    return after if isinstance(after, list) else [after]


def as_file(client: Client, answer: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A job of the server as a file says it: without state, without defaults, other jobs by name."""
    defaults = render_definition(Definition(name="", type="custom"))
    document = {}
    for field, default in defaults.items():
        value = answer[field]
        if field == "after" and value:
            value = _with_names(client, value, names)
        elif field == "calendar" and value and "name" in value:
            value = value["name"]
        elif isinstance(value, dict) and isinstance(default, dict) and field in ("retry", "misfire", "dst"):
            value = {key: each for key, each in value.items() if each != default[key]}
            if not value:
                continue
        if value != default or field == "name" or (field == "type" and value == "custom"):
            document[field] = value
    return document


def _with_names(client: Client, after: Any, names: dict[str, str]) -> Any:
    if isinstance(after, list):
        return [_with_names(client, each, names) for each in after]
    if after["job"] not in names:
        names[after["job"]] = client.get(f"/jobs/{after['job']}")["name"]
    return after | {"job": names[after["job"]]}


def _comparable(field: str, value: Any, ids: Mapping[str, str]) -> Any:
    if field == "after" and value:
        parts = value if isinstance(value, list) else [value]
        return [each | {"job": ids.get(each["job"], each["job"])} for each in parts]
    if field == "calendar" and isinstance(value, dict) and "name" in value:
        return value["name"]
    return value


def _calendar(name: str) -> dict[str, Any]:
    from horae.core.calendars import check_calendar

    try:
        found: dict[str, Any] = check_calendar(name, "/calendar")
    except Invalid as error:
        if any("library" in fault.detail for fault in error.faults):
            raise
        return {"name": name}
    return found


def _files(paths: Iterable[str]) -> list[Path]:
    found: list[Path] = []
    for text in paths:
        where = Path(text)
        if where.is_dir():
            inside = sorted(each for each in where.rglob("*") if each.suffix in (".yaml", ".yml", ".json"))
            if not inside:
                raise Failure(USAGE, f"{where} has no .yaml files.", code="file")
            found += inside
        else:
            found.append(where)
    return found


def _read_file(file: Path, found: list[Wanted], faults: list[dict[str, str]]) -> None:
    from horae.cli.yaml_lines import read_documents

    try:
        text = _text(file)
        documents = read_documents(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{file} cannot be read: {unreadable(error)}.", code="file") from None
    except ValueError as error:
        line, told = error.args
        faults.append({"pointer": f"{file}:{line}", "detail": told, "hint": ""})
        return
    for document, lines, pointer in documents:
        try:
            spec = checked_file(document)
        except Invalid as error:
            for fault in error.faults:
                where = _place(file, lines, pointer, fault.pointer)
                faults.append({"pointer": where, "detail": fault.detail, "hint": fault.hint})
        else:
            found.append(Wanted(file, lines, pointer, spec))


def _text(file: Path) -> str:
    import sys

    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as source:
        data = source.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"more than {MOST_BYTES:,} bytes")
    return data.decode()


def _place(file: Path, lines: Mapping[str, int], root: str, pointer: str) -> str:
    """`jobs.yaml:7 /target`: the line of that place, or of the nearest around it that was written."""
    inside = root + pointer
    while inside not in lines and inside:
        inside = inside.rpartition("/")[0]
    return f"{file}:{lines.get(inside, 1)}{f' {pointer}' if pointer else ''}"


def _circles(jobs: Mapping[str, Wanted]) -> Iterator[dict[str, str]]:
    """Jobs that would wait for each other. Sent one by one, the first is told that its upstream is missing."""
    from graphlib import CycleError, TopologicalSorter

    waits = {name: [after["job"] for after in upstream_of(each.spec)] for name, each in jobs.items()}
    while True:
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            circle = error.args[1]
            detail = f"These jobs would wait for each other: {' → '.join(circle)}."
            hint = "Take one of the `after` entries out."
            yield {"pointer": jobs[circle[0]].place_of("/after"), "detail": detail, "hint": hint}
            waits[circle[0]] = []
        else:
            return

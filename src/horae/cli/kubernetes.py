"""Kubernetes CronJobs as jobs: a manifest, or what `kubectl get cronjob -o yaml` prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from horae.cli.crontab import Entry
from horae.core.errors import Invalid
from horae.core.schedule import parse_schedule

# In a command, in arguments and in values of variables: `$(A)`, and `$$` for a dollar sign.
REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
OVERLAP = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}


def read_cronjobs(text: str, *, zone: str, prefix: str = "") -> list[Entry]:
    """Every CronJob of the documents; others are passed over. Raises ValueError with a line and what is wrong."""
    from horae.cli.yaml_lines import read_documents

    entries = []
    for document, lines, pointer in read_documents(text):
        for found, where in _cronjobs(document, pointer):
            entries.append(_entry(found, lines.get(where, 1), zone, prefix))
    return entries


def _cronjobs(document: Any, pointer: str) -> Iterator[tuple[dict[str, Any], str]]:
    if not isinstance(document, dict):
        return
    if document.get("kind") == "List" or isinstance(document.get("items"), list):
        for index, each in enumerate(document.get("items") or []):
            yield from _cronjobs(each, f"{pointer}/items/{index}")
    elif document.get("kind") == "CronJob":
        yield document, pointer


def _entry(document: dict[str, Any], line: int, zone: str, prefix: str) -> Entry:
    meta, spec = document.get("metadata") or {}, document.get("spec") or {}
    name = str(meta.get("name") or "cronjob")
    schedule = str(spec.get("schedule") or "")
    entry = Entry(line, f"{schedule or '-'} {name}", schedule, name)
    zone = _zone(entry, spec, schedule, zone)
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2]
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    pod = (template.get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or []
    try:
        parse_schedule(schedule, zone=zone, anchor_us=0, seed=name)
    except Invalid as error:
        entry.refusal = f"{error.faults[0].detail} {error.faults[0].hint}".strip()
        return entry
    if len(containers) != 1:
        entry.refusal = f"has {len(containers)} containers; a job runs one command."
        return entry
    if pod.get("initContainers"):
        entry.refusal = "has initContainers, which run before it; a job runs one command."
        return entry
    target = _target(entry, containers[0])
    if entry.refusal:
        return entry
    entry.job = _job(entry, meta, spec, template, target)
    entry.job |= {"name": f"{prefix}{name}", "schedule": schedule, "timezone": zone}
    return entry


def _zone(entry: Entry, spec: dict[str, Any], schedule: str, zone: str) -> str:
    if spec.get("timeZone"):
        return str(spec["timeZone"])
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        return schedule.partition("=")[2].partition(" ")[0]
    entry.notes.append(f"no timeZone: it followed the controller, often UTC; taken as {zone}")
    return zone


def _target(entry: Entry, container: dict[str, Any]) -> dict[str, Any]:
    command = [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]
    if not command:
        entry.refusal = f"names no command; that of the image {container.get('image')} is not known here."
        return {}
    variables = container.get("env") or []
    given = {each["name"]: each.get("value") for each in variables if "valueFrom" not in each}
    plain = {name: "" if value is None else str(value) for name, value in given.items()}
    hidden = [each["name"] for each in variables if "valueFrom" in each]
    unknown = {name for text in (*command, *plain.values()) for name in REFERENCE.findall(text) if name} - set(plain)
    if unknown.intersection(hidden):
        told = ", ".join(f"$({name})" for name in hidden if name in unknown)
        entry.refusal = f"{told} came from the cluster and cannot be filled in here; let the command read it from env."
        return {}
    _note_surroundings(entry, container, command[0], hidden, unknown)
    env: dict[str, str] = {}
    for name, value in plain.items():
        env[name] = _filled_in(value, env)
    target: dict[str, Any] = {"command": [_filled_in(word, env) for word in command]}
    target |= {"env": env} if env else {}
    return target | ({"cwd": container["workingDir"]} if container.get("workingDir") else {})


def _note_surroundings(
    entry: Entry, container: dict[str, Any], program: str, hidden: list[str], unknown: set[str]
) -> None:
    image = container.get("image")
    entry.notes.append(f"ran in image {image}; now runs on the worker, which must have {shlex.quote(program)}")
    if container.get("envFrom") and unknown:
        told = ", ".join(f"$({name})" for name in sorted(unknown))
        entry.notes.append(f"{told} is kept as it is: if envFrom had it, write its value")
    if hidden or container.get("envFrom"):
        names = ", ".join([*hidden, *(["envFrom"] if container.get("envFrom") else [])])
        entry.notes.append(f"{names} came from the cluster: use `horae secret set` and name them in env")
    if container.get("volumeMounts"):
        entry.notes.append("its volumes are left out")


def _filled_in(text: str, known: dict[str, str]) -> str:
    """Names that are not known stay as they are."""
    return REFERENCE.sub(lambda match: "$" if match[1] is None else known.get(match[1], match[0]), text)


def _job(
    entry: Entry, meta: dict[str, Any], spec: dict[str, Any], template: dict[str, Any], target: dict[str, Any]
) -> dict[str, Any]:
    pods = [f"{key} {template[key]}" for key in ("completions", "parallelism") if template.get(key) not in (None, 1)]
    if pods:
        entry.notes.append(f"{', '.join(pods)}: ran in several pods; here it is one run")
    if spec.get("suspend"):
        entry.notes.append("suspended there: pause it here, an import makes it active")
    deadline = template.get("activeDeadlineSeconds")
    window = spec.get("startingDeadlineSeconds")
    # More than a hundred missed times stop a CronJob for good; here the window decides.
    misfire = {"policy": "run_once", "window": f"{window}s"} if window else {"policy": "run_once"}
    return {
        "type": "shell",
        "target": target,
        "retry": {"max_retries": int(template.get("backoffLimit", 6)), "delay": "10s", "max_delay": "6m"},
        "misfire": misfire,
        "overlap": OVERLAP.get(str(spec.get("concurrencyPolicy") or "Allow"), "allow"),
        "timeout": f"{deadline}s" if deadline else "24h",
        "labels": {"imported": "kubernetes"} | ({"namespace": str(meta["namespace"])} if meta.get("namespace") else {}),
    }

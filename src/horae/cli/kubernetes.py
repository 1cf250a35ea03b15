"""Kubernetes CronJobs as jobs: a manifest, or what `kubectl get cronjob -o yaml` prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from horae.cli.crontab import Entry
from horae.core.errors import Invalid
from horae.core.schedule import parse_schedule

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
    command = [*(containers[0].get("command") or []), *(containers[0].get("args") or [])]
    if not command:
        entry.refusal = f"names no command; that of the image {containers[0].get('image')} is not known here."
        return entry
    entry.job = _job(entry, meta, spec, template, containers[0], [str(word) for word in command])
    entry.job |= {"name": f"{prefix}{name}", "schedule": schedule, "timezone": zone}
    return entry


def _zone(entry: Entry, spec: dict[str, Any], schedule: str, zone: str) -> str:
    if spec.get("timeZone"):
        return str(spec["timeZone"])
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        return schedule.partition("=")[2].partition(" ")[0]
    entry.notes.append(f"no timeZone: it followed the controller, often UTC; taken as {zone}")
    return zone


def _job(
    entry: Entry,
    meta: dict[str, Any],
    spec: dict[str, Any],
    template: dict[str, Any],
    container: dict[str, Any],
    command: list[str],
) -> dict[str, Any]:
    entry.notes.append(
        f"ran in image {container.get('image')}; now runs on the worker, which must have {shlex.quote(command[0])}"
    )
    target: dict[str, Any] = {"command": command}
    env = {each["name"]: str(each["value"]) for each in container.get("env") or [] if "value" in each}
    if env:
        target["env"] = env
    hidden = [each["name"] for each in container.get("env") or [] if "valueFrom" in each]
    if hidden or container.get("envFrom"):
        names = ", ".join([*hidden, *(["envFrom"] if container.get("envFrom") else [])])
        entry.notes.append(f"{names} came from the cluster: use `horae secret set` and name them in env")
    if container.get("workingDir"):
        target["cwd"] = container["workingDir"]
    if container.get("volumeMounts"):
        entry.notes.append("its volumes are left out")
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

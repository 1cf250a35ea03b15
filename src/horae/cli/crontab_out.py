"""Jobs as a crontab, for whoever must go back: what a crontab cannot say stands above the line as a comment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import Any

_FIVE = re.compile(r"[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/-]+){4}")
_ONLY_HERE = re.compile(r"[LW#H?]")
MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def as_crontab(jobs: Iterable[dict[str, Any]]) -> str:
    lines: list[str] = []
    zone = None
    for job in sorted(jobs, key=lambda each: (each["timezone"], each["name"])):
        schedules = job["schedule"] if isinstance(job["schedule"], list) else [job["schedule"]]
        refusal = _refusal(job, schedules)
        lines.append(f"# {_on_one_line(job['name'])}")
        if refusal:
            lines += [f"# not written: {refusal}", ""]
            continue
        if job["timezone"] != zone:
            zone = job["timezone"]
            # cronie and others know it; Debian's cron does not and follows the machine.
            lines.append(f"CRON_TZ={zone}")
        lines += [f"# lost: {lost}" for lost in _lost(job)]
        mark = "# paused: " if job["status"] == "PAUSED" else ""
        lines += [f"{mark}{schedule} {_command(job)}" for schedule in schedules]
        lines.append("")
    return "\n".join(lines)


def _refusal(job: dict[str, Any], schedules: list[Any]) -> str:
    if job["type"] not in ("shell", "http"):
        return f"a {job['type']} job runs nothing that cron could"
    for each in schedules:
        if each is None:
            return "it runs after another job"
        if each.startswith("@") and each not in MACROS:
            return f"cron has no {each}"
        if not each.startswith("@") and (not _FIVE.fullmatch(each) or _ONLY_HERE.search(re.sub(r"[A-Z]{3}", "", each))):
            return f"cron has no {each}"
    return ""


def _lost(job: dict[str, Any]) -> Iterable[str]:
    if job["retry"]["max_retries"]:
        yield f"{job['retry']['max_retries']} retries"
    if job["overlap"] != "allow":
        yield f"overlap {job['overlap']}"
    if job["calendar"]:
        yield "its calendar"
    for field in ("start_at", "end_at", "max_runs", "max_concurrency"):
        if job[field] is not None:
            yield f"{field} {job[field]}"
    if job["payload"] is not None:
        yield "its payload on standard input"


def _command(job: dict[str, Any]) -> str:
    target = job["target"]
    if job["type"] == "http":
        words = ["curl", "-fsS", "-X", target.get("method") or "POST"]
        for name, value in (target.get("headers") or {}).items():
            words += ["-H", f"{name}: {value}"]
        if target.get("body") is not None:
            words += ["-d", json.dumps(target["body"])]
        command = shlex.join([*words, target["url"]])
    else:
        command = target["command"] if isinstance(target["command"], str) else shlex.join(target["command"])
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in (target.get("env") or {}).items())
        if settings:
            command = f"env {settings} sh -c {shlex.quote(command)}"
        if target.get("cwd"):
            command = f"cd {shlex.quote(target['cwd'])} && {command}"
        if "\n" in command:
            command = "printf '%b' " + shlex.quote(command.replace("\\", "\\\\").replace("\n", "\\n")) + " | sh"
    # In a crontab % is a line end.
    return command.replace("%", "\\%")


def _on_one_line(text: str) -> str:
    return " ".join(text.split())

"""What a benchmark leaves behind: its figures with what they were measured on, and charts of them."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from horae import __version__
from horae.bench.figures import Figures, Verdict
from horae.bench.pictures import draw
from horae.bench.sizes import Size
from horae.core.errors import Fault, Invalid
from horae.store.sqlite import system_now_us

IN_MEMORY = ("tmpfs", "ramfs")
FIGURES = "bench.json"


def about(size: Size, cases: Sequence[str]) -> dict[str, Any]:
    """What somebody must know to measure the same again; asked for before anything is measured."""
    return {
        "at": datetime.fromtimestamp(system_now_us() // 1_000_000, UTC).isoformat(),
        "horae": __version__,
        "cases": list(cases),
        "size": asdict(size),
        "cores": os.cpu_count(),
        "processor": _first("/proc/cpuinfo", "model name") or platform.machine(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "file_system": file_system(Path(tempfile.gettempdir())),
        "load_before": os.getloadavg(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def file_system(folder: Path) -> str:
    """Of what kind it is; nothing where nobody tells."""
    mounts = Path("/proc/mounts")
    lines = [line.split() for line in mounts.read_text().splitlines()] if mounts.exists() else []
    found = [(len(mount), kind) for _, mount, kind, *_ in lines if folder.resolve().is_relative_to(mount)]
    return max(found, default=(0, ""))[1]


def in_memory(folder: Path) -> str:
    """What kind of file system it is on, if that is none of a disk."""
    kind = file_system(folder)
    return kind if kind in IN_MEMORY else ""


def _first(file: str, name: str) -> str:
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def check_folder(folder: Path) -> None:
    """Before hours of measuring: what is measured must find its place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        if (folder / FIGURES).exists():
            (folder / FIGURES).open("a").close()
    except OSError as error:
        detail = f"{error.filename or folder} cannot be written to: {error.strerror}."
        raise Invalid([Fault("--out", detail, "Name a folder; it is made if it is not there.")]) from error


def write(folder: Path, told: dict[str, Any], figures: Figures, verdicts: Sequence[Verdict]) -> list[str]:
    """bench.json and the charts; their names."""
    (folder / FIGURES).write_text(json.dumps({"about": told, **figures.as_json(verdicts)}, indent=2))
    return [FIGURES, *draw(figures, folder)]

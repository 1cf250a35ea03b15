"""`horae.toml` of a project: which server its commands mean. It is shared with others, so it never holds a key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from horae.cli.failure import USAGE, Failure, unreadable

FILE = "horae.toml"
FIELDS = ("server", "context", "tenant")
_KEY = re.compile("key|token|secret|passw|credential|auth", re.IGNORECASE)


class Project(NamedTuple):
    """What the file says, and where it is."""

    path: Path
    server: str | None
    context: str | None
    tenant: str | None


def find_project() -> Project | None:
    """The nearest one, from the working directory up to the root of the repository, the home or the file system."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted meanwhile
        return None
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return _read(folder / FILE)
        if (folder / ".git").exists() or folder == Path.home():
            break
    return None


def _read(path: Path) -> Project:
    import tomllib

    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refused(
            f"{path} cannot be read: {unreadable(error)}.", 'It holds server = "https://horae.example.com".'
        ) from None
    for name, value in found.items():
        _check(path, name, value)
    if found.get("server") and found.get("context"):
        raise _refused(f"{path} names both a server and a context.", "Keep one of them.")
    return Project(path, *(found.get(name) or None for name in FIELDS))


def _check(path: Path, name: str, value: Any) -> None:
    if _KEY.search(name) or (isinstance(value, dict) and any(_KEY.search(each) for each in value)):
        hint = "Take it out, and revoke it if others have seen it. `horae login` keeps one; HORAE_API_KEY sets one."
        raise _refused(f'{path} holds "{name}": a file of a project is shared, so keys have no place in it.', hint)
    if name not in FIELDS:
        from difflib import get_close_matches

        near = get_close_matches(name, FIELDS, 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(FIELDS)}."
        raise _refused(f'{path}: there is no "{name}".', hint)
    if not isinstance(value, str):
        raise _refused(f"{path}: {name} must be a text.", f'Write {name} = "…".')


def _refused(detail: str, hint: str) -> Failure:
    return Failure(USAGE, detail, code="project", hint=hint)

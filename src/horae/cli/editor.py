"""A job in the user's editor: as a YAML file, of which the changed fields come back."""

from __future__ import annotations

import os
import sys
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import click

from horae.cli.failure import REJECTED, USAGE, Failure, path, refused
from horae.cli.files import checked_file
from horae.cli.output import as_yaml
from horae.cli.yaml_lines import read_documents
from horae.core.document import render_definition
from horae.core.errors import Invalid
from horae.core.job import Definition

if TYPE_CHECKING:
    from horae.cli.client import Client


def edit_here(client: Client, name: str, version: int | None) -> Any:
    """What the server says of the changed job; None when nothing was changed. A text that it refuses is kept."""
    if not (sys.stdin.isatty() or os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        hint = f"Say what to change: horae job edit {name} --timeout 5m."
        raise Failure(USAGE, "There is no terminal for an editor.", code="usage", hint=hint)
    job = client.get(path("jobs", name))
    text = _edited_text(job)
    if text is None:
        return None
    try:
        changed = _changed(job, text)
        return client.change(path("jobs", name), changed, version or job["version"]) if changed else None
    except (Failure, Invalid) as error:
        failure = refused(error) if isinstance(error, Invalid) else error
        with NamedTemporaryFile("w", prefix="horae-", suffix=".yaml", delete=False, encoding="utf-8") as kept:
            kept.write(text)
        failure.hint = f"{failure.hint}\nYour text is kept in {kept.name}.".lstrip()
        raise failure from None


def _edited_text(job: dict[str, Any]) -> str | None:
    fields = render_definition(Definition(name="", type="custom"))
    head = f"# {job['name']}, version {job['version']}. Save and close to apply; leave unchanged to give up.\n"
    before = as_yaml({field: job[field] for field in fields})
    return click.edit(head + before, extension=".yaml", require_save=False)


def _changed(job: dict[str, Any], text: str) -> dict[str, Any]:
    """The fields that somebody changed; a line that was taken out goes back to its default."""
    fields = render_definition(Definition(name="", type="custom"))
    before = {field: job[field] for field in fields}
    try:
        documents = read_documents(text)
    except ValueError as error:
        line, told = error.args
        raise Failure(REJECTED, told, code="invalid", hint=f"In line {line}. Nothing was saved.") from None
    if len(documents) != 1 or not isinstance(documents[0][0], dict):
        raise Failure(REJECTED, "A job was expected.", code="invalid", hint="Nothing was saved.")
    after = documents[0][0]
    checked_file(after)
    changed = {field: value for field, value in after.items() if before.get(field) != value}
    return changed | {field: None for field in before if field not in after and before[field] != fields[field]}

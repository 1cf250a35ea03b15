"""A job in the user's editor: as a YAML file, of which the changed fields come back."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.client import REJECTED, Failure
from horae.cli.files import checked_file
from horae.cli.output import as_yaml
from horae.cli.yaml_lines import read_documents
from horae.core.document import render_definition
from horae.core.job import Definition


def edited(job: dict[str, Any]) -> dict[str, Any]:
    """The fields that somebody changed; a line that was taken out goes back to its default."""
    fields = render_definition(Definition(name="", type="custom"))
    before = {field: job[field] for field in fields}
    head = f"# {job['name']}, version {job['version']}. Save and close to apply; leave unchanged to give up.\n"
    text = click.edit(head + as_yaml(before), extension=".yaml", require_save=False)
    if text is None:
        return {}
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
